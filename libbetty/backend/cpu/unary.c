/* backend/cpu/unary.c: elementwise ops of one operand. In f32 the functions are our own; in f64, which is for checks,
 * they are the C library's. */
#include "backend/cpu/loop.h"
#include "backend/cpu/vector.h"
#include "backend/math.h"

#include <math.h>

#define ROW(name, T, U, expression)                                                                                    \
    static void name(int64_t n, void *out, const void *const *in)                                                      \
    {                                                                                                                  \
        const T *a = in[0];                                                                                            \
        U *y = out;                                                                                                    \
        BT_SIMD                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T x = a[i];                                                                                                \
            y[i] = expression;                                                                                         \
        }                                                                                                              \
    }

ROW(neg_f32, float, float, -x)
ROW(neg_f64, double, double, -x)
ROW(abs_f32, float, float, bt_abs_f32(x))
ROW(abs_f64, double, double, __builtin_fabs(x))
ROW(sign_f32, float, float, x > 0 ? 1.0F : x < 0 ? -1.0F : x)
ROW(sign_f64, double, double, x > 0 ? 1.0 : x < 0 ? -1.0 : x)
ROW(square_f32, float, float, x *x)
ROW(square_f64, double, double, x *x)
ROW(sqrt_f32, float, float, __builtin_sqrtf(x))
ROW(sqrt_f64, double, double, __builtin_sqrt(x))
ROW(exp_f32, float, float, bt_exp_f32(x))
ROW(exp_f64, double, double, exp(x))
ROW(log_f32, float, float, bt_log_f32(x))
ROW(log_f64, double, double, log(x))
ROW(log1p_f32, float, float, bt_log1p_f32(x))
ROW(log1p_f64, double, double, log1p(x))
ROW(expm1_f32, float, float, expm1f(x))
ROW(expm1_f64, double, double, expm1(x))
ROW(sinh_f32, float, float, sinhf(x))
ROW(sinh_f64, double, double, sinh(x))
ROW(cosh_f32, float, float, coshf(x))
ROW(cosh_f64, double, double, cosh(x))
ROW(atan_f32, float, float, atanf(x))
ROW(atan_f64, double, double, atan(x))
ROW(near_sin_f32, float, float, bt_sin_f32(x, 0))
ROW(far_sin_f32, float, float, sinf(x))
ROW(sin_f64, double, double, sin(x))
ROW(near_cos_f32, float, float, bt_sin_f32(x, 1))
ROW(far_cos_f32, float, float, cosf(x))
ROW(cos_f64, double, double, cos(x))
ROW(tanh_f32, float, float, bt_tanh_f32(x))
ROW(tanh_f64, double, double, tanh(x))
ROW(erf_f32, float, float, bt_erf_f32(x))
ROW(erf_f64, double, double, erf(x))
ROW(sigmoid_f32, float, float, bt_sigmoid_f32(x))
ROW(relu_f32, float, float, x <= 0 ? 0.0F : x)
ROW(relu_f64, double, double, x <= 0 ? 0.0 : x)
ROW(step_f32, float, float, x > 0 ? 1.0F : 0.0F)
ROW(step_f64, double, double, x > 0 ? 1.0 : 0.0)
ROW(floor_f32, float, float, __builtin_floorf(x))
ROW(floor_f64, double, double, __builtin_floor(x))
ROW(isfinite_f32, float, uint8_t, bt_abs_f32(x) < __builtin_inff())
ROW(isfinite_f64, double, uint8_t, __builtin_fabs(x) < __builtin_inf())
ROW(softplus_f32, float, float, bt_softplus_f32(x))
ROW(gelu_f32, float, float, bt_gelu_f32(x))
ROW(gelu_slope_f32, float, float, bt_gelu_slope_f32(x))

/* Far from 0, which is rare, the C library does the range reduction. */
static bool all_near(int64_t n, const float *x)
{
    bool near = true;
    for (int64_t i = 0; i < n; i++)
        near &= bt_abs_f32(x[i]) <= BT_SIN_LIMIT;
    return near;
}

static void in_pieces(int64_t n, void *out, const void *const *in, bt_row_fn *near, bt_row_fn *far)
{
    const float *x = in[0];
    for (int64_t at = 0; at < n; at += 256) {
        int64_t count = n - at < 256 ? n - at : 256;
        (all_near(count, x + at) ? near : far)(count, (float *)out + at, (const void *const[]){x + at});
    }
}

static void sin_f32(int64_t n, void *out, const void *const *in) { in_pieces(n, out, in, near_sin_f32, far_sin_f32); }

static void cos_f32(int64_t n, void *out, const void *const *in) { in_pieces(n, out, in, near_cos_f32, far_cos_f32); }

static double sigmoid(double x)
{
    double z = exp(-fabs(x));
    return x < 0 ? z / (1 + z) : 1 / (1 + z);
}

static double softplus(double x)
{
    double tail = log1p(exp(-fabs(x)));
    return x > 0 ? x + tail : tail;
}

ROW(sigmoid_f64, double, double, sigmoid(x))
ROW(softplus_f64, double, double, softplus(x))
ROW(gelu_f64, double, double, 0.5 * x * erfc(-x * 0.70710678118654752440))
ROW(gelu_slope_f64, double, double,
    0.5 * erfc(-x * 0.70710678118654752440) + 0.39894228040143267794 * x * exp(-0.5 * x * x))

