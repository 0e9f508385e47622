/* transform/linearize.c: splits a graph by what depends on certain variables: the rest is computed once. */
#include "transform/linearize.h"

#include "base/map.h"
#include "base/overlap.h"
#include "graph/variable.h"
#include "ops/ops.h"
#include "transform/rewrite.h"

typedef struct split {
    const bt_graph *graph;
    bt_var *const *moving;
    int moving_count;
    bool *moves;         /* by node: depends on a moving variable */
    bool *crosses;       /* by node: its value is kept for the second part */
    bool *again;         /* by node: recomputed in the second part */
    bt_overlaps windows; /* windows that move; items are indices in `moving` */
    bt_overlaps once;    /* windows that the first part assigns; items are the graph's assigns */
    bt_map assigns;      /* by variable: the graph's assign */
} split;

static void add_stretch(bt_overlaps *overlaps, const bt_var *var, int64_t item)
{
    size_t start = bt_var_start(var);
    const bt_var *root = var->base ? var->base : var;
    overlaps->stretches[overlaps->count++] = (bt_stretch){(uintptr_t)root, start, start + var->bytes, item};
}

static bool overlaps_any(bt_overlaps *overlaps, const bt_var *var)
{
    size_t start = bt_var_start(var);
    bt_overlaps_find(overlaps, (uintptr_t)(var->base ? var->base : var), start, start + var->bytes);
    return overlaps->found_count > 0;
}

static bool var_moves(split *s, const bt_var *var) { return overlaps_any(&s->windows, var); }

static const bt_var *read_of(const bt_node *node)
{
    return node->op == &bt_op_read ? ((const bt_read_attr *)node->attr)->var : NULL;
}

/* Whether the first part does the assign: its value does not move, and neither does its variable, since the second part
 * reads a moving variable's old value first. */
static bool assigned_once(split *s, const bt_assign *assign)
{
    return !s->moves[assign->value->node->index] && !var_moves(s, assign->var);
}

/* Whether the first part changes the variable that the node reads. */
static bool overwritten(split *s, const bt_node *node)
{
    const bt_var *var = read_of(node);
    return var && overlaps_any(&s->once, var);
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

/* Values that the second part needs and that do not move are kept or, if cheap, recomputed from their inputs. `wanted`
 * is by node. */
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

static bt_status list_moving(split *s)
{
    BT_TRY(bt_overlaps_new(&s->windows, s->moving_count));
    for (int i = 0; i < s->moving_count; i++)
        add_stretch(&s->windows, s->moving[i], i);
    bt_overlaps_sort(&s->windows);
    return BT_OK;
}

static bt_status list_assigns(split *s)
{
    BT_TRY(bt_overlaps_new(&s->once, s->graph->assign_count));
    for (int64_t i = 0; i < s->graph->assign_count; i++) {
        BT_TRY(bt_map_put(&s->assigns, s->graph->assigns[i].var, i));
        if (assigned_once(s, &s->graph->assigns[i]))
            add_stretch(&s->once, s->graph->assigns[i].var, i);
    }
    bt_overlaps_sort(&s->once);
    return BT_OK;
}

/* The first part: everything that does not move. Values that cross are assigned to new variables, listed in `kept` by
 * tensor id. */
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

/* Keeps only those carried-over assigns that belong to the part. */
static void choose_assigns(split *s, bt_graph *part, bool first)
{
    int64_t count = 0;
    for (int64_t i = 0; i < part->assign_count; i++) {
        int64_t whole = bt_map_get(&s->assigns, part->assigns[i].var); /* -1: the variable keeps a value */
        if (whole < 0 || assigned_once(s, &s->graph->assigns[whole]) == first)
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
    bool ready = s.moves && s.crosses && s.again && wanted && kept && list_moving(&s) == BT_OK;
    if (ready) {
        mark_moving(&s);
        ready = list_assigns(&s) == BT_OK;
    }
    if (ready) {
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
    bt_overlaps_free(&s.windows);
    bt_overlaps_free(&s.once);
    bt_map_free(&s.assigns);
    if (*each)
        return BT_OK;
    bt_graph_free(*once);
    *once = NULL;
    return bt_error_status() != BT_OK ? bt_error_status() : BT_ERROR_MEMORY;
}
