/* engine/hypergradient/solve.c: one lower problem within an upper problem's phase: from its adjoint v to x = H^-1 v by
 * its method, and from x to what the levels above it get of it.
 *
 *   start       x from v
 *   once, each  a step of the method; what does not depend on x and the slots is computed once
 *               (transform/linearize.h)
 *   product     a_P -= g_P^T x, for every P on the way whose parameters the lower loss reads
 *
 * What depends on the lower problem's batches exists once for each number of short ones among them. */
#include "engine/hypergradient/itd.h"
#include "engine/hypergradient/methods.h"
#include "ops/ops.h"
#include "transform/grad.h"
#include "transform/linearize.h"
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

typedef struct builder {
    bt_step_phase *step;
    bt_solve *solve;
    bt_problem *upper, *lower;
    bt_trace trace;
    bt_tracing tracing;
    bt_graph *graph;
    bt_rule rule;
    int loop;
} builder;

static bool begin(builder *b)
{
    b->graph = bt_graph_new();
    if (b->graph)
        bt_problem_begin(&b->trace, &b->tracing, b->lower, b->graph, BT_TRACE_PRODUCT, NULL);
    return b->graph != NULL;
}

/* Ends the trace, and hands out its graph; NULL after an error. */
static bt_graph *end(builder *b, const char *part)
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
static int add(builder *b, bt_graph *graph, int loop, const char *part)
{
    int entry = graph ? bt_phase_add(b->step->phase, graph, loop, part) : -1;
    bt_graph_free(graph);
    return entry;
}

static bt_tensor *hvp(void *context, bt_tensor *x)
{
    builder *b = context;
    bt_product_request request = {.lower = b->lower,
                                  .micros = b->solve->micros,
                                  .micro_count = b->solve->micro_count,
                                  .x = x,
                                  .wants_self = true};
    bt_product_trace(&request);
    return request.self ? request.self : bt_trace_poison(BT_ERROR_INTERNAL, "the product with the Hessian is missing");
}

static void open_rule(builder *b)
{
    const bt_method_def *method = b->lower->settings->method;
    bt_rule_begin(&b->rule, method->name, b->lower->dtype);
    for (int i = 0; i < bt_hyper_count(method->hypers); i++) {
        double value = b->lower->settings->method_hypers[i];
        bt_rule_add_hyper(&b->rule, method->hypers[i].name, value, bt_number(value, b->lower->dtype));
    }
    for (int k = 0; k < bt_slot_name_count(method->slots); k++)
        bt_rule_add_slot(&b->rule, method->slots[k], bt_graph_read(b->graph, b->solve->slots[k].flat));
    b->rule.hvp = hvp;
    b->rule.context = b;
}

static void assign_slots(builder *b)
{
    for (int k = 0; k < b->rule.slot_count; k++)
        if (b->rule.slots[k].next)
            bt_graph_assign(b->graph, b->solve->slots[k].flat, b->rule.slots[k].next);
}

/* What counts the method's failures, for this upper problem; NULL after an error. */
static bt_trouble *trouble_of(builder *b)
{
    size_t count = (size_t)b->upper->engine->problem_count;
    if (!b->upper->troubles)
        b->upper->troubles = bt_alloc_array(count, sizeof *b->upper->troubles);
    bt_trouble *trouble = b->upper->troubles ? &b->upper->troubles[b->lower->place] : NULL;
    if (trouble && !trouble->count) {
        bt_text name = {0};
        bt_text_add(&name, "solver trouble of %s", b->lower->name);
        if (!name.failed)
            trouble->count = bt_var_new(BT_RUN, BT_BUFFERS, b->upper->name, name.data, (bt_array){.dtype = BT_I64});
        bt_text_free(&name);
    }
    return trouble && trouble->count ? trouble : NULL;
}

/* Counts the steps in which the method says that it fails. */
static bt_status count_trouble(builder *b)
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
static bt_tensor *checked(builder *b, bt_tensor *x, const char *callback)
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

