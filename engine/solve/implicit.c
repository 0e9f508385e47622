/* engine/solve/implicit.c: the solver of one lower problem in an upper problem's phase: from its adjoint v to x = H^-1
 * v by its method, and from x to its contribution to the levels above.
 *
 *   start       x from v
 *   once, each  a step of the method; what does not depend on x and the slots is computed once
 *               (transform/linearize.h)
 *   product     a_P -= g_P^T x, for every P on the way whose parameters the lower loss reads
 *
 * Programs that depend on one micro-batch exist once for each of its shapes. Over several micro-batches such a
 * program is an entry that runs once for each of them and adds up (round.c). */
#include "engine/solve/implicit_inside.h"

#include "engine/solve/methods.h"
#include "engine/traced/batch.h"
#include "ops/ops.h"
#include "transform/linearize.h"
#include <stdio.h>

enum { FIRST_SOLVE = 100 }; /* loop numbers above those of steps; one per variant, as a run uses only one */

/* Makes the graph an entry and frees it; -1 after an error, also if graph is NULL. */
static int add(bt_builder *b, bt_graph *graph, int loop, const char *part)
{
    int entry = graph ? bt_phase_add(b->site->phase, graph, loop, part) : -1;
    bt_graph_free(graph);
    return entry;
}

static bt_status open_start(bt_builder *b)
{
    bool same;
    b->round = b->own->start;
    b->own->starting = bt_method_start(b, &same);
    b->own->starts_on_batch = b->reads_batch;
    if (!b->own->starting)
        return bt_error_status();
    if (same) {
        b->own->x = b->solve->adjoint;
        bt_graph_free(b->own->starting);
        b->own->starting = NULL;
    }
    return b->own->x.flat ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status build_start(bt_builder *b, int variant)
{
    bool same;
    b->round = &b->own->start[variant];
    if (variant && b->own->starts_on_batch)
        b->own->starting = bt_method_start(b, &same);
    if (!b->own->starting)
        return bt_error_status();
    bt_status status = bt_round_build(b, b->own->starting, 0, "solve start");
    bt_graph_free(b->own->starting);
    b->own->starting = NULL;
    return status;
}

static bt_var *keep(void *user, const bt_tensor *value)
{
    bt_builder *b = user;
    bt_var *var =
        bt_var_new(BT_PHASE, BT_ACTIVATIONS, value->node->tag.owner,
                   *value->node->tag.path ? value->node->tag.path : value->node->op->name, bt_tensor_array(value));
    return bt_phase_own(b->site->phase, var);
}

/* The lower level's policy, or less if a budget requires it. */
static bt_holding holding_of(const bt_builder *b)
{
    const bt_checkpointing_kind kind = b->lower->settings->checkpointing.kind;
    const bool cuts =
        kind == BT_CHECKPOINTING_EVERY || kind == BT_CHECKPOINTING_SQRT || kind == BT_CHECKPOINTING_MODULES;
    const int least = cuts ? BT_HOLD_CUTS : (int)b->site->phase->options.holding;
    return (bt_holding)(b->upper->holding > least ? b->upper->holding : least);
}

/* Adds the parts, holding as little between them as was chosen. Their operations are settled first, so the choice of
 * the part that computes a value does not change a bit of the result. */
static bt_status add_parts(bt_builder *b, const bt_parts *parts)
{
    bt_phase *phase = b->site->phase;
    const bt_compile_options options = phase->options;
    bt_parts settled = *parts;
    bt_graph *once = NULL, *each = NULL;
    settled.once = bt_compile_settled(parts->once, &options);
    settled.each = settled.once ? bt_compile_settled(parts->each, &options) : NULL;
    if (settled.each && bt_hold(&settled, holding_of(b), keep, b, &once, &each) == BT_OK) {
        phase->options = bt_compile_settle(&options);
        b->round->once = once->assign_count ? bt_phase_add(phase, once, 0, "solve, once") : -1;
        b->site->holds |= once->assign_count > 0;
        phase->runs *= (double)b->own->iterations;
        if (!once->assign_count || b->round->once >= 0)
            b->round->last = bt_phase_add(phase, each, b->loop, "solve, each");
        phase->options = options;
    }
    bt_graph_free(settled.once);
    bt_graph_free(settled.each);
    bt_graph_free(once);
    bt_graph_free(each);
    return b->round->last < 0 ? bt_error_status() : BT_OK;
}

/* Splits the step of the method into two programs. */
static bt_status split(bt_builder *b, const bt_graph *graph)
{
    bt_var *moving[BT_MAX_ITEMS + 3] = {b->own->x.flat};
    int count = 1;
    if (b->reads_iteration)
        moving[count++] = b->own->iteration;
    if (b->rule.trouble)
        moving[count++] = b->upper->troubles[b->lower->place].count;
    for (int k = 0; k < b->rule.slot_count; k++)
        moving[count++] = bt_method_slot(b, k);
    bt_phase *phase = b->site->phase;
    bt_graph *lowered = bt_compile_lowered(graph, &phase->options);
    if (!lowered)
        return bt_error_status();
    bt_parts parts;
    int64_t before = phase->var_count;
    bt_status status = bt_linearize(lowered, moving, count, keep, b, &parts.once, &parts.each);
    bt_graph_free(lowered);
    parts.kept = phase->vars + before;
    parts.kept_count = phase->var_count - before;
    if (status == BT_OK)
        status = add_parts(b, &parts);
    bt_graph_free(parts.once);
    bt_graph_free(parts.each);
    return status;
}

/* Over several micro-batches every step recomputes everything: keeping it would take that memory for each
 * micro-batch. */
static bt_status build_step(bt_builder *b, int variant)
{
    b->round = &b->own->step[variant];
    if (!b->own->iterations)
        return BT_OK;
    bt_graph *graph = bt_method_step(b);
    if (!graph)
        return bt_error_status();
    const bool many = b->own->iterations > 1, splits = many && !b->round->ask_count;
    if (!splits)
        b->site->phase->runs *= (double)b->own->iterations;
    bt_status status = splits ? split(b, graph) : bt_round_build(b, graph, many ? b->loop : 0, "solve");
    bt_graph_free(graph);
    return status;
}

/* Keeps x for the next upper step, whose method starts from it. */
static void keep_solution(bt_builder *b, bt_tensor *x)
{
    if (!bt_starts_warm(b->lower))
        return;
    bt_var *var = bt_solution_var(b->upper, b->lower);
    if (var)
        bt_graph_assign(b->graph, var, bt_where(bt_isfinite(bt_norm_square(x)), x, 0));
    else
        bt_graph_fail(b->graph, BT_ERROR_MEMORY, "out of memory");
}

/* What one loss, or both, contribute to the levels above; share: of a sum over several micro-batches. */
static bt_graph *trace_product(bt_builder *b, bt_loss lower, bt_loss upper, const bt_micro_set *share)
{
    size_t problems = (size_t)b->upper->context->problem_count;
    bt_problem **others = bt_alloc_array(problems, sizeof(bt_problem *));
    bt_vector *vectors = bt_alloc_array(problems, sizeof *vectors);
    bt_graph *graph = NULL;
    if (others && vectors && bt_builder_begin(b)) {
        bt_product_request request = {.lower = lower,
                                      .upper = upper,
                                      .penalty = bt_penalty_of(b->lower),
                                      .x = bt_graph_read(b->graph, b->own->x.flat),
                                      .others = others,
                                      .other_count = bt_solve_targets(b->site, b->solve, others, vectors)};
        bt_product_trace(&request);
        keep_solution(b, request.x);
        for (int k = 0; k < request.other_count && b->graph->status == BT_OK; k++)
            for (int64_t i = 0; i < others[k]->module->param_count; i++)
                if (request.other[k][i]) {
                    bt_var *var = vectors[k].windows[i];
                    bt_tensor *part = bt_shared(b->graph, share, request.other[k][i]);
                    bt_graph_assign(b->graph, var, (bt_sub)(bt_graph_read(b->graph, var), part));
                    bt_solve_mark(b->site, others[k], i);
                }
        graph = bt_builder_end(b, "product");
    }
    bt_free(others);
    bt_free(vectors);
    return graph;
}

/* The number of steps of the method; if each adds a row to a stack, at most one per element of v. */
static int64_t iterations(const bt_solve *solve)
{
    const bt_problem *lower = solve->problem;
    const bt_method_def *method = lower->settings->method;
    int i = bt_hyper_index(method->hypers, method->steps ? method->steps : "iterations");
    int64_t steps = i < 0 ? 1 : (int64_t)lower->settings->method_hypers[i], most = solve->adjoint.flat->dims[0];
    return !method->step ? 0 : method->stacks[0] && steps > most ? most : steps;
}

static int variant_count(const bt_solve *solve)
{
    const bt_implicit *own = solve->state;
    return solve->micros.kinds * (own->upper.count ? own->upper.kinds : 1);
}

static bt_builder builder_of(bt_solve_site *site, bt_solve *solve, int variant)
{
    bt_implicit *own = solve->state;
    int kinds = solve->micros.kinds;
    return (bt_builder){.site = site,
                        .solve = solve,
                        .own = own,
                        .upper = site->upper,
                        .lower = solve->problem,
                        .micro = &solve->micros.shapes[variant % kinds],
                        .upper_micro = &own->upper.shapes[variant / kinds],
                        .loop = FIRST_SOLVE + (int)(solve - site->solves) * BT_SHAPE_PAIRS + variant};
}

/* ---- purity: of a user's method; those that come with the library are pure ---- */

static const char *const parts[] = {"start", "step"};

static bt_graph *trace_part(bt_builder *b, int part)
{
    bool same;
    b->round = part ? b->own->step : b->own->start;
    return part ? bt_method_step(b) : bt_method_start(b, &same);
}

static bt_status keep_pure(bt_builder *b)
{
    const bt_method_def *method = b->lower->settings->method;
    for (int i = 0; bt_method_builtin(i); i++)
        if (bt_method_builtin(i) == method)
            return BT_OK;
    const bool has[] = {method->start != NULL, b->own->iterations > 0};
    for (int part = 0; part < 2; part++)
        if (has[part] && !(b->own->pure[part] = trace_part(b, part)))
            return bt_error_status();
    return BT_OK;
}

static bt_status check_purity(bt_solve_site *site, bt_solve *solve)
{
    const bt_implicit *own = solve->state;
    for (int part = 0; part < 2; part++) {
        if (!own->pure[part])
            continue;
        char what[256];
        bt_builder b = builder_of(site, solve, 0);
        snprintf(what, sizeof what, "%s of type = %s", parts[part], solve->problem->settings->method->name);
        BT_TRY(bt_check_same(solve->problem, what, own->pure[part], trace_part(&b, part), "step", site->upper->steps));
    }
    return BT_OK;
}

/* ---- the solver ---- */

static bt_status open_micros(const bt_solve_site *site, bt_solve *solve)
{
    bt_implicit *own = solve->state;
    const bt_problem_settings *settings = solve->problem->settings, *above = site->upper->settings;
    bool all = settings->product_batches == BT_BATCHES_ALL;
    BT_TRY(bt_micro_set_open(&solve->micros, site->upper, solve->problem, all ? settings->gradient_accumulation : 1));
    if (settings->method->penalty)
        BT_TRY(bt_micro_set_open(&own->upper, site->upper, site->upper, above->gradient_accumulation));
    own->penalizes = bt_penalty_of(solve->problem) > 0;
    own->adds_up = solve->micros.count > 1 || (own->penalizes && own->upper.count > 1);
    return BT_OK;
}

static bt_status open(bt_solve_site *site, bt_solve *solve)
{
    bt_implicit *state = solve->state = bt_alloc(sizeof *state);
    if (!state)
        return BT_ERROR_MEMORY;
    state->iterations = iterations(solve);
    for (int v = 0; v < BT_SHAPE_PAIRS; v++) {
        state->start[v].once = state->start[v].last = -1;
        state->step[v].once = state->step[v].last = -1;
    }
    if (!site->upper->context->apart) /* a check needs only the product */
        BT_TRY(bt_check_direct(site, solve));
    BT_TRY(open_micros(site, solve));
    bt_builder b = builder_of(site, solve, 0);
    BT_TRY(bt_method_slots_open(&b));
    BT_TRY(open_start(&b));
    return keep_pure(&b);
}

/* A penalty also differentiates the upper loss; every other method solves a linear system. */
static bool needs(const bt_solve *solve)
{
    const bt_implicit *own = solve->state;
    return own->penalizes;
}

static bool is_product(const bt_solve *solve)
{
    const bt_implicit *own = solve->state;
    return own->x.flat == solve->adjoint.flat && !own->upper.count && solve->micros.count == 1;
}

static bt_graph *product(bt_solve_site *site, bt_solve *solve, int variant)
{
    bt_builder b = builder_of(site, solve, variant);
    return trace_product(&b, bt_builder_lower(&b), bt_builder_upper(&b), &solve->micros);
}

/* The products with one loss, by the shape of its micro-batches. */
static bt_status build_shapes(bt_solve_site *site, bt_solve *solve, bt_micro_set *set, bt_micro_part *part)
{
    const int loop = bt_micro_loop(site->phase);
    const bool is_lower = set == &solve->micros;
    BT_TRY(bt_counts_add(is_lower ? solve->problem : site->upper, set, site->phase, loop, part));
    for (int s = 0; s < set->shape_count; s++) {
        bt_builder b = builder_of(site, solve, 0);
        bt_loss lower = {b.lower, is_lower ? &set->shapes[s] : NULL},
                upper = {b.upper, is_lower ? NULL : &set->shapes[s]};
        site->phase->runs = s ? 0 : (double)set->count;
        part->each[s] = add(&b, trace_product(&b, lower, upper, set), loop, "product");
        if (part->each[s] < 0)
            return bt_error_status();
    }
    return BT_OK;
}

static bt_status build(bt_solve_site *site, bt_solve *solve)
{
    bt_implicit *state = solve->state;
    for (int v = 0; v < variant_count(solve); v++) { /* the first trace may open the batches of the upper problem */
        bt_builder b = builder_of(site, solve, v);
        site->phase->runs = v ? 0 : 1;
        if (state->starting || (v && state->starts_on_batch))
            BT_TRY(build_start(&b, v));
        BT_TRY(build_step(&b, v));
        if (state->adds_up)
            continue;
        site->phase->runs = v ? 0 : 1;
        state->product[v] = add(&b, product(site, solve, v), 0, "product");
        if (state->product[v] < 0)
            return bt_error_status();
    }
    if (state->adds_up)
        BT_TRY(build_shapes(site, solve, &solve->micros, &state->products));
    if (state->adds_up && state->penalizes)
        BT_TRY(build_shapes(site, solve, &state->upper, &state->upper_products));
    site->phase->runs = 1;
    return BT_OK;
}

static int bind(const bt_solve_site *site, const bt_solve *solve)
{
    const bt_implicit *own = solve->state;
    int lower = bt_micro_set_bind(&solve->micros, solve->problem);
    int above = own->upper.count ? bt_micro_set_bind(&own->upper, site->upper) : 0;
    return lower < 0 || above < 0 ? -1 : above * solve->micros.kinds + lower;
}

/* ---- a run, on the batches and the variant that `bind` has found ---- */

static bt_status start(bt_solve_site *site, bt_solve *solve, int variant)
{
    const bt_implicit *own = solve->state;
    return bt_round_run(site, solve, &own->start[own->starts_on_batch ? variant : 0]);
}

static bt_status step(bt_solve_site *site, bt_solve *solve, int variant)
{
    const bt_implicit *own = solve->state;
    return bt_round_run(site, solve, &own->step[variant]);
}

static bt_status iterate(bt_solve_site *site, bt_solve *solve, int variant)
{
    const bt_implicit *own = solve->state;
    const bt_round *round = &own->step[variant];
    BT_TRY(start(site, solve, variant));
    if (own->iterations && round->once >= 0)
        BT_TRY(bt_part_run(site->phase, round->once));
    for (int64_t k = 0; k < own->iterations; k++)
        BT_TRY(bt_round_run(site, solve, round));
    return BT_OK;
}

static bt_status multiply(bt_solve_site *site, bt_solve *solve, int variant)
{
    const bt_implicit *own = solve->state;
    if (!own->adds_up)
        return bt_part_run(site->phase, own->product[variant]);
    BT_TRY(bt_micro_set_run(&solve->micros, solve->problem, site->phase, &own->products));
    return own->penalizes ? bt_micro_set_run(&own->upper, site->upper, site->phase, &own->upper_products) : BT_OK;
}

static bt_status run(bt_solve_site *site, bt_solve *solve, int count)
{
    (void)count;
    int variant = bind(site, solve);
    if (variant < 0)
        return bt_error_status();
    BT_TRY(iterate(site, solve, variant));
    return multiply(site, solve, variant);
}

/* ---- parts of a run, for callers that need only one ---- */

typedef bt_status run_part(bt_solve_site *site, bt_solve *solve, int variant);

static bt_status on_batch(bt_solve_site *site, bt_solve *solve, run_part *part)
{
    int variant = bind(site, solve);
    return variant < 0 ? bt_error_status() : part(site, solve, variant);
}

bt_status bt_implicit_start(bt_solve_site *site, bt_solve *solve) { return on_batch(site, solve, start); }

bt_status bt_implicit_step(bt_solve_site *site, bt_solve *solve) { return on_batch(site, solve, step); }

bt_status bt_implicit_iterate(bt_solve_site *site, bt_solve *solve) { return on_batch(site, solve, iterate); }

bt_status bt_implicit_product(bt_solve_site *site, bt_solve *solve) { return on_batch(site, solve, multiply); }

bt_var *bt_implicit_x(const bt_solve *solve)
{
    const bt_implicit *own = solve->state;
    return own->x.flat;
}

int64_t bt_implicit_iterations(const bt_solve *solve)
{
    const bt_implicit *own = solve->state;
    return own->iterations;
}

static void release(bt_solve *solve)
{
    bt_implicit *state = solve->state;
    bt_micro_set_free(&state->upper);
    for (int v = 0; v < BT_SHAPE_PAIRS; v++) {
        bt_round_free(&state->start[v]);
        bt_round_free(&state->step[v]);
    }
    bt_graph_free(state->starting);
    for (int part = 0; part < BT_COUNT_OF(state->pure); part++)
        bt_graph_free(state->pure[part]);
    if (state->x.windows != solve->adjoint.windows)
        bt_free(state->x.windows);
    for (int k = 0; k < BT_MAX_ITEMS; k++)
        bt_free(state->slots[k].windows);
    bt_free(state);
}

static void describe(const bt_problem *lower, const char *product_name, bt_text *text)
{
    bt_text_add(text, "%s(a_%s), product %s", lower->settings->method->name, lower->name, product_name);
}

const bt_solver_def bt_solver_implicit = {
    .open = open,
    .build = build,
    .run = run,
    .needs = needs,
    .check_purity = check_purity,
    .free = release,
    .iterate = bt_implicit_iterate,
    .x = bt_implicit_x,
    .is_product = is_product,
    .product = product,
    .bind = bind,
    .describe = describe,
};
