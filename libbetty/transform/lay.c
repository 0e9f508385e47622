/* transform/lay.c: converts between layouts. A partial value becomes replicated by an all_reduce, and sharded by a
 * reduce_scatter. A sharded value becomes replicated by an all_gather. A replicated value becomes sharded when each
 * rank takes its own rows, and partial when rank 0 keeps it and the others have zeros. */
#include "transform/shard_inside.h"

#include <string.h>

enum { DEPTH = 64 }; /* nesting of values whose own rows are computed, not sliced */

bt_array bt_local_shape(bt_array shape, const bt_spread *layout, int rank, int ranks)
{
    if (layout->kind == BT_STRETCH) {
        const int64_t count = bt_array_count(shape);
        const int64_t first = bt_stretch_first(layout, count, rank, ranks);
        return (bt_array){
            .dtype = shape.dtype, .rank = 1, .dims = {bt_stretch_first(layout, count, rank + 1, ranks) - first}};
    }
    if (layout->kind == BT_SHARDED) {
        const int64_t each = shape.dims[layout->axis] / layout->rows;
        shape.dims[layout->axis] =
            (bt_share_first(layout->rows, rank + 1, ranks) - bt_share_first(layout->rows, rank, ranks)) * each;
    }
    return shape;
}

static bt_array local_shape(const bt_sharding *s, const bt_tensor *x, const bt_spread *layout)
{
    return bt_local_shape(bt_tensor_array(x), layout, s->world->rank, s->world->ranks);
}

/* The start of the rank's part along its axis. */
static int64_t first_of(const bt_sharding *s, const bt_tensor *x, const bt_spread *layout)
{
    return bt_share_first(layout->rows, s->world->rank, s->world->ranks) * (x->dims[layout->axis] / layout->rows);
}

/* How many of x's elements come before the rank's own ones, if these are contiguous. */
static int64_t elements_before(const bt_sharding *s, const bt_tensor *x, const bt_spread *layout)
{
    if (layout->kind == BT_STRETCH)
        return bt_stretch_first(layout, bt_tensor_count(x), s->world->rank, s->world->ranks);
    int64_t inner = layout->kind == BT_SHARDED ? first_of(s, x, layout) : 0;
    for (int i = 0; layout->kind == BT_SHARDED && i < x->rank; i++)
        inner = i > layout->axis ? inner * x->dims[i] : i < layout->axis && x->dims[i] != 1 ? 0 : inner;
    return inner;
}

/* If all parts are equally long, describes the layout as that of a batch with one row per rank. So rows, and groups of
 * rows evenly divided among ranks, are recognised as lying alike. */
static bt_spread plainly(const bt_sharding *s, bt_spread layout)
{
    if (layout.kind == BT_SHARDED && layout.rows % s->world->ranks == 0)
        layout.rows = s->world->ranks;
    return layout;
}

bool bt_lay_output(bt_sharding *s, const bt_tensor *x, const bt_spread *layout, bt_tensor *own)
{
    if (bt_poisoned(own)) {
        bt_graph_fail(s->rewrite.to, BT_ERROR_INTERNAL, "shard: %s has no part of an output", x->node->op->name);
        return false;
    }
    if (!bt_shape_same(bt_tensor_array(own), local_shape(s, x, layout)) || own->dtype != x->dtype) {
        bt_graph_fail(s->rewrite.to, BT_ERROR_INTERNAL, "shard: an output of %s has another shape than its part",
                      x->node->op->name);
        return false;
    }
    s->uneven = s->uneven || (layout->kind == BT_SHARDED && layout->rows % s->world->ranks != 0);
    own->batch_axis = layout->kind == BT_STRETCH ? -1 : x->batch_axis;
    s->values[x->id] =
        (bt_lain){.layout = plainly(s, *layout), .own = own, .whole = layout->kind == BT_REPLICATED ? own : NULL};
    return true;
}

bt_node *bt_lay_record(bt_sharding *s, const bt_node *node, bt_tensor *const *in, const bt_spread *layout)
{
    bt_graph *to = s->rewrite.to;
    const bt_op_info *info = node->op->info;
    const void *attr = node->attr;
    if ((layout->kind == BT_SHARDED || layout->kind == BT_STRETCH) && info && info->localise) {
        const bt_array shape = local_shape(s, node->out, layout);
        void *own = bt_region_copy(to->region, node->attr, node->attr_size);
        if (!own) {
            bt_graph_fail(to, BT_ERROR_MEMORY, "out of memory");
            return NULL;
        }
        info->localise(own, &shape, elements_before(s, node->out, layout));
        attr = own;
    }
    return bt_graph_append(to, node->op, attr, node->attr_size, in, node->inputs, node->tag);
}

