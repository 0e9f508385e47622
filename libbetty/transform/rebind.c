/* transform/rebind.c: the same graph on other variables: a graph traced on the current state can run on an earlier one.
 */
#include "transform/rebind.h"

#include "transform/rewrite.h"

static void copy(bt_rewrite *rewrite, const bt_node *node, bt_rebind_fn *stand_in, void *user)
{
    bt_var *var = node->op == &bt_op_read ? ((const bt_read_attr *)node->attr)->var : NULL;
    bt_var *other = var ? stand_in(user, var, false) : NULL;
    if (!var || other == var) {
        bt_rewrite_copy(rewrite, node);
        return;
    }
    if (!other) {
        bt_graph_fail(rewrite->to, BT_ERROR_MEMORY, "out of memory");
        return;
    }
    bt_trace_as(&rewrite->trace, &node->tag);
    bt_tensor *leaf = bt_graph_read(rewrite->to, other);
    if (!bt_poisoned(leaf))
        leaf->batch_axis = node->out->batch_axis;
    rewrite->map[node->out->id] = leaf;
}

bt_graph *bt_rebind(const bt_graph *graph, bt_rebind_fn *stand_in, void *user)
{
    bt_rewrite rewrite;
    if (!bt_rewrite_begin(&rewrite, graph)) {
        bt_fail(BT_ERROR_MEMORY, "out of memory");
        return NULL;
    }
    for (int64_t n = 0; n < graph->node_count && rewrite.to->status == BT_OK; n++)
        copy(&rewrite, graph->nodes[n], stand_in, user);
    bt_graph *result = bt_rewrite_end(&rewrite);
    for (int64_t i = 0; result && i < result->assign_count; i++) {
        bt_var *other = stand_in(user, result->assigns[i].var, true);
        if (!other) {
            bt_fail(BT_ERROR_MEMORY, "out of memory");
            bt_graph_free(result);
            return NULL;
        }
        bt_graph_retarget(result, i, other);
    }
    return result;
}
