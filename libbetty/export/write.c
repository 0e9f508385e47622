/* export/write.c: writes a recorded forward pass, node by node, as an ONNX model. */
#include "export/model.h"

#include "ops/ops.h"
#include "transform/inline.h"
#include "transform/simplify.h"
#include <string.h>

const bt_onnx_rule *bt_onnx_rule_of(const bt_op *op)
{
    static const bt_onnx_rule *const tables[] = {bt_onnx_rules_elementwise, bt_onnx_rules_shape, bt_onnx_rules_network};
    for (int t = 0; t < BT_COUNT_OF(tables); t++)
        for (const bt_onnx_rule *rule = tables[t]; rule->op; rule++)
            if (rule->op == op)
                return rule;
    return NULL;
}

/* ---- the two graphs ---- */

static bool has_rule(const bt_node *node, void *user)
{
    (void)user;
    return bt_onnx_rule_of(node->op) != NULL;
}

/* Inlines composites without a rule, and merges equal computations. */
static bt_graph *prepared(const bt_graph *recorded)
{
    bt_graph *inlined = bt_inline(recorded, has_rule, NULL);
    bt_graph *simple = inlined ? bt_simplify(inlined, true) : NULL;
    bt_graph_free(inlined);
    return simple;
}

static bool is_leaf(const bt_node *node) { return bt_op_flags(node->op) & BT_OP_LEAF; }

/* Compares nodes at the same place in the two graphs. */
static bool same_node(const bt_node *a, const bt_node *b)
{
    const bt_onnx_rule *rule = bt_onnx_rule_of(a->op);
    bool same = a->op == b->op && a->inputs == b->inputs && a->outputs == b->outputs && a->attr_size == b->attr_size;
    for (int i = 0; same && i < a->inputs; i++)
        same = a->in[i]->node->index == b->in[i]->node->index && a->in[i]->output == b->in[i]->output;
    if (same && a->attr_size && a->op != &bt_op_read && !(rule && rule->resized))
        same = memcmp(a->attr, b->attr, a->attr_size) == 0;
    return same;
}

/* Whether each size is fixed or grows with the batch. */
static bool sizes_fit(const bt_tensor *a, const bt_tensor *b)
{
    bool fit = a->rank == b->rank && a->dtype == b->dtype;
    for (int i = 0; fit && i < a->rank; i++)
        fit = bt_onnx_fits(a->dims[i], b->dims[i]);
    return fit;
}

static void check_twins(bt_onnx *m, const bool *needed)
{
    const bt_graph *a = m->graphs[0], *b = m->graphs[1];
    bool same = a->node_count == b->node_count;
    const bt_node *node = NULL;
    for (int64_t n = 0; same && n < a->node_count; n++) {
        node = a->nodes[n];
        same = same_node(node, b->nodes[n]) || !needed[n];
        for (int o = 0; same && needed[n] && o < node->outputs; o++)
            same = sizes_fit(&node->out[o], &b->nodes[n]->out[o]);
    }
    if (!same)
        bt_onnx_fail(
            m, BT_ERROR_UNSUPPORTED,
            "%s: `%s` depends on the number of examples in a batch in a way other than by a size that grows in "
            "proportion; an ONNX model must work for any number of examples",
            node && node->tag.path && *node->tag.path ? node->tag.path : "the network",
            node ? node->op->name : "forward");
}

/* The i-th tensor that the node's rule reads; NULL: no more. */
static const bt_tensor *read_of(const bt_node *node, int i)
{
    const bt_onnx_rule *rule = bt_onnx_rule_of(node->op);
    const bt_tensor *what[BT_ONNX_READS];
    const int count = rule && rule->reads ? rule->reads(node, what) : 0;
    if (count)
        return i < count ? what[i] : NULL;
    return i < node->inputs ? node->in[i] : NULL;
}

/* Marks the nodes that the output needs; prints and checks are left out. NULL: out of memory. */
static bool *needed_of(const bt_graph *graph)
{
    bool *needed = bt_alloc_array((size_t)graph->node_count + 1, sizeof *needed);
    if (needed)
        needed[graph->outputs[0]->node->index] = true;
    const bt_tensor *read;
    for (int64_t n = needed ? graph->node_count - 1 : -1; n >= 0; n--)
        for (int i = 0; needed[n] && (read = read_of(graph->nodes[n], i)) != NULL; i++)
            needed[read->node->index] = true;
    return needed;
}

/* ---- leaves ---- */

