/* transform/stretch.c: values that lie as a line. The elements of a variable, whatever its shape, form one line in
 * memory order, and each rank has a stretch of it. Optimiser state, gradients and parameters that are divided among
 * ranks lie like this (ZeRO, Rajbhandari et al. 2020). Elementwise ops on such values run on the stretches, each rank
 * on its own. A sum over all elements is partial. A view of part of the line is again a stretch. Everything else needs
 * them whole. */
#include "transform/shard_inside.h"

#include "graph/variable.h"

int64_t bt_stretch_first(const bt_spread *layout, int64_t count, int rank, int ranks)
{
    const int64_t first = bt_share_first(layout->rows, rank, ranks) * (layout->of / layout->rows) - layout->from;
    return first < 0 ? 0 : first > count ? count : first;
}

bt_spread bt_spread_within(const bt_spread *root, const bt_var *var)
{
    bt_spread layout = *root;
    if (layout.of)
        layout.from += (int64_t)(bt_var_start(var) / bt_dtype_size(var->dtype));
    return layout;
}

bool bt_spread_same(const bt_spread *a, const bt_spread *b)
{
    return a->kind == b->kind && a->axis == b->axis && a->rows == b->rows && a->of == b->of && a->from == b->from;
}

static bt_collective_attr collective(const bt_sharding *s, const bt_spread *layout, int64_t count)
{
    return (bt_collective_attr){.rank = s->world->rank,
                                .ranks = s->world->ranks,
                                .parts = 1,
                                .rows = layout->rows,
                                .size = count,
                                .of = layout->of,
                                .from = layout->from};
}

bt_tensor *bt_stretch_in_shape(bt_tensor *line, const bt_tensor *x)
{
    int64_t sizes[BT_MAX_RANK + 1];
    for (int i = 0; i < x->rank; i++)
        sizes[i] = x->dims[i];
    sizes[x->rank] = BT_END;
    return (bt_reshape)(line, sizes);
}

bt_tensor *bt_stretch_whole(bt_sharding *s, const bt_tensor *x)
{
    const bt_lain *value = &s->values[x->id];
    const bt_collective_attr attr = collective(s, &value->layout, bt_tensor_count(x));
    s->gathered += bt_tensor_bytes(x);
    return bt_stretch_in_shape(bt_gather_stretch(value->own, &attr), x);
}

bt_tensor *bt_stretch_scatter(bt_sharding *s, bt_tensor *summand, const bt_spread *layout)
{
    const bt_collective_attr attr = collective(s, layout, bt_tensor_count(summand));
    return bt_scatter_stretch(bt_reshape(summand, -1), &attr);
}

/* ---- a stretch of a value in another layout ---- */

/* The stretch of a replicated value, computed from its op's inputs: if the op is elementwise or repeats one number. */
static bt_tensor *computed(bt_sharding *s, const bt_tensor *x, const bt_spread *layout)
{
    const bt_node *node = x->node;
    const bt_op_info *info = node->op->info;
    bt_tensor **in = NULL;
    if (!bt_lay_computes(s, node))
        return NULL;
    if (info->flags & BT_OP_CHEAP && info->view && node->inputs == 1 && bt_tensor_count(node->in[0]) == 1 &&
        node->out->dtype == node->in[0]->dtype) {
        const bt_array own = bt_local_shape(bt_tensor_array(x), layout, s->world->rank, s->world->ranks);
        return bt_broadcast((bt_reshape)(bt_lay_whole(s, node->in[0]), (int64_t[]){BT_END}), 1, own.dims, NULL);
    }
    if (!(info->flags & BT_OP_ELEMENTWISE) || info->shares)
        return NULL;
    s->depth++;
    in = bt_graph_list(s->rewrite.to, node->inputs);
    for (int i = 0; in && i < node->inputs; i++)
        in[i] = bt_lay_stretch(s, node->in[i], layout);
    s->depth--;
    bt_node *own = in ? bt_lay_record(s, node, in, layout) : NULL;
    return own ? own->out : NULL;
}

