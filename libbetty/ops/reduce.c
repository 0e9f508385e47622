/* ops/reduce.c: sums, maxima and minima and their positions, and what is built from them: mean, variance, norm. */
#include "ops/define.h"

#include <math.h>

static bt_status reduce_infer(const char *op, const bt_reduce_attr *attr, bt_array in, bt_array *out)
{
    BT_TRY(bt_check_dtype(op, "the operand", in.dtype, BT_NUMBERS));
    if (attr->axes == 0 || attr->axes >> in.rank)
        return bt_fail(BT_ERROR_SHAPE, "%s: the axes 0x%x of a tensor of %d axes", op, attr->axes, in.rank);
    *out = (bt_array){.dtype = in.dtype};
    for (int i = 0; i < in.rank; i++) {
        if (!(attr->axes >> i & 1))
            out->dims[out->rank++] = in.dims[i];
        else if (attr->keep)
            out->dims[out->rank++] = 1;
    }
    return BT_OK;
}

static bt_status extreme_infer(const char *op, const char *most, const bt_reduce_attr *attr, bt_array in, bt_array *out)
{
    BT_TRY(reduce_infer(op, attr, in, out));
    for (int i = 0; i < in.rank; i++)
        if ((attr->axes >> i & 1) && in.dims[i] == 0) {
            char shape[256];
            return bt_fail(BT_ERROR_SHAPE, "%s: %s has no elements along axis %d, so there is no %s", op,
                           bt_shape_text(shape, in.rank, in.dims), i, most);
        }
    return BT_OK;
}

/* The position of the split axis in the result; -1: it is reduced. */
static int axis_left(const bt_shares *shares)
{
    const bt_reduce_attr *reduce = shares->attr;
    int axis = shares->in_axis[0];
    if (reduce->axes >> axis & 1)
        return -1;
    for (int i = axis - 1, before = axis; i >= 0 && !reduce->keep; i--)
        before -= (int)(reduce->axes >> i & 1), axis = before;
    return axis;
}

static bool argmax_shares(bt_shares *shares)
{
    shares->out_axis[0] = axis_left(shares);
    return shares->out_axis[0] >= 0;
}

static bool extreme_shares(bt_shares *shares)
{
    int axis = axis_left(shares);
    shares->out_axis[0] = axis < 0 ? BT_BATCH_UNITED : axis;
    return true;
}

static bool sum_shares(bt_shares *shares)
{
    int axis = axis_left(shares);
    shares->out_axis[0] = axis < 0 ? BT_BATCH_SUMMED : axis;
    return true;
}

static void reduce_describe(const void *attr, bt_text *text)
{
    const bt_reduce_attr *reduce = attr;
    bt_text_add(text, "axes");
    for (int i = 0; i < BT_MAX_RANK; i++)
        if (reduce->axes >> i & 1)
            bt_text_add(text, " %d", i);
    bt_text_add(text, reduce->keep ? ", kept" : "");
}

/* Repeats g, of the result's shape, along the reduced axes. */
static bt_tensor *spread(const bt_reduce_attr *attr, bt_tensor *g, const bt_tensor *like)
{
    int axes[BT_MAX_RANK], count = 0;
    for (int i = 0; i < like->rank; i++)
        if (attr->keep || !(attr->axes >> i & 1))
            axes[count++] = i;
    return bt_broadcast(g, like->rank, like->dims, axes);
}

static const struct reduce_case {
    const char *name;
    uint32_t axes, keep;
    int rank;
    int64_t dims[4];
} reduce_cases[] = {
    {"rows", 2, 0, 2, {3, 5}},          {"columns", 1, 0, 2, {3, 5}}, {"all", 3, 0, 2, {3, 5}},
    {"outer axes", 5, 0, 3, {2, 3, 4}}, {"kept", 2, 1, 3, {2, 3, 4}}, {"all kept", 7, 1, 3, {2, 3, 1}},
    {"one element", 1, 0, 1, {1}},      {"long", 1, 0, 1, {1003}},    {"four axes", 10, 0, 4, {2, 3, 2, 5}},
    {"no rows", 2, 0, 2, {0, 5}},
};

