/* ops/shape.c: reshape and permute: views of the same elements. */
#include "ops/define.h"

#include <string.h>

static void shape_result(const bt_shape_attr *attr, bt_dtype dtype, bt_array *out)
{
    *out = (bt_array){.dtype = dtype, .rank = (int)attr->rank};
    memcpy(out->dims, attr->dims, sizeof out->dims);
}

static bt_status check_shape(const char *op, const bt_shape_attr *attr)
{
    if (attr->rank < 0 || attr->rank > BT_MAX_RANK)
        return bt_fail(BT_ERROR_SHAPE, "%s: a result of %lld axes; expected at most %d", op, (long long)attr->rank,
                       BT_MAX_RANK);
    for (int64_t i = 0; i < attr->rank; i++)
        if (attr->dims[i] < 0)
            return bt_fail(BT_ERROR_SHAPE, "%s: axis %lld of the result would have size %lld", op, (long long)i,
                           (long long)attr->dims[i]);
    return BT_OK;
}

static void shape_describe(const void *attr, bt_text *text)
{
    const bt_shape_attr *shape = attr;
    char buffer[256];
    bt_text_add(text, "%s", bt_shape_text(buffer, (int)shape->rank, shape->dims));
}

static void view_result(const bt_shape_attr *attr, const bt_view *in, bt_view *out, int64_t *offset)
{
    out->dtype = in->dtype;
    out->rank = (int)attr->rank;
    memcpy(out->dims, attr->dims, sizeof out->dims);
    memset(out->strides, 0, sizeof out->strides);
    *offset = 0;
}

/* ---- reshape ---- */

static bool same_dims(const bt_tensor *x, int rank, const int64_t *dims)
{
    return x->rank == rank && (rank == 0 || memcmp(x->dims, dims, (size_t)rank * sizeof *dims) == 0);
}

static bt_status reshape_infer(const void *attr, const bt_array *in, bt_array *out)
{
    BT_TRY(check_shape("reshape", attr));
    shape_result(attr, in[0].dtype, out);
    if (bt_array_count(out[0]) == bt_array_count(in[0]))
        return BT_OK;
    char from[256], to[256];
    return bt_fail(BT_ERROR_SHAPE, "reshape: %s has %lld elements, but %s has %lld",
                   bt_shape_text(from, in[0].rank, in[0].dims), (long long)bt_array_count(in[0]),
                   bt_shape_text(to, out[0].rank, out[0].dims), (long long)bt_array_count(out[0]));
}

static void reshape_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                        bt_tensor **wanted)
{
    (void)attr, (void)out;
    bt_shape_attr back = {.rank = in[0]->rank};
    memcpy(back.dims, in[0]->dims, sizeof back.dims);
    wanted[0] = given[0] ? BT_RECORD(&bt_op_reshape, &back, given[0]) : NULL;
}

static void reshape_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                        bt_tensor **wanted)
{
    (void)in, (void)out;
    wanted[0] = given[0] ? BT_RECORD(&bt_op_reshape, (const bt_shape_attr *)attr, given[0]) : NULL;
}

/* Finds the output axis that has the same number of elements before it and either the same size or, after merging or
 * splitting axes, a multiple of the rows. If the axis is split into groups instead, `rows` becomes the number of
 * groups, and each group stays on one rank. */
static bool reshape_shares(bt_shares *shares)
{
    const bt_shape_attr *shape = shares->attr;
    int axis = shares->in_axis[0];
    int64_t size = shares->in[0].dims[axis], before = 1, passed = 1;
    for (int i = 0; i < axis; i++)
        before *= shares->in[0].dims[i];
    int found = -1, same = -1, groups = -1;
    for (int k = 0; k < (int)shape->rank && same < 0; k++) {
        if (passed == before && shape->dims[k] == size)
            same = k;
        else if (passed == before && found < 0 && shares->rows > 0 && shape->dims[k] % shares->rows == 0 &&
                 shape->dims[k] > 0)
            found = k;
        else if (passed == before && groups < 0 && shape->dims[k] > 1 && size % shape->dims[k] == 0)
            groups = k;
        passed *= shape->dims[k];
    }
    if (same < 0 && found < 0 && groups >= 0)
        shares->rows = shape->dims[groups];
    shares->out_axis[0] = same >= 0 ? same : found >= 0 ? found : groups;
    return shares->out_axis[0] >= 0;
}

