/* engine/traced/dependence.c: checks whether an update uses the parameters of a level above directly, like a learned
 * learning rate. That does not change the solution, so an implicit method would give 0; hence it is an error. */
#include "engine/traced/traced.h"

#include "ops/ops.h"
#include "transform/grad.h"

/* The first parameter of `other` that the update depends on; -1: none. */
static int64_t dependence(bt_graph *graph, const bt_transition *t, const bt_problem *lower, bt_problem *other)
{
    int64_t count = lower->module->param_count, theirs = other->module->param_count;
    bt_tensor **cotangent = bt_graph_list(graph, count), **x = bt_graph_list(graph, theirs),
              **result = bt_graph_list(graph, theirs);
    if (!cotangent || !x || !result || graph->status != BT_OK)
        return -1;
    for (int64_t i = 0; i < count; i++)
        cotangent[i] = bt_add(bt_zeros_like(t->param[i]), 1);
    bt_problem_params(other, x);
    bt_vjp(graph, t->next_param, cotangent, (int)count, x, (int)theirs, result, false);
    for (int64_t i = 0; i < theirs && graph->status == BT_OK; i++)
        if (result[i])
            return i;
    return -1;
}

bt_status bt_check_dependence(bt_problem *lower, bt_problem *const *others, int count)
{
    bt_graph *graph = bt_trace_now()->graph;
    bt_transition t;
    if (!bt_transition_begin(lower, &t))
        return BT_OK; /* the error is in the graph */
    for (int64_t i = 0; i < lower->module->param_count; i++)
        t.grad[i] = bt_wide(bt_graph_read(graph, lower->gradients.windows[i]));
    bt_transition_trace(lower, &t);
    for (int k = 0; k < count && graph->status == BT_OK; k++) {
        int64_t i = dependence(graph, &t, lower, others[k]);
        if (i >= 0)
            return bt_fail(BT_ERROR_CONFIG,
                           "[%s] type = %s: its update (schedule or a callback) uses %s, but an implicit method cannot "
                           "differentiate through that; use type = itd, or bt_detach if no derivative is needed",
                           lower->name, lower->settings->method->name, others[k]->module->params[i]->path);
    }
    return BT_OK;
}