static void reduce_samples(bt_sampler *sampler)
{
    for (int i = 0; i < BT_COUNT_OF(reduce_cases); i++) {
        const struct reduce_case *c = &reduce_cases[i];
        BT_SAMPLE(sampler, .name = c->name, .inputs = 1, BT_ATTR(bt_reduce_attr, c->axes, c->keep),
                  .in = {BT_DRAWN(-2, 2, BT_F64, c->rank, c->dims[0], c->dims[1], c->dims[2], c->dims[3])});
    }
    BT_SAMPLE(sampler, .name = "integers", .inputs = 1, BT_ATTR(bt_reduce_attr, 2, 0),
              .in = {BT_DRAWN(-9, 9, BT_I32, 2, 3, 5)});
    BT_SAMPLE(sampler, .name = "long integers", .inputs = 1, BT_ATTR(bt_reduce_attr, 1, 1),
              .in = {BT_DRAWN(-9, 9, BT_I64, 2, 3, 5)});
}

/* ---- sum ---- */

static bt_status sum_infer(const void *attr, const bt_array *in, bt_array *out)
{
    return reduce_infer("sum", attr, in[0], out);
}

static void sum_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                    bt_tensor **wanted)
{
    (void)out;
    wanted[0] = given[0] ? spread(attr, given[0], in[0]) : NULL;
}

static void sum_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                    bt_tensor **wanted)
{
    const bt_reduce_attr *reduce = attr;
    (void)in, (void)out;
    wanted[0] = given[0] ? bt_reduce(&bt_op_sum, given[0], reduce->axes, reduce->keep) : NULL;
}

/* The sum of a broadcast scalar. */
static bt_tensor *sum_simplify(const void *attr, bt_tensor *const *in, int inputs)
{
    const bt_reduce_attr *reduce = attr;
    const bt_node *node = in[0]->node;
    bt_array like = bt_tensor_array(in[0]), out;
    (void)inputs;
    if (node->op != &bt_op_broadcast || node->in[0]->rank != 0 || !bt_dtype_floats(like.dtype) ||
        reduce_infer("sum", reduce, like, &out) != BT_OK)
        return NULL;
    double count = 1;
    for (int i = 0; i < like.rank; i++)
        count *= reduce->axes >> i & 1 ? (double)like.dims[i] : 1;
    return bt_broadcast(bt_mul(node->in[0], count), out.rank, out.dims, NULL);
}

static void sum_samples(bt_sampler *sampler)
{
    reduce_samples(sampler);
    BT_SAMPLE(sampler, .name = "over nothing", .inputs = 1, BT_ATTR(bt_reduce_attr, 1, 0),
              .in = {BT_DRAWN(0, 1, BT_F64, 2, 0, 3)});
}

const bt_op bt_op_sum = {
    .name = "sum",
    .inputs = 1,
    .attr_size = sizeof(bt_reduce_attr),
    .infer = sum_infer,
    .vjp = sum_vjp,
    .jvp = sum_jvp,
    .info = &(const bt_op_info){.flags = BT_OP_LINEAR,
                                .differentiable = 1,
                                .flops = bt_flops_input,
                                .shares = sum_shares,
                                .simplify = sum_simplify,
                                .describe = reduce_describe,
                                .samples = sum_samples},
};

/* ---- norm_square: the sum of the squares ---- */

static bt_status norm_square_infer(const void *attr, const bt_array *in, bt_array *out)
{
    BT_TRY(bt_check_dtype("norm_square", "the operand", in[0].dtype, BT_FLOATS));
    *out = (bt_array){.dtype = in[0].dtype};
    return in[0].rank ? reduce_infer("norm_square", attr, in[0], out) : BT_OK;
}

static void norm_square_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    const bt_reduce_attr *reduce = attr;
    out[0] = bt_reduce(&bt_op_sum, bt_square(in[0]), reduce->axes, reduce->keep);
}

static void norm_square_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                            bt_tensor **wanted)
{
    (void)out;
    wanted[0] = given[0] ? bt_mul(in[0], spread(attr, bt_mul(2, given[0]), in[0])) : NULL;
}

static void norm_square_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                            bt_tensor **wanted)
{
    const bt_reduce_attr *reduce = attr;
    (void)out;
    if (given[0])
        wanted[0] = bt_mul(2, bt_reduce(&bt_op_sum, bt_mul(in[0], given[0]), reduce->axes, reduce->keep));
}

static double norm_square_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return 2 * bt_flops_input(attr, in, out);
}

