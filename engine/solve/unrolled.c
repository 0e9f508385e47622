/* engine/solve/unrolled.c: iterative differentiation: takes the adjoint of the last parameters back through the updates
 * of the inner loop, and finally through `start`. For the step s' = u(s, g(w, lambda), lambda), where s consists of the
 * parameters w and the optimiser state, and a is the adjoint of s':
 *
 *   x = u_g^T a                        the adjoint of the gradient
 *   a <- u_s^T a + g_w^T x             D(x) of product.c at that step's w, batch and counters
 *   lambda's <- + u_lambda^T a + g_lambda^T x
 *
 * Domke (AISTATS 2012); Maclaurin, Duvenaud and Adams (ICML 2015); Franceschi et al. (ICML 2017, reverse mode);
 * truncated: Shaban et al. (AISTATS 2019); second_order = 0: Finn, Abbeel and Levine (ICML 2017). */
#include "engine/solve/unrolled_inside.h"

#include "engine/solve/methods.h"
#include "engine/solve/trajectory.h"
#include "engine/traced/batch.h"
#include <string.h>

const bt_method_def bt_method_itd = {
    .name = "itd",
    .hypers = {{"steps", 0, 0, 1e9, "number of last steps to differentiate through; 0: the whole inner loop",
                BT_HYPER_WHOLE},
               {"spacing", 1, 0, 1e9,
                "save the state every N steps and recompute the steps in between. sqrt, or 0: N is the square root of "
                "the number of steps; auto: 1, or the smallest N that fits the memory_budget",
                BT_HYPER_SPACING},
               {"states", 0, 0, 1e9,
                "number of states of an inner loop to save, by Revolve's schedule, instead of using itd_spacing; 0: "
                "use itd_spacing",
                BT_HYPER_WHOLE},
               {"second_order", 1, 0, 1, "false: treat gradients as constants, as in first-order MAML",
                BT_HYPER_SWITCH}},
    .unrolls = true,
};

static bt_unrolled *state_of(const bt_solve *solve) { return solve->state; }

/* A method without this setting uses the default. */
int64_t bt_unrolled_setting(const bt_problem *lower, const char *name)
{
    int i = bt_hyper_index(lower->settings->method->hypers, name);
    return (int64_t)(i < 0 ? bt_method_itd.hypers[bt_hyper_index(bt_method_itd.hypers, name)].value
                           : lower->settings->method_hypers[i]);
}

bool bt_unrolled_multiplies(const bt_problem *lower) { return bt_unrolled_setting(lower, "second_order") != 0; }

bool bt_unrolled_adds_up(const bt_solve *solve) { return solve->micros.count > 1; }

/* ---- entries ---- */

enum { LOOP = 99 }; /* shared by all unrolled solves of a phase: their steps alternate */

/* How often, roughly, a run of the phase runs a part: the start once, all others in each step it goes back through. */
static double runs_of(const bt_solve *solve, bt_unrolled_part part)
{
    const double whole = (double)solve->problem->settings->unroll_steps,
                 some = (double)bt_unrolled_setting(solve->problem, "steps");
    const bool micro = part == BT_UNROLLED_GRADIENT || part == BT_UNROLLED_PRODUCT;
    if (part == BT_UNROLLED_START)
        return 1;
    return (some > 0 && some < whole ? some : whole) * (micro ? (double)solve->micros.count : 1);
}

/* Adds a part for each of `count` shapes. */
static bt_status add(bt_solve_site *site, bt_solve *solve, bt_unrolled_part part, int count, int *entries)
{
    for (int s = 0; s < count; s++) {
        bt_graph *graph = bt_unrolled_trace(site, solve, part, s);
        site->phase->runs = s ? 0 : runs_of(solve, part);
        entries[s] = graph ? bt_phase_add(site->phase, graph, LOOP, bt_unrolled_names[part]) : -1;
        site->phase->runs = 1;
        bt_graph_free(graph);
        if (entries[s] < 0)
            return bt_error_status();
    }
    return BT_OK;
}

