/* engine/solve/implicit.c: one lower problem within an upper problem's phase: from its adjoint v to x = H^-1 v by
 * its method, and from x to what the levels above it get of it.
 *
 *   start       x from v
 *   once, each  a step of the method; what does not depend on x and the slots is computed once
 *               (transform/linearize.h)
 *   product     a_P -= g_P^T x, for every P on the way whose parameters the lower loss reads
 *
 * What depends on the lower problem's batches exists once for each number of short ones among them. */
#include "engine/solve/calls_inside.h"

#include "engine/solve/methods.h"
#include "engine/solve/unrolled.h"
#include "ops/ops.h"
#include "transform/grad.h"
#include "transform/linearize.h"
#include <stdio.h>
#include <string.h>

bt_vector bt_vector_new(bt_phase *phase, bt_problem *problem, const char *name, bool clear)
{
    bt_vector vector = {0};
    int64_t count = problem->module->param_count, elements = 0;
    for (int64_t i = 0; i < count; i++)
        elements += bt_array_count(problem->module->params[i]->shape);
    bt_var *flat = bt_var_new(BT_PHASE, BT_VECTORS, problem->name, name,
                              (bt_array){.dtype = problem->dtype, .rank = 1, .dims = {elements}});
    if (!bt_phase_own(phase, flat))
        return vector;
    flat->clear = clear;
    vector.windows = bt_alloc_array((size_t)count, sizeof(bt_var *));
    size_t at = 0;
    for (int64_t i = 0; vector.windows && i < count; i++) {
        bt_array shape = problem->module->params[i]->shape;
        shape.dtype = problem->dtype;
        vector.windows[i] = bt_phase_own(phase, bt_var_window(flat, at, problem->module->params[i]->path, shape));
        if (!vector.windows[i])
            return vector;
        at += vector.windows[i]->bytes;
    }
    if (vector.windows) {
        vector.flat = flat;
        vector.count = count;
    }
    return vector;
}

static bool begin(bt_builder *b)
{
    b->graph = bt_graph_new();
    if (b->graph)
        bt_problem_begin(&b->trace, &b->tracing, b->lower, b->graph, BT_TRACE_PRODUCT, NULL);
    return b->graph != NULL;
}

/* Ends the trace, and hands out its graph; NULL after an error. */
static bt_graph *end(bt_builder *b, const char *part)
{
    bt_graph *graph = b->graph;
    b->graph = NULL;
    bt_trace_end(&b->trace);
    if (bt_graph_take_error(graph, b->lower, part) == BT_OK)
        return graph;
    bt_graph_free(graph);
    return NULL;
}

/* The graph, which is freed, becomes an entry; -1 after an error, also where there is no graph. */
static int add(bt_builder *b, bt_graph *graph, int loop, const char *part)
{
    int entry = graph ? bt_phase_add(b->site->phase, graph, loop, part) : -1;
    bt_graph_free(graph);
    return entry;
}

/* Slots, and behind them stacks. */
static int slot_count(const bt_builder *b)
{
    const bt_method_def *method = b->lower->settings->method;
    return bt_slot_name_count(method->slots) + bt_slot_name_count(method->stacks);
}

static const char *slot_name(const bt_builder *b, int k)
{
    const bt_method_def *method = b->lower->settings->method;
    int slots = bt_slot_name_count(method->slots);
    return k < slots ? method->slots[k] : method->stacks[k - slots];
}

static bt_var *slot_var(const bt_builder *b, int k)
{
    int slots = bt_slot_name_count(b->lower->settings->method->slots);
    return k < slots ? b->solve->slots[k].flat : b->solve->stacks[k - slots];
}

static void open_rule(bt_builder *b)
{
    const bt_method_def *method = b->lower->settings->method;
    bt_rule_begin(&b->rule, method->name, b->lower->dtype);
    for (int i = 0; i < bt_hyper_count(method->hypers); i++) {
        double value = b->lower->settings->method_hypers[i];
        bt_rule_add_hyper(&b->rule, method->hypers[i].name, value, bt_number(value, b->lower->dtype));
    }
    for (int k = 0; k < slot_count(b); k++)
        bt_rule_add_slot(&b->rule, slot_name(b, k), bt_graph_read(b->graph, slot_var(b, k)));
    b->rule.calls = &bt_method_calls;
    b->rule.context = b;
    b->reads_batch = b->reads_iteration = false;
}

