/* graph/composite.c: composite ops, which are named subgraphs: their shapes, flags and hash come from the body. */
#include "graph/graph.h"

#include <string.h>

bt_guest bt_op_enter(const bt_op *op, const char *function)
{
    bt_guest now = bt_guest_now();
    return bt_guest_enter(op->info ? now : (bt_guest){now.file, op->name, function});
}

bool bt_op_is_composite(const bt_op *op) { return op->body || (op->info && op->info->derived_body); }

static void trace_body(const bt_op *op, const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    bt_guest before = bt_op_enter(op, "body");
    if (op->info && op->info->derived_body)
        op->info->derived_body(op, attr, in, out);
    else
        op->body(attr, in, out);
    bt_guest_leave(before);
}

void bt_composite_body(const bt_op *op, const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    int outputs = bt_op_outputs(op, op->inputs);
    memset(out, 0, (size_t)outputs * sizeof *out);
    trace_body(op, attr, in, out);
    for (int i = 0; i < outputs; i++)
        if (!out[i])
            out[i] = bt_trace_poison(BT_ERROR_ARGUMENT, "%s: the body leaves output %d unset", op->name, i);
}

static int depth(void)
{
    int depth = 0;
    for (const bt_trace *trace = bt_trace_now(); trace; trace = trace->outer)
        depth++;
    return depth;
}

/* Notes the flags and the hash of what the body recorded. */
static void look_inside(bt_node *node, const bt_graph *body)
{
    node->body = bt_graph_hash(body);
    node->hides = 0;
    for (int64_t n = 0; n < body->node_count; n++)
        node->hides |= bt_op_flags(body->nodes[n]->op) | body->nodes[n]->hides;
}

static void trace_aside(bt_node *node, bt_graph *graph, bt_array *out)
{
    int outputs = node->outputs;
    bt_tensor **results = bt_region_alloc(graph->region, (size_t)outputs * sizeof *results);
    bt_tensor **given = bt_region_alloc(graph->region, (size_t)(node->inputs + 1) * sizeof *given);
    if (!results || !given) {
        bt_graph_fail(graph, BT_ERROR_MEMORY, "out of memory while recording");
        return;
    }
    for (int i = 0; i < node->inputs; i++)
        given[i] = bt_graph_placeholder(graph, node->in[i]);
    bt_composite_body(node->op, node->attr, given, results);
    for (int i = 0; i < outputs && graph->status == BT_OK; i++) {
        if (out)
            out[i] = bt_tensor_array(results[i]);
        bt_graph_output(graph, results[i]);
    }
}

bt_status bt_composite_infer(bt_node *node, bt_array *out)
{
    const bt_op *op = node->op;
    if (!bt_op_is_composite(op))
        return bt_fail(BT_ERROR_ARGUMENT, "%s: an op needs `infer` or a `body`", op->name);
    if (depth() > BT_MAX_DEPTH)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: bodies are nested %d levels deep; does the op contain itself?", op->name,
                       BT_MAX_DEPTH);
    bt_graph *graph = bt_graph_new();
    if (!graph)
        return BT_ERROR_MEMORY;
    bt_trace trace;
    bt_trace_begin(&trace, graph, node->tag.mode, node->tag.dtype);
    trace.tag.quiet = node->tag.quiet;
    trace_aside(node, graph, out);
    bt_trace_end(&trace);
    if (graph->status == BT_OK)
        look_inside(node, graph);
    bt_status status = graph->status == BT_OK ? BT_OK : bt_fail(graph->status, "%s: %s", op->name, graph->message);
    bt_graph_free(graph);
    return status;
}

bt_tensor *(bt_apply)(const bt_op *op, const void *attr, bt_tensor *const *in)
{
    if (!op || !op->name)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_apply: an op without a record or a name");
    if (op->attr_size && !attr)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: attributes of %zu bytes are missing", op->name, op->attr_size);
    int inputs = 0; /* only counted here; bt_graph_append checks the number */
    while (in && in[inputs])
        inputs++;
    return bt_record(op, attr, op->attr_size, in, inputs);
}