static const char *input_name(const bt_onnx *m, const bt_var *var)
{
    for (int i = 0; i < m->pair->inputs; i++)
        if (m->pair->of[0].inputs[i] == var)
            return m->pair->names[i];
    return NULL;
}

static bool is_input(const bt_onnx *m, const char *name)
{
    for (int i = 0; i < m->pair->inputs; i++)
        if (strcmp(m->pair->names[i], name) == 0)
            return true;
    return false;
}

/* Stores a parameter or buffer under its path in the module, after its level's name if that is another level. The name
 * must not equal that of an input or the output. */
static const char *hold_var(bt_onnx *m, const bt_var *var)
{
    const char *path = bt_onnx_own_path(m, var->name), *level = m->pair->level;
    const bool other = level && *var->owner && strcmp(var->owner, level) != 0;
    const bool taken = is_input(m, path) || strcmp(path, "output") == 0;
    char *name = bt_string("%s%s%s", other ? var->owner : taken ? "parameter" : "", other || taken ? "." : "", path);
    if (!name)
        bt_onnx_fail(m, BT_ERROR_MEMORY, "out of memory");
    const char *held = bt_onnx_hold(m, name ? name : "", bt_var_array(var), var);
    bt_free(name);
    return held;
}

static void write_leaf(bt_onnx *m, const bt_node *node)
{
    const bt_var *var = node->op == &bt_op_read ? ((const bt_read_attr *)node->attr)->var : NULL;
    const char *name = var ? input_name(m, var) : NULL;
    if (node->op == &bt_op_constant) {
        bt_array values = bt_tensor_array(node->out);
        values.data = (void *)(uintptr_t)node->attr;
        name = values.rank ? bt_onnx_array(m, values)
                           : bt_onnx_number(m, values.dtype, bt_get(values.dtype, values.data, 0));
    } else if (!name && var && var->lifetime == BT_RUN) {
        name = hold_var(m, var);
    } else if (!name) {
        bt_onnx_fail(m, BT_ERROR_UNSUPPORTED, "the network reads `%s` of the batch, which is not one of its inputs",
                     var ? var->name : "?");
    }
    bt_onnx_out(m, node, 0, name);
}

/* ---- the whole model ---- */

static void write_node(bt_onnx *m, const bt_node *node)
{
    const bt_onnx_rule *rule = bt_onnx_rule_of(node->op);
    const bt_tensor *read;
    m->now = node;
    for (int i = 0; rule && !rule->thin && (read = read_of(node, i)) != NULL; i++)
        bt_onnx_value_of(m, read);
    if (is_leaf(node))
        write_leaf(m, node);
    else if (rule)
        rule->write(m, node, rule->name);
    else
        bt_onnx_refuse(m, node, NULL);
    m->now = NULL;
}

static void write_nodes(bt_onnx *m)
{
    const bt_graph *graph = m->graphs[0];
    bool *needed = needed_of(graph);
    m->values = bt_alloc_array((size_t)graph->tensor_count + 1, sizeof *m->values);
    if (!needed || !m->values)
        bt_onnx_fail(m, BT_ERROR_MEMORY, "out of memory");
    else
        check_twins(m, needed);
    for (int64_t n = 0; m->status == BT_OK && n < graph->node_count; n++)
        if (needed[n])
            write_node(m, graph->nodes[n]);
    bt_free(needed);
}

static bt_status write_model(bt_onnx *m, const char *path)
{
    for (int k = 0; k < 2; k++)
        if (!(m->graphs[k] = prepared(m->pair->of[k].graph)))
            return bt_error_status();
    write_nodes(m);
    if (m->status != BT_OK)
        return m->status;
    const char *value = bt_onnx_value_of(m, m->graphs[0]->outputs[0]);
    m->next = is_input(m, "output") ? "model.output" : "output";
    const char *output = BT_ONNX(m, "Identity", NULL, value);
    return m->status == BT_OK ? bt_onnx_save(m, output, path) : m->status;
}

bt_status bt_onnx_write(const bt_forward_pair *pair, const char *path)
{
    bt_onnx m = {.pair = pair, .region = bt_region_new()};
    bt_status status = m.region ? write_model(&m, path) : BT_ERROR_MEMORY;
    for (int k = 0; k < 2; k++)
        bt_graph_free(m.graphs[k]);
    bt_text_free(&m.nodes);
    bt_free(m.held);
    bt_free(m.values);
    bt_region_free(m.region);
    return status;
}
