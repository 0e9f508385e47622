/* base/half.h: 16-bit numbers. bf16 is the upper half of an f32: 8 exponent bits, 7 fraction bits. f16 is IEEE 754 half
 * precision: 5 and 10. Conversion from f32 rounds to nearest, ties to even; values out of range become infinite; NaN
 * stays a quiet NaN. Conversion to f32 is exact. */
#ifndef BT_HALF_H
#define BT_HALF_H

#include "base/everywhere.h"
#include <stdint.h>
#include <string.h>

BT_EVERYWHERE static inline uint32_t bt_f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

BT_EVERYWHERE static inline float bt_f32_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

BT_EVERYWHERE static inline float bt_f32_of_bf16(uint16_t bits) { return bt_f32_of((uint32_t)bits << 16); }

BT_EVERYWHERE static inline uint16_t bt_bf16_of(float x)
{
    const uint32_t bits = bt_f32_bits(x), odd = bits >> 16 & 1;
    return (uint16_t)(x != x ? bits >> 16 | 0x40 : (bits + 0x7fff + odd) >> 16);
}

BT_EVERYWHERE static inline float bt_f32_of_f16(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = bits & 0x7fff;
    const float small = (float)rest * 0x1p-24F; /* the value if subnormal, without a leading 1 */
    const uint32_t whole = (rest << 13) + (rest >= 0x7c00 ? 0x70000000 : 0x38000000);
    return bt_f32_of(sign | (rest < 0x400 ? bt_f32_bits(small) : whole));
}

BT_EVERYWHERE static inline uint16_t bt_f16_of(float x)
{
    const uint32_t all = bt_f32_bits(x), sign = all >> 16 & 0x8000, bits = all & 0x7fffffff;
    /* Below 2^-14 the spacing is 2^-24: that is the last bit of the sum with 1/2, so the addition rounds. */
    const uint32_t small = bt_f32_bits(bt_f32_of(bits) + 0.5F) - 0x3f000000;
    const uint32_t whole = (bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13;
    const uint32_t rest = bits > 0x7f800000    ? 0x7e00 | (bits >> 13 & 0x3ff)
                          : bits >= 0x47800000 ? 0x7c00
                          : bits < 0x38800000  ? small
                                               : whole;
    return (uint16_t)(sign | rest);
}

/* Rounds to odd: truncates to f32, and sets the last bit if anything was cut off. Rounding the result to 16 bits then
 * gives the 16-bit number nearest to x. */
BT_EVERYWHERE static inline float bt_f32_cut(double x)
{
    const float near = (float)x;
    const double size = x < 0 ? -x : x, found = near < 0 ? -(double)near : (double)near;
    if (x != x || found == size) /* NaN; exact */
        return near;
    return bt_f32_of((bt_f32_bits(near) - (found > size)) | 1);
}

#endif
