/* ops/broadcast.c: repeats along axes, and the adjoint. */
#include "ops/define.h"

#include <string.h>

static bt_status broadcast_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_shape_attr *shape = attr;
    int64_t before = -1;
    bool fits = shape->rank >= in[0].rank && shape->rank <= BT_MAX_RANK;
    for (int i = 0; i < in[0].rank && fits; i++) {
        int64_t axis = shape->axes[i];
        fits = axis > before && axis < shape->rank && (in[0].dims[i] == 1 || in[0].dims[i] == shape->dims[axis]);
        before = axis;
    }
    for (int64_t k = 0; k < shape->rank && fits; k++)
        fits = shape->dims[k] >= 0;
    if (!fits) {
        char from[256], to[256];
        return bt_fail(BT_ERROR_SHAPE, "broadcast: %s cannot be repeated to %s",
                       bt_shape_text(from, in[0].rank, in[0].dims),
                       bt_shape_text(to, shape->rank > BT_MAX_RANK ? BT_MAX_RANK : (int)shape->rank, shape->dims));
    }
    *out = (bt_array){.dtype = in[0].dtype, .rank = (int)shape->rank};
    memcpy(out->dims, shape->dims, sizeof out->dims);
    return BT_OK;
}

/* Sums over the axes that are new, and over the axes stretched from size 1, which are kept. */
static bt_tensor *broadcast_adjoint(const bt_shape_attr *attr, bt_tensor *g, const bt_tensor *x)
{
    uint32_t fresh = (UINT32_C(1) << attr->rank) - 1, stretched = 0;
    for (int i = 0; i < x->rank; i++) {
        fresh &= ~(UINT32_C(1) << attr->axes[i]);
        if (x->dims[i] == 1 && attr->dims[attr->axes[i]] != 1)
            stretched |= UINT32_C(1) << attr->axes[i];
    }
    if (!fresh)
        return bt_reduce(&bt_op_sum, g, stretched, true);
    return bt_reshape_to(bt_reduce(&bt_op_sum, g, fresh | stretched, false), x->rank, x->dims);
}

static void broadcast_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                          bt_tensor **wanted)
{
    (void)out;
    wanted[0] = given[0] ? broadcast_adjoint(attr, given[0], in[0]) : NULL;
}

static void broadcast_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                          bt_tensor **wanted)
{
    (void)in, (void)out;
    wanted[0] = given[0] ? BT_RECORD(&bt_op_broadcast, (const bt_shape_attr *)attr, given[0]) : NULL;
}

static bt_tensor *broadcast_simplify(const void *attr, bt_tensor *const *in, int inputs)
{
    const bt_shape_attr *outer = attr, *inner = in[0]->node->attr;
    int axes[BT_MAX_RANK];
    (void)inputs;
    if (in[0]->node->op != &bt_op_broadcast)
        return NULL;
    bt_tensor *x = in[0]->node->in[0];
    for (int i = 0; i < x->rank; i++)
        axes[i] = (int)outer->axes[inner->axes[i]];
    return bt_broadcast(x, (int)outer->rank, outer->dims, axes);
}

static bool broadcast_shares(bt_shares *shares)
{
    const bt_shape_attr *shape = shares->attr;
    int axis = shares->in_axis[0];
    shares->out_axis[0] = (int)shape->axes[axis];
    return shares->in[0].dims[axis] == shape->dims[shape->axes[axis]];
}

static void broadcast_localise(void *attr, const bt_array *out, int64_t first)
{
    (void)first;
    memcpy(((bt_shape_attr *)attr)->dims, out->dims, sizeof out->dims);
}

static bool broadcast_view(const void *attr, const bt_view *in, bt_view *out, int64_t *offset)
{
    const bt_shape_attr *shape = attr;
    out->dtype = in->dtype;
    out->rank = (int)shape->rank;
    memcpy(out->dims, shape->dims, sizeof out->dims);
    memset(out->strides, 0, sizeof out->strides);
    for (int i = 0; i < in->rank; i++)
        if (in->dims[i] != 1 || shape->dims[shape->axes[i]] == 1)
            out->strides[shape->axes[i]] = in->strides[i];
    *offset = 0;
    return true;
}

static void broadcast_describe(const void *attr, bt_text *text)
{
    const bt_shape_attr *shape = attr;
    char buffer[256];
    bt_text_add(text, "%s", bt_shape_text(buffer, (int)shape->rank, shape->dims));
}