static void norm_square_samples(bt_sampler *sampler)
{
    for (int i = 0; i < BT_COUNT_OF(reduce_cases); i++) {
        const struct reduce_case *c = &reduce_cases[i];
        BT_SAMPLE(sampler, .name = c->name, .inputs = 1, BT_ATTR(bt_reduce_attr, c->axes, c->keep),
                  .in = {BT_DRAWN(-2, 2, BT_F64, c->rank, c->dims[0], c->dims[1], c->dims[2], c->dims[3])});
    }
    BT_SAMPLE(sampler, .name = "wide columns", .inputs = 1, BT_ATTR(bt_reduce_attr, 1, 0),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 37, 131)});
    BT_SAMPLE(sampler, .name = "a number", .inputs = 1, BT_ATTR(bt_reduce_attr, 0, 0),
              .in = {BT_DRAWN(-2, 2, BT_F64, 0)});
}

const bt_op bt_op_norm_square = {
    .name = "norm_square",
    .inputs = 1,
    .attr_size = sizeof(bt_reduce_attr),
    .infer = norm_square_infer,
    .body = norm_square_body,
    .vjp = norm_square_vjp,
    .jvp = norm_square_jvp,
    .info = &(const bt_op_info){.cast = BT_CAST_HIGH,
                                .differentiable = 1,
                                .flops = norm_square_flops,
                                .shares = sum_shares,
                                .describe = reduce_describe,
                                .samples = norm_square_samples},
};

bt_tensor *bt_norm_square(bt_tensor *x)
{
    bt_tensor *poison = bt_operands_promote("norm_square", &x, 1, BT_PROMOTE_FLOAT);
    const bt_reduce_attr attr = {poison ? 0 : (1U << x->rank) - 1, 0};
    return poison ? poison : BT_RECORD(&bt_op_norm_square, &attr, x);
}

bt_tensor *bt_norm_square_along(bt_tensor *x, int axis)
{
    bt_tensor *poison = bt_operands_promote("norm_square", &x, 1, BT_PROMOTE_FLOAT);
    const bt_reduce_attr attr = {1U << axis, 0};
    return poison ? poison : BT_RECORD(&bt_op_norm_square, &attr, x);
}

/* ---- max ---- */

static bt_status max_infer(const void *attr, const bt_array *in, bt_array *out)
{
    return extreme_infer("max", "largest", attr, in[0], out);
}

/* 1/k at each of the k largest elements, else 0. */
static bt_tensor *shares(const bt_reduce_attr *attr, bt_tensor *x, bt_tensor *y)
{
    bt_tensor *largest = bt_as(bt_equal(x, spread(attr, y, x)), x->dtype);
    return bt_div(largest, spread(attr, bt_reduce(&bt_op_sum, largest, attr->axes, attr->keep), x));
}

static void max_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                    bt_tensor **wanted)
{
    wanted[0] = given[0] ? bt_mul(spread(attr, given[0], in[0]), shares(attr, in[0], out[0])) : NULL;
}

static void max_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                    bt_tensor **wanted)
{
    const bt_reduce_attr *reduce = attr;
    if (given[0])
        wanted[0] = bt_reduce(&bt_op_sum, bt_mul(given[0], shares(attr, in[0], out[0])), reduce->axes, reduce->keep);
}

/* Reverses the order: negates floats; integers become -1 - x, which never overflows. */
static bt_tensor *turned(bt_tensor *x) { return bt_dtype_floats(x->dtype) ? bt_neg(x) : bt_sub(-1, x); }

/* Reduces the rank's own rows, then over the ranks. A rank without rows contributes the value that any other
 * replaces. */
static bt_tensor *unite_extreme(const bt_op *op, const bt_union *with, bt_tensor *x, bt_reduction reduction)
{
    const bt_reduce_attr *reduce = with->attr;
    const double least = x->dtype == BT_I32 ? (double)INT32_MIN : x->dtype == BT_I64 ? (double)INT64_MIN : -INFINITY;
    bt_tensor *own;
    if (x->dims[with->axis] > 0)
        own = bt_reduce(op, x, reduce->axes, reduce->keep);
    else {
        bt_array shape = {.rank = 0};
        reduce_infer(op->name, reduce, bt_tensor_array(x), &shape);
        own = bt_number(least, x->dtype);
        own = bt_broadcast(reduction == BT_REDUCE_MAX ? own : turned(own), shape.rank, shape.dims, NULL);
    }
    return bt_all_reduce(own, with->rank, with->ranks, reduction);
}

