/* transform/linearize.c: a graph split by what depends on certain variables: the rest is computed once. */
#include "transform/linearize.h"

#include "graph/variable.h"
#include "ops/ops.h"
#include "transform/rewrite.h"

typedef struct split {
    const bt_graph *graph;
    bool *moves;   /* by node: depends on a moving variable */
    bool *crosses; /* by node: its value is kept */
    bool *again;   /* by node: computed again in the second part */
} split;

static bool reads_moving(const bt_node *node, bt_var *const *moving, int count)
{
    if (node->op == &bt_op_read)
        for (int i = 0; i < count; i++)
            if (((const bt_read_attr *)node->attr)->var == moving[i])
                return true;
    return false;
}

static bool cheap(const bt_node *node) { return (bt_op_flags(node->op) & (BT_OP_LEAF | BT_OP_CHEAP)) != 0; }

/* The value of a standing node is wanted by the second part: kept, or computed again from what it is made of. */
static void want(split *s, const bt_node *node)
{
    if (s->moves[node->index] || s->crosses[node->index] || s->again[node->index])
        return;
    if (!cheap(node)) {
        s->crosses[node->index] = true;
        return;
    }
    s->again[node->index] = true;
    for (int i = 0; i < node->inputs; i++)
        want(s, node->in[i]->node);
}

static void mark(split *s, bt_var *const *moving, int count)
{
    for (int64_t n = 0; n < s->graph->node_count; n++) {
        const bt_node *node = s->graph->nodes[n];
        bool moves = reads_moving(node, moving, count) || bt_op_flags(node->op) & BT_OP_EFFECT;
        for (int i = 0; i < node->inputs; i++)
            moves |= s->moves[node->in[i]->node->index];
        s->moves[n] = moves;
    }
    for (int64_t n = 0; n < s->graph->node_count; n++)
        if (s->moves[n])
            for (int i = 0; i < s->graph->nodes[n]->inputs; i++)
                want(s, s->graph->nodes[n]->in[i]->node);
}

/* First part: all that stands; values that cross are assigned to new variables, which `kept` lists by tensor id. */
static bt_graph *first_part(const split *s, bt_keep_fn *keep, void *user, bt_var **kept)
{
    bt_rewrite rewrite;
    if (!bt_rewrite_begin(&rewrite, s->graph))
        return NULL;
    for (int64_t n = 0; n < s->graph->node_count; n++) {
        const bt_node *node = s->graph->nodes[n];
        if (s->moves[n])
            continue;
        bt_rewrite_copy(&rewrite, node);
        for (int i = 0; s->crosses[n] && i < node->outputs; i++) {
            bt_var *var = keep(user, &node->out[i]);
            if (!var) {
                bt_graph_fail(rewrite.to, BT_ERROR_MEMORY, "out of memory");
                break;
            }
            kept[node->out[i].id] = var;
            bt_graph_assign(rewrite.to, var, rewrite.map[node->out[i].id]);
        }
    }
    return bt_rewrite_end(&rewrite);
}

static bt_graph *second_part(const split *s, bt_var *const *kept)
{
    bt_rewrite rewrite;
    if (!bt_rewrite_begin(&rewrite, s->graph))
        return NULL;
    for (int64_t n = 0; n < s->graph->node_count; n++) {
        const bt_node *node = s->graph->nodes[n];
        if (s->crosses[n])
            for (int i = 0; i < node->outputs; i++)
                rewrite.map[node->out[i].id] = bt_graph_read(rewrite.to, kept[node->out[i].id]);
        else if (s->moves[n] || s->again[n])
            bt_rewrite_copy(&rewrite, node);
    }
    /* What stands is assigned in the first part. */
    for (int64_t i = 0; i < s->graph->assign_count; i++)
        if (!s->moves[s->graph->assigns[i].value->node->index])
            rewrite.map[s->graph->assigns[i].value->id] = NULL;
    return bt_rewrite_end(&rewrite);
}

bt_status bt_linearize(const bt_graph *graph, bt_var *const *moving, int count, bt_keep_fn *keep, void *user,
                       bt_graph **once, bt_graph **each)
{
    size_t nodes = (size_t)graph->node_count + 1;
    split s = {graph, bt_alloc_array(nodes, sizeof(bool)), bt_alloc_array(nodes, sizeof(bool)),
               bt_alloc_array(nodes, sizeof(bool))};
    bt_var **kept = bt_alloc_array((size_t)graph->tensor_count + 1, sizeof(bt_var *));
    *once = *each = NULL;
    if (s.moves && s.crosses && s.again && kept) {
        mark(&s, moving, count);
        *once = first_part(&s, keep, user, kept);
        *each = *once ? second_part(&s, kept) : NULL;
    }
    bt_free(s.moves);
    bt_free(s.crosses);
    bt_free(s.again);
    bt_free(kept);
    if (*each)
        return BT_OK;
    bt_graph_free(*once);
    *once = NULL;
    return bt_error_status() != BT_OK ? bt_error_status() : BT_ERROR_MEMORY;
}
