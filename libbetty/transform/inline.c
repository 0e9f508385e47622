/* transform/inline.c: composites replaced by their bodies. */
#include "transform/inline.h"

#include "transform/rewrite.h"

/* If the op has its own infer, its body may disagree. */
static bt_tensor *checked(const bt_node *node, int output, bt_tensor *found)
{
    const bt_tensor *due = &node->out[output];
    char a[256], b[256];
    if (bt_poisoned(found) || bt_array_same(bt_tensor_array(found), bt_tensor_array(due)))
        return found;
    return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: the body gives %s%s as output %d, but infer %s%s", node->op->name,
                           bt_dtype_name(found->dtype), bt_shape_text(a, found->rank, found->dims), output,
                           bt_dtype_name(due->dtype), bt_shape_text(b, due->rank, due->dims));
}

static void inline_node(bt_rewrite *rewrite, const bt_node *node)
{
    bt_region *region = rewrite->to->region;
    bt_tensor **in = bt_region_alloc(region, (size_t)(node->inputs + 1) * sizeof *in);
    bt_tensor **out = bt_region_alloc(region, (size_t)node->outputs * sizeof *out);
    if (!in || !out) {
        bt_graph_fail(rewrite->to, BT_ERROR_MEMORY, "out of memory");
        return;
    }
    bt_rewrite_inputs(rewrite, node, in);
    bt_trace_as(&rewrite->trace, &node->tag);
    bt_composite_body(node->op, node->attr, in, out);
    for (int i = 0; i < node->outputs; i++)
        rewrite->map[node->out[i].id] = checked(node, i, out[i]);
}

typedef bool keep_fn(const bt_node *node, void *user);

static bool goes(const bt_node *node, keep_fn *keep, void *user)
{
    return bt_op_is_composite(node->op) && !(keep && keep(node, user));
}

static bt_graph *inline_once(const bt_graph *graph, keep_fn *keep, void *user)
{
    bt_rewrite rewrite;
    bool *live = bt_live_nodes(graph);
    if (!live || !bt_rewrite_begin(&rewrite, graph)) {
        bt_free(live);
        return NULL;
    }
    for (int64_t n = 0; n < graph->node_count && rewrite.to->status == BT_OK; n++) {
        const bt_node *node = graph->nodes[n];
        if (!live[n])
            continue;
        if (goes(node, keep, user))
            inline_node(&rewrite, node);
        else
            bt_rewrite_copy(&rewrite, node);
    }
    bt_free(live);
    return bt_rewrite_end(&rewrite);
}

/* False: a body contained composites of its own. */
static bool is_done(const bt_graph *graph, keep_fn *keep, void *user)
{
    for (int64_t n = 0; n < graph->node_count; n++)
        if (goes(graph->nodes[n], keep, user))
            return false;
    return true;
}

bt_graph *bt_inline(const bt_graph *graph, keep_fn *keep, void *user)
{
    bt_graph *now = inline_once(graph, keep, user);
    for (int level = 0; now && !is_done(now, keep, user); level++) {
        bt_graph *next = level < BT_MAX_DEPTH ? inline_once(now, keep, user) : NULL;
        if (level == BT_MAX_DEPTH)
            bt_fail(BT_ERROR_ARGUMENT, "bodies are nested %d levels deep; does one contain itself?", BT_MAX_DEPTH);
        bt_graph_free(now);
        now = next;
    }
    return now;
}
