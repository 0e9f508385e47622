/* engine/solve/calls.c: what a method may ask for while it is traced: products, gradients, vectors of the lower
 * problem. */
#include "engine/solve/implicit_inside.h"

#include "base/random.h"
#include "ops/ops.h"

bt_loss bt_builder_lower(const bt_builder *b) { return (bt_loss){b->lower, b->micro}; }

bt_loss bt_builder_upper(const bt_builder *b)
{
    return (bt_loss){b->upper, b->own->upper.count ? b->upper_micro : NULL};
}

static double hyper_value(const bt_problem *lower, const char *name)
{
    int i = bt_hyper_index(lower->settings->method->hypers, name);
    return i < 0 ? 0 : lower->settings->method_hypers[i];
}

bool bt_starts_warm(const bt_problem *lower) { return hyper_value(lower, "warm_start") != 0; }

double bt_penalty_of(const bt_problem *lower) { return hyper_value(lower, lower->settings->method->penalty); }

static bt_tensor *poison_now(void) { return bt_trace_now()->graph->poison; }

/* A vector that a method passes in must have the dtype and shape of v. */
static bool is_vector(const bt_builder *b, const bt_tensor *x, const char *call)
{
    const bt_var *like = b->solve->adjoint.flat;
    char found[256], due[256];
    if (bt_poisoned(x)) {
        bt_trace_poison(BT_ERROR_ARGUMENT, "%s: method %s: the vector is NULL", call, b->rule.what);
        return false;
    }
    if (bt_array_same(bt_tensor_array(x), bt_var_array(like)))
        return true;
    bt_trace_poison(BT_ERROR_SHAPE, "%s: method %s: the vector is %s %s, expected %s %s like v", call, b->rule.what,
                    bt_dtype_name(x->dtype), bt_shape_text(found, x->rank, x->dims), bt_dtype_name(like->dtype),
                    bt_shape_text(due, like->rank, like->dims));
    return false;
}

bt_tensor *bt_ask_trace(bt_builder *b, bt_ask_kind kind, bt_tensor *given)
{
    if (kind != BT_ASK_HVP) {
        bt_loss loss = kind == BT_ASK_UPPER ? bt_builder_upper(b) : bt_builder_lower(b);
        return bt_gradient_trace(b->lower, &loss, given);
    }
    bt_product_request request = {.lower = bt_builder_lower(b), .x = given, .wants_self = true, .repeated = true};
    bt_product_trace(&request);
    return request.self ? request.self : bt_trace_poison(BT_ERROR_INTERNAL, "the product with the Hessian is missing");
}

/* The answer for the only micro-batch, or the sum over all of them. */
static bt_tensor *asked(bt_builder *b, bt_ask_kind kind, bt_tensor *given)
{
    const bt_micro_set *set = kind == BT_ASK_UPPER ? &b->own->upper : &b->solve->micros;
    if (set->count > 1)
        return bt_round_ask(b, kind, given);
    b->reads_batch = true;
    return bt_ask_trace(b, kind, given);
}

static bt_tensor *hvp(void *context, bt_tensor *x)
{
    bt_builder *b = context;
    return is_vector(b, x, "bt_hvp") ? asked(b, BT_ASK_HVP, x) : poison_now();
}

static bt_tensor *lower_gradient(void *context, bt_tensor *shift)
{
    bt_builder *b = context;
    return !shift || is_vector(b, shift, "bt_lower_gradient") ? asked(b, BT_ASK_LOWER, shift) : poison_now();
}

/* The upper loss has its own micro-batches, which the solve then binds. */
static bool opens_upper(bt_builder *b)
{
    bt_micro_set *set = &b->own->upper;
    if (set->count)
        return true;
    if (bt_micro_set_open(set, b->upper, b->upper, b->upper->settings->gradient_accumulation) != BT_OK) {
        bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
        return false;
    }
    b->upper_micro = set->shapes;
    return true;
}

/* v + (grad f(w + shift) - grad f(w)): v differs from grad f(w) only if other levels were solved before. */
static bt_tensor *upper_gradient(void *context, bt_tensor *shift)
{
    bt_builder *b = context;
    bt_tensor *v = bt_graph_read(b->graph, b->solve->adjoint.flat);
    if (!shift || !opens_upper(b))
        return shift ? poison_now() : v;
    bt_tensor *moved = is_vector(b, shift, "bt_upper_gradient") ? asked(b, BT_ASK_UPPER, shift) : poison_now();
    if (b->solve == b->site->solves || bt_poisoned(moved))
        return moved;
    return bt_add(v, bt_sub(moved, asked(b, BT_ASK_UPPER, NULL)));
}

static bt_tensor *slope(void *context)
{
    bt_builder *b = context;
    int64_t count = b->lower->module->param_count;
    if (!b->lower->slope.flat)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_slope: the record of method %s does not set .slope = true",
                               b->rule.what);
    bt_tensor **parts = bt_region_alloc(b->graph->region, (size_t)(count + 1) * sizeof *parts);
    if (!parts)
        return bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; i < count; i++)
        parts[i] = bt_graph_read(b->graph, b->lower->slope.windows[i]);
    return bt_problem_join(b->lower, parts);
}