/* For reshape and permute. */
static void shape_localise(void *attr, const bt_array *out, int64_t first)
{
    (void)first;
    memcpy(((bt_shape_attr *)attr)->dims, out->dims, sizeof out->dims);
}

/* Computes the strides if the result can be a view of the input. It matches groups of axes with equal element counts;
 * the input axes of a group must be contiguous. */
static bool reshape_view(const void *attr, const bt_view *in, bt_view *out, int64_t *offset)
{
    view_result(attr, in, out, offset);
    int64_t dims[BT_MAX_RANK], strides[BT_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < in->rank; i++) {
        if (in->dims[i] == 0)
            return true; /* no elements: any strides will do */
        if (in->dims[i] != 1) {
            dims[rank] = in->dims[i];
            strides[rank++] = in->strides[i];
        }
    }
    int k = 0;
    for (int i = 0; i < rank;) {
        int last = i, end = k + 1;
        int64_t old = dims[i], fresh = out->dims[k];
        while (old != fresh) {
            if (fresh < old) {
                fresh *= out->dims[end++];
                continue;
            }
            last++;
            if (strides[last - 1] != dims[last] * strides[last])
                return false;
            old *= dims[last];
        }
        int64_t stride = strides[last];
        for (int j = end - 1; j >= k; stride *= out->dims[j--])
            out->strides[j] = stride;
        i = last + 1;
        k = end;
    }
    for (; k < out->rank; k++) /* axes of size 1 at the end */
        out->strides[k] = 1;
    return true;
}

/* The scalar that x repeats; NULL: x is no repeated scalar. */
static bt_tensor *repeated(const bt_tensor *x)
{
    const bt_node *node = x->node;
    return node->op == &bt_op_broadcast && node->in[0]->rank == 0 ? node->in[0] : NULL;
}

static bt_tensor *reshape_simplify(const void *attr, bt_tensor *const *in, int inputs)
{
    const bt_shape_attr *shape = attr;
    bt_tensor *number = repeated(in[0]);
    (void)inputs;
    if (number)
        return bt_broadcast(number, (int)shape->rank, shape->dims, NULL);
    if (in[0]->node->op == &bt_op_reshape)
        return bt_reshape_to(in[0]->node->in[0], (int)shape->rank, shape->dims);
    return same_dims(in[0], (int)shape->rank, shape->dims) ? in[0] : NULL;
}

static void reshape_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "flat", .inputs = 1, BT_ATTR(bt_shape_attr, .rank = 1, .dims = {6}),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 2, 3)});
    BT_SAMPLE(sampler, .name = "ones", .inputs = 1, BT_ATTR(bt_shape_attr, .rank = 4, .dims = {1, 3, 1, 2}),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 2, 3)});
    BT_SAMPLE(sampler, .name = "scalar", .inputs = 1, BT_ATTR(bt_shape_attr, .rank = 0, .dims = {0}),
              .in = {BT_DRAWN(-2, 2, BT_F64, 3, 1, 1, 1)});
    BT_SAMPLE(sampler, .name = "split", .inputs = 1, BT_ATTR(bt_shape_attr, .rank = 3, .dims = {2, 3, 4}),
              .in = {BT_DRAWN(-2, 2, BT_F64, 1, 24)});
    BT_SAMPLE(sampler, .name = "nothing", .inputs = 1, BT_ATTR(bt_shape_attr, .rank = 1, .dims = {0}),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 0, 3)});
    BT_SAMPLE(sampler, .name = "bytes", .inputs = 1, BT_ATTR(bt_shape_attr, .rank = 1, .dims = {6}),
              .in = {BT_DRAWN(0, 9, BT_U8, 2, 2, 3)});
}

