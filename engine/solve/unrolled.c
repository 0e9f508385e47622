/* engine/solve/unrolled.c: iterative differentiation: the adjoint of the last parameters taken back through the
 * updates of the inner loop, and at the end through `start`. With the step s' = u(s, g(w, lambda), lambda), where s is
 * parameters w and optimiser state, and a the adjoint of s':
 *
 *   x = u_g^T a                        the adjoint of the gradient
 *   a <- u_s^T a + g_w^T x             D(x) of product.c at that step's w, batch and counters
 *   lambda's <- + u_lambda^T a + g_lambda^T x
 *
 * Domke (AISTATS 2012); Maclaurin, Duvenaud and Adams (ICML 2015); Franceschi et al. (ICML 2017, reverse mode);
 * truncated: Shaban et al. (AISTATS 2019); second_order = 0: Finn, Abbeel and Levine (ICML 2017). */
#include "engine/solve/trajectory.h"

#include "engine/solve/methods.h"
#include "ops/ops.h"
#include "transform/grad.h"
#include <string.h>

const bt_method_def bt_method_itd = {
    .name = "itd",
    .hypers = {{"steps", 0, 0, 1e9, "so many of the last steps are gone back through; 0: the whole inner loop",
                BT_HYPER_WHOLE},
               {"spacing", 1, 0, 1e9,
                "the state is kept at every so-manyth step, and computed again between; 0: the root of the steps",
                BT_HYPER_WHOLE},
               {"second_order", 1, 0, 1, "0: gradients count as constants, as in first-order MAML", BT_HYPER_SWITCH}},
    .unrolls = true,
};

typedef struct unroll {            /* bt_solve.state */
    bt_vector slots[BT_MAX_ITEMS]; /* adjoints of the optimiser's slots */
    int reverse[BT_MAX_ITEMS];     /* entries by variant: back through one step */
    int replay[BT_MAX_ITEMS];      /* the step once more; -1: the state before every step is kept */
    int start;                     /* back through `start`; -1: there is none */
    int64_t next, first;           /* steps: to go back through next, and at last */
    int64_t replayed;              /* the kept step from which the following ones have been computed; -1: none */
} unroll;

static unroll *state_of(const bt_solve *solve) { return solve->state; }

/* A hyperparameter by the name that it has in bt_method_itd; a method that leaves it out has its default. */
static int64_t setting(const bt_problem *lower, const char *name)
{
    int i = bt_hyper_index(lower->settings->method->hypers, name);
    return (int64_t)(i < 0 ? bt_method_itd.hypers[bt_hyper_index(bt_method_itd.hypers, name)].value
                           : lower->settings->method_hypers[i]);
}

/* ---- traces ---- */

typedef struct tracer {
    bt_solve_site *site;
    bt_problem *lower;
    bt_solve *solve;
    const bt_micro *micros; /* of this variant */
    bt_trace trace;
    bt_tracing tracing;
    bt_graph *graph;
    bt_problem **others; /* whose parameters the lower problem may read */
    bt_vector *vectors;  /* their adjoints; the gradient of the upper problem */
    int other_count;
    int64_t other_params;
    bt_transition transition;
} tracer;

static void tracer_free(tracer *t)
{
    bt_free(t->others);
    bt_free(t->vectors);
}

static bt_status tracer_new(tracer *t, bt_solve_site *site, bt_solve *solve, const bt_micro *micros)
{
    size_t problems = (size_t)site->upper->context->problem_count;
    *t = (tracer){.site = site, .lower = solve->problem, .solve = solve, .micros = micros};
    t->others = bt_alloc_array(problems, sizeof(bt_problem *));
    t->vectors = bt_alloc_array(problems, sizeof *t->vectors);
    t->graph = bt_graph_new();
    if (!t->others || !t->vectors || !t->graph) {
        tracer_free(t);
        bt_graph_free(t->graph);
        return BT_ERROR_MEMORY;
    }
    t->other_count = bt_solve_targets(site, solve, t->others, t->vectors);
    for (int k = 0; k < t->other_count; k++)
        t->other_params += t->others[k]->module->param_count;
    bt_problem_begin(&t->trace, &t->tracing, t->lower, t->graph, BT_TRACE_PRODUCT, NULL);
    return BT_OK;
}

