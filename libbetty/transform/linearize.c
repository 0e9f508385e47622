/* transform/linearize.c: a graph split by what depends on certain variables: the rest is computed once. */
#include "transform/linearize.h"

#include "graph/variable.h"
#include "ops/ops.h"
#include "transform/rewrite.h"

typedef struct split {
    const bt_graph *graph;
    bt_var *const *moving;
    int moving_count;
    bool *moves;   /* by node: depends on a moving variable */
    bool *crosses; /* by node: its value is kept */
    bool *again;   /* by node: computed again in the second part */
} split;

static bool var_moves(const split *s, const bt_var *var)
{
    for (int i = 0; i < s->moving_count; i++)
        if (bt_var_overlap(var, s->moving[i]))
            return true;
    return false;
}

static const bt_var *read_of(const bt_node *node)
{
    return node->op == &bt_op_read ? ((const bt_read_attr *)node->attr)->var : NULL;
}

/* A value that stands is assigned by the first part, but for one that a moving variable takes: there the second part
 * reads the old value first. */
static bool assigned_once(const split *s, const bt_assign *assign)
{
    return !s->moves[assign->value->node->index] && !var_moves(s, assign->var);
}

/* The first part changes what the node reads. */
static bool overwritten(const split *s, const bt_node *node)
{
    const bt_var *var = read_of(node);
    for (int64_t i = 0; var && i < s->graph->assign_count; i++)
        if (assigned_once(s, &s->graph->assigns[i]) && bt_var_overlap(var, s->graph->assigns[i].var))
            return true;
    return false;
}

static void mark_moving(split *s)
{
    for (int64_t n = 0; n < s->graph->node_count; n++) {
        const bt_node *node = s->graph->nodes[n];
        const bt_var *var = read_of(node);
        bool moves = (var && var_moves(s, var)) || bt_node_any(node, BT_OP_EFFECT);
        for (int i = 0; i < node->inputs; i++)
            moves |= s->moves[node->in[i]->node->index];
        s->moves[n] = moves;
    }
}

/* What the second part wants of what stands, it keeps or computes again: cheap values are made of what they are made
 * of. `wanted` is by node. */
static void mark_wanted(split *s, bool *wanted)
{
    for (int64_t i = 0; i < s->graph->assign_count; i++) {
        const bt_assign *assign = &s->graph->assigns[i];
        wanted[assign->value->node->index] |= !s->moves[assign->value->node->index] && !assigned_once(s, assign);
    }
    for (int64_t n = s->graph->node_count - 1; n >= 0; n--) {
        const bt_node *node = s->graph->nodes[n];
        bool cheap = (bt_op_flags(node->op) & (BT_OP_LEAF | BT_OP_CHEAP)) && !overwritten(s, node);
        s->again[n] = wanted[n] && !s->moves[n] && cheap;
        s->crosses[n] = wanted[n] && !s->moves[n] && !cheap;
        for (int i = 0; i < node->inputs && (s->moves[n] || s->again[n]); i++)
            wanted[node->in[i]->node->index] = true;
    }
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

/* Of the assigns that were carried over, those that belong to the part. */
static void choose_assigns(const split *s, bt_graph *part, bool first)
{
    int64_t count = 0;
    for (int64_t i = 0; i < part->assign_count; i++) {
        bool once = false, ours = false; /* ours: of the whole graph, not to keep a value */
        for (int64_t k = 0; k < s->graph->assign_count; k++)
            if (s->graph->assigns[k].var == part->assigns[i].var) {
                once = assigned_once(s, &s->graph->assigns[k]);
                ours = true;
            }
        if (!ours || once == first)
            part->assigns[count++] = part->assigns[i];
    }
    part->assign_count = count;
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
    return bt_rewrite_end(&rewrite);
}

bt_status bt_linearize(const bt_graph *graph, bt_var *const *moving, int count, bt_keep_fn *keep, void *user,
                       bt_graph **once, bt_graph **each)
{
    size_t nodes = (size_t)graph->node_count + 1;
    split s = {.graph = graph, .moving = moving, .moving_count = count};
    s.moves = bt_alloc_array(nodes, sizeof(bool));
    s.crosses = bt_alloc_array(nodes, sizeof(bool));
    s.again = bt_alloc_array(nodes, sizeof(bool));
    bool *wanted = bt_alloc_array(nodes, sizeof *wanted);
    bt_var **kept = bt_alloc_array((size_t)graph->tensor_count + 1, sizeof(bt_var *));
    *once = *each = NULL;
    if (s.moves && s.crosses && s.again && wanted && kept) {
        mark_moving(&s);
        mark_wanted(&s, wanted);
        *once = first_part(&s, keep, user, kept);
        *each = *once ? second_part(&s, kept) : NULL;
    }
    if (*each) {
        choose_assigns(&s, *once, true);
        choose_assigns(&s, *each, false);
    }
    bt_free(s.moves);
    bt_free(s.crosses);
    bt_free(s.again);
    bt_free(wanted);
    bt_free(kept);
    if (*each)
        return BT_OK;
    bt_graph_free(*once);
    *once = NULL;
    return bt_error_status() != BT_OK ? bt_error_status() : BT_ERROR_MEMORY;
}