const bt_op bt_op_reshape = {
    .name = "reshape",
    .inputs = 1,
    .attr_size = sizeof(bt_shape_attr),
    .infer = reshape_infer,
    .vjp = reshape_vjp,
    .jvp = reshape_jvp,
    .info = &(const bt_op_info){.cast = BT_CAST_ANY,
                                .flags = BT_OP_LINEAR | BT_OP_CHEAP,
                                .differentiable = 1,
                                .flops = bt_flops_none,
                                .shares = reshape_shares,
                                .localise = shape_localise,
                                .view = reshape_view,
                                .simplify = reshape_simplify,
                                .describe = shape_describe,
                                .samples = reshape_samples},
};

bt_tensor *bt_reshape_to(bt_tensor *x, int rank, const int64_t *dims)
{
    bt_tensor *poison = bt_operand_missing("reshape", x);
    if (poison)
        return poison;
    if (rank < 0 || rank > BT_MAX_RANK)
        return bt_trace_poison(BT_ERROR_SHAPE, "reshape: more than %d sizes", BT_MAX_RANK);
    if (same_dims(x, rank, dims))
        return x;
    bt_shape_attr attr = {.rank = rank};
    for (int i = 0; i < rank; i++)
        attr.dims[i] = dims[i];
    return BT_RECORD(&bt_op_reshape, &attr, x);
}

bt_tensor *(bt_reshape)(bt_tensor *x, const int64_t *sizes)
{
    bt_tensor *poison = bt_operand_missing("reshape", x);
    int64_t dims[BT_MAX_RANK], known = 1, count;
    int rank = 0, rest = -1;
    if (poison)
        return poison;
    for (; sizes && *sizes != BT_END; sizes++, rank++) {
        if (rank == BT_MAX_RANK)
            return bt_trace_poison(BT_ERROR_SHAPE, "reshape: more than %d sizes", BT_MAX_RANK);
        dims[rank] = *sizes;
        if (*sizes == -1 && rest >= 0)
            return bt_trace_poison(BT_ERROR_SHAPE, "reshape: -1, for the rest, is given twice");
        if (*sizes == -1)
            rest = rank;
        else if (*sizes < 0 || __builtin_mul_overflow(known, *sizes, &known))
            return bt_trace_poison(BT_ERROR_SHAPE, "reshape: the size %lld of axis %d", (long long)*sizes, rank);
    }
    count = bt_tensor_count(x);
    if (rest >= 0) {
        char shape[256];
        if (known == 0 || count % known)
            return bt_trace_poison(BT_ERROR_SHAPE,
                                   "reshape: the %lld elements of %s are not a multiple of %lld, so -1 has no size",
                                   (long long)count, bt_shape_text(shape, x->rank, x->dims), (long long)known);
        dims[rest] = count / known;
    }
    return bt_reshape_to(x, rank, dims);
}

bt_tensor *bt_squeeze(bt_tensor *x, int axis)
{
    bt_tensor *poison = bt_operand_missing("squeeze", x);
    if (!poison)
        poison = bt_operand_axis("squeeze", x, axis, &axis);
    if (poison)
        return poison;
    if (x->dims[axis] != 1) {
        char shape[256];
        return bt_trace_poison(BT_ERROR_SHAPE, "squeeze: axis %d of %s has size %lld, must have 1", axis,
                               bt_shape_text(shape, x->rank, x->dims), (long long)x->dims[axis]);
    }
    int64_t dims[BT_MAX_RANK];
    for (int i = 0, k = 0; i < x->rank; i++)
        if (i != axis)
            dims[k++] = x->dims[i];
    return bt_reshape_to(x, x->rank - 1, dims);
}