bool bt_lay_node(bt_sharding *s, const bt_node *node, bt_tensor *const *in, const bt_spread *outputs)
{
    bt_node *own = bt_lay_record(s, node, in, &outputs[0]);
    for (int o = 0; own && o < node->outputs; o++)
        if (!bt_lay_output(s, &node->out[o], &outputs[o], &own->out[o]))
            return false;
    return own != NULL;
}

/* ---- whole ---- */

static void tell(bt_sharding *s, const bt_tensor *x)
{
    char shape[256];
    int which = 0;
    const char *path = s->reader ? s->reader->tag.path : NULL;
    while (s->reader && which < s->reader->inputs - 1 && s->reader->in[which] != x)
        which++;
    bt_shape_text(shape, x->rank, x->dims);
    if (s->reader)
        bt_text_add(s->places, "%s%s%s: all of operand %d, %s\n", path ? path : "", path && *path ? ": " : "",
                    s->reader->op->name, which + 1, shape);
    else
        bt_text_add(s->places, "%s: all of %s\n", s->wanted_by, shape);
    s->place_count++;
}

bt_tensor *bt_lay_whole(bt_sharding *s, const bt_tensor *x)
{
    bt_lain *value = &s->values[x->id];
    const bt_world *world = s->world;
    const bool stretch = value->layout.kind == BT_STRETCH;
    if (!value->own || (value->whole && !(stretch && s->gathered - value->stamp > world->window)))
        return value->whole;
    const bt_tag before = bt_trace_tag(&s->rewrite.trace);
    bt_trace_as(&s->rewrite.trace, &x->node->tag);
    if (value->layout.kind == BT_PARTIAL)
        value->whole = bt_all_reduce(value->own, world->rank, world->ranks, BT_REDUCE_SUM);
    else if (stretch) {
        value->whole = bt_stretch_whole(s, x);
        value->stamp = s->gathered;
    } else {
        value->whole = bt_all_gather(value->own, world->rank, world->ranks, value->layout.axis, value->layout.rows,
                                     x->dims[value->layout.axis]);
        tell(s, x);
    }
    bt_trace_as(&s->rewrite.trace, &before);
    return value->whole;
}

/* ---- own rows ---- */

static bool all_replicated(const bt_sharding *s, const bt_node *node)
{
    for (int i = 0; i < node->inputs; i++)
        if (s->values[node->in[i]->id].layout.kind != BT_REPLICATED)
            return false;
    return true;
}

bool bt_lay_computes(const bt_sharding *s, const bt_node *node)
{
    const bt_op_info *info = node->op->info;
    return info && !(info->flags & (BT_OP_LEAF | BT_OP_EFFECT)) && node->outputs == 1 && s->depth < DEPTH &&
           all_replicated(s, node);
}

static bt_tensor *first_output(bt_sharding *s, const bt_node *node, bt_tensor *const *in, const bt_spread *layout)
{
    bt_node *own = bt_lay_record(s, node, in, layout);
    return own ? own->out : NULL;
}

/* An elementwise op computes only these rows. */
static bt_tensor *rows_of_elementwise(bt_sharding *s, const bt_node *node, const bt_spread *layout)
{
    bt_tensor **in = bt_graph_list(s->rewrite.to, node->inputs);
    for (int i = 0; in && i < node->inputs; i++)
        in[i] = bt_lay_part(s, node->in[i], layout->axis, layout->rows);
    return in ? first_output(s, node, in, layout) : NULL;
}

/* Whether the node's view repeats its input along the axis. */
static bool repeats(const bt_node *node, int axis)
{
    bt_view from = bt_view_of(bt_tensor_array(node->in[0])), to = {0};
    int64_t offset = 0;
    return node->op->info->view(node->attr, &from, &to, &offset) && to.strides[axis] == 0 && node->out->dims[axis] > 1;
}

/* A view shows the matching part of its input, or repeats it less often. */
static bt_tensor *rows_of_view(bt_sharding *s, const bt_node *node, const bt_spread *layout)
{
    const bt_tensor *x = node->in[0];
    const bt_array shape = bt_tensor_array(x);
    bt_tensor *in[] = {NULL, NULL};
    if (node->op->info->localise && repeats(node, layout->axis))
        in[0] = bt_lay_whole(s, x);
    for (int axis = 0; axis < x->rank && !in[0]; axis++) {
        int wanted = axis;
        bt_shares shares = {.attr = node->attr, .in = &shape, .inputs = 1, .rows = layout->rows, .in_axis = &wanted};
        if (x->dims[axis] % layout->rows == 0 && bt_node_shares(node, &shares) && shares.rows == layout->rows &&
            shares.out_axis[0] == layout->axis)
            in[0] = bt_lay_part(s, x, axis, layout->rows);
    }
    return in[0] ? first_output(s, node, in, layout) : NULL;
}

