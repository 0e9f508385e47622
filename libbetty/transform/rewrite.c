/* transform/rewrite.c: copying graphs with changes. */
#include "transform/rewrite.h"

#include <string.h>

bool bt_rewrite_begin(bt_rewrite *rewrite, const bt_graph *from)
{
    *rewrite = (bt_rewrite){.from = from, .to = bt_graph_new()};
    rewrite->map = bt_alloc_array((size_t)from->tensor_count + 1, sizeof(bt_tensor *));
    if (!rewrite->to || !rewrite->map) {
        bt_graph_free(rewrite->to);
        bt_free(rewrite->map);
        return false;
    }
    rewrite->to->regions = from->regions; /* regions that a body adds are numbered after these */
    bt_trace_begin(&rewrite->trace, rewrite->to, BT_TRAIN, BT_F32); /* until a node's tag says otherwise */
    return true;
}

bt_graph *bt_rewrite_end(bt_rewrite *rewrite)
{
    const bt_graph *from = rewrite->from;
    bt_graph *to = rewrite->to;
    bt_trace_end(&rewrite->trace);
    for (int64_t i = 0; i < from->assign_count; i++)
        if (rewrite->map[from->assigns[i].value->id])
            bt_graph_assign(to, from->assigns[i].var, rewrite->map[from->assigns[i].value->id]);
    for (int64_t i = 0; i < from->output_count; i++)
        if (rewrite->map[from->outputs[i]->id])
            bt_graph_output(to, rewrite->map[from->outputs[i]->id]);
    bt_free(rewrite->map);
    if (to->status == BT_OK)
        return to;
    bt_fail(to->status, "%s", to->message);
    bt_graph_free(to);
    return NULL;
}

void bt_rewrite_inputs(const bt_rewrite *rewrite, const bt_node *node, bt_tensor **in)
{
    for (int i = 0; i < node->inputs; i++)
        in[i] = rewrite->map[node->in[i]->id];
    in[node->inputs] = NULL;
}

static bt_tensor *copy_leaf(bt_rewrite *rewrite, const bt_node *node)
{
    bt_tensor *leaf = bt_graph_placeholder(rewrite->to, node->out);
    if (bt_poisoned(leaf))
        return leaf;
    bt_node *copy = leaf->node; /* make it the same leaf: same op, same attributes */
    copy->op = node->op;
    copy->attr = bt_region_copy(rewrite->to->region, node->attr, node->attr_size);
    copy->attr_size = node->attr_size;
    /* Interned before the node gets them: interning looks at the latest nodes and would find the old graph's texts. */
    bt_tag tag = node->tag;
    tag.owner = bt_graph_intern(rewrite->to, node->tag.owner);
    tag.level = bt_graph_intern(rewrite->to, node->tag.level);
    tag.path = bt_graph_intern(rewrite->to, node->tag.path);
    tag.call = bt_graph_intern(rewrite->to, node->tag.call);
    copy->tag = tag;
    if (!copy->attr)
        return bt_graph_fail(rewrite->to, BT_ERROR_MEMORY, "out of memory");
    bt_graph_note_leaf(copy);
    return leaf;
}

void bt_rewrite_copy(bt_rewrite *rewrite, const bt_node *node)
{
    if (rewrite->to->status != BT_OK)
        return;
    if (bt_op_flags(node->op) & BT_OP_LEAF) {
        rewrite->map[node->out->id] = copy_leaf(rewrite, node);
        return;
    }
    bt_tensor **in = bt_region_alloc(rewrite->to->region, (size_t)(node->inputs + 1) * sizeof *in);
    if (!in) {
        bt_graph_fail(rewrite->to, BT_ERROR_MEMORY, "out of memory");
        return;
    }
    bt_rewrite_inputs(rewrite, node, in);
    bt_node *copy = bt_graph_append(rewrite->to, node->op, node->attr, node->attr_size, in, node->inputs, node->tag);
    for (int i = 0; copy && i < node->outputs; i++) {
        copy->out[i].batch_axis = node->out[i].batch_axis;
        rewrite->map[node->out[i].id] = &copy->out[i];
    }
}

void bt_live_spread(const bt_graph *graph, bool *live)
{
    for (int64_t n = graph->node_count - 1; n >= 0; n--) {
        const bt_node *node = graph->nodes[n];
        live[n] |= bt_node_any(node, BT_OP_EFFECT);
        for (int i = 0; live[n] && i < node->inputs; i++)
            live[node->in[i]->node->index] = true;
    }
}

bool *bt_live_nodes(const bt_graph *graph)
{
    bool *live = bt_alloc_array((size_t)graph->node_count + 1, sizeof *live);
    if (!live)
        return NULL;
    for (int64_t i = 0; i < graph->assign_count; i++)
        live[graph->assigns[i].value->node->index] = true;
    for (int64_t i = 0; i < graph->output_count; i++)
        live[graph->outputs[i]->node->index] = true;
    bt_live_spread(graph, live);
    return live;
}

static void count_use(const bt_tensor *x, bt_node *user, int64_t *uses, bt_node **users)
{
    uses[x->id]++;
    if (users)
        users[x->id] = user;
}

void bt_count_uses(const bt_graph *graph, const bool *live, int64_t *uses, bt_node **users)
{
    for (int64_t n = 0; n < graph->node_count; n++)
        for (int i = 0; live[n] && i < graph->nodes[n]->inputs; i++)
            count_use(graph->nodes[n]->in[i], graph->nodes[n], uses, users);
    for (int64_t i = 0; i < graph->assign_count; i++)
        count_use(graph->assigns[i].value, NULL, uses, users);
    for (int64_t i = 0; i < graph->output_count; i++)
        count_use(graph->outputs[i], NULL, uses, users);
}
