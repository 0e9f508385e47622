/* ops/channel_norm.c: batch, group and instance normalisation of channels-last tensors: one composite. */
#include "ops/define.h"

#include <string.h>

static bt_status channel_norm_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_channel_norm_attr *norm = attr;
    bt_array x = in[0];
    char shape[256];
    BT_TRY(bt_check_dtype("channel_norm", "x", x.dtype, BT_FLOATS));
    bt_shape_text(shape, x.rank, x.dims);
    if (norm->lead < 0 || norm->lead >= x.rank)
        return bt_fail(BT_ERROR_SHAPE, "channel_norm: x is %s, must have channels after its %lld leading axes", shape,
                       (long long)norm->lead);
    int64_t channels = x.dims[x.rank - 1];
    if (norm->groups < 1 ? channels > 0 : channels % norm->groups != 0)
        return bt_fail(BT_ERROR_SHAPE, "channel_norm: the %lld channels of %s cannot be divided into %lld groups",
                       (long long)channels, shape, (long long)norm->groups);
    for (int i = (int)norm->lead; i < x.rank - 1; i++)
        if (x.dims[i] == 0)
            return bt_fail(BT_ERROR_SHAPE,
                           "channel_norm: %s has no rows after its %lld leading axes, so there is no mean", shape,
                           (long long)norm->lead);
    bt_array feature = {.dtype = x.dtype, .rank = 1, .dims = {channels}};
    BT_TRY(bt_check_equal("channel_norm", "scale", in[1], "the channels of x", feature));
    BT_TRY(bt_check_equal("channel_norm", "shift", in[2], "the channels of x", feature));
    out[0] = x;
    out[1] = out[2] = bt_channel_shape(norm->lead, x);
    return BT_OK;
}

/* The mean over each group of channels, repeated for all of them; t is [lead..., c]. */
static bt_tensor *group_mean(const bt_channel_norm_attr *norm, bt_tensor *t)
{
    int64_t dims[BT_MAX_RANK + 1];
    if (bt_poisoned(t))
        return t;
    int64_t channels = t->dims[t->rank - 1];
    if (norm->groups == channels)
        return t;
    memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
    dims[t->rank - 1] = norm->groups;
    dims[t->rank] = channels / norm->groups;
    bt_tensor *groups = bt_reshape_to(t, t->rank + 1, dims);
    return bt_reshape_to(bt_broadcast_like(bt_mean(groups, -1, BT_KEEP), groups), t->rank, t->dims);
}

static bt_tensor *inverse_deviation(const bt_channel_norm_attr *norm, bt_tensor *variance)
{
    return bt_div(1, bt_sqrt(bt_add(variance, norm->eps)));
}

static void channel_norm_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    const bt_channel_norm_attr *norm = attr;
    bt_channel_attr moments = {.lead = norm->lead};
    bt_tensor *mean = BT_RECORD(&bt_op_channel_moments, &moments, in[0]);
    bt_tensor *variance = bt_poisoned(mean) ? mean : &mean->node->out[1];
    out[1] = group_mean(norm, mean);
    out[2] = variance;
    if (out[1] != mean) /* the channels of a group have different means */
        out[2] = group_mean(norm, bt_add(variance, bt_square(bt_sub(mean, out[1]))));
    bt_tensor *scale = bt_mul(in[1], inverse_deviation(norm, out[2]));
    bt_tensor *shift = bt_broadcast_like(in[2], out[1]);
    out[0] = bt_channel_mix(norm->lead, &(bt_channel_term){in[0], out[1], scale}, 1, shift, in[0]);
}

/* Let r = 1 / sqrt(variance + eps). Let D and B be the means of scale g (x - mean) and of scale g over all that shares
 * one statistic. Then dx = r (scale g - B - (x - mean) r^2 D), plus the terms from the statistics' own cotangents. */
static void channel_norm_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                             bt_tensor **wanted)
{
    const bt_channel_norm_attr *norm = attr;
    int64_t rows = bt_channel_rows(norm->lead, in[0]);
    bt_tensor *g = given[0], *to_mean = given[1] ? bt_div(group_mean(norm, given[1]), rows) : NULL;
    bt_tensor *to_centred = given[2] ? bt_mul(group_mean(norm, given[2]), 2 / (double)rows) : NULL, *scale = NULL;
    if (g) {
        bt_tensor *r = inverse_deviation(norm, out[2]), *sum;
        bt_tensor *dot = bt_channel_dot(norm->lead, in[0], g, out[1], &sum);
        wanted[1] = bt_sum_like(bt_mul(r, dot), in[1]);
        wanted[2] = bt_sum_like(sum, in[2]);
        scale = bt_mul(in[1], r);
        bt_tensor *along = bt_div(group_mean(norm, bt_mul(in[1], dot)), rows);
        to_centred = bt_accumulate(bt_neg(bt_mul(bt_mul(r, bt_square(r)), along)), to_centred);
        to_mean = bt_accumulate(bt_neg(bt_mul(r, bt_div(group_mean(norm, bt_mul(in[1], sum)), rows))), to_mean);
    }
    bt_channel_term terms[] = {{g, NULL, scale}, {to_centred ? in[0] : NULL, out[1], to_centred}};
    wanted[0] = bt_channel_mix(norm->lead, terms, 2, to_mean, in[0]);
}