static void max_unite(const bt_union *with, bt_tensor *const *in, bt_tensor **out)
{
    out[0] = unite_extreme(&bt_op_max, with, in[0], BT_REDUCE_MAX);
}

static void max_samples(bt_sampler *sampler) /* also for min */
{
    static const double ties[] = {1, 3, 3, 2, 3, -1, -1, -5};
    reduce_samples(sampler);
    BT_SAMPLE(sampler, .name = "ties", .inputs = 1, BT_ATTR(bt_reduce_attr, 2, 0), .kink = true,
              .in = {BT_LISTED(ties, BT_F64, 2, 2, 4)});
}

const bt_op bt_op_max = {
    .name = "max",
    .inputs = 1,
    .attr_size = sizeof(bt_reduce_attr),
    .infer = max_infer,
    .vjp = max_vjp,
    .jvp = max_jvp,
    .info = &(const bt_op_info){.differentiable = 1,
                                .flops = bt_flops_input,
                                .shares = extreme_shares,
                                .unite = max_unite,
                                .describe = reduce_describe,
                                .samples = max_samples},
};

/* ---- min: the maximum in reversed order ---- */

static bt_status min_infer(const void *attr, const bt_array *in, bt_array *out)
{
    return extreme_infer("min", "smallest", attr, in[0], out);
}

static void min_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    const bt_reduce_attr *reduce = attr;
    out[0] = turned(bt_reduce(&bt_op_max, turned(in[0]), reduce->axes, reduce->keep));
}

static void min_unite(const bt_union *with, bt_tensor *const *in, bt_tensor **out)
{
    out[0] = unite_extreme(&bt_op_min, with, in[0], BT_REDUCE_MIN);
}

const bt_op bt_op_min = {
    .name = "min",
    .inputs = 1,
    .attr_size = sizeof(bt_reduce_attr),
    .infer = min_infer,
    .body = min_body,
    .info = &(const bt_op_info){.differentiable = 1,
                                .flops = bt_flops_input,
                                .shares = extreme_shares,
                                .unite = min_unite,
                                .describe = reduce_describe,
                                .samples = max_samples},
};

/* ---- argmax ---- */

static bt_status argmax_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_reduce_attr *reduce = attr;
    if (reduce->keep || (reduce->axes & (reduce->axes - 1)))
        return bt_fail(BT_ERROR_SHAPE, "argmax: must reduce a single axis, and cannot keep it; found the axes 0x%x",
                       reduce->axes);
    BT_TRY(extreme_infer("argmax", "largest", reduce, in[0], out));
    out[0].dtype = BT_I32;
    return BT_OK;
}

static void argmax_samples(bt_sampler *sampler)
{
    static const double ties[] = {1, 3, 3, 2, 3, -1, -1, -5};
    BT_SAMPLE(sampler, .name = "rows", .inputs = 1, BT_ATTR(bt_reduce_attr, 2, 0),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 5, 11)});
    BT_SAMPLE(sampler, .name = "columns", .inputs = 1, BT_ATTR(bt_reduce_attr, 1, 0),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 5, 3)});
    BT_SAMPLE(sampler, .name = "middle", .inputs = 1, BT_ATTR(bt_reduce_attr, 2, 0),
              .in = {BT_DRAWN(-2, 2, BT_F64, 3, 2, 5, 3)});
    BT_SAMPLE(sampler, .name = "ties", .inputs = 1, BT_ATTR(bt_reduce_attr, 2, 0),
              .in = {BT_LISTED(ties, BT_F64, 2, 2, 4)});
    BT_SAMPLE(sampler, .name = "integers", .inputs = 1, BT_ATTR(bt_reduce_attr, 1, 0),
              .in = {BT_DRAWN(-9, 9, BT_I32, 1, 20)});
    BT_SAMPLE(sampler, .name = "no rows", .inputs = 1, BT_ATTR(bt_reduce_attr, 2, 0),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 0, 3)});
}

const bt_op bt_op_argmax = {
    .name = "argmax",
    .inputs = 1,
    .attr_size = sizeof(bt_reduce_attr),
    .infer = argmax_infer,
    .info =
        &(const bt_op_info){
            .flops = bt_flops_input, .shares = argmax_shares, .describe = reduce_describe, .samples = argmax_samples},
};

