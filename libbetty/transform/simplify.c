/* transform/simplify.c: folds constants, simplifies algebra, merges common subexpressions, drops dead nodes. One walk.
 */
#include "transform/simplify.h"

#include "ops/ops.h"
#include "transform/rewrite.h"
#include <string.h>

typedef struct pass {
    bt_rewrite rewrite;
    bool final;
    bt_node **slots;        /* hash table of the new graph's nodes by what they compute: open addressing */
    uint64_t size, entered; /* a power of two; how many are entered */
    bt_tensor **stands;     /* by tensor id of the new graph: its replacement; NULL: itself */
    int64_t stand_count, stand_capacity;
    int64_t settled; /* how many nodes of the new graph have been visited */
} pass;

/* ---- common subexpressions ---- */

static uint64_t node_hash(const bt_node *node)
{
    uint64_t hash = bt_hash((uint64_t)(uintptr_t)node->op, node->attr, node->attr_size);
    for (int i = 0; i < node->inputs; i++)
        hash = bt_hash(hash, &node->in[i]->id, sizeof node->in[i]->id);
    return hash;
}

static bool same_shape(const bt_tensor *a, const bt_tensor *b)
{
    return bt_array_same(bt_tensor_array(a), bt_tensor_array(b));
}

static bool node_equal(const bt_node *a, const bt_node *b)
{
    if (a->op != b->op || a->attr_size != b->attr_size || a->inputs != b->inputs || a->outputs != b->outputs ||
        memcmp(a->attr, b->attr, a->attr_size) != 0)
        return false;
    if (a->tag.low != b->tag.low && bt_node_any(a, BT_OP_PRODUCT))
        return false;
    for (int i = 0; i < a->inputs; i++)
        if (a->in[i] != b->in[i])
            return false;
    return same_shape(a->out, b->out);
}

/* The slot of the node that computes the same, or an empty one. */
static bt_node **find(const pass *p, const bt_node *node)
{
    uint64_t i = node_hash(node) & (p->size - 1);
    while (p->slots[i] && !node_equal(p->slots[i], node))
        i = (i + 1) & (p->size - 1);
    return &p->slots[i];
}

/* Grows the table so that at most half of the slots are taken. */
static bool grow_table(pass *p)
{
    bt_node **old = p->slots;
    uint64_t size = p->size;
    if (p->entered < size / 2)
        return true;
    p->size = size ? 2 * size : 1024;
    p->slots = bt_alloc_array(p->size, sizeof(bt_node *));
    for (uint64_t i = 0; p->slots && i < size; i++)
        if (old[i])
            *find(p, old[i]) = old[i];
    bt_free(old);
    return p->slots != NULL;
}

static bool merges(const bt_node *node)
{
    if (node->op == &bt_op_read && !((const bt_read_attr *)node->attr)->var)
        return false; /* unbound inputs are all different */
    return !bt_node_any(node, BT_OP_EFFECT);
}

/* ---- constants and algebra ---- */

/* Folds an elementwise op on known numbers. */
static bt_tensor *fold(const bt_node *node)
{
    const bt_op_info *info = node->op->info;
    double numbers[4];
    if (!info || !info->fold || node->inputs > 4 || !bt_dtype_floats(node->out->dtype))
        return NULL;
    for (int i = 0; i < node->inputs; i++)
        if (!bt_dtype_floats(node->in[i]->dtype) || !bt_uniform(node->in[i], &numbers[i]))
            return NULL;
    bt_tensor *scalar = bt_number(info->fold(numbers), node->out->dtype);
    return node->out->rank ? bt_broadcast(scalar, node->out->rank, node->out->dims, NULL) : scalar;
}

/* A simpler equivalent of the node's output, perhaps of new nodes; NULL: none. */
static bt_tensor *simpler(const pass *p, const bt_node *node)
{
    const bt_op_info *info = node->op->info;
    if (node->outputs != 1 || node->inputs < 1)
        return NULL;
    if (p->final && bt_op_flags(node->op) & BT_OP_IDENTITY)
        return node->in[0];
    bt_tensor *known = fold(node);
    if (!known && info && info->simplify)
        known = info->simplify(node->attr, node->in, node->inputs);
    return known && known != node->out && same_shape(known, node->out) ? known : NULL;
}

/* ---- the walk ---- */

