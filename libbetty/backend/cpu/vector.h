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

/* part: the first `count` elements, the others 0; no other element is read. half: the same, if they are no more than
 * half. store_part: stores the first `count` elements and writes no other. For the widest vectors. */
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
/* Loads that cross a cache line are slow, and shorter ones cross it less often. */
BT_INLINE bt_f32x16 bt_f32x16_half(const float *from, int64_t count)
{
    return _mm512_zextps256_ps512(bt_f32x8_lanes(from, (1U << count) - 1));
}
BT_INLINE bt_f64x8 bt_f64x8_half(const double *from, int64_t count)
{
    return _mm512_zextpd256_pd512(bt_f64x4_lanes(from, (1U << count) - 1));
}
BT_INLINE void bt_f32x16_store_part(float *to, bt_f32x16 value, int64_t count)
{
    bt_f32x16_store_lanes(to, value, (1U << count) - 1);
}
BT_INLINE void bt_f64x8_store_part(double *to, bt_f64x8 value, int64_t count)
{
    bt_f64x8_store_lanes(to, value, (1U << count) - 1);
}
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
BT_INLINE void bt_f32x8_store_part(float *to, bt_f32x8 value, int64_t count)
{
    _mm256_maskstore_ps(to, bt_first(count), value);
}
BT_INLINE void bt_f64x4_store_part(double *to, bt_f64x4 value, int64_t count)
{
    _mm256_maskstore_pd(to, bt_first(2 * count), value);
}
#define bt_f32x8_half bt_f32x8_part
#define bt_f64x4_half bt_f64x4_part
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
BT_INLINE void bt_f32x4_store_part(float *to, bt_f32x4 value, int64_t count)
{
    memcpy(to, &value, (size_t)count * sizeof *to);
}
BT_INLINE void bt_f64x2_store_part(double *to, bt_f64x2 value, int64_t count)
{
    memcpy(to, &value, (size_t)count * sizeof *to);
}
#define bt_f32x4_half bt_f32x4_part
#define bt_f64x2_half bt_f64x2_part
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
/* The sums of four vectors. Halves are added to halves, in the same order for all widths from 16 numbers down. */
BT_INLINE bt_f32x4 bt_f32_sums(bt_f32w a, bt_f32w b, bt_f32w c, bt_f32w d)
{
#if BT_VECTOR == 64
    bt_f32x16 ab = (bt_f32x16)_mm512_shuffle_f32x4(a, b, 0x44) + (bt_f32x16)_mm512_shuffle_f32x4(a, b, 0xee);
    bt_f32x16 cd = (bt_f32x16)_mm512_shuffle_f32x4(c, d, 0x44) + (bt_f32x16)_mm512_shuffle_f32x4(c, d, 0xee);
    bt_f32x16 all = (bt_f32x16)_mm512_shuffle_f32x4(ab, cd, 0x88) + (bt_f32x16)_mm512_shuffle_f32x4(ab, cd, 0xdd);
    all += (bt_f32x16)_mm512_permute_ps(all, 0x4e);
    all += (bt_f32x16)_mm512_permute_ps(all, 0xb1);
    return __builtin_shufflevector(all, all, 0, 4, 8, 12);
#elif BT_VECTOR == 32
    bt_f32x8 ab = (bt_f32x8)_mm256_permute2f128_ps(a, b, 0x20) + (bt_f32x8)_mm256_permute2f128_ps(a, b, 0x31);
    bt_f32x8 cd = (bt_f32x8)_mm256_permute2f128_ps(c, d, 0x20) + (bt_f32x8)_mm256_permute2f128_ps(c, d, 0x31);
    bt_f32x8 acbd = (bt_f32x8)_mm256_unpacklo_ps(ab, cd) + (bt_f32x8)_mm256_unpackhi_ps(ab, cd);
    acbd += (bt_f32x8)_mm256_permute_ps(acbd, 0x4e);
    return __builtin_shufflevector(acbd, acbd, 0, 4, 1, 5);
#else
    bt_f32x4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
    bt_f32x4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
#endif
}
BT_INLINE void bt_f32_sum4(bt_f32w a, bt_f32w b, bt_f32w c, bt_f32w d, float *sums)
{
    bt_f32x4_store(sums, bt_f32_sums(a, b, c, d));
}

#if BT_VECTOR >= 32
BT_INLINE bt_f64x4 bt_f64_sums(bt_f64w a, bt_f64w b, bt_f64w c, bt_f64w d)
{
#if BT_VECTOR == 64
    bt_f64x8 ab = (bt_f64x8)_mm512_shuffle_f64x2(a, b, 0x44) + (bt_f64x8)_mm512_shuffle_f64x2(a, b, 0xee);
    bt_f64x8 cd = (bt_f64x8)_mm512_shuffle_f64x2(c, d, 0x44) + (bt_f64x8)_mm512_shuffle_f64x2(c, d, 0xee);
    bt_f64x8 all = (bt_f64x8)_mm512_shuffle_f64x2(ab, cd, 0x88) + (bt_f64x8)_mm512_shuffle_f64x2(ab, cd, 0xdd);
    all += (bt_f64x8)_mm512_permute_pd(all, 0x55);
    return __builtin_shufflevector(all, all, 0, 2, 4, 6);
#else
    bt_f64x4 ab = (bt_f64x4)_mm256_permute2f128_pd(a, b, 0x20) + (bt_f64x4)_mm256_permute2f128_pd(a, b, 0x31);
    bt_f64x4 cd = (bt_f64x4)_mm256_permute2f128_pd(c, d, 0x20) + (bt_f64x4)_mm256_permute2f128_pd(c, d, 0x31);
    bt_f64x4 acbd = (bt_f64x4)_mm256_unpacklo_pd(ab, cd) + (bt_f64x4)_mm256_unpackhi_pd(ab, cd);
    return __builtin_shufflevector(acbd, acbd, 0, 2, 1, 3);
#endif
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

typedef int32_t bt_i32w __attribute__((vector_size(BT_VECTOR)));
typedef int64_t bt_i64w __attribute__((vector_size(BT_VECTOR)));

#endif