static void assign_slots(bt_builder *b)
{
    for (int k = 0; k < b->rule.slot_count; k++)
        if (b->rule.slots[k].next)
            bt_graph_assign(b->graph, slot_var(b, k), b->rule.slots[k].next);
}

/* What counts the method's failures, for this upper problem; NULL after an error. */
static bt_trouble *trouble_of(bt_builder *b)
{
    size_t count = (size_t)b->upper->context->problem_count;
    if (!b->upper->troubles)
        b->upper->troubles = bt_alloc_array(count, sizeof *b->upper->troubles);
    bt_trouble *trouble = b->upper->troubles ? &b->upper->troubles[b->lower->place] : NULL;
    if (trouble && !trouble->count) {
        bt_text name = {0};
        bt_text_add(&name, "solver trouble of %s", b->lower->name);
        if (!name.failed)
            trouble->count = bt_ledger_var(b->upper->context, b->upper, BT_ROLE_SOLVER, BT_BUFFERS, name.data,
                                           (bt_array){.dtype = BT_I64});
        bt_text_free(&name);
    }
    return trouble && trouble->count ? trouble : NULL;
}

/* Counts the steps in which the method says that it fails. */
static bt_status count_trouble(bt_builder *b)
{
    if (!b->rule.trouble)
        return BT_OK;
    bt_trouble *trouble = trouble_of(b);
    if (!trouble)
        return BT_ERROR_MEMORY;
    trouble->means = b->rule.trouble_means;
    bt_tensor *count = bt_graph_read(b->graph, trouble->count);
    bt_graph_assign(b->graph, trouble->count, (bt_add)(count, bt_as(b->rule.trouble, BT_I64)));
    return BT_OK;
}

/* Whether the x that a rule returned is a vector like v. */
static bt_tensor *checked(bt_builder *b, bt_tensor *x, const char *callback)
{
    bt_var *like = b->solve->adjoint.flat;
    if (bt_poisoned(x))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "method %s: %s returned nothing", b->rule.what, callback);
    if (x->dtype != like->dtype || x->rank != 1 || x->dims[0] != like->dims[0]) {
        char found[256], due[256];
        return bt_trace_poison(BT_ERROR_SHAPE, "method %s: %s returned %s, expected %s like v", b->rule.what, callback,
                               bt_shape_text(found, x->rank, x->dims), bt_shape_text(due, like->rank, like->dims));
    }
    return x;
}

/* The first x, in a graph; NULL after an error, and *same is true where x is v, so that there is nothing to do. */
static bt_graph *trace_start(bt_builder *b, bool *same)
{
    const bt_method_def *method = b->lower->settings->method;
    bt_solve *solve = b->solve;
    if (!begin(b))
        return NULL;
    open_rule(b);
    bt_tensor *v = bt_graph_read(b->graph, solve->adjoint.flat);
    bt_guest before = bt_guest_enter((bt_guest){b->lower->source, method->name, "start"});
    bt_tensor *x = method->start ? method->start(&b->rule, v) : v;
    bt_guest_leave(before);
    x = checked(b, x, "start");
    *same = x == v && !solve->iterations && !method->penalty;
    if (!*same && !solve->x.flat)
        solve->x = bt_vector_new(b->site->phase, b->lower, "x", false);
    if (!*same && solve->x.flat) {
        bt_graph_assign(b->graph, solve->x.flat, x);
        assign_slots(b);
    }
    return end(b, "solve start");
}

