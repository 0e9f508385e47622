/* transform/chunk.c: wide values that are computed and used up a few rows at a time. */
#include "transform/chunk.h"

#include "transform/rewrite.h"
#include <string.h>

enum { NARROW = 8 }; /* a value with this many times fewer elements is a narrow result */

typedef enum place {
    OUTSIDE,
    LATER, /* depends on a narrow result */
    WIDE,  /* computed in the region, row by row */
    ASIDE, /* a reshaped wide value: only a reshape back may read it */
    LEFT   /* computed in the region, narrow: others may read it */
} place;

typedef struct region { /* a product, and the nodes that read its rows */
    const bt_graph *graph;
    bool *live;
    const bt_node *product;
    int64_t rows;
    place *places;          /* by tensor id */
    const bt_tensor **same; /* by tensor id: the wide value that a reshape shows; NULL: itself */
    bool *inside;           /* by node index */
    bool *asked;            /* by node index: products already considered, and their pieces */
} region;

/* ---- which nodes ---- */

static bool is_row_sized(const region *r, const bt_tensor *x) { return x->rank > 0 && x->dims[0] == r->rows; }

/* Whether the input is taken in pieces: a product's rows; of other nodes, any input with as many rows. */
static bool is_cut(const region *r, const bt_node *node, int i)
{
    return node == r->product ? i == 0 : is_row_sized(r, node->in[i]);
}

static bool is_product(const bt_node *node)
{
    const bt_tensor *x = node->inputs ? node->in[0] : NULL;
    return bt_op_flags(node->op) & BT_OP_PRODUCT && x->rank == 2 && node->outputs == 1 && node->out->rank == 2 &&
           x->dims[0] == node->out->dims[0] && x->dims[0] > 1;
}

/* Whether row i of the outputs depends only on row i of the cut inputs. */
static bool goes_by_rows(const region *r, const bt_node *node)
{
    bt_array in[BT_MAX_ITEMS + 1] = {{0}}, out[BT_MAX_OUTPUTS] = {{0}};
    int axes[2 * BT_MAX_ITEMS];
    const bt_op_info *info = node->op->info;
    if (!info || !(info->shares || info->flags & BT_OP_ELEMENTWISE) || !node->op->infer ||
        node->inputs > BT_MAX_ITEMS || node->outputs > BT_MAX_OUTPUTS ||
        bt_node_any(node, BT_OP_RANDOM | BT_OP_EFFECT | BT_OP_LEAF))
        return false; /* unknown, or each piece would draw or do something different */
    for (int i = 0; i < node->inputs; i++) {
        in[i] = bt_tensor_array(node->in[i]);
        axes[i] = is_cut(r, node, i) ? 0 : -1;
    }
    if (bt_node_batch_axis(node, in, axes, 0) != 0)
        return false;
    for (int i = 0; i < node->inputs; i++)
        in[i].dims[0] = axes[i] == 0 ? r->rows - 1 : in[i].dims[0];
    const bool fits = node->op->infer(node->attr, in, out) == BT_OK;
    if (!fits)
        bt_error_clear();
    bool rows = fits;
    for (int o = 0; o < node->outputs && rows; o++)
        rows = out[o].rank > 0 && out[o].dims[0] == r->rows - 1;
    return rows;
}

/* Whether the node only reshapes its input. */
static bool only_shapes(const bt_node *node)
{
    if (node->inputs != 1 || node->outputs != 1 || !node->op->info || !node->op->info->view ||
        bt_tensor_count(node->in[0]) != bt_tensor_count(node->out) || node->in[0]->dtype != node->out->dtype)
        return false;
    bt_view from = bt_view_of(bt_tensor_array(node->in[0])), to = {0};
    int64_t offset = 0;
    return node->op->info->view(node->attr, &from, &to, &offset) && !offset && bt_view_dense(&to);
}

static const bt_tensor *original(const region *r, const bt_tensor *x) { return r->same[x->id] ? r->same[x->id] : x; }

