/* backend/random.h: f32 random numbers from words of Philox (ops/random.h), the same on every device. The functions
 * have no branches, so that loops over them vectorise. */
#ifndef BT_BACKEND_RANDOM_H
#define BT_BACKEND_RANDOM_H

#include "backend/math.h"

#include <math.h>

/* Uniform in [0, 1): 24 bits. */
BT_INLINE float bt_unit_f32(uint32_t word) { return (float)(int32_t)(word >> 8) * 0x1p-24F; }

/* cos(2 pi turn), 0 <= turn < 1. */
BT_INLINE float bt_cos_turn(float turn)
{
    float quarters = 4.0F * turn, n = (quarters + 0x1.8p23F) - 0x1.8p23F, r = (quarters - n) * 0x1.921fb6p0F;
    int32_t i = (int32_t)n;
    float y = i & 1 ? -bt_sin_near((double)r) : bt_cos_near((double)r);
    return i & 2 ? -y : y;
}

/* Standard normal: bt_philox_normal with 24 bits of the angle. */
BT_INLINE float bt_normal_f32(uint32_t radius, uint32_t angle)
{
    float high = (float)(int32_t)(radius >> 16), low = (float)(int32_t)((radius & 0xffff) + 1);
    float r = bt_f32_fma(high, 0x1p16F, low) * 0x1p-32F; /* all bits: they make the tail of the distribution */
    return __builtin_sqrtf(-2.0F * bt_log_f32(r)) * bt_cos_turn(bt_unit_f32(angle));
}

/* Dropout: the smallest 24-bit value that keeps an element, so that u >= probability is an integer comparison. */
BT_INLINE int32_t bt_least_kept(double probability) { return (int32_t)ceil(probability * 0x1p24); }
BT_INLINE int bt_kept(uint32_t word, int32_t least) { return (int32_t)(word >> 8) >= least; }

/* stochastic_round: the bits of an f32 after random bits are added; the caller keeps the upper half. Infinities and
 * NaNs get no random bits; a NaN also gets its quiet bit, so that it stays a NaN. */
BT_INLINE uint32_t bt_stochastic_bits(uint32_t bits, uint32_t word)
{
    const uint32_t exponent = bits & 0x7f800000, nan = (bits & 0x7fffffff) > 0x7f800000;
    return (bits + (exponent != 0x7f800000 ? word & 0xffff : 0)) | (nan ? 0x400000 : 0);
}

#endif