static bt_tensor *make(bt_sharding *s, const bt_tensor *x, const bt_spread *layout)
{
    bt_lain *value = &s->values[x->id];
    if (value->layout.kind == BT_PARTIAL && !value->whole) { /* it has this layout from now on, for all readers */
        value->own = bt_stretch_scatter(s, value->own, layout);
        value->layout = *layout;
        return value->own;
    }
    bt_tensor *own = value->layout.kind == BT_REPLICATED ? computed(s, x, layout) : NULL;
    if (own || s->rewrite.to->status != BT_OK)
        return own;
    const int64_t count = bt_tensor_count(x);
    const int64_t first = bt_stretch_first(layout, count, s->world->rank, s->world->ranks);
    const int64_t end = bt_stretch_first(layout, count, s->world->rank + 1, s->world->ranks);
    bt_tensor *whole = bt_lay_whole(s, x);
    return whole ? bt_slice(bt_reshape(whole, -1), 0, first, end) : NULL;
}

bt_tensor *bt_lay_stretch(bt_sharding *s, const bt_tensor *x, const bt_spread *layout)
{
    bt_lain *value = &s->values[x->id];
    if (bt_spread_same(&value->layout, layout))
        return value->own;
    if (value->part && bt_spread_same(&value->as, layout))
        return value->part;
    const bt_tag before = bt_trace_tag(&s->rewrite.trace);
    bt_trace_as(&s->rewrite.trace, &x->node->tag);
    bt_tensor *part = make(s, x, layout);
    bt_trace_as(&s->rewrite.trace, &before);
    value->part = part;
    value->as = *layout;
    return part;
}

/* ---- nodes ---- */

static const bt_tensor *first_stretch(const bt_sharding *s, const bt_node *node)
{
    const bt_tensor *first = NULL;
    for (int i = 0; i < node->inputs; i++) {
        const bt_lying kind = s->values[node->in[i]->id].layout.kind;
        if (kind == BT_SHARDED)
            return NULL;
        if (kind == BT_STRETCH && !first)
            first = node->in[i];
    }
    return first;
}

/* A view of contiguous elements of the line. */
static bool visit_view(bt_sharding *s, const bt_node *node)
{
    const bt_op_info *info = node->op->info;
    const bt_tensor *x = node->in[0];
    bt_view from = bt_view_of(bt_tensor_array(x)), to = {0};
    int64_t offset = 0;
    if (!info || !info->view || node->inputs != 1 || node->outputs != 1 || node->out->dtype != x->dtype ||
        !info->view(node->attr, &from, &to, &offset) || !bt_view_dense(&to))
        return false;
    const bt_lain *value = &s->values[x->id];
    bt_spread layout = value->layout;
    const int rank = s->world->rank, ranks = s->world->ranks;
    const int64_t before = bt_stretch_first(&layout, bt_tensor_count(x), rank, ranks),
                  count = bt_tensor_count(node->out);
    layout.from += offset;
    const int64_t first = bt_stretch_first(&layout, count, rank, ranks),
                  end = bt_stretch_first(&layout, count, rank + 1, ranks);
    const int64_t at = end > first ? first + offset - before : 0;
    const bool only = value->only;
    bt_lay_output(s, node->out, &layout, bt_slice(value->own, 0, at, at + end - first));
    s->values[node->out->id].only = only;
    return true;
}

/* The op's rule along one axis. Bit i: input i is split; bit 32: the outputs are split, else they are sums. 0: the op
 * has no such rule. */
static uint64_t along(const bt_node *node, const bt_tensor *first, int axis, bt_shares *shares)
{
    uint64_t found = 0;
    int splits = 0;
    for (int i = 0; i < node->inputs; i++)
        shares->in_axis[i] = bt_shape_same(shares->in[i], bt_tensor_array(first)) ? axis : -1;
    shares->rows = first->dims[axis];
    if (!shares->rows || !bt_node_shares(node, shares) || shares->stacked || shares->rows != first->dims[axis])
        return 0;
    for (int i = 0; i < node->inputs; i++) {
        if (shares->in_axis[i] >= 0 &&
            (shares->in_axis[i] != axis || !bt_shape_same(shares->in[i], bt_tensor_array(first))))
            return 0;
        found |= shares->in_axis[i] >= 0 ? (uint64_t)1 << i : 0;
    }
    for (int o = 0; o < node->outputs; o++) {
        const bool split = shares->out_axis[o] == axis;
        if (split ? !bt_shape_same(bt_tensor_array(&node->out[o]), bt_tensor_array(first))
                  : shares->out_axis[o] != BT_BATCH_SUMMED)
            return 0;
        splits += split;
    }
    if (splits && splits < node->outputs)
        return 0;
    return found | (splits ? (uint64_t)1 << 32 : 0);
}

