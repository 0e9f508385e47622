/* ops/unary.c: elementwise functions of one operand. */
#include "ops/define.h"

#include <math.h>

#define UNARY(op, kinds_, flags_, differentiable_, rule_, simplify_)                                                   \
    BT_INFER_EQUAL(op, kinds_, 1)                                                                                      \
    const bt_op bt_op_##op = {                                                                                         \
        .name = #op,                                                                                                   \
        .inputs = 1,                                                                                                   \
        .infer = op##_infer,                                                                                           \
        .vjp = (rule_),                                                                                                \
        .jvp = (rule_),                                                                                                \
        .info = &(const bt_op_info){.flags = BT_OP_ELEMENTWISE | (flags_),                                             \
                                    .differentiable = (differentiable_),                                               \
                                    .overwrites = {1},                                                                 \
                                    .fold = op##_fold,                                                                 \
                                    .simplify = (simplify_),                                                           \
                                    .samples = op##_samples},                                                          \
    };

#define SAMPLES(op, low, high)                                                                                         \
    static void op##_samples(bt_sampler *sampler) { bt_samples_equal(sampler, 1, (low), (high)); }

#define SAMPLES_AND(op, low, high, name, is_kink, ...)                                                                 \
    static void op##_samples(bt_sampler *sampler)                                                                      \
    {                                                                                                                  \
        const double values[] = {__VA_ARGS__};                                                                         \
        bt_samples_equal(sampler, 1, (low), (high));                                                                   \
        bt_sample_values(sampler, (name), 1, values, BT_COUNT_OF(values), (is_kink));                                  \
    }

#define FOLD(op, expression)                                                                                           \
    static double op##_fold(const double *in)                                                                          \
    {                                                                                                                  \
        double x = in[0];                                                                                              \
        return (expression);                                                                                           \
    }

static bt_tensor *twice_negated(const void *attr, bt_tensor *const *in, int inputs)
{
    (void)attr, (void)inputs;
    return in[0]->node->op == &bt_op_neg ? in[0]->node->in[0] : NULL;
}

/* Rules for derivatives that are a function of the input x or the output y; g is the given tangent or cotangent. */

BT_DIAGONAL_RULE(neg, bt_neg(g))
SAMPLES(neg, -2, 2)
FOLD(neg, -x)
UNARY(neg, BT_NUMBERS, BT_OP_LINEAR, 1, neg_rule, twice_negated)

BT_DIAGONAL_RULE(abs, bt_mul(g, bt_sign(x)))
SAMPLES_AND(abs, 0.1, 2, "at the kink", true, 0, -0.0, -1.5, 2)
FOLD(abs, fabs(x))
UNARY(abs, BT_NUMBERS, 0, 1, abs_rule, NULL)

SAMPLES_AND(sign, -2, 2, "at the jump", true, 0, -0.0, -1.5, 1e-30)
FOLD(sign, x > 0 ? 1 : x < 0 ? -1 : x)
UNARY(sign, BT_NUMBERS, 0, 0, NULL, NULL)

BT_DIAGONAL_RULE(square, bt_mul(g, bt_add(x, x)))
SAMPLES_AND(square, -2, 2, "zero", false, 0, 1, -3)
FOLD(square, x *x)
UNARY(square, BT_NUMBERS, 0, 1, square_rule, NULL)

BT_DIAGONAL_RULE(sqrt, bt_div(bt_mul(0.5, g), y))
SAMPLES(sqrt, 0.5, 3)
FOLD(sqrt, sqrt(x))
UNARY(sqrt, BT_FLOATS, 0, 1, sqrt_rule, NULL)

BT_DIAGONAL_RULE(exp, bt_mul(g, y))
SAMPLES_AND(exp, -2, 2, "small", false, -50, -20, 0)
FOLD(exp, exp(x))
UNARY(exp, BT_FLOATS, 0, 1, exp_rule, NULL)

BT_DIAGONAL_RULE(log, bt_div(g, x))
SAMPLES(log, 0.5, 3)
FOLD(log, log(x))
UNARY(log, BT_FLOATS, 0, 1, log_rule, NULL)

BT_DIAGONAL_RULE(log1p, bt_div(g, bt_add(x, 1)))
SAMPLES_AND(log1p, -0.4, 3, "small", false, 0, 1e-9, -1e-9)
FOLD(log1p, log1p(x))
UNARY(log1p, BT_FLOATS, 0, 1, log1p_rule, NULL)

BT_DIAGONAL_RULE(expm1, bt_mul(g, bt_add(y, 1)))
SAMPLES_AND(expm1, -2, 2, "small", false, -50, 0, 1e-9, -1e-9)
FOLD(expm1, expm1(x))
UNARY(expm1, BT_FLOATS, 0, 1, expm1_rule, NULL)

BT_DIAGONAL_RULE(sinh, bt_mul(g, bt_cosh(x)))
SAMPLES_AND(sinh, -2, 2, "small", false, 0, 1e-9, -1e-9)
FOLD(sinh, sinh(x))
UNARY(sinh, BT_FLOATS, 0, 1, sinh_rule, NULL)

BT_DIAGONAL_RULE(cosh, bt_mul(g, bt_sinh(x)))
SAMPLES(cosh, -2, 2)
FOLD(cosh, cosh(x))
UNARY(cosh, BT_FLOATS, 0, 1, cosh_rule, NULL)

