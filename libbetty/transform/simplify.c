/* transform/simplify.c: constants folded, algebra, common subexpressions merged, dead nodes dropped. One walk. */
#include "transform/simplify.h"

#include "ops/ops.h"
#include "transform/rewrite.h"
#include <string.h>

typedef struct table { /* nodes of the new graph by what they compute: open addressing */
    bt_node **slots;
    uint64_t size; /* a power of two */
} table;

static uint64_t node_hash(const bt_op *op, const void *attr, size_t attr_size, bt_tensor *const *in, int inputs)
{
    uint64_t hash = bt_hash((uint64_t)(uintptr_t)op, attr, attr_size);
    for (int i = 0; i < inputs; i++)
        hash = bt_hash(hash, &in[i]->id, sizeof in[i]->id);
    return hash;
}

static bool node_equal(const bt_node *a, const bt_node *b)
{
    if (a->op != b->op || a->attr_size != b->attr_size || a->inputs != b->inputs || a->outputs != b->outputs ||
        memcmp(a->attr, b->attr, a->attr_size) != 0)
        return false;
    for (int i = 0; i < a->inputs; i++)
        if (a->in[i] != b->in[i])
            return false;
    return a->out->dtype == b->out->dtype && a->out->rank == b->out->rank &&
           memcmp(a->out->dims, b->out->dims, sizeof a->out->dims) == 0;
}

/* The node that computes the same, or NULL after the node itself has been entered. */
static bt_node *find_or_enter(table *t, bt_node *node)
{
    uint64_t i = node_hash(node->op, node->attr, node->attr_size, node->in, node->inputs) & (t->size - 1);
    for (; t->slots[i]; i = (i + 1) & (t->size - 1))
        if (node_equal(t->slots[i], node))
            return t->slots[i];
    t->slots[i] = node;
    return NULL;
}

static bool merges(const bt_node *node)
{
    if (node->op == &bt_op_read && !((const bt_read_attr *)node->attr)->var)
        return false; /* placeholders are all different */
    return !(bt_op_flags(node->op) & BT_OP_EFFECT);
}

/* An elementwise op of known numbers is a known number. */
static bt_tensor *fold(bt_rewrite *rewrite, const bt_node *node, bt_tensor *const *in)
{
    const bt_op_info *info = node->op->info;
    double numbers[4];
    if (!info || !info->fold || node->inputs < 1 || node->inputs > 4 || !bt_dtype_floats(node->out->dtype))
        return NULL;
    for (int i = 0; i < node->inputs; i++)
        if (!bt_dtype_floats(in[i]->dtype) || !bt_uniform(in[i], &numbers[i]))
            return NULL;
    double value = info->fold(numbers);
    if (node->out->dtype == BT_F32)
        value = (double)(float)value;
    bt_tensor *scalar = bt_number(value, node->out->dtype);
    (void)rewrite;
    return node->out->rank ? bt_broadcast(scalar, node->out->rank, node->out->dims, NULL) : scalar;
}

static bool same_shape(const bt_tensor *a, const bt_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

/* What stands for the node instead of a copy of it; NULL: nothing. */
static bt_tensor *replacement(bt_rewrite *rewrite, const bt_node *node, bool final)
{
    const bt_op_info *info = node->op->info;
    bt_tensor **in = bt_region_alloc(rewrite->to->region, (size_t)(node->inputs + 1) * sizeof *in);
    if (!in || node->outputs != 1 || node->inputs < 1)
        return NULL;
    bt_rewrite_inputs(rewrite, node, in);
    if (final && bt_op_flags(node->op) & BT_OP_IDENTITY)
        return in[0];
    bt_tensor *known = fold(rewrite, node, in);
    if (!known && info && info->simplify)
        known = info->simplify(node->attr, in, node->inputs);
    return known && same_shape(known, node->out) ? known : NULL;
}

/* Merges what has been appended since node `from` with what was there before. Returns what stands for x. */
static bt_tensor *merged(table *t, bt_graph *to, int64_t from, bt_tensor *x)
{
    (void)from;
    if (!x || !x->node || !merges(x->node) || x->node->graph != to)
        return x;
    bt_node *twin = find_or_enter(t, x->node);
    if (!twin || twin == x->node)
        return x;
    if (twin->out[x->output].batch_axis < 0)
        twin->out[x->output].batch_axis = x->batch_axis;
    return &twin->out[x->output];
}

static void walk(bt_rewrite *rewrite, table *t, const bool *live, bool final)
{
    const bt_graph *graph = rewrite->from;
    for (int64_t n = 0; n < graph->node_count && rewrite->to->status == BT_OK; n++) {
        const bt_node *node = graph->nodes[n];
        if (!live[n])
            continue;
        bt_trace_as(&rewrite->trace, &node->tag);
        int64_t before = rewrite->to->node_count;
        bt_tensor *known = replacement(rewrite, node, final);
        if (known) {
            rewrite->map[node->out->id] = merged(t, rewrite->to, before, known);
            continue;
        }
        bt_rewrite_copy(rewrite, node);
        for (int i = 0; i < node->outputs; i++)
            rewrite->map[node->out[i].id] = merged(t, rewrite->to, before, rewrite->map[node->out[i].id]);
    }
}

/* Drops dead nodes only: what merging has left behind. */
static bt_graph *drop_dead(const bt_graph *graph)
{
    bt_rewrite rewrite;
    bool *live = bt_live_nodes(graph);
    if (!live || !bt_rewrite_begin(&rewrite, graph)) {
        bt_free(live);
        return NULL;
    }
    for (int64_t n = 0; n < graph->node_count; n++)
        if (live[n])
            bt_rewrite_copy(&rewrite, graph->nodes[n]);
    bt_free(live);
    return bt_rewrite_end(&rewrite);
}

bt_graph *bt_simplify(const bt_graph *graph, bool final)
{
    bt_rewrite rewrite;
    bool *live = bt_live_nodes(graph);
    table t = {.size = 64};
    while (t.size < 4 * (uint64_t)graph->node_count + 64)
        t.size *= 2;
    t.slots = bt_alloc_array(t.size, sizeof(bt_node *));
    if (!live || !t.slots || !bt_rewrite_begin(&rewrite, graph)) {
        bt_free(live);
        bt_free(t.slots);
        return NULL;
    }
    walk(&rewrite, &t, live, final);
    bt_free(live);
    bt_free(t.slots);
    bt_graph *merged_graph = bt_rewrite_end(&rewrite);
    bt_graph *result = merged_graph ? drop_dead(merged_graph) : NULL;
    bt_graph_free(merged_graph);
    return result;
}