bt_tensor *bt_unsqueeze(bt_tensor *x, int axis)
{
    bt_tensor *poison = bt_operand_missing("unsqueeze", x);
    if (poison)
        return poison;
    int place = axis < 0 ? axis + x->rank + 1 : axis;
    if (place < 0 || place > x->rank || x->rank == BT_MAX_RANK) {
        char shape[256];
        return bt_trace_poison(BT_ERROR_SHAPE, "unsqueeze: axis %d cannot be inserted into %s", axis,
                               bt_shape_text(shape, x->rank, x->dims));
    }
    int64_t dims[BT_MAX_RANK];
    for (int i = 0, k = 0; k <= x->rank; k++)
        dims[k] = k == place ? 1 : x->dims[i++];
    return bt_reshape_to(x, x->rank + 1, dims);
}

/* ---- permute ---- */

static bt_status permute_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_shape_attr *shape = attr;
    unsigned seen = 0;
    for (int64_t k = 0; k < shape->rank && k < BT_MAX_RANK; k++)
        if (shape->axes[k] >= 0 && shape->axes[k] < in[0].rank)
            seen |= 1U << shape->axes[k];
    if (shape->rank != in[0].rank || seen != (1U << in[0].rank) - 1) {
        char dims[256];
        return bt_fail(BT_ERROR_SHAPE, "permute: each of the %d axes of %s must be listed once", in[0].rank,
                       bt_shape_text(dims, in[0].rank, in[0].dims));
    }
    out[0] = in[0];
    for (int k = 0; k < in[0].rank; k++)
        out[0].dims[k] = in[0].dims[shape->axes[k]];
    return BT_OK;
}

static bt_tensor *permute(bt_tensor *x, const int64_t *axes, bool inverse)
{
    bt_shape_attr attr = {.rank = x->rank};
    for (int k = 0; k < x->rank; k++) {
        if (inverse)
            attr.axes[axes[k]] = k;
        else
            attr.axes[k] = axes[k];
    }
    for (int k = 0; k < x->rank; k++)
        attr.dims[k] = x->dims[attr.axes[k]];
    return BT_RECORD(&bt_op_permute, &attr, x);
}

static void permute_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                        bt_tensor **wanted)
{
    (void)in, (void)out;
    wanted[0] = given[0] ? permute(given[0], ((const bt_shape_attr *)attr)->axes, true) : NULL;
}

static void permute_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                        bt_tensor **wanted)
{
    (void)in, (void)out;
    wanted[0] = given[0] ? permute(given[0], ((const bt_shape_attr *)attr)->axes, false) : NULL;
}

static bt_tensor *permute_simplify(const void *attr, bt_tensor *const *in, int inputs)
{
    const bt_shape_attr *shape = attr;
    bt_tensor *number = repeated(in[0]), *x = in[0];
    int64_t axes[BT_MAX_RANK + 1];
    (void)inputs;
    if (number)
        return bt_broadcast(number, (int)shape->rank, shape->dims, NULL);
    bool twice = x->node->op == &bt_op_permute;
    for (int64_t k = 0; k < shape->rank; k++)
        axes[k] = twice ? ((const bt_shape_attr *)x->node->attr)->axes[shape->axes[k]] : shape->axes[k];
    axes[shape->rank] = BT_END;
    x = twice ? x->node->in[0] : x;
    bool moves = false;
    for (int64_t k = 0; k < shape->rank; k++)
        moves |= axes[k] != k;
    return !moves ? x : twice ? permute(x, axes, false) : NULL;
}

static bool permute_shares(bt_shares *shares)
{
    const bt_shape_attr *shape = shares->attr;
    for (int k = 0; k < (int)shape->rank; k++)
        if (shape->axes[k] == shares->in_axis[0])
            shares->out_axis[0] = k;
    return true;
}

static bool permute_view(const void *attr, const bt_view *in, bt_view *out, int64_t *offset)
{
    const bt_shape_attr *shape = attr;
    view_result(shape, in, out, offset);
    for (int k = 0; k < out->rank; k++) {
        out->dims[k] = in->dims[shape->axes[k]];
        out->strides[k] = in->strides[shape->axes[k]];
    }
    return true;
}