/* An integer slot, as in 8-bit optimisers, has no derivative. */
static bt_status check_slots(const bt_problem *lower)
{
    for (int k = 0; k < bt_optimizer_slot_count(lower->optimizer); k++) {
        const bt_block *slots = &lower->slots[k];
        for (int64_t i = 0; i < slots->count; i++) {
            const bt_var *slot = slots->windows[i];
            if (slot && (!bt_dtype_floats(slot->dtype) || slot->dtype != slots->flat->dtype))
                return bt_fail(BT_ERROR_UNSUPPORTED,
                               "[%s] type = %s differentiates through the optimiser's state, but optimizer = %s keeps "
                               "`%s` as %s, which has no derivative; use another optimizer, such as adam or sgd",
                               lower->name, lower->settings->method->name, lower->optimizer->kind.def->name,
                               slots->flat->name, bt_dtype_name(slot->dtype));
        }
    }
    return BT_OK;
}

static bt_status check(const bt_problem *lower)
{
    BT_TRY(check_slots(lower));
    if (lower->settings->meta_batch > 1)
        return bt_fail(BT_ERROR_UNSUPPORTED,
                       "[%s] type = %s differentiates through single steps, and does not work with meta_batch = %lld",
                       lower->name, lower->settings->method->name, (long long)lower->settings->meta_batch);
    const char *method = lower->settings->method->name;
    long long states = bt_unrolled_setting(lower, "states"), steps = lower->settings->unroll_steps;
    if (states && bt_unrolled_setting(lower, "spacing") != 1)
        return bt_fail(BT_ERROR_CONFIG, "[%s] %s_states = %lld contradicts %s_spacing; set only one of them",
                       lower->name, method, states, method);
    if (states > steps)
        return bt_fail(BT_ERROR_CONFIG,
                       "[%s] %s_states = %lld: an inner loop has only %lld steps (unroll_steps), and so no more states",
                       lower->name, method, states, steps);
    return BT_OK;
}

