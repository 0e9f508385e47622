/* backend/cpu/vector.h: vectors as wide as the instruction set's registers, with the vector extensions of gcc and
 * clang. */
#ifndef BT_CPU_VECTOR_H
#define BT_CPU_VECTOR_H

#include "backend/math.h"

#if defined __AVX512F__ && defined __AVX512VL__
#define BT_VECTOR 64
#elif defined __AVX__
#define BT_VECTOR 32
#else
#define BT_VECTOR 16
#endif

#if defined __FMA__ || defined __AVX__
#include <immintrin.h>
#endif

#define BT_PRAGMA(x) _Pragma(#x)
#if defined __clang__
#define BT_UNROLL(n) BT_PRAGMA(clang loop unroll(full))
#else
#define BT_UNROLL(n) BT_PRAGMA(GCC unroll n)
#endif
/* The iterations of the loop are independent: the output may be the same array as an input, but must not overlap it
 * otherwise. */
#if defined __clang__
#define BT_SIMD BT_PRAGMA(clang loop vectorize(assume_safety))
#pragma clang diagnostic ignored "-Wpass-failed" /* of loops that call the C library */
#else
#define BT_SIMD BT_PRAGMA(GCC ivdep)
#endif

/* For each width: its type, and a type of the same values without alignment. */
#define BT_VECTOR_TYPE(name, element, bytes)                                                                           \
    typedef element name __attribute__((vector_size(bytes)));                                                          \
    typedef element name##_any __attribute__((vector_size(bytes), aligned(sizeof(element)), may_alias));               \
    BT_INLINE name name##_load(const element *from) { return *(const name##_any *)from; }                              \
    BT_INLINE void name##_store(element *to, name value) { *(name##_any *)to = value; }                                \
    BT_INLINE name name##_fill(element value) { return value - (name){0}; }

BT_VECTOR_TYPE(bt_f32x4, float, 16)
BT_VECTOR_TYPE(bt_f64x2, double, 16)
#if BT_VECTOR >= 32
BT_VECTOR_TYPE(bt_f32x8, float, 32)
BT_VECTOR_TYPE(bt_f64x4, double, 32)
#endif
#if BT_VECTOR >= 64
BT_VECTOR_TYPE(bt_f32x16, float, 64)
BT_VECTOR_TYPE(bt_f64x8, double, 64)
#endif

/* a * b + c, with one rounding if the machine supports it. */
#if defined __FMA__
BT_INLINE bt_f32x4 bt_f32x4_fma(bt_f32x4 a, bt_f32x4 b, bt_f32x4 c) { return _mm_fmadd_ps(a, b, c); }
BT_INLINE bt_f64x2 bt_f64x2_fma(bt_f64x2 a, bt_f64x2 b, bt_f64x2 c) { return _mm_fmadd_pd(a, b, c); }
BT_INLINE bt_f32x8 bt_f32x8_fma(bt_f32x8 a, bt_f32x8 b, bt_f32x8 c) { return _mm256_fmadd_ps(a, b, c); }
BT_INLINE bt_f64x4 bt_f64x4_fma(bt_f64x4 a, bt_f64x4 b, bt_f64x4 c) { return _mm256_fmadd_pd(a, b, c); }
#if BT_VECTOR >= 64
BT_INLINE bt_f32x16 bt_f32x16_fma(bt_f32x16 a, bt_f32x16 b, bt_f32x16 c) { return _mm512_fmadd_ps(a, b, c); }
BT_INLINE bt_f64x8 bt_f64x8_fma(bt_f64x8 a, bt_f64x8 b, bt_f64x8 c) { return _mm512_fmadd_pd(a, b, c); }
#endif
#else
BT_INLINE bt_f32x4 bt_f32x4_fma(bt_f32x4 a, bt_f32x4 b, bt_f32x4 c) { return a * b + c; }
BT_INLINE bt_f64x2 bt_f64x2_fma(bt_f64x2 a, bt_f64x2 b, bt_f64x2 c) { return a * b + c; }
#endif

/* The first `count` elements, the others 0; no other element is read. For the widest vectors. */
#if BT_VECTOR == 64
BT_INLINE bt_f32x16 bt_f32x16_part(const float *from, int64_t count)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1U << count) - 1), from);
}
BT_INLINE bt_f64x8 bt_f64x8_part(const double *from, int64_t count)
{
    return _mm512_maskz_loadu_pd((__mmask8)((1U << count) - 1), from);
}
/* Loads the lanes whose bits are set, the others as 0; stores only those lanes. No other element is read or written. */
#define BT_LANES(name, element, mask, load, store)                                                                     \
    BT_INLINE name name##_lanes(const element *from, unsigned lanes) { return (name)load((mask)lanes, from); }         \
    BT_INLINE void name##_store_lanes(element *to, name value, unsigned lanes) { store(to, (mask)lanes, value); }
