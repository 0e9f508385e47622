/* graph/dump.c: prints a graph as text, one node per line. */
#include "graph/graph.h"

#include "graph/variable.h"

static void describe_shape(const bt_tensor *x, bt_text *text)
{
    char shape[256];
    bt_text_add(text, "%s%s", bt_dtype_name(x->dtype), bt_shape_text(shape, x->rank, x->dims));
    if (x->batch_axis >= 0)
        bt_text_add(text, "@%d", x->batch_axis);
}

static void describe_leaf(const bt_node *node, bt_text *text)
{
    if (node->op == &bt_op_constant) {
        int64_t count = bt_tensor_count(node->out);
        bt_text_add(text, " ");
        for (int64_t i = 0; i < count && i < 4; i++)
            bt_text_add(text, i ? ", %.9g" : "%.9g", bt_get(node->out->dtype, node->attr, i));
        if (count > 4)
            bt_text_add(text, ", ...");
    } else if (node->op == &bt_op_read) {
        const bt_var *var = ((const bt_read_attr *)node->attr)->var;
        bt_text_add(text, " %s", var ? var->name : "(input)");
    }
}

void bt_node_describe(const bt_node *node, bt_text *text)
{
    bt_text_add(text, "%%%lld = ", (long long)node->index);
    for (int i = 0; i < node->outputs; i++) {
        bt_text_add(text, i ? ", " : "");
        describe_shape(&node->out[i], text);
    }
    bt_text_add(text, " %s", node->op->name);
    for (int i = 0; i < node->inputs; i++) {
        const bt_tensor *x = node->in[i];
        bt_text_add(text, i ? ", " : " ");
        if (bt_poisoned(x)) { /* happens only in a broken graph, which the verifier describes */
            bt_text_add(text, "nothing");
            continue;
        }
        bt_text_add(text, "%%%lld", (long long)x->node->index);
        if (x->node->outputs > 1)
            bt_text_add(text, ".%d", x->output);
    }
    describe_leaf(node, text);
    if (node->op->info && node->op->info->describe && node->attr_size) {
        bt_text_add(text, " {");
        node->op->info->describe(node->attr, text);
        bt_text_add(text, "}");
    }
    if (*node->tag.path && node->op != &bt_op_read)
        bt_text_add(text, "  # %s", node->tag.path);
}

void bt_graph_dump(const bt_graph *graph, bt_text *text)
{
    for (int64_t i = 0; i < graph->node_count; i++) {
        bt_node_describe(graph->nodes[i], text);
        bt_text_add(text, "\n");
    }
    for (int64_t i = 0; i < graph->assign_count; i++)
        bt_text_add(text, "%s := %%%lld.%d\n", graph->assigns[i].var->name,
                    (long long)graph->assigns[i].value->node->index, graph->assigns[i].value->output);
    for (int64_t i = 0; i < graph->output_count; i++)
        bt_text_add(text, "return %%%lld.%d\n", (long long)graph->outputs[i]->node->index, graph->outputs[i]->output);
}
