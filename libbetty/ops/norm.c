/* ops/norm.c: layer normalisation, and the ops that its derivatives use. */
#include "ops/define.h"

/* ---- layer_norm(x [..., f], scale [f], shift [f]): y, and each row's mean and deviation, [..., 1] ---- */

static bt_array row_shape(bt_array x)
{
    x.dims[x.rank - 1] = 1;
    return x;
}

static bt_status rows_infer(const char *op, bt_array x)
{
    char shape[256];
    BT_TRY(bt_check_dtype(op, "x", x.dtype, BT_FLOATS));
    if (x.rank < 1 || x.dims[x.rank - 1] == 0)
        return bt_fail(BT_ERROR_SHAPE, "%s: x is %s, must be [..., features]", op,
                       bt_shape_text(shape, x.rank, x.dims));
    return BT_OK;
}

static bt_status layer_norm_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    BT_TRY(rows_infer("layer_norm", in[0]));
    bt_array feature = {.dtype = in[0].dtype, .rank = 1, .dims = {in[0].dims[in[0].rank - 1]}};
    BT_TRY(bt_check_equal("layer_norm", "scale", in[1], "the last axis of x", feature));
    BT_TRY(bt_check_equal("layer_norm", "shift", in[2], "the last axis of x", feature));
    out[0] = in[0];
    out[1] = out[2] = row_shape(in[0]);
    return BT_OK;
}

static void layer_norm_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    double eps = ((const bt_eps_attr *)attr)->eps;
    out[1] = bt_mean(in[0], -1, BT_KEEP);
    bt_tensor *centred = bt_sub(in[0], out[1]);
    out[2] = bt_sqrt(bt_add(bt_mean(bt_square(centred), -1, BT_KEEP), eps));
    out[0] = bt_add(bt_mul(bt_div(centred, out[2]), in[1]), in[2]);
}

static bt_tensor *normalised(bt_tensor *x, bt_tensor *mean, bt_tensor *deviation)
{
    return bt_mul(bt_sub(x, mean), bt_div(1, deviation));
}

/* Keeps x and the statistics, one number per row, for derivatives, but not the normalised rows. */
static void layer_norm_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                           bt_tensor **wanted)
{
    bt_tensor *x = in[0], *g = given[0], *to_mean = given[1], *to_deviation = given[2], *from = NULL;
    double count = (double)x->dims[x->rank - 1];
    (void)attr;
    if (g) {
        from = BT_RECORD0(&bt_op_layer_norm_grad, x, out[1], out[2], bt_mul(g, in[1]));
        wanted[1] = BT_RECORD0(&bt_op_layer_norm_dot, x, out[1], out[2], g);
        wanted[2] = bt_sum_like(g, in[2]);
    }
    if (to_mean)
        from = bt_accumulate(from, bt_broadcast_like(bt_div(to_mean, count), x));
    if (to_deviation)
        from = bt_accumulate(from, bt_mul(normalised(x, out[1], out[2]), bt_div(to_deviation, count)));
    wanted[0] = from;
}

static void layer_norm_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                           bt_tensor **wanted)
{
    bt_tensor *x = in[0], *dx = given[0], *y = NULL;
    (void)attr;
    if (dx) {
        y = bt_mul(BT_RECORD0(&bt_op_layer_norm_grad, x, out[1], out[2], dx), in[1]);
        wanted[1] = bt_mean(dx, -1, BT_KEEP);
        wanted[2] = bt_mean(bt_mul(normalised(x, out[1], out[2]), dx), -1, BT_KEEP);
    }
    if (given[1])
        y = bt_accumulate(y, bt_mul(normalised(x, out[1], out[2]), given[1]));
    if (given[2])
        y = bt_accumulate(y, bt_broadcast_like(given[2], x));
    wanted[0] = y;
}

static double layer_norm_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return 8 * bt_flops_input(attr, in, out);
}

static void layer_norm_describe(const void *attr, bt_text *text)
{
    bt_text_add(text, "eps %g", ((const bt_eps_attr *)attr)->eps);
}

#define NORM(name_, eps, features, ...)                                                                                \
    BT_SAMPLE(sampler, .name = (name_), .inputs = 3, BT_ATTR(bt_eps_attr, (eps)),                                      \
              .in = {__VA_ARGS__, BT_DRAWN(-2, 2, BT_F64, 1, (features)), BT_DRAWN(-2, 2, BT_F64, 1, (features))})

static void layer_norm_samples(bt_sampler *sampler)
{
    static const double equal[] = {3};
    NORM("matrix", 1e-5, 5, BT_DRAWN(-2, 2, BT_F64, 2, 3, 5));
    NORM("three axes", 0.1, 19, BT_DRAWN(-2, 2, BT_F64, 3, 2, 3, 19));
    NORM("vector", 0.1, 4, BT_DRAWN(-2, 2, BT_F64, 1, 4));
    NORM("equal features", 0.1, 4, BT_LISTED(equal, BT_F64, 2, 2, 4));
    NORM("one feature", 0.1, 1, BT_DRAWN(-2, 2, BT_F64, 2, 3, 1));
    NORM("no rows", 0.1, 3, BT_DRAWN(-2, 2, BT_F64, 2, 0, 3));
}

/* The split axis if it is one of the rows; -1: it is the feature axis. */
static int axis_of_rows(const bt_shares *shares)
{
    const int axis = bt_shares_axis(shares);
    return axis < shares->in[0].rank - 1 ? axis : -1;
}