static bt_status trace_start(builder *b)
{
    const bt_method_def *method = b->lower->settings->method;
    bt_solve *solve = b->solve;
    if (!begin(b))
        return BT_ERROR_MEMORY;
    open_rule(b);
    bt_tensor *v = bt_graph_read(b->graph, solve->adjoint.flat);
    bt_guest before = bt_guest_enter((bt_guest){b->lower->source, method->name, "start"});
    bt_tensor *x = method->start ? method->start(&b->rule, v) : v;
    bt_guest_leave(before);
    x = checked(b, x, "start");
    bool same = x == v && !solve->iterations; /* nothing is done to v: it is x */
    solve->x = same ? solve->adjoint : bt_vector_new(b->step->phase, b->lower, "x", false);
    if (!same && solve->x.flat) {
        bt_graph_assign(b->graph, solve->x.flat, x);
        assign_slots(b);
    }
    solve->starting = end(b, "solve start");
    bt_status status = solve->starting ? BT_OK : bt_error_status();
    if (same) {
        bt_graph_free(solve->starting);
        solve->starting = NULL;
    }
    return status;
}

static bt_status build_start(builder *b)
{
    if (!b->solve->starting)
        return BT_OK;
    b->solve->start = add(b, b->solve->starting, 0, "solve start");
    b->solve->starting = NULL;
    return b->solve->start < 0 ? bt_error_status() : BT_OK;
}

static bt_var *keep(void *user, const bt_tensor *value)
{
    builder *b = user;
    bt_var *var =
        bt_var_new(BT_PHASE, BT_ACTIVATIONS, value->node->tag.owner,
                   *value->node->tag.path ? value->node->tag.path : value->node->op->name, bt_tensor_array(value));
    return bt_phase_own(b->step->phase, var);
}

/* The step of the method in two programs. */
static bt_status split(builder *b, const bt_graph *graph, int variant)
{
    bt_solve *solve = b->solve;
    bt_var *moving[BT_MAX_ITEMS + 2] = {solve->x.flat};
    int count = 1;
    if (b->rule.trouble)
        moving[count++] = b->upper->troubles[b->lower->place].count;
    for (int k = 0; k < b->rule.slot_count; k++)
        moving[count++] = solve->slots[k].flat;
    const bt_instance *instance = b->step->phase->instance;
    bt_graph *once, *each, *lowered = bt_program_lowered(graph, instance->backend, instance->threads);
    if (!lowered)
        return bt_error_status();
    bt_status status = bt_linearize(lowered, moving, count, keep, b, &once, &each);
    bt_graph_free(lowered);
    if (status != BT_OK)
        return status;
    solve->once[variant] = once->node_count ? bt_phase_add(b->step->phase, once, 0, "solve, once") : -1;
    solve->each[variant] = bt_phase_add(b->step->phase, each, b->loop, "solve, each");
    bool failed = solve->each[variant] < 0 || (once->node_count && solve->once[variant] < 0);
    bt_graph_free(once);
    bt_graph_free(each);
    return failed ? bt_error_status() : BT_OK;
}

static bt_status build_step(builder *b, int variant)
{
    const bt_method_def *method = b->lower->settings->method;
    bt_solve *solve = b->solve;
    solve->once[variant] = solve->each[variant] = -1;
    if (!method->step || !solve->iterations)
        return BT_OK;
    if (!begin(b))
        return BT_ERROR_MEMORY;
    open_rule(b);
    bt_tensor *v = bt_graph_read(b->graph, solve->adjoint.flat), *x = bt_graph_read(b->graph, solve->x.flat);
    bt_guest before = bt_guest_enter((bt_guest){b->lower->source, method->name, "step"});
    x = method->step(&b->rule, v, x);
    bt_guest_leave(before);
    x = checked(b, x, "step");
    bt_keep_effects(b->graph, b->lower, BT_TRACE_PRODUCT);
    bt_graph_assign(b->graph, solve->x.flat, x);
    assign_slots(b);
    bt_status status = count_trouble(b);
    bt_graph *graph = end(b, method->name);
    if (!graph || status != BT_OK) {
        bt_graph_free(graph);
        return graph ? status : bt_error_status();
    }
    if (solve->iterations == 1) {
        solve->each[variant] = add(b, graph, 0, "solve");
        return solve->each[variant] < 0 ? bt_error_status() : BT_OK;
    }
    status = split(b, graph, variant);
    bt_graph_free(graph);
    return status;
}