static bt_status open_buffers(bt_solve_site *site, const bt_problem *lower, bt_var **buffers)
{
    const bt_var *own = lower->module->buffer_block.flat;
    if (!own)
        return BT_OK;
    bt_array shape = bt_var_array(own);
    *buffers = bt_phase_own(site->phase, bt_var_new(BT_PHASE, BT_VECTORS, lower->name, "buffers, again", shape));
    return *buffers ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status open(bt_solve_site *site, bt_solve *solve)
{
    bt_problem *lower = solve->problem;
    bt_unrolled *state = solve->state = bt_alloc(sizeof *state);
    if (!state)
        return BT_ERROR_MEMORY;
    BT_TRY(check(lower));
    BT_TRY(bt_micro_set_open(&solve->micros, site->upper, lower, lower->settings->gradient_accumulation));
    BT_TRY(bt_trajectory_open(lower, bt_unrolled_setting(lower, "steps"), bt_unrolled_setting(lower, "spacing"),
                              bt_unrolled_setting(lower, "states")));
    if (bt_unrolled_adds_up(solve)) {
        BT_TRY(open_buffers(site, lower, &state->buffers));
        state->gradient = bt_vector_new(site->phase, lower, "gradient, again", false);
        state->x = bt_vector_new(site->phase, lower, "adjoint of the gradient", false);
        if (!state->gradient.flat || !state->x.flat)
            return BT_ERROR_MEMORY;
    }
    for (int k = 0; k < bt_optimizer_slot_count(lower->optimizer); k++) {
        state->slots[k] = bt_vector_of_slot(site->phase, lower, k);
        if (!state->slots[k].flat)
            return BT_ERROR_MEMORY;
    }
    return BT_OK;
}

static bt_status build(bt_solve_site *site, bt_solve *solve)
{
    bt_unrolled *state = state_of(solve);
    int kinds = solve->micros.kinds, shapes = solve->micros.shape_count;
    bool sums = bt_unrolled_adds_up(solve), made = sums && !solve->problem->child_count;
    state->clear = state->start = -1;
    if (made) {
        BT_TRY(add(site, solve, BT_UNROLLED_CLEAR, 1, &state->clear));
        BT_TRY(bt_counts_add(solve->problem, &solve->micros, site->phase, LOOP, &state->gradients));
        BT_TRY(add(site, solve, BT_UNROLLED_GRADIENT, shapes, state->gradients.each));
    }
    if (solve->problem->trajectory->spacing > 1)
        BT_TRY(add(site, solve, BT_UNROLLED_FORWARD, kinds, state->replay));
    BT_TRY(add(site, solve, BT_UNROLLED_BACK, kinds, state->reverse));
    if (sums && bt_unrolled_multiplies(solve->problem)) {
        BT_TRY(bt_counts_add(solve->problem, &solve->micros, site->phase, LOOP, &state->products));
        BT_TRY(add(site, solve, BT_UNROLLED_PRODUCT, shapes, state->products.each));
    }
    return solve->problem->def->start ? add(site, solve, BT_UNROLLED_START, 1, &state->start) : BT_OK;
}

static void release(bt_solve *solve)
{
    bt_unrolled *state = state_of(solve);
    for (int k = 0; k < BT_MAX_ITEMS; k++)
        bt_free(state->slots[k].windows);
    bt_free(state->gradient.windows);
    bt_free(state->x.windows);
    bt_free(state);
}

/* ---- runs ---- */

/* The position in a problem's batches, and in those that it takes from another problem (batch_of). */
typedef struct place {
    int64_t own, kept, task, tasks;
} place;

static place place_of(const bt_stream *stream)
{
    const bt_stream *of = stream->of;
    return (place){bt_stream_position(stream), stream->kept_count, of ? bt_stream_position(of) : 0,
                   of ? of->kept_count : 0};
}

static bt_status move_to(bt_stream *stream, place to)
{
    if (stream->of && bt_stream_position(stream->of) != to.task)
        BT_TRY(bt_stream_rewind(stream->of, to.task, to.tasks));
    return bt_stream_position(stream) == to.own ? BT_OK : bt_stream_rewind(stream, to.own, to.kept);
}

/* Restores the batches of that step and looks at its state; returns the variant, -1 after an error. */
static int look(bt_solve *solve, int64_t step)
{
    const bt_trajectory *trajectory = solve->problem->trajectory;
    const place then = {bt_trajectory_position(trajectory, step), solve->problem->settings->gradient_accumulation,
                        bt_trajectory_task(trajectory, step), 1};
    if (move_to(solve->problem->train, then) != BT_OK)
        return -1;
    if (bt_trajectory_look(trajectory, step) != BT_OK)
        return -1;
    return bt_micro_set_bind(&solve->micros, solve->problem);
}

/* Recomputes the gradient of the step looked at, if it is a sum over micro-batches. */
static bt_status gradient_again(bt_phase *phase, const bt_solve *solve)
{
    if (state_of(solve)->clear < 0)
        return BT_OK;
    BT_TRY(bt_part_run(phase, state_of(solve)->clear));
    return bt_micro_set_run(&solve->micros, solve->problem, phase, &state_of(solve)->gradients);
}

/* Repeats one step: the state before it exists, and there is room for the state after it. */
static bt_status forward(bt_phase *phase, bt_solve *solve, int64_t step)
{
    int variant = look(solve, step);
    if (variant < 0)
        return bt_error_status();
    BT_TRY(bt_trajectory_copy(solve->problem->trajectory, step));
    BT_TRY(gradient_again(phase, solve));
    return bt_part_run(phase, state_of(solve)->replay[variant]);
}

/* Recomputes the state before `step` from the last kept one. Those in between are needed next. */
static bt_status replay(bt_phase *phase, bt_solve *solve, int64_t step)
{
    int64_t kept = bt_trajectory_kept(solve->problem->trajectory, step);
    if (kept == state_of(solve)->replayed)
        return BT_OK;
    for (int64_t i = kept; i < step; i++)
        BT_TRY(forward(phase, solve, i));
    state_of(solve)->replayed = kept;
    return BT_OK;
}

/* The same by Revolve's schedule: keeps states on the way as long as there is room. */
static bt_status revolve(bt_phase *phase, bt_solve *solve, int64_t step)
{
    bt_trajectory *trajectory = solve->problem->trajectory;
    for (int64_t from = bt_trajectory_nearest(trajectory, step); from < step;) {
        int64_t to = bt_trajectory_next(trajectory, from, step);
        for (; from < to; from++) {
            bt_trajectory_make_room(trajectory, from, to, step);
            BT_TRY(forward(phase, solve, from));
        }
    }
    return BT_OK;
}

static bt_status back(bt_phase *phase, bt_solve *solve)
{
    const bt_trajectory *trajectory = solve->problem->trajectory;
    bt_unrolled *state = state_of(solve);
    int64_t step = state->next--;
    BT_TRY(trajectory->states ? revolve(phase, solve, step) : replay(phase, solve, step));
    int variant = look(solve, step);
    if (variant < 0)
        return bt_error_status();
    BT_TRY(gradient_again(phase, solve));
    BT_TRY(bt_part_run(phase, state->reverse[variant]));
    if (bt_unrolled_adds_up(solve) && bt_unrolled_multiplies(solve->problem))
        BT_TRY(bt_micro_set_run(&solve->micros, solve->problem, phase, &state->products));
    if (state->start < 0 || !bt_trajectory_begins(trajectory, step))
        return BT_OK;
    bt_count_set(solve->problem->context, solve->problem->loop, step);
    return bt_part_run(phase, state->start);
}

/* The solve whose next step was the last in time; NULL: no steps are left. */
static bt_solve *latest(bt_solve *solves, int count)
{
    bt_solve *last = NULL;
    int64_t most = -1;
    for (int q = 0; q < count; q++) {
        const bt_trajectory *trajectory = solves[q].problem->trajectory;
        int64_t step = state_of(&solves[q])->next;
        if (step < state_of(&solves[q])->first)
            continue;
        if (bt_trajectory_tick(trajectory, step) > most) {
            most = bt_trajectory_tick(trajectory, step);
            last = &solves[q];
        }
    }
    return last;
}

static bt_status all_back(bt_phase *phase, bt_solve *solves, int count)
{
    bt_solve *solve;
    while ((solve = latest(solves, count)) != NULL)
        BT_TRY(back(phase, solve));
    return BT_OK;
}

static bt_status run(bt_solve_site *site, bt_solve *solves, int count)
{
    place *before = bt_alloc_array((size_t)count, sizeof *before);
    if (!before)
        return BT_ERROR_MEMORY;
    for (int q = 0; q < count; q++) {
        before[q] = place_of(solves[q].problem->train);
        state_of(&solves[q])->first = bt_trajectory_first(solves[q].problem->trajectory, site->upper->since);
        state_of(&solves[q])->next = solves[q].problem->steps - 1;
        state_of(&solves[q])->replayed = -1;
    }
    bt_status status = all_back(site->phase, solves, count);
    for (int q = 0; q < count; q++) {
        bt_status moved = move_to(solves[q].problem->train, before[q]);
        status = status == BT_OK ? moved : status;
    }
    bt_free(before);
    return status;
}

/* ---- description ---- */

static bool ready(const bt_problem *upper, const bt_problem *lower)
{
    return bt_trajectory_first(lower->trajectory, upper->since) < lower->steps;
}

/* An unrolled solve has no x of its own: it is summed over the steps. */
static void describe(const bt_problem *lower, const char *product, bt_text *text)
{
    long long steps = bt_unrolled_setting(lower, "steps");
    bt_text_add(text, "%s(a_%s): back through ", lower->settings->method->name, lower->name);
    if (steps)
        bt_text_add(text, "the last %lld of ", steps);
    bt_text_add(text, "its steps since the upper problem's last%s, product %s",
                lower->def->start ? ", and through start" : "",
                bt_unrolled_multiplies(lower) ? product : "left out (second_order = 0)");
}

static void leave_out(const bt_problem *lower, bt_text *text)
{
    const char *method = lower->settings->method->name;
    long long steps = bt_unrolled_setting(lower, "steps");
    if (steps)
        bt_text_add(text, "; %s, %s: it differentiates through the last steps only, at most %lld", lower->name, method,
                    steps);
    if (!bt_unrolled_multiplies(lower))
        bt_text_add(text, "; %s, %s: gradients count as constants (%s_second_order = 0)", lower->name, method, method);
    if (lower->child_count)
        bt_text_add(text, "; %s has lower levels of its own: what its steps get through them is left out", lower->name);
}

const bt_solver_def bt_solver_unrolled = {
    .together = true,
    .open = open,
    .build = build,
    .run = run,
    .ready = ready,
    .free = release,
    .describe = describe,
    .multiplies = bt_unrolled_multiplies,
    .leave_out = leave_out,
};
