/* graph/verify.c: the rules that every graph must meet between passes. A failure is a bug in the library. */
#include "graph/graph.h"

#include "graph/variable.h"
#include <string.h>

static bool belongs(const bt_graph *graph, const bt_tensor *x, int64_t before)
{
    return x && x->node && x->node->graph == graph && x->node->index >= 0 && x->node->index < before &&
           graph->nodes[x->node->index] == x->node && x->output >= 0 && x->output < x->node->outputs &&
           x == &x->node->out[x->output];
}

/* `first`: the number of tensors of all earlier nodes, which is the id that the node's first tensor must have. */
static const char *node_fault(const bt_graph *graph, const bt_node *node, int64_t index, int64_t first)
{
    if (node->graph != graph || node->index != index)
        return "stands at the wrong place";
    if (node->op->inputs >= 0 && node->op->inputs != node->inputs)
        return "has the wrong number of inputs";
    if (node->outputs != bt_op_outputs(node->op, node->inputs))
        return "has the wrong number of outputs";
    for (int i = 0; i < node->inputs; i++)
        if (!belongs(graph, node->in[i], index))
            return "reads a value that is not computed before it";
    for (int i = 0; i < node->outputs; i++) {
        if (node->out[i].node != node || node->out[i].output != i || node->out[i].id != first + i ||
            node->out[i].id >= graph->tensor_count)
            return "has a broken output";
        if (bt_tensor_count(&node->out[i]) < 0)
            return "has an impossible shape";
    }
    return NULL;
}

/* Checks that the outputs have the shapes that the op's infer gives. */
static const char *shape_fault(const bt_node *node)
{
    bt_array in[BT_MAX_ITEMS + 1], out[BT_MAX_OUTPUTS];
    if (!node->op->infer || node->inputs > BT_MAX_ITEMS || node->outputs > BT_MAX_OUTPUTS)
        return NULL;
    for (int i = 0; i < node->inputs; i++)
        in[i] = bt_tensor_array(node->in[i]);
    in[node->inputs] = (bt_array){0};
    memset(out, 0, (size_t)node->outputs * sizeof *out);
    if (bt_op_infer(node->op, node->attr, node->inputs, in, out) != BT_OK)
        return "does not accept its inputs";
    for (int i = 0; i < node->outputs; i++)
        if (!bt_array_same(out[i], bt_tensor_array(&node->out[i])))
            return "has outputs of another shape than its inputs give";
    return NULL;
}

static bt_status node_check(const bt_graph *graph, int64_t index, int64_t first, const char *after)
{
    const bt_node *node = graph->nodes[index];
    bool failed_before = bt_error_status() != BT_OK;
    const char *fault = node_fault(graph, node, index, first);
    if (!fault)
        fault = shape_fault(node);
    if (!fault)
        return BT_OK;
    bt_text text = {0};
    bt_node_describe(node, &text);
    if (!failed_before && bt_error_status() != BT_OK) { /* the message of infer goes last */
        bt_text why = {0};
        bt_text_add(&why, "%s", bt_error());
        bt_error_clear();
        bt_fail(BT_ERROR_INTERNAL, "after %s: node %s %s: %s", after, bt_text_get(&text), fault, bt_text_get(&why));
        bt_text_free(&why);
    } else {
        bt_fail(BT_ERROR_INTERNAL, "after %s: node %s %s", after, bt_text_get(&text), fault);
    }
    bt_text_free(&text);
    return BT_ERROR_INTERNAL;
}

static bt_status assign_check(const bt_graph *graph, const bt_assign *assign, const char *after)
{
    const bt_var *var = assign->var;
    const bt_tensor *value = assign->value;
    char a[256], b[256];
    if (!belongs(graph, value, graph->node_count))
        return bt_fail(BT_ERROR_INTERNAL, "after %s: variable %s takes a value of no node", after, var->name);
    if (var->dtype == value->dtype && bt_tensor_bytes(value) == var->bytes)
        return BT_OK;
    return bt_fail(BT_ERROR_SHAPE, "variable %s, %s%s, takes a value %s%s", var->name, bt_dtype_name(var->dtype),
                   bt_shape_text(a, var->rank, var->dims), bt_dtype_name(value->dtype),
                   bt_shape_text(b, value->rank, value->dims));
}

bt_status bt_graph_verify(const bt_graph *graph, const char *after)
{
    if (graph->status != BT_OK)
        return bt_fail(graph->status, "%s", graph->message);
    int64_t tensors = 0;
    for (int64_t i = 0; i < graph->node_count; i++) {
        BT_TRY(node_check(graph, i, tensors, after));
        tensors += graph->nodes[i]->outputs;
    }
    for (int64_t i = 0; i < graph->assign_count; i++)
        BT_TRY(assign_check(graph, &graph->assigns[i], after));
    for (int64_t i = 0; i < graph->output_count; i++)
        if (!belongs(graph, graph->outputs[i], graph->node_count))
            return bt_fail(BT_ERROR_INTERNAL, "after %s: result %lld is of no node", after, (long long)i);
    return BT_OK;
}