int bt_solve_targets(bt_problem *upper, const bt_solve *solve, bt_problem **others, bt_vector *vectors)
{
    const bt_step_phase *step = &upper->step;
    int count = 0;
    if (bt_u2l(upper, solve->problem))
        others[count++] = upper;
    for (int q = 0; q < step->solve_count; q++)
        if (&step->solves[q] > solve && bt_u2l(step->solves[q].problem, solve->problem)) {
            vectors[count] = step->solves[q].adjoint;
            others[count++] = step->solves[q].problem;
        }
    return count;
}

static bt_var *target_var(const builder *b, const bt_problem *other, const bt_vector *vector, int64_t parameter)
{
    return other == b->upper ? b->step->gradients.windows[parameter] : vector->windows[parameter];
}

void bt_solve_mark(bt_problem *upper, const bt_problem *other, int64_t parameter)
{
    bt_step_phase *step = &upper->step;
    if (other == upper) {
        step->used[parameter] = true;
        step->reached = true;
    }
    for (int q = 0; q < step->solve_count; q++)
        if (step->solves[q].problem == other)
            step->solves[q].reached = true;
}

/* Of the micro-batches that solve->micros are. */
static bt_graph *trace_product(builder *b)
{
    size_t problems = (size_t)b->upper->engine->problem_count;
    bt_problem **others = bt_alloc_array(problems, sizeof(bt_problem *));
    bt_vector *vectors = bt_alloc_array(problems, sizeof *vectors);
    bt_graph *graph = NULL;
    if (others && vectors && begin(b)) {
        bt_product_request request = {.lower = b->lower,
                                      .micros = b->solve->micros,
                                      .micro_count = b->solve->micro_count,
                                      .x = bt_graph_read(b->graph, b->solve->x.flat),
                                      .others = others,
                                      .other_count = bt_solve_targets(b->upper, b->solve, others, vectors)};
        bt_product_trace(&request);
        bt_keep_effects(b->graph, b->lower, BT_TRACE_PRODUCT);
        for (int k = 0; k < request.other_count && b->graph->status == BT_OK; k++)
            for (int64_t i = 0; i < others[k]->module->param_count; i++)
                if (request.other[k][i]) {
                    bt_var *var = target_var(b, others[k], &vectors[k], i);
                    bt_graph_assign(b->graph, var, (bt_sub)(bt_graph_read(b->graph, var), request.other[k][i]));
                    bt_solve_mark(b->upper, others[k], i);
                }
        graph = end(b, "product");
    }
    bt_free(others);
    bt_free(vectors);
    return graph;
}

/* How many of the lower problem's micro-batches can be short at once. */
static int variant_count(const bt_problem *lower, int64_t micros)
{
    if (lower->train->shape_count < 2)
        return 1;
    int64_t per_epoch = bt_loader_per_epoch(lower->train->loader);
    int64_t most = per_epoch > 0 ? (micros + per_epoch - 1) / per_epoch : 1;
    return (int)(most < BT_MAX_ITEMS - 1 ? most : BT_MAX_ITEMS - 1) + 1;
}

static bt_status open_micros(bt_solve *solve)
{
    bt_problem *lower = solve->problem;
    bool all = lower->settings->product_batches == BT_BATCHES_ALL || bt_unrolls(lower);
    solve->micro_count = all ? lower->settings->gradient_accumulation : 1;
    solve->variants = variant_count(lower, solve->micro_count);
    solve->micros = bt_alloc_array((size_t)(solve->variants * solve->micro_count), sizeof *solve->micros);
    if (!solve->micros)
        return BT_ERROR_MEMORY;
    for (int v = 0; v < solve->variants; v++)
        for (int64_t m = 0; m < solve->micro_count; m++)
            BT_TRY(bt_micro_new(&solve->micros[v * solve->micro_count + m], lower->train,
                                m >= solve->micro_count - v ? 1 : 0));
    return BT_OK;
}

static int64_t iterations(const bt_problem *lower)
{
    const bt_method_def *method = lower->settings->method;
    int i = bt_hyper_index(method->hypers, "iterations");
    return !method->step ? 0 : i < 0 ? 1 : (int64_t)lower->settings->method_hypers[i];
}

static builder builder_of(bt_problem *upper, bt_solve *solve)
{
    bt_step_phase *step = &upper->step;
    return (builder){.step = step,
                     .solve = solve,
                     .upper = upper,
                     .lower = solve->problem,
                     .loop = 100 + (int)(solve - step->solves)};
}