static bt_tensor *iteration(void *context)
{
    bt_builder *b = context;
    b->reads_iteration = true;
    if (!b->own->iteration) {
        b->own->iteration = bt_phase_own(
            b->site->phase, bt_var_new(BT_PHASE, BT_VECTORS, b->lower->name, "iteration", (bt_array){.dtype = BT_I64}));
        if (!b->own->iteration)
            return bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
        b->own->iteration->clear = true;
    }
    return bt_graph_read(b->graph, b->own->iteration);
}

/* ---- unit vectors ---- */

/* The number of differentiated elements; and the position of the index-th of them in a vector like v. */
static int64_t live_count(const bt_problem *lower)
{
    int64_t count = 0;
    for (int64_t i = 0; i < lower->module->param_count; i++)
        count += lower->meta_trainable[i] ? bt_array_count(lower->module->params[i]->shape) : 0;
    return count;
}

static int64_t live_place(const bt_problem *lower, int64_t index)
{
    int64_t place = 0;
    for (int64_t i = 0; i < lower->module->param_count; i++) {
        int64_t count = bt_array_count(lower->module->params[i]->shape);
        if (lower->meta_trainable[i] && index < count)
            return place + index;
        index -= lower->meta_trainable[i] ? count : 0;
        place += count;
    }
    return 0;
}

/* `count` distinct numbers in 0 .. below-1: Floyd's sampling (Bentley and Floyd, 1987). */
static void choose(int64_t *chosen, int64_t count, int64_t below, bt_random *random)
{
    for (int64_t k = 0; k < count; k++) {
        int64_t last = below - count + k, item = bt_random_below(random, (uint32_t)last + 1);
        for (int64_t i = 0; i < k; i++)
            if (chosen[i] == item) {
                item = last; /* which no earlier draw could return */
                break;
            }
        chosen[k] = item;
    }
}

/* Zero past the last element. */
static bt_tensor *unit(void *context)
{
    bt_builder *b = context;
    int64_t steps = b->own->iterations, live = live_count(b->lower), count = steps < live ? steps : live;
    if (count < 1 || live > UINT32_MAX)
        return bt_trace_poison(BT_ERROR_UNSUPPORTED, "bt_unit: method %s: %lld steps for %lld parameters", b->rule.what,
                               (long long)steps, (long long)live);
    int64_t *places = bt_region_alloc(b->graph->region, (size_t)count * sizeof *places);
    if (!places)
        return bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
    bt_random random = bt_random_begin((uint64_t)b->lower->context->settings->seed, BT_FOR_COLUMNS, 0,
                                       bt_hash_text(0, b->lower->name));
    choose(places, count, live, &random);
    for (int64_t k = 0; k < count; k++)
        places[k] = live_place(b->lower, places[k]);
    bt_tensor *step = iteration(context), *inside = bt_less(step, count);
    bt_tensor *place = bt_gather(bt_constant(BT_ARRAY(places, count)), bt_reshape(bt_where(inside, step, 0), 1));
    bt_tensor *one = bt_reshape(bt_as(inside, b->lower->dtype), 1);
    return bt_poisoned(one) ? one : bt_scatter_add(place, one, b->solve->adjoint.flat->dims[0]);
}

/* ---- the solution of the previous step ---- */

bt_var *bt_solution_var(bt_problem *upper, const bt_problem *lower)
{
    size_t count = (size_t)upper->context->problem_count;
    if (!upper->solutions && !(upper->solutions = bt_alloc_array(count, sizeof(bt_var *))))
        return NULL;
    bt_var **solution = &upper->solutions[lower->place];
    if (*solution)
        return *solution;
    char *name = bt_string("solution for %s", lower->name);
    if (name)
        *solution = bt_ledger_var(upper->context, upper, BT_ROLE_SOLVER, BT_VECTORS, name,
                                  (bt_array){.dtype = lower->dtype, .rank = 1, .dims = {bt_params_elements(lower)}});
    bt_free(name);
    return *solution;
}

static bt_tensor *last_solution(void *context)
{
    bt_builder *b = context;
    if (!bt_starts_warm(b->lower))
        return NULL;
    bt_var *var = bt_solution_var(b->upper, b->lower);
    return var ? bt_graph_read(b->graph, var) : bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
}

const bt_rule_calls bt_method_calls = {.hvp = hvp,
                                       .lower_gradient = lower_gradient,
                                       .upper_gradient = upper_gradient,
                                       .slope = slope,
                                       .iteration = iteration,
                                       .unit = unit,
                                       .last_solution = last_solution};

static bool solves(const bt_solve_site *site, const bt_problem *lower)
{
    for (int q = 0; site && q < site->solve_count; q++)
        if (site->solves[q].problem == lower)
            return true;
    return false;
}

void bt_solve_forget(bt_problem *upper, const bt_solve_site *site)
{
    bt_context *context = upper->context;
    for (int i = 0; i < context->problem_count; i++) {
        if (solves(site, context->problems[i]))
            continue;
        if (upper->troubles) {
            bt_ledger_var_free(context, upper->troubles[i].count);
            upper->troubles[i].count = NULL;
        }
        if (upper->solutions) {
            bt_ledger_var_free(context, upper->solutions[i]);
            upper->solutions[i] = NULL;
        }
    }
    if (site)
        return;
    bt_free(upper->troubles);
    bt_free(upper->solutions);
    upper->troubles = NULL;
    upper->solutions = NULL;
}
