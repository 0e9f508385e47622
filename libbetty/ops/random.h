/* ops/random.h: random numbers of the ops uniform, normal, dropout and stochastic_round: the same for every backend and
 * every pass. Element e of a stream is a pure function of (key, site, record, e). The comment on bt_random_attr in
 * ops/ops.h gives the layout of Philox's counter. */
#ifndef BT_OPS_RANDOM_H
#define BT_OPS_RANDOM_H

#include "base/half.h"
#include "base/philox.h"
#include <math.h>

/* Block `block` of the stream: four 32-bit words. */
BT_EVERYWHERE static inline bt_philox bt_random_word(uint64_t key, uint32_t site, int64_t record, uint64_t block)
{
    uint64_t count = (uint64_t)record;
    bt_philox counter = {{(uint32_t)block, site, (uint32_t)count, (uint32_t)(count >> 32)}};
    return bt_philox4x32(counter, (uint32_t)key, (uint32_t)(key >> 32));
}

/* Uniform in [0, 1). */
BT_EVERYWHERE static inline float bt_random_f32(uint64_t key, uint32_t site, int64_t record, uint64_t element)
{
    return bt_philox_f32(bt_random_word(key, site, record, element / 4).word[element % 4]);
}

BT_EVERYWHERE static inline double bt_random_f64(uint64_t key, uint32_t site, int64_t record, uint64_t element)
{
    bt_philox block = bt_random_word(key, site, record, element / 2);
    return bt_philox_f64(block.word[element % 2 * 2], block.word[element % 2 * 2 + 1]);
}

/* One number of the op stochastic_round: the upper half of an f32, rounded with the lower half of a random word. */
BT_EVERYWHERE static inline uint16_t bt_random_bf16(float x, uint32_t word)
{
    const uint32_t bits = bt_f32_bits(x);
    return (bits & 0x7f800000) == 0x7f800000 ? bt_bf16_of(x) : (uint16_t)((bits + (word & 0xffff)) >> 16);
}

/* Standard normal, by Box and Muller ("A note on the generation of random normal deviates", 1958). The first word gives
 * the radius, at most 6.66, the second the angle. Kernels in f32 use the same formula in f32, with the upper 24 bits of
 * the second word. */
BT_EVERYWHERE static inline double bt_philox_normal(uint32_t radius, uint32_t angle)
{
    return sqrt(-2 * log(((double)radius + 1) * 0x1p-32)) * cos(6.28318530717958647692 * ((double)angle * 0x1p-32));
}

/* The layout of words is that for f64. */
BT_EVERYWHERE static inline double bt_random_normal(uint64_t key, uint32_t site, int64_t record, uint64_t element)
{
    bt_philox block = bt_random_word(key, site, record, element / 2);
    return bt_philox_normal(block.word[element % 2 * 2], block.word[element % 2 * 2 + 1]);
}

#endif