bt_status bt_solve_open(bt_problem *upper, bt_solve *solve)
{
    builder b = builder_of(upper, solve);
    const bt_method_def *method = solve->problem->settings->method;
    solve->iterations = iterations(solve->problem);
    solve->start = -1;
    BT_TRY(open_micros(solve));
    if (bt_unrolls(solve->problem))
        return bt_unroll_open(upper, solve);
    BT_TRY(bt_check_direct(upper, solve));
    for (int k = 0; k < bt_slot_name_count(method->slots); k++) {
        solve->slots[k] = bt_vector_new(b.step->phase, solve->problem, method->slots[k], true);
        if (!solve->slots[k].flat)
            return BT_ERROR_MEMORY;
    }
    return trace_start(&b);
}

bt_graph *bt_solve_product(bt_problem *upper, bt_solve *solve, int variant)
{
    builder b = builder_of(upper, solve);
    bt_micro *first = solve->micros;
    solve->micros = first + variant * solve->micro_count;
    bt_graph *graph = trace_product(&b);
    solve->micros = first;
    return graph;
}

bt_status bt_solve_build(bt_problem *upper, bt_solve *solve)
{
    builder b = builder_of(upper, solve);
    if (solve->unroll)
        return bt_unroll_build(upper, solve);
    BT_TRY(build_start(&b));
    bt_micro *first = solve->micros;
    bt_status status = BT_OK;
    for (int v = 0; v < solve->variants && status == BT_OK; v++) {
        solve->micros = first + v * solve->micro_count; /* what this variant's traces read */
        status = build_step(&b, v);
        solve->micros = first;
        if (status == BT_OK) {
            solve->product[v] = add(&b, bt_solve_product(upper, solve, v), 0, "product");
            status = solve->product[v] < 0 ? bt_error_status() : BT_OK;
        }
    }
    return status;
}

/* Binds the lower problem's last micro-batches, full ones first; returns the variant, -1 after an error. */
int bt_solve_bind(bt_solve *solve)
{
    bt_stream *stream = solve->problem->train;
    int64_t count = solve->micro_count, first = stream->kept_count - count, shorts = 0, full = 0, late = 0;
    for (int64_t m = 0; m < count; m++) {
        const bt_batch *batch = bt_stream_kept(stream, first + m);
        if (!batch)
            return -1;
        shorts += bt_stream_shape(stream, batch) == 1;
    }
    if (shorts >= solve->variants) {
        bt_fail(BT_ERROR_INTERNAL, "%s: more short batches than planned for", solve->problem->name);
        return -1;
    }
    for (int64_t m = 0; m < count; m++) {
        const bt_batch *batch = bt_stream_kept(stream, first + m);
        int64_t place = bt_stream_shape(stream, batch) == 1 ? count - shorts + late++ : full++;
        bt_micro_bind(&solve->micros[shorts * count + place], batch);
    }
    return (int)shorts;
}

bt_status bt_solve_run(bt_step_phase *step, bt_solve *solve)
{
    int variant = bt_solve_bind(solve);
    if (variant < 0)
        return bt_error_status();
    if (solve->start >= 0)
        BT_TRY(bt_part_run(step->phase, solve->start));
    if (solve->each[variant] >= 0) {
        if (solve->once[variant] >= 0)
            BT_TRY(bt_part_run(step->phase, solve->once[variant]));
        for (int64_t k = 0; k < solve->iterations; k++)
            BT_TRY(bt_part_run(step->phase, solve->each[variant]));
    }
    return bt_part_run(step->phase, solve->product[variant]);
}

void bt_solve_free(bt_solve *solve)
{
    for (int64_t m = 0; solve->micros && m < solve->variants * solve->micro_count; m++)
        bt_micro_free(&solve->micros[m]);
    bt_free(solve->micros);
    bt_unroll_free(solve->unroll);
    bt_graph_free(solve->starting);
    if (solve->x.windows != solve->adjoint.windows)
        bt_free(solve->x.windows);
    bt_free(solve->adjoint.windows);
    for (int k = 0; k < BT_MAX_ITEMS; k++)
        bt_free(solve->slots[k].windows);
}