static void channel_norm_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                             bt_tensor **wanted)
{
    const bt_channel_norm_attr *norm = attr;
    int64_t rows = bt_channel_rows(norm->lead, in[0]);
    bt_tensor *dx = given[0], *shift = given[2] ? bt_broadcast_like(given[2], out[1]) : NULL;
    bt_tensor *r = inverse_deviation(norm, out[2]), *moved = given[1] ? bt_mul(given[1], r) : NULL;
    bt_tensor *scale = bt_mul(in[1], r);
    if (dx) {
        bt_tensor *sum, *dot = bt_channel_dot(norm->lead, in[0], dx, out[1], &sum);
        bt_tensor *along = bt_div(group_mean(norm, dot), rows); /* half the variance's tangent */
        wanted[1] = bt_div(group_mean(norm, sum), rows);
        wanted[2] = bt_mul(along, 2);
        moved = bt_accumulate(bt_neg(bt_mul(scale, bt_mul(bt_square(r), along))), moved);
    }
    bt_channel_term terms[] = {{dx, wanted[1], scale}, {moved ? in[0] : NULL, out[1], moved}};
    wanted[0] = bt_channel_mix(norm->lead, terms, 2, shift, in[0]);
}

static double channel_norm_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return 7 * bt_flops_input(attr, in, out);
}

static void channel_norm_describe(const void *attr, bt_text *text)
{
    const bt_channel_norm_attr *norm = attr;
    bt_text_add(text, "lead %lld, groups %lld, eps %g", (long long)norm->lead, (long long)norm->groups, norm->eps);
}

#define NORM(name_, lead_, groups_, eps_, channels, ...)                                                               \
    BT_SAMPLE(sampler, .name = (name_), .inputs = 3, BT_ATTR(bt_channel_norm_attr, (lead_), (groups_), (eps_)),        \
              .in = {__VA_ARGS__, BT_DRAWN(0.5, 2, BT_F64, 1, (channels)), BT_DRAWN(-1, 1, BT_F64, 1, (channels))})

static void channel_norm_samples(bt_sampler *sampler)
{
    static const double equal[] = {0.5, -2, 3};
    NORM("batch", 0, 3, 1e-2, 3, BT_DRAWN(-2, 2, BT_F64, 4, 3, 2, 2, 3));
    NORM("vectors", 0, 5, 1e-2, 5, BT_DRAWN(-2, 2, BT_F64, 2, 7, 5));
    NORM("many channels", 0, 19, 0.1, 19, BT_DRAWN(-2, 2, BT_F64, 3, 3, 3, 19));
    NORM("one row", 0, 4, 0.1, 4, BT_DRAWN(-2, 2, BT_F64, 2, 1, 4));
    NORM("equal rows", 0, 3, 0.1, 3, BT_LISTED(equal, BT_F64, 2, 4, 3));
    NORM("instance", 1, 3, 0.1, 3, BT_DRAWN(-2, 2, BT_F64, 4, 2, 2, 3, 3));
    NORM("groups", 1, 2, 0.1, 6, BT_DRAWN(-2, 2, BT_F64, 4, 2, 2, 2, 6));
    NORM("one group", 1, 1, 0.1, 4, BT_DRAWN(-2, 2, BT_F64, 3, 2, 3, 4));
    NORM("groups of a batch", 0, 2, 0.1, 4, BT_DRAWN(-2, 2, BT_F64, 2, 5, 4));
    NORM("no examples", 1, 2, 0.1, 4, BT_DRAWN(-2, 2, BT_F64, 3, 0, 3, 4));
}

/* Splits along the leading axes only; otherwise the body's ops decide. */
static bool channel_norm_shares(bt_shares *shares)
{
    const int axis = shares->in_axis[0];
    bt_shares_along(shares, axis, 3);
    shares->in_axis[1] = shares->in_axis[2] = -1;
    return axis >= 0 && axis < ((const bt_channel_norm_attr *)shares->attr)->lead;
}