/* Ends the trace: its graph, on the variables of a record. NULL after an error. */
static bt_graph *tracer_end(tracer *t, const char *part)
{
    bt_graph *graph = NULL;
    bt_trace_end(&t->trace);
    if (bt_graph_take_error(t->graph, t->lower, part) == BT_OK)
        graph = bt_trajectory_rebind(t->lower->trajectory, t->site, t->graph);
    bt_graph_free(t->graph);
    tracer_free(t);
    return graph;
}

static int64_t params(const tracer *t) { return t->lower->module->param_count; }
static int slots(const tracer *t) { return bt_optimizer_slot_count(t->lower->optimizer); }

/* Adds factor times the gradient of one micro-batch. */
static void add_gradient(tracer *t, const bt_micro *micro, double factor, bt_tensor **sum)
{
    bt_tensor **part = bt_graph_list(t->graph, params(t)), *loss = bt_product_loss(t->lower, micro);
    if (!part || bt_poisoned(loss) || t->graph->status != BT_OK)
        return;
    bt_tensor *one = bt_number(1, loss->dtype);
    bt_vjp(t->graph, &loss, &one, 1, t->transition.param, (int)params(t), part, false);
    for (int64_t i = 0; i < params(t); i++)
        if (part[i])
            sum[i] = bt_accumulate(sum[i], factor == 1 ? part[i] : bt_mul(factor, part[i]));
}

/* The gradient of the step: of a level that is upper to another one, what was recorded, with what came from there. */
static void fill_gradient(tracer *t)
{
    bt_tensor **grad = t->transition.grad;
    const bt_problem *lower = t->lower;
    const bt_loss loss = {t->lower, t->micros, t->solve->micros.count};
    for (int64_t i = 0; lower->child_count && i < params(t); i++)
        grad[i] = bt_graph_read(t->graph, lower->gradients.windows[i]);
    if (lower->child_count)
        return;
    for (int64_t m = 0; m < loss.count && t->graph->status == BT_OK; m++)
        add_gradient(t, &loss.micros[m], bt_loss_share(&loss, m), grad);
}

/* The update, of a gradient that the derivatives of the update take as given. */
static bool trace_update(tracer *t)
{
    if (!bt_transition_begin(t->lower, &t->transition))
        return false;
    t->transition.made = bt_equal(bt_graph_read(t->graph, t->lower->trajectory->made), 1);
    fill_gradient(t);
    for (int64_t i = 0; i < params(t); i++)
        if (t->transition.grad[i])
            t->transition.grad[i] = bt_detach(t->transition.grad[i]);
    bt_tensor **given = bt_graph_list(t->graph, params(t));
    if (!given || t->graph->status != BT_OK)
        return false;
    memcpy(given, t->transition.grad, (size_t)params(t) * sizeof *given);
    bt_transition_trace(t->lower, &t->transition);
    t->transition.grad = given; /* before a callback has had them */
    return t->graph->status == BT_OK;
}

/* ---- back through one step ---- */

typedef struct pullback { /* of the update: what is differentiated, and what with respect to */
    bt_tensor **y, **cotangent;
    int ys;
    bt_tensor **x, **result; /* params, gradients, slots by slot, parameters of the others; NULL tensors are left out */
    int *place;              /* of x: where its result goes */
    int xs;
} pullback;

static bt_tensor **parts(tracer *t, const bt_vector *vector)
{
    bt_tensor **items = bt_graph_list(t->graph, params(t));
    for (int64_t i = 0; items && i < params(t); i++)
        items[i] = bt_graph_read(t->graph, vector->windows[i]);
    return items;
}

/* Of all others, one after the other; NULL after an error. */
static bt_tensor **their_params(tracer *t)
{
    bt_tensor **theirs = bt_graph_list(t->graph, t->other_params);
    int64_t at = 0;
    for (int k = 0; theirs && k < t->other_count; k++) {
        bt_problem_params(t->others[k], theirs + at);
        at += t->others[k]->module->param_count;
    }
    return theirs;
}

static void add_outputs(tracer *t, pullback *p, bt_tensor **next, bt_tensor **adjoint)
{
    for (int64_t i = 0; adjoint && i < params(t); i++)
        if (t->lower->meta_trainable[i]) {
            p->y[p->ys] = next[i];
            p->cotangent[p->ys++] = adjoint[i];
        }
}

static void add_inputs(pullback *p, bt_tensor *const *items, int64_t count, int *place)
{
    for (int64_t i = 0; i < count; i++, (*place)++)
        if (items[i]) {
            p->x[p->xs] = items[i];
            p->place[p->xs++] = *place;
        }
}