BT_LANES(bt_f32x4, float, __mmask8, _mm_maskz_loadu_ps, _mm_mask_storeu_ps)
BT_LANES(bt_f32x8, float, __mmask8, _mm256_maskz_loadu_ps, _mm256_mask_storeu_ps)
BT_LANES(bt_f32x16, float, __mmask16, _mm512_maskz_loadu_ps, _mm512_mask_storeu_ps)
BT_LANES(bt_f64x4, double, __mmask8, _mm256_maskz_loadu_pd, _mm256_mask_storeu_pd)
BT_LANES(bt_f64x8, double, __mmask8, _mm512_maskz_loadu_pd, _mm512_mask_storeu_pd)
#undef BT_LANES
#elif BT_VECTOR == 32
static const int32_t bt_ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
BT_INLINE __m256i bt_first(int64_t count) /* of eight 32-bit elements */
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(bt_ones + 8 - count));
}
BT_INLINE bt_f32x8 bt_f32x8_part(const float *from, int64_t count) { return _mm256_maskload_ps(from, bt_first(count)); }
BT_INLINE bt_f64x4 bt_f64x4_part(const double *from, int64_t count)
{
    return _mm256_maskload_pd(from, bt_first(2 * count));
}
#else
BT_INLINE bt_f32x4 bt_f32x4_part(const float *from, int64_t count)
{
    float part[4] = {0};
    for (int64_t i = 0; i < count; i++)
        part[i] = from[i];
    return bt_f32x4_load(part);
}
BT_INLINE bt_f64x2 bt_f64x2_part(const double *from, int64_t count)
{
    double part[2] = {0};
    for (int64_t i = 0; i < count; i++)
        part[i] = from[i];
    return bt_f64x2_load(part);
}
#endif

/* The widest: bt_f32w and BT_F32W(load), BT_F32W(store), ...; masks of comparisons are bt_i32w and bt_i64w. */
#if BT_VECTOR == 64
typedef bt_f32x16 bt_f32w;
typedef bt_f64x8 bt_f64w;
#define BT_F32W(f) bt_f32x16_##f
#define BT_F64W(f) bt_f64x8_##f
#elif BT_VECTOR == 32
typedef bt_f32x8 bt_f32w;
typedef bt_f64x4 bt_f64w;
#define BT_F32W(f) bt_f32x8_##f
#define BT_F64W(f) bt_f64x4_##f
#else
typedef bt_f32x4 bt_f32w;
typedef bt_f64x2 bt_f64w;
#define BT_F32W(f) bt_f32x4_##f
#define BT_F64W(f) bt_f64x2_##f
#endif
/* The sums of four vectors. */
BT_INLINE bt_f32x4 bt_f32_sums(bt_f32w a, bt_f32w b, bt_f32w c, bt_f32w d)
{
#if BT_VECTOR == 64
#define BT_HALVES(x)                                                                                                   \
    (__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +                                                           \
     __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15))
    bt_f32x8 a8 = BT_HALVES(a), b8 = BT_HALVES(b), c8 = BT_HALVES(c), d8 = BT_HALVES(d);
#undef BT_HALVES
#elif BT_VECTOR == 32
    bt_f32x8 a8 = a, b8 = b, c8 = c, d8 = d;
#endif
#if BT_VECTOR >= 32
#define BT_HALVES(x) (__builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7))
    bt_f32x4 a4 = BT_HALVES(a8), b4 = BT_HALVES(b8), c4 = BT_HALVES(c8), d4 = BT_HALVES(d8);
#undef BT_HALVES
#else
    bt_f32x4 a4 = a, b4 = b, c4 = c, d4 = d;
#endif
    bt_f32x4 ab = __builtin_shufflevector(a4, b4, 0, 4, 1, 5) + __builtin_shufflevector(a4, b4, 2, 6, 3, 7);
    bt_f32x4 cd = __builtin_shufflevector(c4, d4, 0, 4, 1, 5) + __builtin_shufflevector(c4, d4, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}
BT_INLINE void bt_f32_sum4(bt_f32w a, bt_f32w b, bt_f32w c, bt_f32w d, float *sums)
{
    bt_f32x4_store(sums, bt_f32_sums(a, b, c, d));
}

