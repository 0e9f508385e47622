/* transform/splice.c: records a graph again within another. */
#include "transform/splice.h"

#include "ops/ops.h"
#include "transform/rewrite.h"

static bt_tensor *constant_as_f32(const bt_tensor *x, const void *data)
{
    bt_array from = bt_tensor_array(x), to = from;
    to.dtype = BT_F32;
    from.data = BT_DATA_(data);
    to.data = bt_region_alloc(bt_trace_now()->graph->region, bt_array_bytes(to));
    if (!to.data || bt_array_convert(to, from) != BT_OK)
        return bt_trace_poison(BT_ERROR_MEMORY, "out of memory while recording");
    return bt_constant(to);
}

static bt_tensor *read_here(const bt_splice *splice, const bt_node *node)
{
    bt_var *var = ((const bt_read_attr *)node->attr)->var;
    bt_tensor *here = bt_trace_read(splice->stand_in ? splice->stand_in(splice->user, var) : var);
    if (!bt_poisoned(here) && here->batch_axis < 0)
        here->batch_axis = node->out->batch_axis;
    return here;
}

/* A finite difference evaluates a loss at several points, with the detached values of the first one. */
static bool keeps(bt_rewrite *rewrite, const bt_splice *splice, const bt_node *node)
{
    if (!splice->detached)
        return false;
    if (node->hides & BT_OP_DETACH)
        bt_trace_poison(BT_ERROR_UNSUPPORTED,
                        "%s: its body detaches a value, which a difference cannot hold constant: detach it outside the "
                        "op, or use product = jvp or vjp, or detach = follow",
                        node->op->name);
    else if (bt_op_flags(node->op) & BT_OP_DETACH)
        rewrite->map[node->out->id] = splice->detached[node->out->id];
    return rewrite->map[node->out->id] != NULL;
}

/* Drops casts between 16 bits and f32, and makes constants f32. */
static bool widens(bt_rewrite *rewrite, const bt_splice *splice, const bt_node *node)
{
    bt_tensor *x = node->inputs == 1 ? rewrite->map[node->in[0]->id] : NULL, **to = &rewrite->map[node->out->id];
    if (node->op == &bt_op_widen && !bt_poisoned(x) && x->dtype == BT_F32) /* the 16-bit value is f32 here */
        *to = x;
    if (!splice->wide)
        return *to != NULL;
    if (node->op == &bt_op_widen || node->op == &bt_op_round)
        *to = x;
    else if (node->op == &bt_op_cast && !bt_poisoned(x) && bt_dtype_half(node->out->dtype))
        *to = bt_dtype_floats(x->dtype) ? x : bt_as(x, BT_F32);
    else if (node->op == &bt_op_constant && bt_dtype_half(node->out->dtype))
        *to = constant_as_f32(node->out, node->attr);
    return *to != NULL;
}

static void record(bt_rewrite *rewrite, const bt_splice *splice, const bt_node *node)
{
    if (node->op == &bt_op_read) {
        rewrite->map[node->out->id] = read_here(splice, node);
        return;
    }
    if (keeps(rewrite, splice, node) || widens(rewrite, splice, node))
        return;
    bt_rewrite_copy(rewrite, node);
    for (int i = 0; i < node->outputs; i++) {
        bt_tensor *here = rewrite->map[node->out[i].id];
        if (bt_poisoned(here))
            continue;
        here->weak = node->out[i].weak;
        here->params = node->out[i].params;
        if (splice->wide)
            here->node->tag.low = BT_F32;
    }
}

bt_tensor **bt_graph_splice(const bt_graph *from, const bt_tensor *value, const bt_splice *splice)
{
    bt_trace *trace = bt_trace_now();
    bt_graph *graph = trace->graph;
    bt_rewrite rewrite = {.from = from, .to = graph, .map = bt_graph_list(graph, from->tensor_count)};
    bool *live = bt_alloc_array((size_t)from->node_count + 1, sizeof *live);
    bt_tag before = bt_trace_tag(trace);
    if (!rewrite.map || !live) {
        bt_free(live);
        bt_graph_fail(graph, BT_ERROR_MEMORY, "out of memory");
        return NULL;
    }
    live[value->node->index] = true;
    for (int64_t i = 0; splice->assigns && i < from->assign_count; i++)
        live[from->assigns[i].value->node->index] = true;
    bt_live_spread(from, live);
    for (int64_t n = 0; n < from->node_count && graph->status == BT_OK; n++)
        if (live[n]) {
            bt_trace_as(trace, &from->nodes[n]->tag);
            record(&rewrite, splice, from->nodes[n]);
        }
    bt_trace_as(trace, &before);
    for (int64_t i = 0; splice->assigns && i < from->assign_count && graph->status == BT_OK; i++)
        bt_graph_assign(graph, from->assigns[i].var, rewrite.map[from->assigns[i].value->id]);
    bt_free(live);
    return rewrite.map;
}