static bt_tensor *stand_in(const pass *p, bt_tensor *x)
{
    while (x && x->node && x->id < p->stand_count && p->stands[x->id])
        x = p->stands[x->id];
    return x;
}

static bool grow_stands(pass *p)
{
    int64_t count = p->rewrite.to->tensor_count;
    bt_tensor **stands = bt_grow(p->stands, &p->stand_capacity, count, sizeof(bt_tensor *));
    if (!stands)
        return false;
    p->stands = stands;
    while (p->stand_count < count)
        stands[p->stand_count++] = NULL;
    return true;
}

static void merge(pass *p, bt_node *node)
{
    bt_node **slot = find(p, node);
    if (!*slot) {
        *slot = node;
        p->entered++;
        return;
    }
    for (int o = 0; o < node->outputs; o++) {
        bt_tensor *twin = &(*slot)->out[o];
        p->stands[node->out[o].id] = twin;
        if (twin->batch_axis < 0)
            twin->batch_axis = node->out[o].batch_axis;
    }
}

/* False if the replacement of an input was appended after the node. */
static bool update_inputs(const pass *p, bt_node *node)
{
    bool in_order = true;
    for (int i = 0; i < node->inputs; i++) {
        node->in[i] = stand_in(p, node->in[i]);
        in_order &= node->in[i]->node->index < node->index;
    }
    return in_order;
}

/* Appends the node again, after its inputs. */
static void put_off(pass *p, const bt_node *node)
{
    bt_node *again =
        bt_graph_append(p->rewrite.to, node->op, node->attr, node->attr_size, node->in, node->inputs, node->tag);
    for (int o = 0; again && o < node->outputs; o++) {
        again->out[o].batch_axis = node->out[o].batch_axis;
        p->stands[node->out[o].id] = &again->out[o];
    }
}

/* Visits each appended node once, including those appended meanwhile. */
static void settle(pass *p)
{
    bt_graph *to = p->rewrite.to;
    for (; p->settled < to->node_count && to->status == BT_OK; p->settled++) {
        bt_node *node = to->nodes[p->settled];
        if (!grow_stands(p) || !grow_table(p)) {
            bt_graph_fail(to, BT_ERROR_MEMORY, "out of memory");
            return;
        }
        bt_tensor *known = NULL;
        if (!update_inputs(p, node))
            put_off(p, node);
        else if ((known = simpler(p, node)) != NULL)
            p->stands[node->out->id] = known;
        else if (merges(node))
            merge(p, node);
    }
}

static void walk(pass *p, const bool *live)
{
    bt_rewrite *rewrite = &p->rewrite;
    const bt_graph *graph = rewrite->from;
    for (int64_t n = 0; n < graph->node_count && rewrite->to->status == BT_OK; n++) {
        const bt_node *node = graph->nodes[n];
        if (!live[n])
            continue;
        bt_trace_as(&rewrite->trace, &node->tag);
        bt_rewrite_copy(rewrite, node);
        settle(p);
        for (int o = 0; o < node->outputs; o++)
            rewrite->map[node->out[o].id] = stand_in(p, rewrite->map[node->out[o].id]);
    }
}

/* Drops what merging has left dead. Returns the graph, or NULL after an error. */
static bt_graph *drop_dead(bt_graph *graph)
{
    bool *live = bt_live_nodes(graph);
    if (live)
        bt_graph_keep(graph, live);
    bt_free(live);
    if (live && graph->status == BT_OK)
        return graph;
    if (live)
        bt_fail(graph->status, "%s", graph->message);
    bt_graph_free(graph);
    return NULL;
}

bt_graph *bt_simplify(const bt_graph *graph, bool final)
{
    pass p = {.final = final};
    bool *live = bt_live_nodes(graph);
    if (!live || !bt_rewrite_begin(&p.rewrite, graph)) {
        bt_free(live);
        return NULL;
    }
    walk(&p, live);
    bt_free(live);
    bt_free(p.slots);
    bt_free(p.stands);
    bt_graph *merged = bt_rewrite_end(&p.rewrite);
    return merged ? drop_dead(merged) : NULL;
}

bt_status bt_simplify_found(bt_graph *found, bool changed, bool final, bt_graph **better)
{
    *better = found && changed ? bt_simplify(found, final) : NULL;
    bool failed = !found || (changed && !*better);
    bt_graph_free(found);
    if (!failed)
        return BT_OK;
    return bt_error_status() != BT_OK ? bt_error_status() : BT_ERROR_MEMORY;
}
