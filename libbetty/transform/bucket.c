/* transform/bucket.c: one walk over the nodes, with one open bucket of sums. A sum enters it unless it depends on one
 * already in it. Readers of those sums are held back until the bucket closes: when it is full, when a collective
 * depends on it, or at the end. Rank 0 alone may have nodes that print; they are held back like others and do not
 * affect the decision. */
#include "transform/bucket.h"

#include "ops/ops.h"
#include "transform/rewrite.h"
#include <string.h>

typedef enum fate { COPIED, HELD, WAITS } fate; /* HELD: for its order alone; WAITS: for a sum of the open bucket */

typedef struct pass {
    bt_rewrite rewrite;
    size_t most, bytes; /* at most in a bucket; in the open one */
    fate *fates;        /* by node */
    const bt_node **open, **held;
    int64_t open_count, held_count;
    bool says; /* a node with an effect is held back */
    int64_t joined;
} pass;

static bool is_sum(const bt_node *node) { return node->op == &bt_op_all_reduce && node->inputs == 1; }

static fate fate_of(const pass *p, const bt_node *node)
{
    const bool says = bt_node_any(node, BT_OP_EFFECT) && !(bt_op_flags(node->op) & BT_OP_COLLECTIVE);
    fate worst = says && p->says ? HELD : COPIED;
    for (int i = 0; i < node->inputs; i++) {
        const fate own = p->fates[node->in[i]->node->index];
        worst = own > worst ? own : worst;
    }
    return worst;
}

static void copy(pass *p, const bt_node *node)
{
    p->fates[node->index] = COPIED;
    bt_rewrite_copy(&p->rewrite, node);
}

/* Copies the held nodes whose fate is at most `worst`, in order. */
static void release(pass *p, fate worst)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < p->held_count; i++)
        if (p->fates[p->held[i]->index] <= worst)
            copy(p, p->held[i]);
        else
            p->held[kept++] = p->held[i];
    p->held_count = kept;
}

/* Makes one node of the bucket's sums. It takes the place and the tag of the last one, where all operands are complete.
 */
static void join(pass *p)
{
    const bt_node *last = p->open[p->open_count - 1];
    bt_tensor **in = bt_graph_list(p->rewrite.to, p->open_count);
    for (int64_t i = 0; in && i < p->open_count; i++)
        in[i] = p->rewrite.map[p->open[i]->in[0]->id];
    bt_node *sums =
        in ? bt_graph_append(p->rewrite.to, last->op, last->attr, last->attr_size, in, (int)p->open_count, last->tag)
           : NULL;
    for (int64_t i = 0; sums && i < p->open_count; i++) {
        sums->out[i].batch_axis = p->open[i]->out->batch_axis;
        p->rewrite.map[p->open[i]->out->id] = &sums->out[i];
        p->fates[p->open[i]->index] = COPIED;
    }
    p->joined += p->open_count - 1;
}

static void close_bucket(pass *p)
{
    if (p->open_count == 1)
        copy(p, p->open[0]);
    else if (p->open_count)
        join(p);
    p->open_count = 0;
    p->bytes = 0;
    p->says = false;
    release(p, WAITS);
}

static void into_bucket(pass *p, const bt_node *node)
{
    const size_t bytes = bt_tensor_bytes(node->out);
    const bt_node *first = p->open_count ? p->open[0] : node;
    if (bytes > p->most - p->bytes || node->out->dtype != first->out->dtype ||
        !bt_collective_same(node->attr, first->attr))
        close_bucket(p);
    p->open[p->open_count++] = node;
    p->bytes += bytes;
    p->fates[node->index] = WAITS;
}

static void visit(pass *p, const bt_node *node)
{
    const fate found = fate_of(p, node);
    if (bt_op_flags(node->op) & BT_OP_COLLECTIVE) {
        if (found == WAITS)
            close_bucket(p);
        else if (found == HELD)
            release(p, HELD);
        if (is_sum(node) && bt_tensor_bytes(node->out) <= p->most)
            into_bucket(p, node);
        else
            copy(p, node);
        return;
    }
    if (found == COPIED) {
        copy(p, node);
        return;
    }
    p->says = p->says || bt_node_any(node, BT_OP_EFFECT);
    p->fates[node->index] = found;
    p->held[p->held_count++] = node;
}

static bool has_work(const bt_graph *graph)
{
    int64_t sums = 0;
    for (int64_t n = 0; n < graph->node_count; n++)
        sums += is_sum(graph->nodes[n]);
    return sums > 1;
}

static bool open_room(pass *p, const bt_graph *graph)
{
    const size_t count = (size_t)graph->node_count + 1;
    p->fates = bt_alloc_array(count, sizeof *p->fates);
    p->open = bt_alloc_array(2 * count, sizeof(const bt_node *));
    p->held = p->open ? p->open + count : NULL;
    return p->fates && p->open && bt_rewrite_begin(&p->rewrite, graph);
}

bt_status bt_bucket(const bt_graph *graph, size_t bytes, bt_graph **joined, int64_t *reductions)
{
    pass p = {.most = bytes};
    bt_graph *found = NULL;
    *joined = NULL;
    if (!has_work(graph))
        return BT_OK;
    bt_status status = BT_OK;
    if (open_room(&p, graph)) {
        for (int64_t n = 0; n < graph->node_count && p.rewrite.to->status == BT_OK; n++)
            visit(&p, graph->nodes[n]);
        close_bucket(&p);
        found = bt_rewrite_end(&p.rewrite);
        status = found ? BT_OK : bt_error_status();
    } else {
        status = bt_fail(BT_ERROR_MEMORY, "out of memory");
    }
    bt_free(p.fates);
    bt_free(p.open);
    if (status == BT_OK && p.joined) {
        *joined = found;
        *reductions -= p.joined;
    } else {
        bt_graph_free(found);
    }
    return status;
}