/* By place: adjoints of parameters, of the gradient, of slots, of the others' parameters. NULL after an error. */
static bt_tensor **pull_update(tracer *t)
{
    int64_t most = params(t) * (2 + slots(t)) + t->other_params;
    pullback p = {.y = bt_graph_list(t->graph, most),
                  .cotangent = bt_graph_list(t->graph, most),
                  .x = bt_graph_list(t->graph, most),
                  .result = bt_graph_list(t->graph, most)};
    p.place = bt_region_alloc(t->graph->region, (size_t)(most + 1) * sizeof *p.place);
    bt_tensor **by_place = bt_graph_list(t->graph, most), **theirs = their_params(t);
    if (!p.y || !p.cotangent || !p.x || !p.result || !p.place || !by_place || !theirs)
        return NULL;
    int place = 0;
    add_outputs(t, &p, t->transition.next_param, parts(t, &t->solve->adjoint));
    for (int k = 0; k < slots(t); k++)
        add_outputs(t, &p, t->transition.next_slot[k], parts(t, &state_of(t->solve)->slots[k]));
    add_inputs(&p, t->transition.param, params(t), &place);
    add_inputs(&p, t->transition.grad, params(t), &place);
    for (int k = 0; k < slots(t); k++)
        add_inputs(&p, t->transition.slot[k], params(t), &place);
    add_inputs(&p, theirs, t->other_params, &place);
    bt_vjp(t->graph, p.y, p.cotangent, p.ys, p.x, p.xs, p.result, false);
    for (int i = 0; i < p.xs; i++)
        by_place[p.place[i]] = p.result[i];
    return t->graph->status == BT_OK ? by_place : NULL;
}

/* D(x); false where x is zero by construction, or is to be taken so. */
static bool trace_product(tracer *t, bt_tensor **x, bt_product_request *request)
{
    bool any = false;
    for (int64_t i = 0; i < params(t); i++) {
        any |= x[i] != NULL;
        if (!x[i])
            x[i] = bt_zeros_like(t->transition.param[i]);
    }
    if (!any || !setting(t->lower, "second_order"))
        return false;
    *request = (bt_product_request){.lower = {t->lower, t->micros, t->solve->micros.count},
                                    .x = bt_problem_join(t->lower, x),
                                    .wants_self = true,
                                    .of_steps = true,
                                    .others = t->others,
                                    .other_count = t->other_count};
    bt_product_trace(request);
    return t->graph->status == BT_OK;
}

/* Adds to the adjoint of parameter i of others[k]. */
static void add_other(tracer *t, int k, int64_t i, bt_tensor *value)
{
    bt_var *var = t->vectors[k].windows[i];
    if (!value)
        return;
    bt_graph_assign(t->graph, var, (bt_add)(bt_graph_read(t->graph, var), value));
    bt_solve_mark(t->site, t->others[k], i);
}

/* The adjoint of a vector like the parameters; zero where hypergradients do not pass. */
static void set_adjoint(tracer *t, const bt_vector *vector, bt_tensor **values)
{
    for (int64_t i = 0; i < params(t); i++) {
        bool zero = !values[i] || !t->lower->meta_trainable[i];
        bt_graph_assign(t->graph, vector->windows[i], zero ? bt_zeros_like(t->transition.param[i]) : values[i]);
    }
}

static void trace_back(tracer *t)
{
    bt_product_request request = {0};
    if (!trace_update(t))
        return;
    bt_tensor **adjoint = pull_update(t);
    if (!adjoint)
        return;
    bt_tensor **x = adjoint + params(t), **slot = x + params(t), **theirs = slot + slots(t) * params(t);
    if (trace_product(t, x, &request)) {
        bt_tensor **self = bt_graph_list(t->graph, params(t));
        if (!self || bt_poisoned(request.self))
            return;
        bt_problem_split(t->lower, request.self, self);
        for (int64_t i = 0; i < params(t); i++)
            adjoint[i] = bt_accumulate(adjoint[i], self[i]);
    }
    bt_keep_effects(t->graph, t->lower, BT_TRACE_PRODUCT);
    for (int k = 0; k < t->other_count; k++)
        for (int64_t i = 0; i < t->others[k]->module->param_count; i++)
            add_other(t, k, i, bt_accumulate(*theirs++, request.other ? request.other[k][i] : NULL));
    set_adjoint(t, &t->solve->adjoint, adjoint);
    for (int k = 0; k < slots(t); k++)
        set_adjoint(t, &state_of(t->solve)->slots[k], slot + k * params(t));
}