static void broadcast_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "scalar", .inputs = 1, BT_ATTR(bt_shape_attr, .rank = 2, .dims = {3, 5}, .axes = {0}),
              .in = {BT_DRAWN(-2, 2, BT_F64, 0, 0)});
    BT_SAMPLE(sampler, .name = "row", .inputs = 1, BT_ATTR(bt_shape_attr, .rank = 2, .dims = {3, 5}, .axes = {1}),
              .in = {BT_DRAWN(-2, 2, BT_F64, 1, 5)});
    BT_SAMPLE(sampler, .name = "column", .inputs = 1, BT_ATTR(bt_shape_attr, .rank = 2, .dims = {3, 5}, .axes = {0}),
              .in = {BT_DRAWN(-2, 2, BT_F64, 1, 3)});
    BT_SAMPLE(sampler, .name = "stretched", .inputs = 1,
              BT_ATTR(bt_shape_attr, .rank = 3, .dims = {3, 4, 5}, .axes = {0, 1, 2}),
              .in = {BT_DRAWN(-2, 2, BT_F64, 3, 3, 1, 5)});
    BT_SAMPLE(sampler, .name = "both", .inputs = 1,
              BT_ATTR(bt_shape_attr, .rank = 4, .dims = {2, 3, 4, 5}, .axes = {1, 2, 3}),
              .in = {BT_DRAWN(-2, 2, BT_F64, 3, 3, 1, 5)});
    BT_SAMPLE(sampler, .name = "to nothing", .inputs = 1,
              BT_ATTR(bt_shape_attr, .rank = 2, .dims = {0, 5}, .axes = {1}), .in = {BT_DRAWN(-2, 2, BT_F64, 1, 5)});
    BT_SAMPLE(sampler, .name = "bytes", .inputs = 1, BT_ATTR(bt_shape_attr, .rank = 2, .dims = {2, 5}, .axes = {1}),
              .in = {BT_DRAWN(0, 9, BT_U8, 1, 5)});
}

const bt_op bt_op_broadcast = {
    .name = "broadcast",
    .inputs = 1,
    .attr_size = sizeof(bt_shape_attr),
    .infer = broadcast_infer,
    .vjp = broadcast_vjp,
    .jvp = broadcast_jvp,
    .info = &(const bt_op_info){.cast = BT_CAST_ANY,
                                .flags = BT_OP_LINEAR | BT_OP_CHEAP,
                                .differentiable = 1,
                                .flops = bt_flops_none,
                                .shares = broadcast_shares,
                                .localise = broadcast_localise,
                                .view = broadcast_view,
                                .simplify = broadcast_simplify,
                                .describe = broadcast_describe,
                                .samples = broadcast_samples},
};

bt_tensor *bt_broadcast(bt_tensor *x, int rank, const int64_t *dims, const int *axes)
{
    bt_tensor *poison = bt_operand_missing("broadcast", x);
    if (poison)
        return poison;
    if (rank < x->rank || rank > BT_MAX_RANK)
        return bt_trace_poison(BT_ERROR_SHAPE, "broadcast: from %d axes to %d; expected at most %d", x->rank, rank,
                               BT_MAX_RANK);
    if (x->rank == rank && (rank == 0 || memcmp(x->dims, dims, (size_t)rank * sizeof *dims) == 0))
        return x;
    bt_shape_attr attr = {.rank = rank};
    for (int k = 0; k < rank; k++)
        attr.dims[k] = dims[k];
    for (int i = 0; i < x->rank; i++)
        attr.axes[i] = axes[i];
    return BT_RECORD(&bt_op_broadcast, &attr, x);
}

bt_tensor *bt_broadcast_like(bt_tensor *x, bt_tensor *like)
{
    bt_tensor *poison = bt_operand_missing("broadcast", x);
    if (!poison)
        poison = bt_operand_missing("broadcast", like);
    if (poison)
        return poison;
    int axes[BT_MAX_RANK];
    for (int i = 0; i < x->rank; i++)
        axes[i] = like->rank - x->rank + i;
    return bt_broadcast(x, like->rank, like->dims, axes);
}

bt_tensor *bt_sum_like(bt_tensor *x, bt_tensor *like)
{
    bt_tensor *poison = bt_operand_missing("sum", x);
    if (!poison)
        poison = bt_operand_missing("sum", like);
    if (poison)
        return poison;
    bt_shape_attr attr = {.rank = x->rank};
    memcpy(attr.dims, x->dims, sizeof attr.dims);
    if (like->rank > x->rank)
        return bt_trace_poison(BT_ERROR_SHAPE, "sum: from %d axes to %d", x->rank, like->rank);
    for (int i = 0; i < like->rank; i++)
        attr.axes[i] = x->rank - like->rank + i;
    return broadcast_adjoint(&attr, x, like);
}

bt_tensor *bt_along(bt_tensor *x, bt_tensor *like, int axis)
{
    int axes[BT_MAX_RANK];
    for (int i = 0; i < like->rank - 1; i++)
        axes[i] = i < axis ? i : i + 1;
    return bt_broadcast(x, like->rank, like->dims, axes);
}