const bt_op bt_op_channel_norm = {
    .name = "channel_norm",
    .inputs = 3,
    .outputs = 3,
    .attr_size = sizeof(bt_channel_norm_attr),
    .infer = channel_norm_infer,
    .body = channel_norm_body,
    .vjp = channel_norm_vjp,
    .jvp = channel_norm_jvp,
    .info = &(const bt_op_info){.differentiable = 7,
                                .flops = channel_norm_flops,
                                .shares = channel_norm_shares,
                                .describe = channel_norm_describe,
                                .samples = channel_norm_samples},
};

/* ---- builders ---- */

/* Checks x, scale, shift and the operands after them. A scale or shift of NULL becomes ones or zeros. */
static bt_tensor *check(const char *op, bt_tensor **operands, int count, double eps)
{
    bt_tensor *poison = bt_operand_missing(op, operands[0]);
    if (poison)
        return poison;
    bt_tensor *x = operands[0];
    char shape[256], found[256];
    bt_shape_text(shape, x->rank, x->dims);
    if (x->rank < 2)
        return bt_trace_poison(BT_ERROR_SHAPE, "%s: x is %s, must be [n, ..., channels]", op, shape);
    if (!(eps >= 0))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: eps is %g, must be at least 0", op, eps);
    int64_t channels = x->dims[x->rank - 1];
    bt_dtype dtype = bt_dtype_is(x->dtype, BT_FLOATS) || !bt_trace_now() ? x->dtype : bt_trace_now()->dtype;
    for (int i = 1; i <= 2; i++)
        if (!operands[i])
            operands[i] = bt_broadcast(bt_number(i == 1, dtype), 1, &channels, NULL);
    poison = bt_operands_promote(op, operands, count, BT_PROMOTE_FLOAT);
    for (int i = 1; i < count && !poison; i++)
        if (operands[i]->rank != 1 || operands[i]->dims[0] != channels)
            poison =
                bt_trace_poison(BT_ERROR_SHAPE, "%s: %s is %s, must be [%lld], the channels of x %s", op,
                                i == 1   ? "scale"
                                : i == 2 ? "shift"
                                : i == 3 ? "mean"
                                         : "variance",
                                bt_shape_text(found, operands[i]->rank, operands[i]->dims), (long long)channels, shape);
    return poison;
}

/* Reshapes [n, ...] to [groups, n / groups, ...]. */
static bt_tensor *in_groups(bt_tensor *x, int64_t groups)
{
    int64_t dims[BT_MAX_RANK + 1] = {groups, x->dims[0] / groups};
    memcpy(dims + 2, x->dims + 1, (size_t)(x->rank - 1) * sizeof *dims);
    return bt_reshape_to(x, x->rank + 1, dims);
}

bt_tensor *bt_batch_norm(bt_tensor *x, int64_t groups, bt_tensor *scale, bt_tensor *shift, double eps, bt_tensor **mean,
                         bt_tensor **variance)
{
    bt_tensor *in[] = {bt_wide(x), scale, shift}, *y = check("batch_norm", in, 3, eps);
    if (!y) {
        bt_channel_norm_attr attr = {groups > 1, in[0]->dims[in[0]->rank - 1], eps};
        y = BT_RECORD(&bt_op_channel_norm, &attr, groups > 1 ? in_groups(in[0], groups) : in[0], in[1], in[2]);
    }
    if (mean)
        *mean = bt_poisoned(y) ? y : &y->node->out[1];
    if (variance)
        *variance = bt_poisoned(y) ? y : &y->node->out[2];
    if (groups > 1 && !bt_poisoned(y))
        y = bt_reshape_to(y, x->rank, x->dims);
    return bt_stored_like(y, x);
}

bt_tensor *bt_batch_norm_fixed(bt_tensor *x, bt_tensor *mean, bt_tensor *variance, bt_tensor *scale, bt_tensor *shift,
                               double eps)
{
    bt_tensor *in[] = {bt_wide(x), scale, shift, mean, variance}, *poison = check("batch_norm", in, 5, eps);
    if (poison)
        return poison;
    scale = bt_div(in[1], bt_sqrt(bt_add(in[4], eps)));
    return bt_stored_like(bt_channel_mix(0, &(bt_channel_term){in[0], in[3], scale}, 1, in[2], in[0]), x);
}

bt_tensor *bt_group_norm(bt_tensor *x, int64_t groups, bt_tensor *scale, bt_tensor *shift, double eps)
{
    bt_tensor *in[] = {bt_wide(x), scale, shift}, *poison = check("group_norm", in, 3, eps);
    if (poison)
        return poison;
    int64_t channels = in[0]->dims[in[0]->rank - 1];
    if (groups < 1 || channels % groups != 0)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "group_norm: the %lld channels cannot be divided into %lld groups",
                               (long long)channels, (long long)groups);
    bt_channel_norm_attr attr = {1, groups, eps};
    return bt_stored_like(BT_RECORD(&bt_op_channel_norm, &attr, in[0], in[1], in[2]), x);
}