/* ---- forward through one step, and back through `start` ---- */

/* Only what the step writes into the problem's own buffers. */
static void keep_buffers(tracer *t)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < t->graph->assign_count; i++)
        if (bt_owns_buffer(t->lower, t->graph->assigns[i].var))
            t->graph->assigns[kept++] = t->graph->assigns[i];
    t->graph->assign_count = kept;
}

static void trace_forward(tracer *t)
{
    if (!trace_update(t))
        return;
    keep_buffers(t);
    for (int64_t i = 0; i < params(t); i++) {
        bt_graph_assign(t->graph, t->lower->module->params[i]->var, t->transition.next_param[i]);
        for (int k = 0; k < slots(t); k++)
            bt_graph_assign(t->graph, t->lower->slots[k].windows[i], t->transition.next_slot[k][i]);
    }
    bt_graph_assign(t->graph, t->lower->optimizer->applied, t->transition.next_applied);
}

static void trace_start(tracer *t)
{
    bt_tensor *start = bt_start_trace(t->lower), *adjoint = bt_graph_read(t->graph, t->solve->adjoint.flat);
    bt_tensor **theirs = their_params(t), **result = bt_graph_list(t->graph, t->other_params);
    if (bt_poisoned(start) || !theirs || !result)
        return;
    bt_vjp(t->graph, &start, &adjoint, 1, theirs, (int)t->other_params, result, false);
    for (int k = 0; k < t->other_count && t->graph->status == BT_OK; k++)
        for (int64_t i = 0; i < t->others[k]->module->param_count; i++)
            add_other(t, k, i, *result++);
    bt_graph_assign(t->graph, t->solve->adjoint.flat, bt_zeros_like(adjoint)); /* nothing depends on what was before */
    for (int k = 0; k < slots(t); k++)
        bt_graph_assign(t->graph, state_of(t->solve)->slots[k].flat, bt_zeros_like(adjoint));
}

/* ---- entries ---- */

enum { LOOP = 99 }; /* one for all that unroll in a phase: their steps alternate */

static int add(bt_solve_site *site, bt_solve *solve, int variant, const char *part, void (*fn)(tracer *t))
{
    tracer t;
    int entry = -1;
    if (tracer_new(&t, site, solve, solve->micros.items + variant * solve->micros.count) != BT_OK)
        return -1;
    fn(&t);
    bt_graph *graph = tracer_end(&t, part);
    if (graph)
        entry = bt_phase_add(site->phase, graph, LOOP, part);
    bt_graph_free(graph);
    return entry;
}

static bt_status check(const bt_problem *lower)
{
    if (lower->settings->meta_batch > 1)
        return bt_fail(BT_ERROR_UNSUPPORTED, "[%s] type = %s goes through single steps, not through meta_batch = %lld",
                       lower->name, lower->settings->method->name, (long long)lower->settings->meta_batch);
    return BT_OK;
}

static bt_status open(bt_solve_site *site, bt_solve *solve)
{
    bt_problem *lower = solve->problem;
    unroll *state = solve->state = bt_alloc(sizeof *state);
    if (!state)
        return BT_ERROR_MEMORY;
    BT_TRY(check(lower));
    BT_TRY(bt_micro_set_open(&solve->micros, site->upper, lower, lower->settings->gradient_accumulation));
    BT_TRY(bt_trajectory_open(lower, setting(lower, "steps"), setting(lower, "spacing")));
    for (int k = 0; k < bt_optimizer_slot_count(lower->optimizer); k++) {
        const char *name = bt_optimizer_slot_name(lower->optimizer, k);
        state->slots[k] = bt_vector_new(site->phase, lower, name, true);
        if (!state->slots[k].flat)
            return BT_ERROR_MEMORY;
    }
    return BT_OK;
}

static bt_status build(bt_solve_site *site, bt_solve *solve)
{
    unroll *state = state_of(solve);
    bool replays = solve->problem->trajectory->spacing > 1;
    for (int v = 0; v < solve->micros.variants; v++) {
        state->replay[v] = replays ? add(site, solve, v, "step, again", trace_forward) : -1;
        state->reverse[v] = add(site, solve, v, "step, backwards", trace_back);
        if (state->reverse[v] < 0 || (replays && state->replay[v] < 0))
            return bt_error_status();
    }
    bool starts = solve->problem->def->start != NULL;
    state->start = starts ? add(site, solve, 0, "start, backwards", trace_start) : -1;
    return starts && state->start < 0 ? bt_error_status() : BT_OK;
}

