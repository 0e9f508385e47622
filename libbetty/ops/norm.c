/* ops/norm.c: layer normalisation, and the squared norm of everything. */
#include "ops/define.h"

/* ---- layer_norm(x [..., f], scale [f], shift [f]) ---- */

static bt_status layer_norm_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    BT_TRY(bt_check_dtype("layer_norm", "x", in[0].dtype, BT_FLOATS));
    if (in[0].rank < 1 || in[0].dims[in[0].rank - 1] == 0) {
        char shape[256];
        return bt_fail(BT_ERROR_SHAPE, "layer_norm: x is %s, must be [..., features]",
                       bt_shape_text(shape, in[0].rank, in[0].dims));
    }
    bt_array feature = {.dtype = in[0].dtype, .rank = 1, .dims = {in[0].dims[in[0].rank - 1]}};
    BT_TRY(bt_check_equal("layer_norm", "scale", in[1], "the last axis of x", feature));
    BT_TRY(bt_check_equal("layer_norm", "shift", in[2], "the last axis of x", feature));
    out[0] = in[0];
    return BT_OK;
}

static void layer_norm_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    double eps = ((const bt_eps_attr *)attr)->eps;
    bt_tensor *centred = bt_sub(in[0], bt_mean(in[0], -1, BT_KEEP));
    bt_tensor *deviation = bt_sqrt(bt_add(bt_mean(bt_square(centred), -1, BT_KEEP), eps));
    out[0] = bt_add(bt_mul(bt_div(centred, deviation), in[1]), in[2]);
}

static double layer_norm_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return 8 * bt_flops_input(attr, in, out);
}

static void layer_norm_describe(const void *attr, bt_text *text)
{
    bt_text_add(text, "eps %g", ((const bt_eps_attr *)attr)->eps);
}

static void layer_norm_samples(bt_sampler *sampler)
{
    static const double equal[] = {3};
    BT_SAMPLE(sampler, .name = "matrix", .inputs = 3, BT_ATTR(bt_eps_attr, 1e-5),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 3, 5), BT_DRAWN(-2, 2, BT_F64, 1, 5), BT_DRAWN(-2, 2, BT_F64, 1, 5)});
    BT_SAMPLE(
        sampler, .name = "three axes", .inputs = 3, BT_ATTR(bt_eps_attr, 0.1),
        .in = {BT_DRAWN(-2, 2, BT_F64, 3, 2, 3, 19), BT_DRAWN(-2, 2, BT_F64, 1, 19), BT_DRAWN(-2, 2, BT_F64, 1, 19)});
    BT_SAMPLE(sampler, .name = "vector", .inputs = 3, BT_ATTR(bt_eps_attr, 0.1),
              .in = {BT_DRAWN(-2, 2, BT_F64, 1, 4), BT_DRAWN(-2, 2, BT_F64, 1, 4), BT_DRAWN(-2, 2, BT_F64, 1, 4)});
    BT_SAMPLE(sampler, .name = "equal features", .inputs = 3, BT_ATTR(bt_eps_attr, 0.1),
              .in = {BT_LISTED(equal, BT_F64, 2, 2, 4), BT_DRAWN(-2, 2, BT_F64, 1, 4), BT_DRAWN(-2, 2, BT_F64, 1, 4)});
    BT_SAMPLE(sampler, .name = "one feature", .inputs = 3, BT_ATTR(bt_eps_attr, 0.1),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 3, 1), BT_DRAWN(-2, 2, BT_F64, 1, 1), BT_DRAWN(-2, 2, BT_F64, 1, 1)});
    BT_SAMPLE(sampler, .name = "no rows", .inputs = 3, BT_ATTR(bt_eps_attr, 0.1),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 0, 3), BT_DRAWN(-2, 2, BT_F64, 1, 3), BT_DRAWN(-2, 2, BT_F64, 1, 3)});
}

const bt_op bt_op_layer_norm = {
    .name = "layer_norm",
    .inputs = 3,
    .attr_size = sizeof(bt_eps_attr),
    .infer = layer_norm_infer,
    .body = layer_norm_body,
    .info = &(const bt_op_info){.differentiable = 7,
                                .flops = layer_norm_flops,
                                .describe = layer_norm_describe,
                                .samples = layer_norm_samples},
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

/* ---- norm_square(x): the sum of the squares of all elements, a scalar ---- */

static bt_status norm_square_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    BT_TRY(bt_check_dtype("norm_square", "the operand", in[0].dtype, BT_FLOATS));
    *out = (bt_array){.dtype = in[0].dtype};
    return BT_OK;
}

static void norm_square_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_sum(bt_square(in[0]));
}

static void norm_square_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                            bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = given[0] ? bt_mul(in[0], bt_mul(2, given[0])) : NULL;
}

static void norm_square_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                            bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = given[0] ? bt_mul(2, bt_sum(bt_mul(in[0], given[0]))) : NULL;
}

static double norm_square_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return 2 * bt_flops_input(attr, in, out);
}

static void norm_square_samples(bt_sampler *sampler)
{
    bt_samples_equal(sampler, 1, -2, 2);
    BT_SAMPLE(sampler, .name = "long", .inputs = 1, .in = {BT_DRAWN(-2, 2, BT_F64, 1, 1003)});
}

const bt_op bt_op_norm_square = {
    .name = "norm_square",
    .inputs = 1,
    .infer = norm_square_infer,
    .body = norm_square_body,
    .vjp = norm_square_vjp,
    .jvp = norm_square_jvp,
    .info = &(const bt_op_info){.cast = BT_CAST_HIGH,
                                .differentiable = 1,
                                .flops = norm_square_flops,
                                .batch_axis = bt_batch_none,
                                .samples = norm_square_samples},
};

bt_tensor *bt_norm_square(bt_tensor *x) { return bt_build_unary(&bt_op_norm_square, x, BT_PROMOTE_FLOAT); }