/* ---- builders ---- */

bt_tensor *bt_reduce(const bt_op *op, bt_tensor *x, uint32_t axes, bool keep)
{
    bt_reduce_attr attr = {axes, keep};
    return axes ? BT_RECORD(op, &attr, x) : x;
}

bt_tensor *bt_sum_axis(bt_tensor *x, int axis, bool keep)
{
    return bt_reduce(&bt_op_sum, x, UINT32_C(1) << axis, keep);
}

/* A list that ends with BT_END; if it names no axis, all are reduced. */
static bt_tensor *read_axes(const char *op, const bt_tensor *x, const int64_t *list, bt_reduce_attr *attr)
{
    *attr = (bt_reduce_attr){0, 0};
    bool all = true;
    for (; list && *list != BT_END; list++) {
        int axis;
        if (*list == BT_KEEP) {
            attr->keep = 1;
            continue;
        }
        bt_tensor *poison = bt_operand_axis(op, x, *list, &axis);
        if (poison)
            return poison;
        if (attr->axes >> axis & 1)
            return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: axis %d is listed twice", op, axis);
        attr->axes |= UINT32_C(1) << axis;
        all = false;
    }
    if (all)
        attr->axes = (UINT32_C(1) << x->rank) - 1;
    return NULL;
}

/* Prepares the operand and its axes; *count: the number of elements per result. Returns NULL or a poison. */
static bt_tensor *read_operand(const char *name, bt_tensor **x, const int64_t *axes, bt_promotion promotion,
                               bt_reduce_attr *attr, int64_t *count)
{
    bt_tensor *poison = bt_operands_promote(name, x, 1, promotion);
    if (!poison)
        poison = read_axes(name, *x, axes, attr);
    *count = 1;
    for (int i = 0; !poison && i < (*x)->rank; i++)
        *count *= attr->axes >> i & 1 ? (*x)->dims[i] : 1;
    return poison;
}

static bt_tensor *build(const char *name, const bt_op *op, bt_tensor **x, const int64_t *axes, bt_promotion promotion,
                        int64_t *count)
{
    bt_reduce_attr attr;
    bt_tensor *poison = read_operand(name, x, axes, promotion, &attr, count);
    return poison ? poison : bt_reduce(op, *x, attr.axes, attr.keep);
}

bt_tensor *(bt_sum)(bt_tensor *x, const int64_t *axes)
{
    int64_t count;
    return build("sum", &bt_op_sum, &x, axes, BT_PROMOTE_NUMBER, &count);
}

bt_tensor *(bt_max)(bt_tensor *x, const int64_t *axes)
{
    int64_t count;
    return build("max", &bt_op_max, &x, axes, BT_PROMOTE_NUMBER, &count);
}

bt_tensor *(bt_min)(bt_tensor *x, const int64_t *axes)
{
    int64_t count;
    return build("min", &bt_op_min, &x, axes, BT_PROMOTE_NUMBER, &count);
}

bt_tensor *(bt_mean)(bt_tensor *x, const int64_t *axes)
{
    int64_t count = 1;
    const bt_tensor *like = x;
    x = bt_wide(x);
    bt_tensor *sum = build("mean", &bt_op_sum, &x, axes, BT_PROMOTE_FLOAT, &count);
    if (bt_poisoned(sum) || count == 1)
        return bt_stored_like(sum, like);
    if (count == 0) {
        char shape[256];
        return bt_trace_poison(BT_ERROR_SHAPE, "mean: %s has no elements along the axes, so there is no mean",
                               bt_shape_text(shape, x->rank, x->dims));
    }
    return bt_stored_like(bt_div(sum, count), like);
}

bt_tensor *bt_argmax(bt_tensor *x, int axis)
{
    bt_tensor *poison = bt_operands_promote("argmax", &x, 1, BT_PROMOTE_NUMBER);
    if (!poison)
        poison = bt_operand_axis("argmax", x, axis, &axis);
    return poison ? poison : bt_reduce(&bt_op_argmax, x, UINT32_C(1) << axis, false);
}