static bool has_dims(const bt_tensor *a, const bt_tensor *b)
{
    return bt_shape_same(bt_tensor_array(a), bt_tensor_array(b));
}

/* Adds a reader of wide values to the region; false: it needs all rows. */
static bool take(region *r, const bt_node *node)
{
    r->inside[node->index] = true;
    if (only_shapes(node)) {
        const bt_tensor *first = original(r, node->in[0]);
        const bool back = has_dims(first, node->out);
        r->same[node->out->id] = first;
        r->places[node->out->id] = back ? WIDE : ASIDE;
        return true;
    }
    for (int i = 0; i < node->inputs; i++) {
        const place where = r->places[node->in[i]->id];
        if (where == ASIDE || where == LATER || where == LEFT)
            return false;
    }
    if (!goes_by_rows(r, node) || (node != r->product && bt_op_flags(node->op) & BT_OP_PRODUCT))
        return false;
    for (int o = 0; o < node->outputs; o++) {
        const bool narrow = bt_tensor_count(&node->out[o]) <= bt_tensor_count(r->product->out) / NARROW;
        r->places[node->out[o].id] = narrow ? LEFT : WIDE;
    }
    return true;
}

static bool is_wide(const region *r, const bt_tensor *x)
{
    return r->places[x->id] == WIDE || r->places[x->id] == ASIDE;
}

static bool keeps_wide(const region *r, bt_tensor *const *kept, int count)
{
    bool wide = false;
    for (int i = 0; i < count; i++)
        wide |= kept[i] && is_wide(r, kept[i]);
    for (int64_t i = 0; i < r->graph->assign_count; i++)
        wide |= is_wide(r, r->graph->assigns[i].value);
    for (int64_t i = 0; i < r->graph->output_count; i++)
        wide |= is_wide(r, r->graph->outputs[i]);
    return wide;
}

/* Grows the region of a product. False: the whole product is needed, or nothing narrow is computed from it. */
static bool grow(region *r, const bt_node *product, bt_tensor *const *kept, int count)
{
    const bt_graph *graph = r->graph;
    memset(r->places, 0, (size_t)graph->tensor_count * sizeof *r->places);
    memset(r->same, 0, (size_t)graph->tensor_count * sizeof *r->same);
    memset(r->inside, 0, (size_t)graph->node_count * sizeof *r->inside);
    r->product = product;
    r->rows = product->out->dims[0];
    bool all = take(r, product), left = false;
    r->places[product->out->id] = WIDE;
    for (int64_t n = product->index + 1; n < graph->node_count && all; n++) {
        const bt_node *node = graph->nodes[n];
        bool wide = false, later = false;
        for (int i = 0; r->live[n] && i < node->inputs; i++) {
            const place where = r->places[node->in[i]->id];
            wide |= where == WIDE || where == ASIDE;
            later |= where == LATER || where == LEFT;
        }
        if (wide)
            all = take(r, node);
        for (int o = 0; o < node->outputs; o++) {
            left |= r->places[node->out[o].id] == LEFT;
            if (!wide && later)
                r->places[node->out[o].id] = LATER;
        }
    }
    return all && left && !keeps_wide(r, kept, count);
}

/* ---- in pieces ---- */

/* Gives `to` the properties of `from`, its counterpart in the old graph. */
static bt_tensor *mark(bt_tensor *to, const bt_tensor *from)
{
    if (!bt_poisoned(to)) {
        to->batch_axis = from->batch_axis;
        to->weak = from->weak;
        to->params = from->params;
    }
    return to;
}

static void copy(bt_rewrite *rewrite, const bt_node *node)
{
    bt_rewrite_copy(rewrite, node);
    for (int o = 0; o < node->outputs; o++)
        mark(rewrite->map[node->out[o].id], &node->out[o]);
}

typedef struct piece {
    bt_rewrite *rewrite;
    const region *region;
    int64_t from, to;
    bt_tensor **parts; /* by tensor id of the old graph */
} piece;