/* A random op draws only these rows, if they are contiguous in its output. */
static bt_tensor *rows_of_draw(bt_sharding *s, const bt_node *node, const bt_spread *layout)
{
    bt_tensor *in[] = {bt_lay_whole(s, node->in[0]), NULL};
    for (int i = 0; i < layout->axis; i++)
        if (node->out->dims[i] != 1)
            return NULL;
    return first_output(s, node, in, layout);
}

/* The rank's own rows of a replicated value, computed from its op's inputs instead of sliced from the whole, which may
 * then not be needed at all. NULL: they cannot be. */
static bt_tensor *computed_rows(bt_sharding *s, const bt_tensor *x, const bt_spread *layout)
{
    const bt_node *node = x->node;
    const bt_op_info *info = node->op->info;
    if (!bt_lay_computes(s, node))
        return NULL;
    s->depth++;
    bt_tensor *rows = NULL;
    if (info->flags & BT_OP_ELEMENTWISE && !info->shares)
        rows = rows_of_elementwise(s, node, layout);
    else if (info->flags & BT_OP_CHEAP && info->view && node->inputs == 1)
        rows = rows_of_view(s, node, layout);
    else if (info->flags & BT_OP_RANDOM && info->localise && !info->differentiable && node->inputs == 1)
        rows = rows_of_draw(s, node, layout);
    s->depth--;
    return rows;
}

static bt_tensor *part_of(bt_sharding *s, const bt_tensor *x, const bt_spread *layout)
{
    bt_lain *value = &s->values[x->id];
    bt_tensor *rows = NULL;
    if (value->layout.kind == BT_PARTIAL && !value->whole && s->uses[x->id] == 1)
        return bt_reduce_scatter(value->own, s->world->rank, s->world->ranks, layout->axis, layout->rows);
    if (value->layout.kind == BT_REPLICATED)
        rows = computed_rows(s, x, layout);
    if (rows || s->rewrite.to->status != BT_OK)
        return rows;
    const int64_t first = first_of(s, x, layout), size = local_shape(s, x, layout).dims[layout->axis];
    bt_tensor *whole = bt_lay_whole(s, x);
    return whole ? bt_slice(whole, layout->axis, first, first + size) : NULL;
}

bt_tensor *bt_lay_part(bt_sharding *s, const bt_tensor *x, int axis, int64_t rows)
{
    bt_lain *value = &s->values[x->id];
    const bt_spread layout = plainly(s, (bt_spread){.kind = BT_SHARDED, .axis = axis, .rows = rows});
    if (value->layout.kind == BT_SHARDED && value->layout.axis == axis && value->layout.rows == layout.rows)
        return value->own;
    if (value->part && value->as.axis == axis && value->as.rows == layout.rows)
        return value->part;
    const bt_tag before = bt_trace_tag(&s->rewrite.trace);
    bt_trace_as(&s->rewrite.trace, &x->node->tag);
    bt_tensor *part = part_of(s, x, &layout);
    bt_trace_as(&s->rewrite.trace, &before);
    if (part && !bt_poisoned(part))
        part->batch_axis = x->batch_axis;
    value->part = part;
    value->as = layout;
    return part;
}

/* ---- partial ---- */

static bt_tensor *summand(bt_sharding *s, const bt_tensor *x)
{
    const bt_lain *value = &s->values[x->id];
    if (value->layout.kind == BT_PARTIAL)
        return value->own;
    if (value->layout.kind == BT_SHARDED)
        return bt_pad_axis(value->own, value->layout.axis, first_of(s, x, &value->layout), x->dims[value->layout.axis]);
    if (value->layout.kind == BT_STRETCH) {
        const int64_t first = elements_before(s, x, &value->layout);
        return bt_stretch_in_shape(bt_pad_axis(value->own, 0, first, bt_tensor_count(x)), x);
    }
    return s->world->rank == 0 ? value->own : bt_zeros_like(value->own);
}

bt_tensor *bt_lay_as(bt_sharding *s, const bt_tensor *x, const bt_spread *layout)
{
    return layout->kind == BT_REPLICATED ? bt_lay_whole(s, x)
           : layout->kind == BT_SHARDED  ? bt_lay_part(s, x, layout->axis, layout->rows)
           : layout->kind == BT_STRETCH  ? bt_lay_stretch(s, x, layout)
                                         : summand(s, x);
}