#if BT_VECTOR >= 32
BT_INLINE bt_f64x4 bt_f64_sums(bt_f64w a, bt_f64w b, bt_f64w c, bt_f64w d)
{
#if BT_VECTOR == 64
#define BT_HALVES(x) (__builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7))
    bt_f64x4 a4 = BT_HALVES(a), b4 = BT_HALVES(b), c4 = BT_HALVES(c), d4 = BT_HALVES(d);
#undef BT_HALVES
#else
    bt_f64x4 a4 = a, b4 = b, c4 = c, d4 = d;
#endif
#define BT_HALVES(x) (__builtin_shufflevector(x, x, 0, 1) + __builtin_shufflevector(x, x, 2, 3))
    bt_f64x2 a2 = BT_HALVES(a4), b2 = BT_HALVES(b4), c2 = BT_HALVES(c4), d2 = BT_HALVES(d4);
#undef BT_HALVES
    bt_f64x2 ab = __builtin_shufflevector(a2, b2, 0, 2) + __builtin_shufflevector(a2, b2, 1, 3);
    bt_f64x2 cd = __builtin_shufflevector(c2, d2, 0, 2) + __builtin_shufflevector(c2, d2, 1, 3);
    return __builtin_shufflevector(ab, cd, 0, 1, 2, 3);
}
BT_INLINE void bt_f64_sum4(bt_f64w a, bt_f64w b, bt_f64w c, bt_f64w d, double *sums)
{
    bt_f64x4_store(sums, bt_f64_sums(a, b, c, d));
}
#else
BT_INLINE void bt_f64_sum4(bt_f64w a, bt_f64w b, bt_f64w c, bt_f64w d, double *sums)
{
    bt_f64x2_store(sums, __builtin_shufflevector(a, b, 0, 2) + __builtin_shufflevector(a, b, 1, 3));
    bt_f64x2_store(sums + 2, __builtin_shufflevector(c, d, 0, 2) + __builtin_shufflevector(c, d, 1, 3));
}
#endif

#if BT_VECTOR == 64
/* The sums of as many vectors as a vector has elements, as one vector. */
#define BT_PAIRS(to, from, count, low, high)                                                                           \
    BT_UNROLL(8)                                                                                                       \
    for (int i = 0; i < (count); i++)                                                                                  \
    (to)[i] = low((from)[2 * i], (from)[2 * i + 1]) + high((from)[2 * i], (from)[2 * i + 1])
#define BT_EVEN_F32(a, b) _mm512_shuffle_f32x4(a, b, 0x88)
#define BT_ODD_F32(a, b)  _mm512_shuffle_f32x4(a, b, 0xdd)
#define BT_LOW_PD(a, b)   (bt_f32x16) _mm512_unpacklo_pd((__m512d)(a), (__m512d)(b))
#define BT_HIGH_PD(a, b)  (bt_f32x16) _mm512_unpackhi_pd((__m512d)(a), (__m512d)(b))
BT_INLINE bt_f32x16 bt_f32x16_sums(const bt_f32x16 *a)
{
    bt_f32x16 b[8], c[4], d[2];
    BT_PAIRS(b, a, 8, _mm512_unpacklo_ps, _mm512_unpackhi_ps);
    BT_PAIRS(c, b, 4, BT_LOW_PD, BT_HIGH_PD);
    BT_PAIRS(d, c, 2, BT_EVEN_F32, BT_ODD_F32);
    return BT_EVEN_F32(d[0], d[1]) + BT_ODD_F32(d[0], d[1]);
}
#define BT_EVEN_F64(a, b) _mm512_shuffle_f64x2(a, b, 0x88)
#define BT_ODD_F64(a, b)  _mm512_shuffle_f64x2(a, b, 0xdd)
BT_INLINE bt_f64x8 bt_f64x8_sums(const bt_f64x8 *a)
{
    bt_f64x8 b[4], c[2];
    BT_PAIRS(b, a, 4, _mm512_unpacklo_pd, _mm512_unpackhi_pd);
    BT_PAIRS(c, b, 2, BT_EVEN_F64, BT_ODD_F64);
    return BT_EVEN_F64(c[0], c[1]) + BT_ODD_F64(c[0], c[1]);
}
#undef BT_PAIRS
#undef BT_EVEN_F32
#undef BT_ODD_F32
#undef BT_LOW_PD
#undef BT_HIGH_PD
#undef BT_EVEN_F64
#undef BT_ODD_F64
#endif

typedef int32_t bt_i32w __attribute__((vector_size(BT_VECTOR)));
typedef int64_t bt_i64w __attribute__((vector_size(BT_VECTOR)));

#endif
