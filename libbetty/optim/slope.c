/* optim/slope.c: the derivative of an elementwise update with respect to its gradient, for the method sama. */
#include "optim/optim.h"

#include "ops/ops.h"
#include "transform/grad.h"

/* The first node from `first` on that mixes elements of values computed from grad; NULL: none. */
static const bt_node *mixer(const bt_graph *graph, const bt_tensor *grad, int64_t first)
{
    int64_t count = graph->node_count - first;
    bool *from = bt_region_alloc(graph->region, (size_t)(count + 1) * sizeof *from); /* by node: depends on grad */
    for (int64_t n = 0; from && n < count; n++) {
        const bt_node *node = graph->nodes[first + n];
        from[n] = false;
        for (int i = 0; i < node->inputs; i++) {
            int64_t source = node->in[i]->node->index - first;
            from[n] = from[n] || node->in[i] == grad || (source >= 0 && from[source]);
        }
        if (from[n] && !(bt_op_flags(node->op) & BT_OP_ELEMENTWISE))
            return node;
    }
    return NULL;
}

bt_tensor *bt_update_slope(const char *what, bt_tensor *grad, bt_tensor *next, bt_tensor *scale, int64_t first,
                           bool elementwise)
{
    bt_graph *graph = bt_trace_now()->graph;
    if (bt_poisoned(next) || bt_poisoned(grad) || graph->status != BT_OK)
        return graph->poison;
    const bt_node *node = elementwise ? NULL : mixer(graph, grad, first);
    if (node)
        return bt_trace_poison(BT_ERROR_UNSUPPORTED,
                               "%s: type = sama needs an elementwise update, but %s mixes the elements of the "
                               "gradient: choose another type for this problem, or another optimizer",
                               what, node->op->name);
    bt_tensor *tangent = bt_add(bt_zeros_like(grad), scale), *slope = NULL;
    bt_jvp(graph, &grad, &tangent, 1, &next, 1, &slope, false);
    if (!slope && graph->status == BT_OK)
        return bt_trace_poison(BT_ERROR_UNSUPPORTED,
                               "%s: type = sama needs the derivative of the update with respect to the gradient, which "
                               "is 0 everywhere here: choose another type for this problem, or another optimizer",
                               what);
    return slope ? bt_neg(slope) : graph->poison;
}