/* Whether the node can work on stretches of values shaped like `first`: its rule is the same along each axis. */
static bool rule(const bt_node *node, const bt_tensor *first, bt_shares *shares)
{
    const uint64_t found = first->rank ? along(node, first, 0, shares) : 0;
    for (int axis = 1; axis < first->rank; axis++)
        if (along(node, first, axis, shares) != found)
            return false;
    return found != 0;
}

/* The stretch as the last axis of a tensor of this rank, so that the op adds over all of its axes. */
static bt_tensor *as_last_axis(bt_tensor *line, int rank)
{
    int64_t sizes[BT_MAX_RANK + 1];
    for (int i = 0; i < rank; i++)
        sizes[i] = i < rank - 1 || bt_poisoned(line) ? 1 : line->dims[0];
    sizes[rank] = BT_END;
    return (bt_reshape)(line, sizes);
}

/* A value that a network computes from a parameter and other values is computed whole, since its parts would soon be
 * gathered again. From parameters alone, such as a cast or a penalty, it is computed in stretches. *only: from such
 * parameters alone. */
static bool stays(const bt_sharding *s, const bt_node *node, const bt_tensor *first, const int *wanted, bool *only)
{
    const bt_spread *layout = &s->values[first->id].layout;
    bool any = false, others = false;
    for (int i = 0; i < node->inputs; i++) {
        const bt_lain *value = &s->values[node->in[i]->id];
        const bool alike = bt_spread_same(&value->layout, layout);
        if (wanted[i] < 0)
            continue;
        any = any || (alike && !value->only);
        others = others || !alike;
        *only = *only && alike && value->only;
    }
    return any || !others;
}

static bool visit_alike(bt_sharding *s, const bt_node *node, const bt_tensor *first)
{
    bt_region *region = s->rewrite.to->region;
    bt_array *arrays = bt_region_alloc(region, (size_t)node->inputs * sizeof *arrays);
    int *wanted = bt_region_alloc(region, (size_t)node->inputs * sizeof *wanted);
    bt_tensor **in = bt_graph_list(s->rewrite.to, node->inputs);
    bt_spread outputs[BT_MAX_OUTPUTS];
    if (!arrays || !wanted || !in) {
        bt_graph_fail(s->rewrite.to, BT_ERROR_MEMORY, "out of memory");
        return true;
    }
    for (int i = 0; i < node->inputs; i++)
        arrays[i] = bt_tensor_array(node->in[i]);
    bt_shares shares = {.attr = node->attr, .in = arrays, .inputs = node->inputs, .in_axis = wanted};
    if (node->outputs > BT_MAX_OUTPUTS || node->inputs > 32 || !rule(node, first, &shares))
        return false;
    const bt_spread layout = s->values[first->id].layout;
    bool only = true;
    if (!stays(s, node, first, wanted, &only))
        return false;
    const bool summed = shares.out_axis[0] == BT_BATCH_SUMMED;
    for (int i = 0; i < node->inputs; i++) {
        in[i] = wanted[i] < 0 ? bt_lay_whole(s, node->in[i]) : bt_lay_stretch(s, node->in[i], &layout);
        if (summed && wanted[i] >= 0)
            in[i] = as_last_axis(in[i], first->rank);
    }
    for (int o = 0; o < node->outputs; o++)
        outputs[o] = shares.out_axis[o] == BT_BATCH_SUMMED ? (bt_spread){.kind = BT_PARTIAL} : layout;
    bt_lay_node(s, node, in, outputs);
    for (int o = 0; o < node->outputs; o++)
        s->values[node->out[o].id].only = only && outputs[o].kind == BT_STRETCH;
    return true;
}

bool bt_stretch_visit(bt_sharding *s, const bt_node *node)
{
    const bt_tensor *first = bt_op_flags(node->op) & (BT_OP_LEAF | BT_OP_EFFECT) ? NULL : first_stretch(s, node);
    return first && (visit_view(s, node) || visit_alike(s, node, first));
}
