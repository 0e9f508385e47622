/* ops/activation.c: softplus, gelu, gelu_tanh: elementwise composites. */
#include "ops/define.h"

static double ten_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return 10 * bt_flops_input(attr, in, out);
}

BT_INFER_EQUAL(softplus, BT_FLOATS, 1)
BT_INFER_EQUAL(gelu, BT_FLOATS, 1)
BT_INFER_EQUAL(gelu_slope, BT_FLOATS, 1)
BT_INFER_EQUAL(gelu_tanh, BT_FLOATS, 1)

/* ---- softplus: log(1 + exp(x)) without overflow ---- */

static void softplus_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_add(bt_maximum(in[0], 0), bt_log1p(bt_exp(bt_neg(bt_abs(in[0])))));
}

/* The body has a kink at 0, where its two parts meet; the function itself is smooth. */
BT_DIAGONAL_RULE(softplus, bt_mul(g, bt_sigmoid(x)))

static void softplus_samples(bt_sampler *sampler)
{
    static const double far[] = {-800, -30, 30, 800}, zero[] = {0};
    bt_samples_equal(sampler, 1, 0.1, 3);
    bt_samples_equal(sampler, 1, -3, -0.1);
    bt_sample_values(sampler, "far out", 1, far, BT_COUNT_OF(far), false);
    bt_sample_values(sampler, "zero", 1, zero, 1, true);
}

const bt_op bt_op_softplus = {
    .name = "softplus",
    .inputs = 1,
    .infer = softplus_infer,
    .body = softplus_body,
    .vjp = softplus_rule,
    .jvp = softplus_rule,
    .info = &(const bt_op_info){.flags = BT_OP_ELEMENTWISE,
                                .differentiable = 1,
                                .overwrites = {1},
                                .flops = ten_flops,
                                .samples = softplus_samples},
};

bt_tensor *bt_softplus(bt_tensor *x) { return bt_build_unary(&bt_op_softplus, x, BT_PROMOTE_FLOAT); }

/* ---- gelu: x times the normal distribution function of x (Hendrycks and Gimpel 2016) ---- */

static void gelu_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_mul(bt_mul(0.5, in[0]), bt_add(1, bt_erf(bt_mul(0.70710678118654752440, in[0]))));
}

static bt_tensor *gelu_slope(bt_tensor *x) { return bt_build_unary(&bt_op_gelu_slope, x, BT_PROMOTE_FLOAT); }

/* Its body would give the same, in three times as many passes over x. */
BT_DIAGONAL_RULE(gelu, bt_mul(g, gelu_slope(x)))

static void gelu_samples(bt_sampler *sampler)
{
    static const double far[] = {-20, 0, 20};
    bt_samples_equal(sampler, 1, -2, 2);
    bt_sample_values(sampler, "far out", 1, far, BT_COUNT_OF(far), false);
}

const bt_op bt_op_gelu = {
    .name = "gelu",
    .inputs = 1,
    .infer = gelu_infer,
    .body = gelu_body,
    .vjp = gelu_rule,
    .jvp = gelu_rule,
    .info = &(const bt_op_info){.flags = BT_OP_ELEMENTWISE,
                                .differentiable = 1,
                                .overwrites = {1},
                                .flops = ten_flops,
                                .samples = gelu_samples},
};

bt_tensor *bt_gelu(bt_tensor *x) { return bt_build_unary(&bt_op_gelu, x, BT_PROMOTE_FLOAT); }

/* ---- gelu_slope: the derivative of gelu, P(x) + x p(x); P and p: the normal distribution function and density ---- */

/* p(x) times sqrt(2 pi). */
static bt_tensor *density(bt_tensor *x) { return bt_exp(bt_mul(-0.5, bt_square(x))); }

static void gelu_slope_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    bt_tensor *below = bt_mul(0.5, bt_add(1, bt_erf(bt_mul(0.70710678118654752440, in[0]))));
    out[0] = bt_add(below, bt_mul(bt_mul(0.39894228040143267794, in[0]), density(in[0]))); /* 1 / sqrt(2 pi) */
}

/* p'(x) = -x p(x), so the derivative is (2 - x^2) p(x). */
BT_DIAGONAL_RULE(gelu_slope, bt_mul(g, bt_mul(density(x), bt_mul(0.39894228040143267794, bt_sub(2, bt_square(x))))))

const bt_op bt_op_gelu_slope = {
    .name = "gelu_slope",
    .inputs = 1,
    .infer = gelu_slope_infer,
    .body = gelu_slope_body,
    .vjp = gelu_slope_rule,
    .jvp = gelu_slope_rule,
    .info = &(const bt_op_info){.flags = BT_OP_ELEMENTWISE,
                                .differentiable = 1,
                                .overwrites = {1},
                                .flops = ten_flops,
                                .samples = gelu_samples},
};

/* ---- gelu_tanh: the approximation of gelu that GPT-2 uses: x (1 + tanh(u)) / 2 = x sigmoid(2 u) ---- */

static void gelu_tanh_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    bt_tensor *twice = bt_mul(in[0], bt_add(1, bt_mul(0.044715, bt_square(in[0]))));
    out[0] = bt_mul(in[0], bt_sigmoid(bt_mul(1.59576912160573071176, twice))); /* 2 sqrt(2 / pi) */
}

const bt_op bt_op_gelu_tanh = {
    .name = "gelu_tanh",
    .inputs = 1,
    .infer = gelu_tanh_infer,
    .body = gelu_tanh_body,
    .info = &(const bt_op_info){.flags = BT_OP_ELEMENTWISE,
                                .differentiable = 1,
                                .overwrites = {1},
                                .flops = ten_flops,
                                .samples = gelu_samples},
};

bt_tensor *bt_gelu_tanh(bt_tensor *x) { return bt_build_unary(&bt_op_gelu_tanh, x, BT_PROMOTE_FLOAT); }
