/* backend/cpu/half_pack.h: packs bf16 numbers for pairs.h. */
#ifndef BT_CPU_HALF_PACK_H
#define BT_CPU_HALF_PACK_H

#include "backend/cpu/pairs.h"
#include "backend/cpu/transpose.h"

BT_INLINE __mmask16 bt_half_first(int64_t count) { return (__mmask16)(count < 16 ? (1U << count) - 1 : 0xffff); }

/* The sixteen numbers at from + at, 0 where the mask has no bit; at < 0: all 0. */
BT_INLINE __m512i bt_half_sixteen(const uint16_t *from, int64_t at, __mmask16 mask)
{
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(at < 0 ? 0 : mask, from + (at < 0 ? 0 : at)));
}

/* Interleaves two rows of `columns` numbers and pads them with zeros to `across` pairs. A row whose place is negative
 * is all zeros. */
static inline void bt_half_zip(const uint16_t *from, int64_t low, int64_t high, int64_t columns, uint16_t *to,
                               int64_t across)
{
    for (int64_t j = 0; j < across; j += 16) {
        const __mmask16 mask = columns > j ? bt_half_first(columns - j) : 0;
        const __m512i a = bt_half_sixteen(from + j, low, mask), b = bt_half_sixteen(from + j, high, mask);
        _mm512_storeu_si512(to + 2 * j, _mm512_or_si512(a, _mm512_slli_epi32(b, 16)));
    }
}

/* Stores f32 numbers in `dtype`, bf16 or f32. */
static inline void bt_half_store(bt_dtype dtype, int64_t count, const float *from, char *to)
{
    if (dtype == BT_F32) {
        memcpy(to, from, (size_t)count * sizeof(float));
        return;
    }
    for (int64_t i = 0; i < count; i += 16) {
        const __mmask16 mask = bt_half_first(count - i);
        _mm256_mask_storeu_epi16(to + 2 * i, mask, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from + i)));
    }
}

#endif