static bt_status open_start(bt_builder *b)
{
    bool same;
    bt_solve *solve = b->solve;
    solve->starting = trace_start(b, &same);
    solve->starts_on_batch = b->reads_batch;
    if (!solve->starting)
        return bt_error_status() != BT_OK ? bt_error_status() : BT_ERROR_MEMORY;
    if (same) {
        solve->x = solve->adjoint;
        bt_graph_free(solve->starting);
        solve->starting = NULL;
    }
    return solve->x.flat ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status build_start(bt_builder *b, int variant)
{
    bt_solve *solve = b->solve;
    bool same;
    solve->start[variant] = variant && !solve->starts_on_batch ? solve->start[0] : -1;
    if (variant && solve->starts_on_batch)
        solve->starting = trace_start(b, &same);
    else if (variant || !solve->starting)
        return BT_OK;
    solve->start[variant] = add(b, solve->starting, 0, "solve start");
    solve->starting = NULL;
    return solve->start[variant] < 0 ? bt_error_status() : BT_OK;
}

static bt_var *keep(void *user, const bt_tensor *value)
{
    bt_builder *b = user;
    bt_var *var =
        bt_var_new(BT_PHASE, BT_ACTIVATIONS, value->node->tag.owner,
                   *value->node->tag.path ? value->node->tag.path : value->node->op->name, bt_tensor_array(value));
    return bt_phase_own(b->site->phase, var);
}

/* The step of the method in two programs. */
static bt_status split(bt_builder *b, const bt_graph *graph, int variant)
{
    bt_solve *solve = b->solve;
    bt_var *moving[BT_MAX_ITEMS + 3] = {solve->x.flat};
    int count = 1;
    if (b->reads_iteration)
        moving[count++] = solve->iteration;
    if (b->rule.trouble)
        moving[count++] = b->upper->troubles[b->lower->place].count;
    for (int k = 0; k < b->rule.slot_count; k++)
        moving[count++] = slot_var(b, k);
    bt_graph *once, *each, *lowered = bt_compile_lowered(graph, &b->site->phase->options);
    if (!lowered)
        return bt_error_status();
    bt_status status = bt_linearize(lowered, moving, count, keep, b, &once, &each);
    bt_graph_free(lowered);
    if (status != BT_OK)
        return status;
    solve->once[variant] = once->node_count ? bt_phase_add(b->site->phase, once, 0, "solve, once") : -1;
    solve->each[variant] = bt_phase_add(b->site->phase, each, b->loop, "solve, each");
    bool failed = solve->each[variant] < 0 || (once->node_count && solve->once[variant] < 0);
    bt_graph_free(once);
    bt_graph_free(each);
    return failed ? bt_error_status() : BT_OK;
}

/* The next x; NULL after an error. */
static bt_graph *trace_step(bt_builder *b)
{
    const bt_method_def *method = b->lower->settings->method;
    bt_solve *solve = b->solve;
    if (!begin(b))
        return NULL;
    open_rule(b);
    bt_tensor *v = bt_graph_read(b->graph, solve->adjoint.flat), *x = bt_graph_read(b->graph, solve->x.flat);
    bt_guest before = bt_guest_enter((bt_guest){b->lower->source, method->name, "step"});
    x = method->step(&b->rule, v, x);
    bt_guest_leave(before);
    x = checked(b, x, "step");
    bt_keep_effects(b->graph, b->lower, BT_TRACE_PRODUCT);
    bt_graph_assign(b->graph, solve->x.flat, x);
    assign_slots(b);
    if (b->reads_iteration)
        bt_graph_assign(b->graph, solve->iteration,
                        (bt_add)(bt_graph_read(b->graph, solve->iteration), bt_number(1, BT_I64)));
    bt_status status = count_trouble(b);
    bt_graph *graph = end(b, method->name);
    if (status == BT_OK)
        return graph;
    bt_graph_free(graph);
    return NULL;
}

static bool steps(const bt_solve *solve) { return solve->problem->settings->method->step && solve->iterations; }

static bt_status build_step(bt_builder *b, int variant)
{
    bt_solve *solve = b->solve;
    solve->once[variant] = solve->each[variant] = -1;
    if (!steps(solve))
        return BT_OK;
    bt_graph *graph = trace_step(b);
    if (!graph)
        return bt_error_status() != BT_OK ? bt_error_status() : BT_ERROR_MEMORY;
    if (solve->iterations == 1) {
        solve->each[variant] = add(b, graph, 0, "solve");
        return solve->each[variant] < 0 ? bt_error_status() : BT_OK;
    }
    bt_status status = split(b, graph, variant);
    bt_graph_free(graph);
    return status;
}

/* For the next upper step, whose method starts from it. */
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

static bt_graph *trace_product(bt_builder *b)
{
    size_t problems = (size_t)b->upper->context->problem_count;
    bt_problem **others = bt_alloc_array(problems, sizeof(bt_problem *));
    bt_vector *vectors = bt_alloc_array(problems, sizeof *vectors);
    bt_graph *graph = NULL;
    if (others && vectors && begin(b)) {
        bt_product_request request = {.lower = bt_builder_lower(b),
                                      .upper = bt_builder_upper(b),
                                      .penalty = bt_penalty_of(b->lower),
                                      .x = bt_graph_read(b->graph, b->solve->x.flat),
                                      .others = others,
                                      .other_count = bt_solve_targets(b->site, b->solve, others, vectors)};
        bt_product_trace(&request);
        bt_keep_effects(b->graph, b->lower, BT_TRACE_PRODUCT);
        keep_solution(b, request.x);
        for (int k = 0; k < request.other_count && b->graph->status == BT_OK; k++)
            for (int64_t i = 0; i < others[k]->module->param_count; i++)
                if (request.other[k][i]) {
                    bt_var *var = vectors[k].windows[i];
                    bt_graph_assign(b->graph, var, (bt_sub)(bt_graph_read(b->graph, var), request.other[k][i]));
                    bt_solve_mark(b->site, others[k], i);
                }
        graph = end(b, "product");
    }
    bt_free(others);
    bt_free(vectors);
    return graph;
}

/* How often the method steps. With a row for each step there are no more steps than rows can differ. */
static int64_t iterations(const bt_solve *solve)
{
    const bt_problem *lower = solve->problem;
    const bt_method_def *method = lower->settings->method;
    int i = bt_hyper_index(method->hypers, method->steps ? method->steps : "iterations");
    int64_t steps = i < 0 ? 1 : (int64_t)lower->settings->method_hypers[i], most = solve->adjoint.flat->dims[0];
    return !method->step ? 0 : method->stacks[0] && steps > most ? most : steps;
}

static bt_builder builder_of(bt_solve_site *site, bt_solve *solve, int variant)
{
    int own = variant % solve->micros.variants, above = variant / solve->micros.variants;
    const bt_micro *theirs = solve->upper.items;
    return (bt_builder){.site = site,
                        .solve = solve,
                        .upper = site->upper,
                        .lower = solve->problem,
                        .micros = solve->micros.items + own * solve->micros.count,
                        .upper_micros = theirs ? theirs + above * solve->upper.count : NULL,
                        .loop = 100 + (int)(solve - site->solves)};
}

static bt_status open_slots(bt_builder *b)
{
    const bt_method_def *method = b->lower->settings->method;
    bt_solve *solve = b->solve;
    for (int k = 0; k < bt_slot_name_count(method->slots); k++) {
        solve->slots[k] = bt_vector_new(b->site->phase, b->lower, method->slots[k], true);
        if (!solve->slots[k].flat)
            return BT_ERROR_MEMORY;
    }
    for (int k = 0; k < bt_slot_name_count(method->stacks); k++) {
        bt_array shape = {
            .dtype = b->lower->dtype, .rank = 2, .dims = {solve->iterations, solve->adjoint.flat->dims[0]}};
        solve->stacks[k] =
            bt_phase_own(b->site->phase, bt_var_new(BT_PHASE, BT_VECTORS, b->lower->name, method->stacks[k], shape));
        if (!solve->stacks[k])
            return BT_ERROR_MEMORY;
        solve->stacks[k]->clear = true;
    }
    return BT_OK;
}

/* ---- purity: of a user's method; those that come with the library are pure ---- */

static const char *const parts[] = {"start", "step"};

static bt_graph *trace_part(bt_builder *b, int part)
{
    bool same;
    return part ? trace_step(b) : trace_start(b, &same);
}

static bt_status keep_pure(bt_builder *b)
{
    const bt_method_def *method = b->lower->settings->method;
    for (int i = 0; bt_method_builtin(i); i++)
        if (bt_method_builtin(i) == method)
            return BT_OK;
    const bool has[] = {method->start != NULL, steps(b->solve)};
    for (int part = 0; part < 2; part++)
        if (has[part] && !(b->solve->pure[part] = trace_part(b, part)))
            return bt_error_status() != BT_OK ? bt_error_status() : BT_ERROR_MEMORY;
    return BT_OK;
}

bt_status bt_solve_check_purity(bt_solve_site *site, bt_solve *solve)
{
    for (int part = 0; part < 2; part++) {
        if (!solve->pure[part])
            continue;
        char what[256];
        bt_builder b = builder_of(site, solve, 0);
        snprintf(what, sizeof what, "%s of type = %s", parts[part], solve->problem->settings->method->name);
        BT_TRY(
            bt_check_same(solve->problem, what, solve->pure[part], trace_part(&b, part), "step", site->upper->steps));
    }
    return BT_OK;
}

bt_status bt_solve_open(bt_solve_site *site, bt_solve *solve)
{
    const bt_problem_settings *settings = solve->problem->settings;
    bool all = settings->product_batches == BT_BATCHES_ALL || bt_unrolls(solve->problem);
    solve->iterations = iterations(solve);
    BT_TRY(bt_micro_set_open(&solve->micros, site->upper, solve->problem, all ? settings->gradient_accumulation : 1));
    if (bt_unrolls(solve->problem))
        return bt_unroll_open(site, solve);
    if (!site->upper->context->apart) /* a check takes the product alone */
        BT_TRY(bt_check_direct(site, solve));
    if (settings->method->penalty)
        BT_TRY(
            bt_micro_set_open(&solve->upper, site->upper, site->upper, site->upper->settings->gradient_accumulation));
    bt_builder b = builder_of(site, solve, 0);
    BT_TRY(open_slots(&b));
    BT_TRY(open_start(&b));
    return keep_pure(&b);
}

bt_graph *bt_solve_product(bt_solve_site *site, bt_solve *solve, int variant)
{
    bt_builder b = builder_of(site, solve, variant);
    return trace_product(&b);
}

static int variant_count(const bt_solve *solve)
{
    return solve->micros.variants * (solve->upper.count ? solve->upper.variants : 1);
}

bt_status bt_solve_build(bt_solve_site *site, bt_solve *solve)
{
    if (solve->unroll)
        return bt_unroll_build(site, solve);
    for (int v = 0; v < variant_count(solve); v++) { /* the first trace may open the upper problem's batches */
        if (v == BT_MAX_ITEMS)
            return bt_fail(BT_ERROR_UNSUPPORTED,
                           "%s, type = %s: there would be %d programs, one for each way in which micro-batches of %s "
                           "and %s can be short, and at most %d can be kept: take drop_last = true",
                           solve->problem->name, solve->problem->settings->method->name, variant_count(solve),
                           solve->problem->name, site->upper->name, BT_MAX_ITEMS);
        bt_builder b = builder_of(site, solve, v);
        BT_TRY(build_start(&b, v));
        BT_TRY(build_step(&b, v));
        solve->product[v] = add(&b, trace_product(&b), 0, "product");
        if (solve->product[v] < 0)
            return bt_error_status();
    }
    return BT_OK;
}

int bt_solve_bind(const bt_solve_site *site, const bt_solve *solve)
{
    int own = bt_micro_set_bind(&solve->micros, solve->problem);
    int above = solve->upper.count ? bt_micro_set_bind(&solve->upper, site->upper) : 0;
    return own < 0 || above < 0 ? -1 : above * solve->micros.variants + own;
}

bt_status bt_solve_iterate(bt_solve_site *site, bt_solve *solve, int variant)
{
    bt_phase *phase = site->phase;
    if (solve->start[variant] >= 0)
        BT_TRY(bt_part_run(phase, solve->start[variant]));
    if (solve->each[variant] >= 0) {
        if (solve->once[variant] >= 0)
            BT_TRY(bt_part_run(phase, solve->once[variant]));
        for (int64_t k = 0; k < solve->iterations; k++)
            BT_TRY(bt_part_run(phase, solve->each[variant]));
    }
    return BT_OK;
}

bt_status bt_solve_run(bt_solve_site *site, bt_solve *solve)
{
    int variant = bt_solve_bind(site, solve);
    if (variant < 0)
        return bt_error_status();
    BT_TRY(bt_solve_iterate(site, solve, variant));
    return bt_part_run(site->phase, solve->product[variant]);
}

void bt_solve_free(bt_solve *solve)
{
    bt_micro_set_free(&solve->micros);
    bt_micro_set_free(&solve->upper);
    bt_unroll_free(solve->unroll);
    bt_graph_free(solve->starting);
    for (int part = 0; part < 2; part++)
        bt_graph_free(solve->pure[part]);
    if (solve->x.windows != solve->adjoint.windows)
        bt_free(solve->x.windows);
    bt_free(solve->adjoint.windows);
    for (int k = 0; k < BT_MAX_ITEMS; k++)
        bt_free(solve->slots[k].windows);
}
