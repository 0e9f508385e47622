/* backend/math.h: functions of one f32, the same on every device. They have no branches, so that loops over them
 * vectorise. Errors are below about 3 units in the last place; NaN, infinities and subnormal numbers give correct
 * results. The polynomials are our own weighted minimax fits. */
#ifndef BT_BACKEND_MATH_H
#define BT_BACKEND_MATH_H

#include "base/everywhere.h"
#include <stdint.h>
#include <string.h>

#define BT_INLINE BT_EVERYWHERE static inline __attribute__((always_inline))

/* a * b + c, with one rounding if the machine supports it. */
#if defined __FMA__ || defined __CUDA_ARCH__
BT_INLINE float bt_f32_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
BT_INLINE double bt_f64_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
BT_INLINE float bt_f32_fma(float a, float b, float c) { return a * b + c; }
BT_INLINE double bt_f64_fma(double a, double b, double c) { return a * b + c; }
#endif

BT_INLINE int32_t bt_bits(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

BT_INLINE float bt_from_bits(int32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* |x| and x with the sign of y. */
BT_INLINE float bt_abs_f32(float x) { return bt_from_bits(bt_bits(x) & 0x7fffffff); }

BT_INLINE float bt_with_sign(float x, float y)
{
    return bt_from_bits((bt_bits(x) & 0x7fffffff) | (bt_bits(y) & INT32_MIN));
}

/* exp(x) = 2^i exp(r), |r| <= log(2) / 2. */
BT_INLINE float bt_exp_f32(float x)
{
    const float round = 0x1.8p23F; /* adding it leaves the nearest integer in the low bits */
    x = x < -104.0F ? -104.0F : x;
    x = x > 89.0F ? 89.0F : x;
    float t = bt_f32_fma(x, 0x1.715476p0F, round), n = t - round;
    float r = bt_f32_fma(n, -0x1.62e4p-1F, x); /* log(2) in two parts, the first with few bits */
    r = bt_f32_fma(n, -0x1.7f7d1cp-20F, r);
    float p = 0x1.6db41p-10F;
    p = bt_f32_fma(p, r, 0x1.123b46p-7F);
    p = bt_f32_fma(p, r, 0x1.55545ep-5F);
    p = bt_f32_fma(p, r, 0x1.55548ep-3F);
    p = bt_f32_fma(p, r, 0.5F);
    p = bt_f32_fma(p * r, r, r) + 1.0F;
    int32_t i = bt_bits(t) - 0x4b400000, half = i >> 1; /* 2^i in two steps: it may be out of range */
    return p * bt_from_bits((int32_t)((uint32_t)(half + 127) << 23)) *
           bt_from_bits((int32_t)((uint32_t)(i - half + 127) << 23));
}

/* log(1 + f) for sqrt(1/2) <= 1 + f <= sqrt(2), plus n log(2). */
BT_INLINE float bt_log_near_one(float f, float n)
{
    float q = -0x1.38b4ccp-4F, square = f * f;
    q = bt_f32_fma(q, f, 0x1.055b46p-3F);
    q = bt_f32_fma(q, f, -0x1.0d8552p-3F);
    q = bt_f32_fma(q, f, 0x1.22da22p-3F);
    q = bt_f32_fma(q, f, -0x1.547244p-3F);
    q = bt_f32_fma(q, f, 0x1.99a008p-3F);
    q = bt_f32_fma(q, f, -0x1.000228p-2F);
    q = bt_f32_fma(q, f, 0x1.555554p-2F);
    float tail = bt_f32_fma(n, 0x1.7f7d1cp-20F, q * f * square);
    tail = bt_f32_fma(-0.5F, square, tail);
    return bt_f32_fma(n, 0x1.62e4p-1F, f + tail);
}

/* x = 2^n (1 + f). */
BT_INLINE float bt_log_f32(float x)
{
    float small = x < 0x1p-126F ? 0x1p23F : 1.0F, shift = x < 0x1p-126F ? -23.0F : 0.0F;
    int32_t bits = (int32_t)((uint32_t)bt_bits(x * small) - 0x3f3504f3U), i = bits >> 23; /* sqrt(1/2) */
    float f = bt_from_bits((bits & 0x7fffff) + 0x3f3504f3) - 1.0F;
    float y = bt_log_near_one(f, (float)i + shift);
    y = x == 0 ? -__builtin_inff() : y;
    y = x < 0 ? __builtin_nanf("") : y;
    return x < __builtin_inff() ? y : x; /* also NaN */
}

/* log(u) with u = 1 + x rounded, plus a correction for the rounding error. */
BT_INLINE float bt_log1p_f32(float x)
{
    float u = 1.0F + x, lost = x - (u - 1.0F);
    float y = bt_log_f32(u) + lost / u;
    y = u == 1.0F ? x : y;
    y = x == -1.0F ? -__builtin_inff() : y;
    return x < __builtin_inff() ? y : x;
}

BT_INLINE float bt_tanh_f32(float x)
{
    float a = bt_abs_f32(x), z = x * x, p = 0x1.18e1c4p-9F;
    p = bt_f32_fma(p, z, -0x1.0bf4f6p-7F);
    p = bt_f32_fma(p, z, 0x1.638b56p-6F);
    p = bt_f32_fma(p, z, -0x1.b9ee9p-5F);
    p = bt_f32_fma(p, z, 0x1.111066p-3F);
    p = bt_f32_fma(p, z, -0x1.555554p-2F);
    float near = bt_f32_fma(p * z, x, x);
    float far = bt_with_sign(1.0F - 2.0F / (bt_exp_f32(2.0F * a) + 1.0F), x);
    return a < 0.625F ? near : far;
}

BT_INLINE float bt_sigmoid_f32(float x)
{
    float z = bt_exp_f32(-bt_abs_f32(x)), y = 1.0F / (1.0F + z);
    return x < 0 ? z * y : y;
}

/* log(1 + z) for 0 <= z <= 1 without a logarithm; the error is at most 1.6 units in the last place. */
BT_INLINE float bt_log1p_near_f32(float z)
{
    float q = -0x1.a93358p-9F;
    q = bt_f32_fma(q, z, 0x1.453f0ap-6F);
    q = bt_f32_fma(q, z, -0x1.d29cc8p-5F);
    q = bt_f32_fma(q, z, 0x1.b25362p-4F);
    q = bt_f32_fma(q, z, -0x1.397564p-3F);
    q = bt_f32_fma(q, z, 0x1.92f698p-3F);
    q = bt_f32_fma(q, z, -0x1.ff0f88p-3F);
    q = bt_f32_fma(q, z, 0x1.554c8p-2F);
    q = bt_f32_fma(q, z, -0x1.ffffbep-2F);
    return bt_f32_fma(z * q, z, z);
}

BT_INLINE float bt_softplus_f32(float x)
{
    float tail = bt_log1p_near_f32(bt_exp_f32(-bt_abs_f32(x)));
    return x > 0 ? x + tail : tail;
}

/* erfc(x) for x >= 1. */
BT_INLINE float bt_erfc_far(float x)
{
    float q = 0x1.6c06a6p-16F;
    q = bt_f32_fma(q, x, -0x1.ceeafcp-12F);
    q = bt_f32_fma(q, x, 0x1.1398fep-8F);
    q = bt_f32_fma(q, x, -0x1.9d0bd8p-6F);
    q = bt_f32_fma(q, x, 0x1.bc18dp-4F);
    q = bt_f32_fma(q, x, 0x1.4434fp-1F);
    q = bt_f32_fma(q, x, 0x1.212c2cp0F);
    q = bt_f32_fma(q, x, -0x1.8b3ee2p-13F);
    return bt_exp_f32(-q);
}

/* erf(x) for |x| <= 1. */
BT_INLINE float bt_erf_near(float x)
{
    float z = x * x, p = -0x1.4383fcp-17F;
    p = bt_f32_fma(p, z, 0x1.d8268ep-14F);
    p = bt_f32_fma(p, z, -0x1.bcbe9ap-11F);
    p = bt_f32_fma(p, z, 0x1.5628eep-8F);
    p = bt_f32_fma(p, z, -0x1.b829a8p-6F);
    p = bt_f32_fma(p, z, 0x1.ce2f08p-4F);
    p = bt_f32_fma(p, z, -0x1.812746p-2F);
    p = bt_f32_fma(p, z, 0x1.06eba8p-3F);
    return bt_f32_fma(p, x, x);
}

BT_INLINE float bt_erf_f32(float x)
{
    float a = bt_abs_f32(x), far = 1.0F - bt_erfc_far(a > 1.0F ? a : 1.0F);
    return a > 1.0F ? bt_with_sign(far, x) : bt_erf_near(x);
}

/* Twice the normal distribution function. */
BT_INLINE float bt_normal_below(float x)
{
    float t = x * 0.70710678F, a = bt_abs_f32(t), far = bt_erfc_far(a > 1.0F ? a : 1.0F);
    return a > 1.0F ? (t < 0 ? far : 2.0F - far) : 1.0F + bt_erf_near(t);
}

/* x times the normal distribution function. */
BT_INLINE float bt_gelu_f32(float x) { return 0.5F * x * bt_normal_below(x); }

BT_INLINE float bt_gelu_slope_f32(float x)
{
    return bt_f32_fma(0.39894228F * x, bt_exp_f32(-0.5F * x * x), 0.5F * bt_normal_below(x));
}

/* sin and cos of a double r, |r| <= pi / 4. */
BT_INLINE float bt_sin_near(double x)
{
    float r = (float)x, z = r * r, p = -0x1.9943ep-13F;
    p = bt_f32_fma(p, z, 0x1.11073ap-7F);
    p = bt_f32_fma(p, z, -0x1.555546p-3F);
    return bt_f32_fma(p * z, r, r);
}

BT_INLINE float bt_cos_near(double x)
{
    float r = (float)x, z = r * r, p = 0x1.99eb9ap-16F;
    p = bt_f32_fma(p, z, -0x1.6c0c34p-10F);
    p = bt_f32_fma(p, z, 0x1.55554ap-5F);
    return bt_f32_fma(p * z, z, bt_f32_fma(-0.5F, z, 1.0F));
}

/* sin(x + quarter pi/2) for |x| <= BT_SIN_LIMIT. */
#define BT_SIN_LIMIT 1e6F
BT_INLINE float bt_sin_f32(float x, int32_t quarter)
{
    const double round = 0x1.8p52;
    double t = (double)x * 0x1.45f306dc9c883p-1 + round, n = t - round;
    double r = ((double)x - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34; /* pi/2 in two parts */
    int64_t bits;                                                            /* n is in its low bits */
    memcpy(&bits, &t, sizeof bits);
    int32_t i = (int32_t)bits + quarter;
    float y = i & 1 ? bt_cos_near(r) : bt_sin_near(r);
    return i & 2 ? -y : y;
}

#endif