bt_tensor *bt_argmin(bt_tensor *x, int axis)
{
    bt_tensor *poison = bt_operands_promote("argmin", &x, 1, BT_PROMOTE_NUMBER);
    if (!poison)
        poison = bt_operand_axis("argmin", x, axis, &axis);
    return poison ? poison : bt_reduce(&bt_op_argmax, turned(x), UINT32_C(1) << axis, false);
}

/* The sum of squared distances from the mean, divided by count - 1. */
static bt_tensor *variance(const char *name, bt_tensor *x, const int64_t *axes)
{
    bt_reduce_attr attr;
    int64_t count;
    bt_tensor *poison = read_operand(name, &x, axes, BT_PROMOTE_FLOAT, &attr, &count);
    if (poison)
        return poison;
    if (count < 2) {
        char shape[256];
        return bt_trace_poison(BT_ERROR_SHAPE, "%s: %s has %lld element%s along the axes; a spread needs at least 2",
                               name, bt_shape_text(shape, x->rank, x->dims), (long long)count, count == 1 ? "" : "s");
    }
    bt_tensor *mean = bt_div(bt_reduce(&bt_op_sum, x, attr.axes, true), count);
    bt_tensor *squares = bt_square(bt_sub(x, mean));
    return bt_div(bt_reduce(&bt_op_sum, squares, attr.axes, attr.keep), count - 1);
}

/* The square root, with derivatives of 0 at 0. */
static bt_tensor *root(bt_tensor *x)
{
    if (bt_poisoned(x))
        return x;
    bt_tensor *zero = bt_equal(x, 0);
    return bt_where(zero, 0, bt_sqrt(bt_where(zero, 1, x)));
}

bt_tensor *(bt_variance)(bt_tensor *x, const int64_t *axes)
{
    return bt_stored_like(variance("variance", bt_wide(x), axes), x);
}

bt_tensor *(bt_std)(bt_tensor *x, const int64_t *axes)
{
    return bt_stored_like(root(variance("std", bt_wide(x), axes)), x);
}

bt_tensor *(bt_norm)(bt_tensor *x, const int64_t *axes)
{
    bt_reduce_attr attr;
    int64_t count;
    const bt_tensor *like = x;
    x = bt_wide(x);
    bt_tensor *poison = read_operand("norm", &x, axes, BT_PROMOTE_FLOAT, &attr, &count);
    return poison ? poison : bt_stored_like(root(bt_reduce(&bt_op_sum, bt_square(x), attr.axes, attr.keep)), like);
}

/* Subtracts the maximum, a constant for derivatives, so that no exponential overflows. */
bt_tensor *(bt_logsumexp)(bt_tensor *x, const int64_t *axes)
{
    bt_reduce_attr attr;
    int64_t count;
    bt_tensor *poison = read_operand("logsumexp", &x, axes, BT_PROMOTE_FLOAT, &attr, &count);
    if (poison)
        return poison;
    if (count == 0)
        return bt_trace_poison(BT_ERROR_SHAPE, "logsumexp: there are no elements");
    bt_tensor *most = bt_stop(bt_reduce(&bt_op_max, x, attr.axes, true));
    most = bt_where(bt_isfinite(most), most, 0);
    bt_tensor *y = bt_add(bt_log(bt_reduce(&bt_op_sum, bt_exp(bt_sub(x, most)), attr.axes, true)), most);
    return attr.keep || bt_poisoned(y) ? y : bt_reduce(&bt_op_sum, y, attr.axes, false); /* removes axes of size 1 */
}

/* Multiplies halves pairwise. So each derivative is a product of the other elements, even if some are 0. */
bt_tensor *bt_prod(bt_tensor *x, int axis)
{
    bt_tensor *poison = bt_operands_promote("prod", &x, 1, BT_PROMOTE_FLOAT);
    if (!poison)
        poison = bt_operand_axis("prod", x, axis, &axis);
    if (poison)
        return poison;
    if (x->dims[axis] == 0)
        return bt_trace_poison(BT_ERROR_SHAPE, "prod: axis %d has size 0, must have an element", axis);
    while (!bt_poisoned(x) && x->dims[axis] > 1) {
        int64_t size = x->dims[axis], half = size / 2;
        bt_tensor *y = bt_mul(bt_slice(x, axis, 0, half), bt_slice(x, axis, half, 2 * half));
        x = size % 2 ? bt_concat(axis, y, bt_slice(x, axis, size - 1, size)) : y;
    }
    return bt_squeeze(x, axis);
}