static void release(bt_solve *solve)
{
    unroll *state = state_of(solve);
    for (int k = 0; k < BT_MAX_ITEMS; k++)
        bt_free(state->slots[k].windows);
    bt_free(state);
}

/* ---- runs ---- */

/* Where the batches of a problem stand, and where those that it takes from another (batch_of) do. */
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

/* The batches of that step are at hand again, its state is looked at; returns the variant, -1 after an error. */
static int look(bt_solve *solve, int64_t step)
{
    const bt_trajectory *trajectory = solve->problem->trajectory;
    const place then = {bt_trajectory_position(trajectory, step), solve->problem->settings->gradient_accumulation,
                        bt_trajectory_task(trajectory, step), 1};
    if (move_to(solve->problem->train, then) != BT_OK)
        return -1;
    bt_trajectory_look(trajectory, step);
    return bt_micro_set_bind(&solve->micros, solve->problem);
}

/* The state before `step` computed from the last that is kept, with all between, which will be asked for next. */
static bt_status replay(bt_phase *phase, bt_solve *solve, int64_t step)
{
    const bt_trajectory *trajectory = solve->problem->trajectory;
    int64_t kept = bt_trajectory_kept(trajectory, step);
    if (kept == state_of(solve)->replayed)
        return BT_OK;
    for (int64_t i = kept; i < step; i++) {
        int variant = look(solve, i);
        if (variant < 0)
            return bt_error_status();
        bt_trajectory_copy(trajectory, i);
        BT_TRY(bt_part_run(phase, state_of(solve)->replay[variant]));
    }
    state_of(solve)->replayed = kept;
    return BT_OK;
}

static bt_status back(bt_phase *phase, bt_solve *solve)
{
    const bt_trajectory *trajectory = solve->problem->trajectory;
    unroll *state = state_of(solve);
    int64_t step = state->next--;
    BT_TRY(replay(phase, solve, step));
    int variant = look(solve, step);
    if (variant < 0)
        return bt_error_status();
    BT_TRY(bt_part_run(phase, state->reverse[variant]));
    if (state->start < 0 || !bt_trajectory_begins(trajectory, step))
        return BT_OK;
    memcpy(solve->problem->loop->data, &step, sizeof step);
    return bt_part_run(phase, state->start);
}

/* Whose step was the last in time; NULL: none is left. */
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

/* ---- what there is to know of it ---- */

static bool ready(const bt_problem *upper, const bt_problem *lower)
{
    return bt_trajectory_first(lower->trajectory, upper->since) < lower->steps;
}

static bool multiplies(const bt_problem *lower) { return setting(lower, "second_order") != 0; }

/* What goes back through steps has no x of its own: it is summed over them. */
static void describe(const bt_problem *lower, const char *product, bt_text *text)
{
    long long steps = setting(lower, "steps");
    bt_text_add(text, "%s(a_%s): back through ", lower->settings->method->name, lower->name);
    if (steps)
        bt_text_add(text, "the last %lld of ", steps);
    bt_text_add(text, "its steps since the upper problem's last%s, product %s",
                lower->def->start ? ", and through start" : "",
                multiplies(lower) ? product : "left out (second_order = 0)");
}

static void leave_out(const bt_problem *lower, bt_text *text)
{
    const char *method = lower->settings->method->name;
    long long steps = setting(lower, "steps");
    if (steps)
        bt_text_add(text, "; %s, %s: it goes back through the last steps only, at most %lld", lower->name, method,
                    steps);
    if (!multiplies(lower))
        bt_text_add(text, "; %s, %s: gradients count as constants (%s_second_order = 0)", lower->name, method, method);
    if (lower->child_count)
        bt_text_add(text, "; %s has lower levels of its own: what of its steps comes through them is left out",
                    lower->name);
}

const bt_solver_def bt_solver_unrolled = {
    .together = true,
    .open = open,
    .build = build,
    .run = run,
    .ready = ready,
    .free = release,
    .describe = describe,
    .multiplies = multiplies,
    .leave_out = leave_out,
};
