/* backend/cuda/functions.h: the functions of ops of one or two operands. In f32 they are those of backend/math.h and so
 * give the CPU's bits; in f64, which is for checks, they are the device's. Each is a structure op_dtype with the type T
 * that it computes in, the type R of its result, and the function `of`. */
#ifndef BT_CUDA_FUNCTIONS_H
#define BT_CUDA_FUNCTIONS_H

#include "backend/binary.h"
#include "backend/cuda/device.h"

#define FUNCTION(name, type, result, expression)                                                                       \
    struct name {                                                                                                      \
        typedef type T;                                                                                                \
        typedef result R;                                                                                              \
        static __device__ inline R of(T x, T y) { return (void)x, (void)y, expression; }                               \
    };
#define FLOATS(name, f32, f64)                                                                                         \
    FUNCTION(name##_f32, float, float, f32)                                                                            \
    FUNCTION(name##_f64, double, double, f64)
#define INTEGERS(name, expression)                                                                                     \
    FUNCTION(name##_i32, int32_t, int32_t, (int32_t)(expression))                                                      \
    FUNCTION(name##_i64, int64_t, int64_t, (int64_t)(expression))
#define TRUTHS(name, expression)                                                                                       \
    FUNCTION(name##_f32, float, uint8_t, expression)                                                                   \
    FUNCTION(name##_f64, double, uint8_t, expression)                                                                  \
    FUNCTION(name##_i32, int32_t, uint8_t, expression)                                                                 \
    FUNCTION(name##_i64, int64_t, uint8_t, expression)

static __device__ inline double sigmoid(double x)
{
    const double z = exp(-fabs(x));
    return x < 0 ? z / (1 + z) : 1 / (1 + z);
}

static __device__ inline double softplus(double x)
{
    const double tail = log1p(exp(-fabs(x)));
    return x > 0 ? x + tail : tail;
}

/* Far from 0, which is rare, the device's library does the range reduction. */
static __device__ inline float sine(float x) { return bt_abs_f32(x) <= BT_SIN_LIMIT ? bt_sin_f32(x, 0) : sinf(x); }
static __device__ inline float cosine(float x) { return bt_abs_f32(x) <= BT_SIN_LIMIT ? bt_sin_f32(x, 1) : cosf(x); }

/* ---- one operand ---- */

FLOATS(neg, -x, -x)
FLOATS(abs, bt_abs_f32(x), fabs(x))
FLOATS(sign, x > 0 ? 1.0F : x < 0 ? -1.0F : x, x > 0 ? 1.0 : x < 0 ? -1.0 : x)
FLOATS(square, x *x, x *x)
INTEGERS(neg, 0 - (uint64_t)x)
INTEGERS(abs, x < 0 ? 0 - (uint64_t)x : (uint64_t)x)
INTEGERS(sign, (x > 0) - (x < 0))
INTEGERS(square, (uint64_t)x *(uint64_t)x)
FLOATS(sqrt, sqrtf(x), sqrt(x))
FLOATS(exp, bt_exp_f32(x), exp(x))
FLOATS(log, bt_log_f32(x), log(x))
FLOATS(log1p, bt_log1p_f32(x), log1p(x))
FLOATS(expm1, expm1f(x), expm1(x))
FLOATS(sinh, sinhf(x), sinh(x))
FLOATS(cosh, coshf(x), cosh(x))
FLOATS(atan, atanf(x), atan(x))
FLOATS(sin, sine(x), sin(x))
FLOATS(cos, cosine(x), cos(x))
FLOATS(tanh, bt_tanh_f32(x), tanh(x))
FLOATS(erf, bt_erf_f32(x), erf(x))
FLOATS(sigmoid, bt_sigmoid_f32(x), sigmoid(x))
FLOATS(relu, x <= 0 ? 0.0F : x, x <= 0 ? 0.0 : x)
FLOATS(step, x > 0 ? 1.0F : 0.0F, x > 0 ? 1.0 : 0.0)
FLOATS(floor, floorf(x), floor(x))
FUNCTION(isfinite_f32, float, uint8_t, bt_abs_f32(x) < __builtin_inff())
FUNCTION(isfinite_f64, double, uint8_t, fabs(x) < __builtin_inf())
FLOATS(softplus, bt_softplus_f32(x), softplus(x))
FLOATS(gelu, bt_gelu_f32(x), 0.5 * x * erfc(-x * 0.70710678118654752440))
FLOATS(gelu_slope, bt_gelu_slope_f32(x),
       0.5 * erfc(-x * 0.70710678118654752440) + 0.39894228040143267794 * x * exp(-0.5 * x * x))
FLOATS(gelu_tanh, x *bt_sigmoid_f32(1.5957691216F * x * (1 + 0.044715F * x * x)),
       x *sigmoid(1.59576912160573071176 * x * (1 + 0.044715 * x * x)))

/* ---- two operands ---- */

#define SAME(name, expression) FLOATS(name, expression, expression)
BT_BINARY_FLOATS(SAME)
FLOATS(pow, powf(x, y), pow(x, y))
INTEGERS(add, (uint64_t)x + (uint64_t)y)
INTEGERS(sub, (uint64_t)x - (uint64_t)y)
INTEGERS(mul, (uint64_t)x *(uint64_t)y)
BT_BINARY_EXTREMES(INTEGERS)
BT_BINARY_TRUTHS(TRUTHS)

#undef FUNCTION
#undef FLOATS
#undef INTEGERS
#undef TRUTHS
#undef SAME

#endif
