/* transform/fuse.c: folds operations into a matrix product: f c + a b as one node, (f a) b as f (a b). */
#include "transform/fuse.h"

#include "ops/ops.h"
#include "transform/rewrite.h"
#include "transform/simplify.h"

typedef struct pass {
    bt_rewrite rewrite;
    int64_t *uses;   /* by tensor id: reads by live nodes, through transposes, and by assigns and results */
    int64_t *leaves; /* how many of these are products that could apply the factor to their result */
    bool changed;
} pass;

static const bt_tensor *unturned(const bt_tensor *x, bool *turned)
{
    *turned = false;
    for (; bt_transposes(x->node); x = x->node->in[0])
        *turned = !*turned;
    return x;
}

/* Returns x if y = f x with a scalar f; NULL: it is not. */
static bt_tensor *scaled(const bt_tensor *y, bt_tensor **factor)
{
    for (int i = 0; y->node->op == &bt_op_mul && i < 2; i++) {
        const bt_node *repeated = y->node->in[i]->node;
        if (repeated->op == &bt_op_broadcast && repeated->in[0]->rank == 0) {
            *factor = repeated->in[0];
            return y->node->in[!i];
        }
    }
    return NULL;
}

/* ---- factors of large matrices ---- */

static bool leaves_factor(const bt_node *node, int i)
{
    bool linear = node->op == &bt_op_linear, turned;
    bt_tensor *factor, *of_bias;
    if (bt_tensor_count(node->out) >= bt_tensor_count(node->in[i]) || !scaled(unturned(node->in[i], &turned), &factor))
        return false;
    if (!linear)
        return node->op == &bt_op_dot;
    return i == 1 && !((const bt_linear_attr *)node->attr)->activation && scaled(node->in[2], &of_bias) &&
           of_bias == factor;
}

/* The input whose factor the node could apply to its result instead; -1: none. */
static int left_by(const bt_node *node)
{
    for (int i = 0; i < 2 && (node->op == &bt_op_dot || node->op == &bt_op_linear); i++)
        if (leaves_factor(node, i))
            return i;
    return -1;
}

/* False: there is no factor, or something else needs the scaled matrix too. */
static bool move_factor(pass *p, const bt_node *node)
{
    int i = left_by(node);
    bool turned = false;
    const bt_tensor *matrix = i < 0 ? NULL : unturned(node->in[i], &turned);
    if (!matrix || p->uses[matrix->id] != p->leaves[matrix->id])
        return false;
    bt_tensor *in[4], *factor, *of_bias, *bare = p->rewrite.map[scaled(matrix, &factor)->id];
    bt_rewrite_inputs(&p->rewrite, node, in);
    bt_trace_as(&p->rewrite.trace, &node->tag);
    in[i] = turned ? bt_transpose(bare) : bare;
    if (node->op == &bt_op_linear)
        in[2] = p->rewrite.map[scaled(node->in[2], &of_bias)->id];
    bt_node *product =
        bt_graph_append(p->rewrite.to, node->op, node->attr, node->attr_size, in, node->inputs, node->tag);
    bt_tensor *y = product ? (bt_mul)(p->rewrite.map[factor->id], product->out) : NULL;
    if (!bt_poisoned(y))
        y->batch_axis = product->out->batch_axis = node->out->batch_axis;
    p->rewrite.map[node->out->id] = y;
    return true;
}

/* ---- sums ---- */

/* Whether input i of the sum is a matrix product that nothing else reads and that is worth fusing. */
static bool is_part(const pass *p, const bt_node *sum, int i)
{
    const bt_node *product = p->rewrite.map[sum->in[i]->id]->node;
    return product && product->op == &bt_op_dot && p->uses[sum->in[i]->id] == 1 && product->out->rank == 2 &&
           product->out->dims[0] > 1 && product->out->dims[1] > 1 && product->in[0]->dims[1] > 1;
}

static bool join_sum(pass *p, const bt_node *node)
{
    bt_tensor **map = p->rewrite.map, *factor;
    if (node->op != &bt_op_add)
        return false;
    int later = node->in[1]->node->index > node->in[0]->node->index;
    int i = is_part(p, node, later) ? later : !later;
    if (!is_part(p, node, i) || node->in[!i]->node->op == &bt_op_broadcast)
        return false;
    const bt_node *product = map[node->in[i]->id]->node;
    bt_tensor *rest = map[node->in[!i]->id], *bare = p->uses[node->in[!i]->id] == 1 ? scaled(rest, &factor) : NULL;
    bt_trace_as(&p->rewrite.trace, &product->tag);
    if (!bare) {
        factor = bt_number(1, rest->dtype);
        bare = rest;
    }
    bt_tensor *y = BT_RECORD0(&bt_op_dot_add, product->in[0], product->in[1], bare, factor);
    if (!bt_poisoned(y))
        y->batch_axis = node->out->batch_axis;
    map[node->out->id] = y;
    return true;
}

/* ---- the walk ---- */

static void count(pass *p, const bt_graph *graph, const bool *live)
{
    bool turned;
    for (int64_t n = 0; n < graph->node_count; n++) {
        const bt_node *node = graph->nodes[n];
        if (!live[n] || bt_transposes(node))
            continue;
        for (int i = 0; i < node->inputs; i++)
            p->uses[unturned(node->in[i], &turned)->id]++;
        if (left_by(node) >= 0)
            p->leaves[unturned(node->in[left_by(node)], &turned)->id]++;
    }
    for (int64_t i = 0; i < graph->assign_count; i++)
        p->uses[unturned(graph->assigns[i].value, &turned)->id]++;
    for (int64_t i = 0; i < graph->output_count; i++)
        p->uses[unturned(graph->outputs[i], &turned)->id]++;
}

static void walk(pass *p, const bt_graph *graph, const bool *live)
{
    for (int64_t n = 0; n < graph->node_count && p->rewrite.to->status == BT_OK; n++) {
        if (!live[n])
            continue;
        if (move_factor(p, graph->nodes[n]) || join_sum(p, graph->nodes[n]))
            p->changed = true;
        else
            bt_rewrite_copy(&p->rewrite, graph->nodes[n]);
    }
}

/* If false, there is nothing to do and the graph need not be copied. */
static bool has_work(const bt_graph *graph)
{
    for (int64_t n = 0; n < graph->node_count; n++) {
        const bt_node *node = graph->nodes[n];
        if (left_by(node) >= 0)
            return true;
        for (int i = 0; node->op == &bt_op_add && i < 2; i++)
            if (node->in[i]->node->op == &bt_op_dot)
                return true;
    }
    return false;
}

bt_status bt_fuse(const bt_graph *graph, bt_graph **fused)
{
    *fused = NULL;
    if (!has_work(graph))
        return BT_OK;
    size_t tensors = (size_t)graph->tensor_count + 1;
    pass p = {.changed = false};
    bool *live = bt_live_nodes(graph);
    bt_graph *found = NULL;
    p.uses = bt_alloc_array(tensors, sizeof *p.uses);
    p.leaves = bt_alloc_array(tensors, sizeof *p.leaves);
    if (live && p.uses && p.leaves && bt_rewrite_begin(&p.rewrite, graph)) {
        count(&p, graph, live);
        walk(&p, graph, live);
        found = bt_rewrite_end(&p.rewrite);
    }
    bt_free(live);
    bt_free(p.uses);
    bt_free(p.leaves);
    return bt_simplify_found(found, p.changed, true, fused);
}