ROW(gelu_tanh_f32, float, float, x *bt_sigmoid_f32(1.5957691216F * x * (1 + 0.044715F * x * x)))
ROW(gelu_tanh_f64, double, double, x *sigmoid(1.59576912160573071176 * x * (1 + 0.044715 * x * x)))

/* Integers wrap around. */
#define INTEGERS(name, expression)                                                                                     \
    ROW(name##_i32, int32_t, int32_t, (int32_t)(expression))                                                           \
    ROW(name##_i64, int64_t, int64_t, (int64_t)(expression))
INTEGERS(neg, 0 - (uint64_t)x)
INTEGERS(abs, x < 0 ? 0 - (uint64_t)x : (uint64_t)x)
INTEGERS(sign, (x > 0) - (x < 0))
INTEGERS(square, (uint64_t)x *(uint64_t)x)

static const struct unary {
    const bt_op *op;
    bt_row_fn *f32, *f64;
    int cost_f32, cost_f64;
    bt_row_fn *i32, *i64; /* NULL: floats only */
} unaries[] = {
    {&bt_op_neg, neg_f32, neg_f64, 1, 1, neg_i32, neg_i64},
    {&bt_op_abs, abs_f32, abs_f64, 1, 1, abs_i32, abs_i64},
    {&bt_op_sign, sign_f32, sign_f64, 1, 1, sign_i32, sign_i64},
    {&bt_op_square, square_f32, square_f64, 1, 1, square_i32, square_i64},
    {&bt_op_sqrt, sqrt_f32, sqrt_f64, 2, 4, NULL, NULL},
    {&bt_op_exp, exp_f32, exp_f64, 3, 20, NULL, NULL},
    {&bt_op_log, log_f32, log_f64, 4, 20, NULL, NULL},
    {&bt_op_log1p, log1p_f32, log1p_f64, 6, 30, NULL, NULL},
    {&bt_op_expm1, expm1_f32, expm1_f64, 20, 30, NULL, NULL},
    {&bt_op_sinh, sinh_f32, sinh_f64, 20, 40, NULL, NULL},
    {&bt_op_cosh, cosh_f32, cosh_f64, 20, 40, NULL, NULL},
    {&bt_op_atan, atan_f32, atan_f64, 20, 40, NULL, NULL},
    {&bt_op_sin, sin_f32, sin_f64, 8, 30, NULL, NULL},
    {&bt_op_cos, cos_f32, cos_f64, 8, 30, NULL, NULL},
    {&bt_op_tanh, tanh_f32, tanh_f64, 6, 40, NULL, NULL},
    {&bt_op_erf, erf_f32, erf_f64, 8, 40, NULL, NULL},
    {&bt_op_sigmoid, sigmoid_f32, sigmoid_f64, 5, 30, NULL, NULL},
    {&bt_op_relu, relu_f32, relu_f64, 1, 1, NULL, NULL},
    {&bt_op_step, step_f32, step_f64, 1, 1, NULL, NULL},
    {&bt_op_floor, floor_f32, floor_f64, 1, 1, NULL, NULL},
    {&bt_op_isfinite, isfinite_f32, isfinite_f64, 1, 1, NULL, NULL},
    {&bt_op_softplus, softplus_f32, softplus_f64, 10, 60, NULL, NULL},
    {&bt_op_gelu, gelu_f32, gelu_f64, 10, 60, NULL, NULL},
    {&bt_op_gelu_slope, gelu_slope_f32, gelu_slope_f64, 13, 80, NULL, NULL},
    {&bt_op_gelu_tanh, gelu_tanh_f32, gelu_tanh_f64, 10, 60, NULL, NULL},
};

static const struct unary *unary_of(const bt_call *call)
{
    const struct unary *unary = unaries;
    while (unary->op != call->op)
        unary++;
    return unary;
}

static bt_row_fn *row_of(const struct unary *unary, bt_dtype dtype)
{
    bt_row_fn *const rows[] = {
        [BT_F32] = unary->f32, [BT_F64] = unary->f64, [BT_I32] = unary->i32, [BT_I64] = unary->i64};
    return (int)dtype < BT_COUNT_OF(rows) ? rows[dtype] : NULL;
}

static bool accepts(const bt_call *call) { return row_of(unary_of(call), call->in[0].dtype) != NULL; }

static bt_status prepare(bt_call *call)
{
    const struct unary *unary = unary_of(call);
    bt_row_fn *const variants[] = {row_of(unary, call->in[0].dtype), NULL};
    return BT_ISA(bt_loop_prepare)(call, variants, call->in[0].dtype == BT_F64 ? unary->cost_f64 : unary->cost_f32);
}

#define UNARY(name)                                                                                                    \
    {                                                                                                                  \
        &bt_op_##name, #name ".vector", accepts, NULL, prepare, BT_ISA(bt_loop_launch), BT_ISA(bt_loop_release),       \
            false, false                                                                                               \
    }

const bt_kernel_impl BT_ISA(bt_cpu_unary)[] = {
    UNARY(neg),   UNARY(abs),   UNARY(sign),     UNARY(square),     UNARY(sqrt),  UNARY(exp),       UNARY(log),
    UNARY(log1p), UNARY(sin),   UNARY(cos),      UNARY(tanh),       UNARY(erf),   UNARY(sigmoid),   UNARY(relu),
    UNARY(step),  UNARY(floor), UNARY(isfinite), UNARY(softplus),   UNARY(gelu),  UNARY(gelu_tanh), UNARY(expm1),
    UNARY(sinh),  UNARY(cosh),  UNARY(atan),     UNARY(gelu_slope), {.op = NULL},
};
