/* transform/absorb.c: computes a value together with its only reader. */
#include "transform/absorb.h"

#include "ops/ops.h"
#include "transform/rewrite.h"
#include "transform/simplify.h"

typedef struct pass {
    bt_rewrite rewrite;
    int64_t *uses; /* by tensor id of the old graph */
    bool changed;
} pass;

static bool absorbs(const bt_op *op) { return op->info && op->info->absorb; }

/* The f32 value behind an input that was rounded to 16 bits, if only this node reads it and its result is the same
 * without the rounding; NULL: none. */
static const bt_tensor *unrounded(const pass *p, const bt_node *node, int i)
{
    const bt_node *widen = node->in[i]->node, *cast = widen->inputs == 1 ? widen->in[0]->node : NULL;
    bool rounds = i == 0 && bt_op_flags(node->op) & BT_OP_SELECTS && widen->op == &bt_op_widen && cast &&
                  cast->op == &bt_op_cast && cast->in[0]->dtype == BT_F32;
    if (!rounds || p->uses[widen->out->id] != 1 || p->uses[cast->out->id] != 1 || p->uses[cast->in[0]->id] != 1)
        return NULL;
    return absorbs(cast->in[0]->node->op) ? cast->in[0] : NULL;
}

/* The node merged with one of its inputs in the new graph; NULL: it is not merged. */
static bt_tensor *together(pass *p, const bt_node *node)
{
    bt_tensor *in[3] = {NULL};
    if (node->inputs > 2 || node->outputs != 1)
        return NULL;
    bt_rewrite_inputs(&p->rewrite, node, in);
    const bt_tensor *exact = node->inputs ? unrounded(p, node, 0) : NULL;
    if (exact && !bt_poisoned(p->rewrite.map[exact->id])) {
        in[0] = p->rewrite.map[exact->id];
        bt_tensor *found = in[0]->node->op->info->absorb(node->op, in, 0);
        return found ? bt_wide(bt_as(found, node->in[0]->node->in[0]->dtype)) : NULL;
    }
    for (int i = 0; i < node->inputs; i++) {
        if (bt_poisoned(in[i]) || p->uses[node->in[i]->id] != 1 || !absorbs(in[i]->node->op))
            continue;
        bt_tensor *found = in[i]->node->op->info->absorb(node->op, in, i);
        if (found)
            return found;
    }
    return NULL;
}

static void look(pass *p, const bt_node *node)
{
    bt_trace_as(&p->rewrite.trace, &node->tag);
    bt_tensor *found = together(p, node);
    if (!found) {
        bt_rewrite_copy(&p->rewrite, node);
        return;
    }
    p->changed = true;
    found->batch_axis = node->out->batch_axis;
    p->rewrite.map[node->out->id] = found;
}

/* If false, there is nothing to do and the graph need not be copied. Elementwise ops count only on images: others are
 * too small and too many. */
static bool has_work(const bt_graph *graph)
{
    for (int64_t n = 0; n < graph->node_count; n++) {
        const bt_node *node = graph->nodes[n];
        if (absorbs(node->op) && (!(bt_op_flags(node->op) & BT_OP_ELEMENTWISE) || node->out->rank == 4))
            return true;
    }
    return false;
}

bt_status bt_absorb(const bt_graph *graph, bt_graph **absorbed)
{
    pass p = {.changed = false};
    *absorbed = NULL;
    if (!has_work(graph))
        return BT_OK;
    bool *live = bt_live_nodes(graph);
    bt_graph *found = NULL;
    p.uses = bt_alloc_array((size_t)graph->tensor_count + 1, sizeof *p.uses);
    if (live && p.uses && bt_rewrite_begin(&p.rewrite, graph)) {
        bt_count_uses(graph, live, p.uses, NULL);
        for (int64_t n = 0; n < graph->node_count && p.rewrite.to->status == BT_OK; n++)
            if (live[n])
                look(&p, graph->nodes[n]);
        found = bt_rewrite_end(&p.rewrite);
    }
    bt_free(live);
    bt_free(p.uses);
    return bt_simplify_found(found, p.changed, true, absorbed);
}