BT_DIAGONAL_RULE(atan, bt_div(g, bt_add(bt_square(x), 1)))
SAMPLES_AND(atan, -3, 3, "flat", false, -1e6, 0, 1e6)
FOLD(atan, atan(x))
UNARY(atan, BT_FLOATS, 0, 1, atan_rule, NULL)

BT_DIAGONAL_RULE(sin, bt_mul(g, bt_cos(x)))
SAMPLES(sin, -4, 4)
FOLD(sin, sin(x))
UNARY(sin, BT_FLOATS, 0, 1, sin_rule, NULL)

BT_DIAGONAL_RULE(cos, bt_neg(bt_mul(g, bt_sin(x))))
SAMPLES(cos, -4, 4)
FOLD(cos, cos(x))
UNARY(cos, BT_FLOATS, 0, 1, cos_rule, NULL)

BT_DIAGONAL_RULE(tanh, bt_mul(g, bt_sub(1, bt_square(y))))
SAMPLES_AND(tanh, -2, 2, "flat", false, -30, 0, 30)
FOLD(tanh, tanh(x))
UNARY(tanh, BT_FLOATS, 0, 1, tanh_rule, NULL)

BT_DIAGONAL_RULE(erf, bt_mul(g, bt_mul(1.12837916709551257390, bt_exp(bt_neg(bt_square(x)))))) /* 2 / sqrt(pi) */
SAMPLES_AND(erf, -2, 2, "flat", false, -9, 0, 9)
FOLD(erf, erf(x))
UNARY(erf, BT_FLOATS, 0, 1, erf_rule, NULL)

BT_DIAGONAL_RULE(sigmoid, bt_mul(g, bt_sub(y, bt_square(y))))
SAMPLES_AND(sigmoid, -3, 3, "flat", false, -40, 0, 40)
FOLD(sigmoid, 1 / (1 + exp(-x)))
UNARY(sigmoid, BT_FLOATS, 0, 1, sigmoid_rule, NULL)

/* The output, which is kept anyway, also shows where the input was positive. */
BT_DIAGONAL_RULE(relu, BT_RECORD0(&bt_op_gate, g, y))
SAMPLES_AND(relu, 0.1, 2, "at the kink", true, 0, -0.0, -1.5, 2)
FOLD(relu, x <= 0 ? 0 : x)
UNARY(relu, BT_FLOATS, BT_OP_SELECTS, 1, relu_rule, NULL)

SAMPLES_AND(step, -2, 2, "at the jump", true, 0, -0.0, -1.5, 1e-30)
FOLD(step, x > 0)
UNARY(step, BT_FLOATS, 0, 0, NULL, NULL)

SAMPLES_AND(floor, -2, 2, "at the jumps", true, 0, -1, 3, 2.9999999)
FOLD(floor, floor(x))
UNARY(floor, BT_FLOATS, 0, 0, NULL, NULL)

static bt_status isfinite_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    BT_TRY(bt_infer_equal("isfinite", BT_FLOATS, 1, in, out));
    out[0].dtype = BT_BOOL;
    return BT_OK;
}

SAMPLES_AND(isfinite, -2, 2, "not finite", true, 1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0, 1)

const bt_op bt_op_isfinite = {
    .name = "isfinite",
    .inputs = 1,
    .infer = isfinite_infer,
    .info = &(const bt_op_info){.flags = BT_OP_ELEMENTWISE, .samples = isfinite_samples},
};

/* ---- builders ---- */

#define BUILD(function, op, promotion)                                                                                 \
    bt_tensor *function(bt_tensor *x) { return bt_build_unary(&bt_op_##op, x, promotion); }

BUILD(bt_neg, neg, BT_PROMOTE_NUMBER)
BUILD(bt_abs, abs, BT_PROMOTE_NUMBER)
BUILD(bt_sign, sign, BT_PROMOTE_NUMBER)
BUILD(bt_square, square, BT_PROMOTE_NUMBER)
BUILD(bt_sqrt, sqrt, BT_PROMOTE_FLOAT)
BUILD(bt_exp, exp, BT_PROMOTE_FLOAT)
BUILD(bt_log, log, BT_PROMOTE_FLOAT)
BUILD(bt_log1p, log1p, BT_PROMOTE_FLOAT)
BUILD(bt_expm1, expm1, BT_PROMOTE_FLOAT)
BUILD(bt_sinh, sinh, BT_PROMOTE_FLOAT)
BUILD(bt_cosh, cosh, BT_PROMOTE_FLOAT)
BUILD(bt_atan, atan, BT_PROMOTE_FLOAT)
BUILD(bt_sin, sin, BT_PROMOTE_FLOAT)
BUILD(bt_cos, cos, BT_PROMOTE_FLOAT)
BUILD(bt_tanh, tanh, BT_PROMOTE_FLOAT)
BUILD(bt_erf, erf, BT_PROMOTE_FLOAT)
BUILD(bt_sigmoid, sigmoid, BT_PROMOTE_FLOAT)
BUILD(bt_relu, relu, BT_PROMOTE_FLOAT)
BUILD(bt_step_positive, step, BT_PROMOTE_FLOAT)
BUILD(bt_floor, floor, BT_PROMOTE_FLOAT)
BUILD(bt_isfinite, isfinite, BT_PROMOTE_FLOAT)