static void permute_describe(const void *attr, bt_text *text)
{
    const bt_shape_attr *shape = attr;
    bt_text_add(text, "axes");
    for (int64_t k = 0; k < shape->rank; k++)
        bt_text_add(text, " %lld", (long long)shape->axes[k]);
}

static void permute_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "transpose", .inputs = 1,
              BT_ATTR(bt_shape_attr, .rank = 2, .dims = {5, 3}, .axes = {1, 0}),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 3, 5)});
    BT_SAMPLE(sampler, .name = "turn", .inputs = 1,
              BT_ATTR(bt_shape_attr, .rank = 3, .dims = {4, 2, 3}, .axes = {2, 0, 1}),
              .in = {BT_DRAWN(-2, 2, BT_F64, 3, 2, 3, 4)});
    BT_SAMPLE(sampler, .name = "nothing", .inputs = 1,
              BT_ATTR(bt_shape_attr, .rank = 2, .dims = {3, 0}, .axes = {1, 0}),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 0, 3)});
    BT_SAMPLE(sampler, .name = "scalar", .inputs = 1, BT_ATTR(bt_shape_attr, .rank = 0, .dims = {0}),
              .in = {BT_DRAWN(-2, 2, BT_F64, 0, 0)});
}

const bt_op bt_op_permute = {
    .name = "permute",
    .inputs = 1,
    .attr_size = sizeof(bt_shape_attr),
    .infer = permute_infer,
    .vjp = permute_vjp,
    .jvp = permute_jvp,
    .info = &(const bt_op_info){.cast = BT_CAST_ANY,
                                .flags = BT_OP_LINEAR | BT_OP_CHEAP,
                                .differentiable = 1,
                                .flops = bt_flops_none,
                                .shares = permute_shares,
                                .localise = shape_localise,
                                .view = permute_view,
                                .simplify = permute_simplify,
                                .describe = permute_describe,
                                .samples = permute_samples},
};

bt_tensor *(bt_permute)(bt_tensor *x, const int64_t *axes)
{
    bt_tensor *poison = bt_operand_missing("permute", x);
    int64_t order[BT_MAX_RANK];
    int count = 0;
    unsigned seen = 0;
    if (poison)
        return poison;
    for (; axes && *axes != BT_END; axes++, count++) {
        int axis;
        poison = bt_operand_axis("permute", x, *axes, &axis);
        if (poison)
            return poison;
        if (count < x->rank)
            order[count] = axis;
        seen |= 1U << axis;
    }
    if (count != x->rank || seen != (1U << x->rank) - 1) {
        char shape[256];
        return bt_trace_poison(BT_ERROR_SHAPE, "permute: each of the %d axes of %s must be listed once", x->rank,
                               bt_shape_text(shape, x->rank, x->dims));
    }
    bool moves = false;
    for (int k = 0; k < count; k++)
        moves |= order[k] != k;
    return moves ? permute(x, order, false) : x;
}

bt_tensor *bt_transpose(bt_tensor *x)
{
    bt_tensor *poison = bt_operand_missing("transpose", x);
    if (poison)
        return poison;
    if (x->rank < 2)
        return bt_trace_poison(BT_ERROR_SHAPE, "transpose: a tensor of %d axes, must have at least 2", x->rank);
    int64_t order[BT_MAX_RANK];
    for (int k = 0; k < x->rank; k++)
        order[k] = k;
    order[x->rank - 2] = x->rank - 1;
    order[x->rank - 1] = x->rank - 2;
    return permute(x, order, false);
}

bool bt_transposes(const bt_node *node)
{
    int rank = node->out->rank;
    if (node->op != &bt_op_permute || rank < 2)
        return false;
    const bt_shape_attr *shape = node->attr;
    for (int k = 0; k < rank - 2; k++)
        if (shape->axes[k] != k)
            return false;
    return shape->axes[rank - 2] == rank - 1 && shape->axes[rank - 1] == rank - 2;
}