static bool layer_norm_shares(bt_shares *shares)
{
    const int axis = shares->in_axis[0] < shares->in[0].rank - 1 ? shares->in_axis[0] : -1;
    bt_shares_along(shares, axis, 3);
    shares->in_axis[1] = shares->in_axis[2] = -1;
    return axis >= 0;
}

const bt_op bt_op_layer_norm = {
    .name = "layer_norm",
    .inputs = 3,
    .outputs = 3,
    .attr_size = sizeof(bt_eps_attr),
    .infer = layer_norm_infer,
    .body = layer_norm_body,
    .vjp = layer_norm_vjp,
    .jvp = layer_norm_jvp,
    .info = &(const bt_op_info){.differentiable = 7,
                                .overwrites = {1},
                                .flops = layer_norm_flops,
                                .shares = layer_norm_shares,
                                .describe = layer_norm_describe,
                                .samples = layer_norm_samples},
};

/* ---- layer_norm_grad(x, mean, deviation, u), layer_norm_dot(x, mean, deviation, g): see ops/ops.h ---- */

static bt_status statistics_infer(const char *op, const bt_array *in)
{
    BT_TRY(rows_infer(op, in[0]));
    BT_TRY(bt_check_equal(op, "the mean", in[1], "a number for each row of x", row_shape(in[0])));
    BT_TRY(bt_check_equal(op, "the deviation", in[2], "a number for each row of x", row_shape(in[0])));
    return bt_check_equal(op, "the last operand", in[3], "x", in[0]);
}

static bt_status layer_norm_grad_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    out[0] = in[0];
    return statistics_infer("layer_norm_grad", in);
}

static void layer_norm_grad_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    bt_tensor *u = in[3], *hat = normalised(in[0], in[1], in[2]);
    (void)attr;
    bt_tensor *along = bt_mul(hat, bt_mean(bt_mul(hat, u), -1, BT_KEEP));
    out[0] = bt_div(bt_sub(bt_sub(u, bt_mean(u, -1, BT_KEEP)), along), in[2]);
}

static bt_status layer_norm_dot_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    BT_TRY(statistics_infer("layer_norm_dot", in));
    out[0] = (bt_array){.dtype = in[0].dtype, .rank = 1, .dims = {in[0].dims[in[0].rank - 1]}};
    return BT_OK;
}

static void layer_norm_dot_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    bt_tensor *product = bt_mul(normalised(in[0], in[1], in[2]), in[3]);
    (void)attr;
    out[0] = bt_poisoned(product) ? product
                                  : bt_reduce(&bt_op_sum, product, (UINT32_C(1) << (product->rank - 1)) - 1, false);
}

#define STATISTICS(name_, rank, ...)                                                                                   \
    BT_SAMPLE(sampler, .name = (name_), .inputs = 4,                                                                   \
              .in = {BT_DRAWN(-2, 2, BT_F64, rank, __VA_ARGS__), BT_DRAWN(-1, 1, BT_F64, rank, ROWS),                  \
                     BT_DRAWN(0.5, 2, BT_F64, rank, ROWS), BT_DRAWN(-2, 2, BT_F64, rank, __VA_ARGS__)})

static void statistics_samples(bt_sampler *sampler)
{
#define ROWS 3, 1
    STATISTICS("matrix", 2, 3, 5);
    STATISTICS("one feature", 2, 3, 1);
#undef ROWS
#define ROWS 2, 3, 1
    STATISTICS("three axes", 3, 2, 3, 19);
#undef ROWS
#define ROWS 1
    STATISTICS("vector", 1, 4);
#undef ROWS
#define ROWS 0, 1
    STATISTICS("no rows", 2, 0, 3);
#undef ROWS
}

static double six_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return 6 * bt_flops_input(attr, in, out);
}

static bool layer_norm_grad_shares(bt_shares *shares)
{
    const int axis = axis_of_rows(shares);
    return axis >= 0 && bt_shares_along(shares, axis, 1);
}

static bool layer_norm_dot_shares(bt_shares *shares)
{
    const bool rows = layer_norm_grad_shares(shares);
    shares->out_axis[0] = BT_BATCH_SUMMED;
    return rows;
}

const bt_op bt_op_layer_norm_grad = {
    .name = "layer_norm_grad",
    .inputs = 4,
    .infer = layer_norm_grad_infer,
    .body = layer_norm_grad_body,
    .info = &(const bt_op_info){.differentiable = 15,
                                .overwrites = {9},
                                .flops = six_flops,
                                .shares = layer_norm_grad_shares,
                                .samples = statistics_samples},
};

const bt_op bt_op_layer_norm_dot = {
    .name = "layer_norm_dot",
    .inputs = 4,
    .infer = layer_norm_dot_infer,
    .body = layer_norm_dot_body,
    .info =
        &(const bt_op_info){
            .differentiable = 15, .flops = six_flops, .shares = layer_norm_dot_shares, .samples = statistics_samples},
};

bt_tensor *bt_layer_norm(bt_tensor *x, bt_tensor *scale, bt_tensor *shift, double eps)
{
    bt_tensor *operands[] = {bt_wide(x), scale, shift};
    bt_tensor *poison = bt_operands_promote("layer_norm", operands, 3, BT_PROMOTE_FLOAT);
    if (poison)
        return poison;
    if (!(eps >= 0))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "layer_norm: eps is %g, must be at least 0", eps);
    bt_eps_attr attr = {eps};
    return bt_stored_like(BT_RECORD(&bt_op_layer_norm, &attr, operands[0], operands[1], operands[2]), x);
}