static bt_tensor *input_of(piece *p, const bt_node *node, int i)
{
    const bt_tensor *x = original(p->region, node->in[i]);
    bt_tensor **part = &p->parts[x->id], *whole = p->rewrite->map[x->id];
    if (!*part && is_cut(p->region, node, i))
        *part = bt_slice(whole, 0, p->from, p->to);
    return *part && is_cut(p->region, node, i) ? *part : whole;
}

static void record(piece *p, const bt_node *node)
{
    bt_tensor *in[BT_MAX_ITEMS + 1] = {NULL};
    bt_trace_as(&p->rewrite->trace, &node->tag);
    for (int i = 0; i < node->inputs; i++)
        in[i] = input_of(p, node, i);
    const bt_tensor *out = bt_record(node->op, node->attr, node->attr_size, in, node->inputs);
    for (int o = 0; o < node->outputs && !bt_poisoned(out); o++)
        p->parts[node->out[o].id] = &out->node->out[o];
}

/* Concatenates the narrow results of all pieces. */
static void join(bt_rewrite *rewrite, const region *r, bt_tensor **const *parts, int64_t pieces)
{
    bt_tensor **list = bt_graph_list(rewrite->to, pieces);
    for (int64_t n = r->product->index; list && n < r->graph->node_count; n++)
        for (int o = 0; r->inside[n] && o < r->graph->nodes[n]->outputs; o++) {
            const bt_tensor *x = &r->graph->nodes[n]->out[o];
            if (r->places[x->id] != LEFT)
                continue;
            bt_trace_as(&rewrite->trace, &r->graph->nodes[n]->tag);
            for (int64_t c = 0; c < pieces; c++)
                list[c] = parts[c][x->id];
            rewrite->map[x->id] = mark((bt_concat)(0, list), x);
        }
}

/* Records the pieces. Returns, by piece and tensor id of the old graph, its counterpart; NULL: out of memory. All
 * pieces have the same number of rows except the last. With more varied sizes the smaller pieces would run first, and
 * their neighbours in the sums of results would wait. */
static bt_tensor ***cut(bt_rewrite *rewrite, const region *r, int64_t each, int64_t pieces)
{
    bt_tensor ***parts = bt_region_alloc(rewrite->to->region, (size_t)pieces * sizeof *parts);
    for (int64_t c = 0; parts && c < pieces; c++) {
        piece p = {rewrite, r, c * each, c + 1 < pieces ? (c + 1) * each : r->rows, NULL};
        p.parts = parts[c] = bt_graph_list(rewrite->to, r->graph->tensor_count);
        for (int64_t n = r->product->index; p.parts && n < r->graph->node_count; n++)
            if (r->inside[n] && !only_shapes(r->graph->nodes[n]))
                record(&p, r->graph->nodes[n]);
        parts = p.parts ? parts : NULL;
    }
    if (parts)
        join(rewrite, r, parts, pieces);
    else
        bt_graph_fail(rewrite->to, BT_ERROR_MEMORY, "out of memory");
    return parts;
}

/* `asked`, by node of the new graph. */
static bool *asked_of(const bt_rewrite *rewrite, const region *r, bt_tensor **const *parts, int64_t pieces)
{
    const bt_graph *graph = r->graph;
    bool *asked = bt_alloc_array((size_t)rewrite->to->node_count + 1, sizeof *asked);
    for (int64_t n = 0; asked && n < graph->node_count; n++) {
        const bt_tensor *here = r->asked[n] ? rewrite->map[graph->nodes[n]->out->id] : NULL;
        if (!bt_poisoned(here))
            asked[here->node->index] = true;
    }
    for (int64_t c = 0; asked && parts && c < pieces; c++) {
        const bt_tensor *here = parts[c][r->product->out->id];
        if (!bt_poisoned(here))
            asked[here->node->index] = true;
    }
    return asked;
}

static bool is_later(const region *r, const bt_node *node) { return r->places[node->out->id] == LATER; }

