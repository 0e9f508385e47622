/* backend/cpu/convert.c: converts the numbers of a data set to those of a batch: see bt_conversions. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/vector.h"

/* x/255 as two products and a sum: HIGH has so few bits that x * HIGH is exact. It equals the quotient for every byte,
 * but is faster. Because one product is exact, a fused multiply-add gives the same bits. */
#define HIGH 0x1.01p-8F
#define LOW  ((float)(1 / 255.0 - 0x1.01p-8))

static inline float pixel(uint8_t x) { return (float)x * HIGH + (float)x * LOW; }

#define BT_CONVERT(name, from_type, to_type, value)                                                                    \
    static void name(int64_t count, const from_type *restrict from, to_type *restrict to)                              \
    {                                                                                                                  \
        BT_SIMD for (int64_t i = 0; i < count; i++)                                                                    \
        {                                                                                                              \
            from_type x = from[i];                                                                                     \
            to[i] = value;                                                                                             \
        }                                                                                                              \
    }

BT_CONVERT(pixels_to_f64, uint8_t, double, (double)x / 255.0)
BT_CONVERT(floats_to_f64, uint8_t, double, (double)pixel(x))
BT_CONVERT(f32_to_f64, float, double, (double)x)
BT_CONVERT(f64_to_f32, double, float, (float)x)

#if defined __AVX512F__ && defined __AVX512VL__ && defined __AVX512BW__

BT_INLINE void sixteen(__m128i bytes, float *to, __mmask16 which)
{
    __m512 x = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
    x = _mm512_fmadd_ps(x, _mm512_set1_ps(HIGH), _mm512_mul_ps(x, _mm512_set1_ps(LOW)));
    _mm512_mask_storeu_ps(to, which, x);
}

static void pixels_to_f32(int64_t count, const uint8_t *restrict from, float *restrict to)
{
    int64_t i = 0;
    for (; i + 16 <= count; i += 16)
        sixteen(_mm_loadu_si128((const __m128i_u *)(from + i)), to + i, 0xffff);
    const __mmask16 left = (__mmask16)((1U << (count - i)) - 1);
    if (left)
        sixteen(_mm_maskz_loadu_epi8(left, from + i), to + i, left);
}

#elif defined __AVX2__ && defined __FMA__

BT_INLINE void eight(const uint8_t *from, float *to)
{
    __m256 x = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadu_si64(from)));
    _mm256_storeu_ps(to, _mm256_fmadd_ps(x, _mm256_set1_ps(HIGH), _mm256_mul_ps(x, _mm256_set1_ps(LOW))));
}

static void pixels_to_f32(int64_t count, const uint8_t *restrict from, float *restrict to)
{
    int64_t i = 0;
    for (; i + 32 <= count; i += 32)
        BT_UNROLL(4) for (int k = 0; k < 32; k += 8) eight(from + i + k, to + i + k);
    for (; i + 8 <= count; i += 8)
        eight(from + i, to + i);
    if (i < count && count >= 8) { /* the last eight, some of them again */
        eight(from + count - 8, to + count - 8);
        i = count;
    }
    for (; i < count; i++)
        to[i] = pixel(from[i]);
}

#else

BT_CONVERT(pixels_to_f32, uint8_t, float, pixel(x))

#endif

const bt_conversions BT_ISA(bt_cpu_convert) = {.pixels_to_f32 = pixels_to_f32,
                                               .pixels_to_f64 = pixels_to_f64,
                                               .floats_to_f64 = floats_to_f64,
                                               .f32_to_f64 = f32_to_f64,
                                               .f64_to_f32 = f64_to_f32};
