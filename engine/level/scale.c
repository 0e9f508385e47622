/* engine/level/scale.c */
#include "engine/level/scale.h"

#include "ops/ops.h"
#include "runtime/store.h"

enum { SCALE, CLEAN, FAULT }; /* of bt_problem.product: F32, I64, BT_BOOL [] */

static bt_status put_first(const bt_problem *problem, bt_var *scale)
{
    const bt_context *context = problem->context;
    return context->instance->dry ? BT_OK
                                  : bt_store_put(context->instance, scale, 0, problem->settings->initial_dynamic_scale);
}

/* A question that computes a product does not change the scale. */
static bt_status open_product(bt_problem *problem)
{
    bt_context *context = problem->context;
    bt_var **p = problem->product;
    if (problem->settings->product_precision != BT_PRODUCTS_FP16 || p[SCALE])
        return BT_OK;
    p[SCALE] =
        bt_ledger_var(context, problem, BT_ROLE_SOLVER, BT_OPTIMIZER, "product scale", (bt_array){.dtype = BT_F32});
    p[CLEAN] = bt_ledger_var(context, problem, BT_ROLE_SOLVER, BT_OPTIMIZER, "products at the product scale",
                             (bt_array){.dtype = BT_I64});
    p[FAULT] = bt_ledger_var(context, problem, BT_ROLE_SOLVER, BT_OPTIMIZER, "product was not finite",
                             (bt_array){.dtype = BT_BOOL});
    return p[SCALE] && p[CLEAN] && p[FAULT] ? put_first(problem, p[SCALE]) : BT_ERROR_MEMORY;
}

bt_status bt_scale_open(bt_problem *problem)
{
    bt_context *context = problem->context;
    bool any = false;
    BT_TRY(open_product(problem));
    for (int i = 0; i < context->problem_count; i++)
        any |= context->problems[i]->low == BT_F16;
    if (!any || problem->scale)
        return BT_OK;
    problem->scale =
        bt_ledger_var(context, problem, BT_ROLE_OPTIMIZER, BT_OPTIMIZER, "loss scale", (bt_array){.dtype = BT_F32});
    problem->clean = bt_ledger_var(context, problem, BT_ROLE_OPTIMIZER, BT_OPTIMIZER, "updates at the loss scale",
                                   (bt_array){.dtype = BT_I64});
    if (!problem->scale || !problem->clean)
        return BT_ERROR_MEMORY;
    return put_first(problem, problem->scale);
}

void bt_scale_close(bt_problem *problem)
{
    for (int i = SCALE; i <= FAULT; i++) {
        bt_ledger_var_free(problem->context, problem->product[i]);
        problem->product[i] = NULL;
    }
    bt_ledger_var_free(problem->context, problem->scale);
    bt_ledger_var_free(problem->context, problem->clean);
    problem->scale = problem->clean = NULL;
}

bool bt_scale_needed(const bt_problem *problem)
{
    bool needed = problem->low == BT_F16;
    for (int i = 0; i < problem->child_count; i++)
        needed |= bt_scale_needed(problem->children[i]);
    return needed;
}

static bt_tensor *scale_of(const bt_problem *problem)
{
    return problem->scale && bt_scale_needed(problem) ? bt_graph_read(bt_trace_now()->graph, problem->scale) : NULL;
}

bt_tensor *bt_scale_cotangent(const bt_problem *problem, const bt_tensor *loss)
{
    bt_tensor *scale = scale_of(problem);
    return scale ? scale : bt_number(1, loss->dtype);
}

bt_tensor *bt_scale_away(const bt_problem *problem, bt_tensor *gradient)
{
    bt_tensor *scale = gradient ? scale_of(problem) : NULL;
    return scale ? bt_div(gradient, scale) : gradient;
}

/* After `scale_interval` good ones the scale grows, unless it would become infinite. */
static bt_tensor *grown(const bt_problem *problem, bt_tensor *scale, bt_tensor *due)
{
    bt_tensor *larger = bt_mul(scale, problem->settings->scale_factor);
    return bt_where(due, bt_where(bt_isfinite(larger), larger, scale), scale);
}

/* Whether an update is skipped because of a product of a level below, BT_BOOL []; clears the flag. NULL: no such
 * level. */
static bt_tensor *product_fault(const bt_problem *problem)
{
    bt_graph *graph = bt_trace_now()->graph;
    bt_tensor *any = NULL;
    for (int i = 0; i < problem->child_count; i++) {
        bt_var *fault = problem->children[i]->product[FAULT];
        if (!fault)
            continue;
        bt_tensor *found = bt_graph_read(graph, fault);
        any = any ? bt_or(any, found) : found;
        bt_graph_assign(graph, fault, bt_zeros_like(found));
    }
    return any;
}

void bt_scale_next(const bt_problem *problem, bt_tensor *made)
{
    const bt_problem_settings *s = problem->settings;
    bt_graph *graph = bt_trace_now()->graph;
    bt_tensor *scale = scale_of(problem);
    if (!scale)
        return;
    bt_tensor *fault = product_fault(problem), *now = bt_graph_read(graph, problem->clean), *clean = bt_add(now, 1);
    bt_tensor *due = bt_greater(clean, s->scale_interval - 1), *smaller = bt_div(scale, s->scale_factor);
    bt_tensor *next = bt_where(made, grown(problem, scale, due), fault ? bt_where(fault, scale, smaller) : smaller);
    bt_check(bt_greater(next, 0x1.fffffep-1),
             "the gradient through fp16 is not finite, even with a loss scale of 1: use precision = bf16 or fp32");
    bt_graph_assign(graph, problem->scale, next);
    bt_graph_assign(graph, problem->clean,
                    bt_where(made, bt_where(due, 0, clean), fault ? bt_where(fault, now, 0) : bt_zeros_like(now)));
}

/* ---- of products ---- */

bt_tensor *bt_product_scale_read(const bt_problem *lower)
{
    return lower->product[SCALE] ? bt_graph_read(bt_trace_now()->graph, lower->product[SCALE]) : NULL;
}

void bt_product_scale_next(const bt_problem *lower, bt_tensor *sound, bt_tensor *finite)
{
    const bt_problem_settings *s = lower->settings;
    bt_var *const *p = lower->product;
    bt_graph *graph = bt_trace_now()->graph;
    bt_tensor *scale = bt_graph_read(graph, p[SCALE]), *clean = bt_add(bt_graph_read(graph, p[CLEAN]), 1);
    bt_tensor *due = bt_greater(clean, s->scale_interval - 1), *fault = bt_and(sound, bt_not(finite));
    bt_tensor *next =
        bt_where(fault, bt_div(scale, s->scale_factor), bt_where(finite, grown(lower, scale, due), scale));
    bt_check(bt_greater(next, 0x1p-100),
             "a second-order product of an fp16 level is not finite at any scale: use product_precision = fp32");
    bt_graph_assign(graph, p[SCALE], next);
    bt_graph_assign(graph, p[CLEAN], bt_where(finite, bt_where(due, 0, clean), 0));
    bt_graph_assign(graph, p[FAULT], bt_or(fault, bt_graph_read(graph, p[FAULT])));
}

bool bt_is_product_scale(const bt_context *context, const bt_var *var)
{
    bool is = false;
    for (int i = 0; i < context->problem_count; i++) {
        bt_var *const *p = context->problems[i]->product;
        is |= var == p[SCALE] || var == p[CLEAN] || var == p[FAULT];
    }
    return is;
}