static bt_graph *rewritten(region *r, int64_t each, bt_tensor **kept, int count)
{
    const int64_t pieces = (r->rows + each - 1) / each;
    bt_rewrite rewrite;
    const bt_graph *graph = r->graph;
    bt_tensor ***parts = NULL;
    if (!bt_rewrite_begin(&rewrite, graph)) {
        bt_fail(BT_ERROR_MEMORY, "out of memory");
        return NULL;
    }
    for (int later = 0; later < 2; later++) {
        for (int64_t n = 0; n < graph->node_count; n++)
            if (r->live[n] && !r->inside[n] && is_later(r, graph->nodes[n]) == later)
                copy(&rewrite, graph->nodes[n]);
        if (!later)
            parts = cut(&rewrite, r, each, pieces);
    }
    bool *asked = asked_of(&rewrite, r, (bt_tensor * *const *)parts, pieces);
    if (!asked)
        bt_graph_fail(rewrite.to, BT_ERROR_MEMORY, "out of memory");
    bt_free(r->asked);
    r->asked = asked;
    for (int i = 0; i < count; i++)
        kept[i] = kept[i] ? rewrite.map[kept[i]->id] : NULL;
    return bt_rewrite_end(&rewrite);
}

/* ---- all of them ---- */

/* The nodes that assigns, outputs or `kept` need. */
static bool *needed(const bt_graph *graph, bt_tensor *const *kept, int count)
{
    bool *live = bt_live_nodes(graph);
    for (int i = 0; live && i < count; i++)
        if (kept[i])
            live[kept[i]->node->index] = true;
    if (live)
        bt_live_spread(graph, live);
    return live;
}

static bool open(region *r, const bt_graph *graph, bt_tensor *const *kept, int count)
{
    r->graph = graph;
    r->live = needed(graph, kept, count);
    r->places = bt_alloc_array((size_t)graph->tensor_count + 1, sizeof *r->places);
    r->same = bt_alloc_array((size_t)graph->tensor_count + 1, sizeof *r->same);
    r->inside = bt_alloc_array((size_t)graph->node_count + 1, sizeof *r->inside);
    if (!r->asked)
        r->asked = bt_alloc_array((size_t)graph->node_count + 1, sizeof *r->asked);
    return r->live && r->places && r->same && r->inside && r->asked;
}

static void close(region *r)
{
    bt_free(r->live);
    bt_free(r->places);
    bt_free((void *)r->same);
    bt_free(r->inside);
}

/* Puts the next product that is to be divided into pieces. *better: the resulting graph; NULL: no product is left. */
static bt_status chunk_one(region *r, bt_tensor **kept, int count, bt_chunk_fn *chunks, void *user, bt_graph **better)
{
    *better = NULL;
    for (int64_t n = 0; n < r->graph->node_count; n++) {
        const bt_node *node = r->graph->nodes[n];
        if (!r->live[n] || r->asked[n] || !is_product(node) || !grow(r, node, kept, count))
            continue;
        r->asked[n] = true;
        const int64_t wanted = chunks(user, node);
        const int64_t each = wanted > 1 ? (r->rows + wanted - 1) / wanted : r->rows;
        if (each >= r->rows)
            continue;
        *better = rewritten(r, each, kept, count);
        return *better ? BT_OK : bt_error_status();
    }
    return BT_OK;
}

bt_status bt_chunk(bt_graph **graph, bt_tensor **kept, int count, bt_chunk_fn *chunks, void *user)
{
    region r = {0};
    bt_graph *better = NULL;
    bt_status status = BT_OK;
    do {
        status = open(&r, *graph, kept, count) ? BT_OK : BT_ERROR_MEMORY;
        if (status == BT_OK)
            status = chunk_one(&r, kept, count, chunks, user, &better);
        close(&r);
        if (status == BT_OK && better) {
            bt_graph_free(*graph);
            *graph = better;
        }
    } while (status == BT_OK && better);
    bt_free(r.asked);
    return status;
}
