/* engine/level/scale.c */
#include "engine/level/scale.h"

#include "ops/ops.h"
#include "runtime/store.h"

bt_status bt_scale_open(bt_problem *problem)
{
    bt_context *context = problem->context;
    bool any = false;
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
    return context->instance->dry
               ? BT_OK
               : bt_store_put(context->instance, problem->scale, 0, problem->settings->initial_dynamic_scale);
}

void bt_scale_close(bt_problem *problem)
{
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

void bt_scale_next(const bt_problem *problem, bt_tensor *made)
{
    const bt_problem_settings *s = problem->settings;
    bt_graph *graph = bt_trace_now()->graph;
    bt_tensor *scale = scale_of(problem);
    if (!scale)
        return;
    bt_tensor *clean = bt_add(bt_graph_read(graph, problem->clean), 1);
    bt_tensor *due = bt_greater(clean, s->scale_interval - 1), *larger = bt_mul(scale, s->scale_factor);
    bt_tensor *grown = bt_where(due, bt_where(bt_isfinite(larger), larger, scale), scale);
    bt_tensor *next = bt_where(made, grown, bt_div(scale, s->scale_factor));
    bt_check(bt_greater(next, 0x1.fffffep-1),
             "the gradient through fp16 is not finite, even with a loss scale of 1: take precision = bf16 or fp32");
    bt_graph_assign(graph, problem->scale, next);
    bt_graph_assign(graph, problem->clean, bt_where(made, bt_where(due, 0, clean), 0));
}
