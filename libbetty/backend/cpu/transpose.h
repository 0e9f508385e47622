/* backend/cpu/transpose.h: transposes small squares of 4- and 8-byte values in registers. */
#ifndef BT_CPU_TRANSPOSE_H
#define BT_CPU_TRANSPOSE_H

#include "backend/cpu/vector.h"

/* Four elements of each of several rows, one row per 128-bit lane: this row and those 4, 8 and 12 further on. The loads
 * put each lane in its place, which needs no shuffle unit. */
#define BT_LANES4(from, row) bt_f32x4_load(from)
#define BT_LANES8(from, row)                                                                                           \
    __builtin_shufflevector(bt_f32x4_load(from), bt_f32x4_load((from) + 4 * (row)), 0, 1, 2, 3, 4, 5, 6, 7)
#if BT_VECTOR == 64
BT_INLINE bt_f32x16 bt_lanes16(const float *from, int64_t row)
{
    __m512 lanes = _mm512_castps128_ps512(bt_f32x4_load(from));
    lanes = _mm512_insertf32x4(lanes, bt_f32x4_load(from + 4 * row), 1);
    lanes = _mm512_insertf32x4(lanes, bt_f32x4_load(from + 8 * row), 2);
    return _mm512_insertf32x4(lanes, bt_f32x4_load(from + 12 * row), 3);
}
#define BT_LANES16(from, row) bt_lanes16(from, row)
#endif

/* In each lane: LOW interleaves elements 0 and 1 of both, HIGH elements 2 and 3; FIRST takes the first two of both,
 * LAST the last two. */
#define BT_LOW4(a, b)    __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define BT_HIGH4(a, b)   __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define BT_FIRST4(a, b)  __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define BT_LAST4(a, b)   __builtin_shufflevector(a, b, 2, 3, 6, 7)
#define BT_LOW8(a, b)    __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define BT_HIGH8(a, b)   __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define BT_FIRST8(a, b)  __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define BT_LAST8(a, b)   __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define BT_LOW16(a, b)   (bt_f32x16) _mm512_unpacklo_ps(a, b)
#define BT_HIGH16(a, b)  (bt_f32x16) _mm512_unpackhi_ps(a, b)
#define BT_FIRST16(a, b) (bt_f32x16) _mm512_shuffle_ps(a, b, 0x44)
#define BT_LAST16(a, b)  (bt_f32x16) _mm512_shuffle_ps(a, b, 0xee)

/* to[j, i] = from[i, j] for side x side elements: each lane transposes four rows. */
#define BT_TURN4(side)                                                                                                 \
    BT_INLINE void bt_turn4_##side(const float *from, int64_t from_row, float *to, int64_t to_row)                     \
    {                                                                                                                  \
        bt_f32x##side r[4][side / 4];                                                                                  \
        BT_UNROLL(16)                                                                                                  \
        for (int i = 0, c; i < side; i++) {                                                                            \
            c = i % (side / 4);                                                                                        \
            r[i / (side / 4)][c] = BT_LANES##side(from + i / (side / 4) * from_row + 4 * c, from_row);                 \
        }                                                                                                              \
        BT_UNROLL(4)                                                                                                   \
        for (int c = 0; c < side / 4; c++, to += 4 * to_row) {                                                         \
            bt_f32x##side low = BT_LOW##side(r[0][c], r[1][c]), high = BT_HIGH##side(r[0][c], r[1][c]);                \
            bt_f32x##side low2 = BT_LOW##side(r[2][c], r[3][c]), high2 = BT_HIGH##side(r[2][c], r[3][c]);              \
            bt_f32x##side##_store(to, BT_FIRST##side(low, low2));                                                      \
            bt_f32x##side##_store(to + to_row, BT_LAST##side(low, low2));                                              \
            bt_f32x##side##_store(to + 2 * to_row, BT_FIRST##side(high, high2));                                       \
            bt_f32x##side##_store(to + 3 * to_row, BT_LAST##side(high, high2));                                        \
        }                                                                                                              \
    }
BT_TURN4(4)
#if BT_VECTOR >= 32
BT_TURN4(8)
#endif
#if BT_VECTOR == 64
BT_TURN4(16)
#endif

#if BT_VECTOR >= 32
BT_INLINE void bt_turn8_4(const double *from, int64_t from_row, double *to, int64_t to_row)
{
    bt_f64x4 r0 = bt_f64x4_load(from), r1 = bt_f64x4_load(from + from_row);
    bt_f64x4 r2 = bt_f64x4_load(from + 2 * from_row), r3 = bt_f64x4_load(from + 3 * from_row);
    bt_f64x4 s0 = __builtin_shufflevector(r0, r1, 0, 4, 2, 6), s1 = __builtin_shufflevector(r0, r1, 1, 5, 3, 7);
    bt_f64x4 s2 = __builtin_shufflevector(r2, r3, 0, 4, 2, 6), s3 = __builtin_shufflevector(r2, r3, 1, 5, 3, 7);
    bt_f64x4_store(to, __builtin_shufflevector(s0, s2, 0, 1, 4, 5));
    bt_f64x4_store(to + to_row, __builtin_shufflevector(s1, s3, 0, 1, 4, 5));
    bt_f64x4_store(to + 2 * to_row, __builtin_shufflevector(s0, s2, 2, 3, 6, 7));
    bt_f64x4_store(to + 3 * to_row, __builtin_shufflevector(s1, s3, 2, 3, 6, 7));
}
#endif
BT_INLINE void bt_turn8_2(const double *from, int64_t from_row, double *to, int64_t to_row)
{
    bt_f64x2 r0 = bt_f64x2_load(from), r1 = bt_f64x2_load(from + from_row);
    bt_f64x2_store(to, __builtin_shufflevector(r0, r1, 0, 2));
    bt_f64x2_store(to + to_row, __builtin_shufflevector(r0, r1, 1, 3));
}

/* to[j, i] = from[i, j] for rows x columns elements of `from`; rows of both are contiguous. Elements that squares of
 * this side do not cover are left to the next smaller squares. */
#define BT_TURN_ALL(name, element, square, side, rest)                                                                 \
    static inline void name(const element *from, int64_t from_row, element *to, int64_t to_row, int64_t rows,          \
                            int64_t columns)                                                                           \
    {                                                                                                                  \
        const int64_t whole_rows = rows - rows % side, whole = columns - columns % side;                               \
        for (int64_t i = 0; i < whole_rows; i += side)                                                                 \
            for (int64_t j = 0; j < whole; j += side)                                                                  \
                square(from + i * from_row + j, from_row, to + j * to_row + i, to_row);                                \
        if (whole < columns)                                                                                           \
            rest(from + whole, from_row, to + whole * to_row, to_row, whole_rows, columns - whole);                    \
        if (whole_rows < rows)                                                                                         \
            rest(from + whole_rows * from_row, from_row, to + whole_rows, to_row, rows - whole_rows, columns);         \
    }
#define BT_TURN_ONE(name, element)                                                                                     \
    static inline void name(const element *from, int64_t from_row, element *to, int64_t to_row, int64_t rows,          \
                            int64_t columns)                                                                           \
    {                                                                                                                  \
        for (int64_t i = 0; i < rows; i++)                                                                             \
            for (int64_t j = 0; j < columns; j++)                                                                      \
                to[j * to_row + i] = from[i * from_row + j];                                                           \
    }
BT_TURN_ONE(bt_turn_ones4, float)
BT_TURN_ONE(bt_turn_ones8, double)
#if BT_VECTOR == 64
BT_TURN_ALL(bt_turn_fours4, float, bt_turn4_4, 4, bt_turn_ones4)
BT_TURN_ALL(bt_turn_eights4, float, bt_turn4_8, 8, bt_turn_fours4)
BT_TURN_ALL(bt_turn_all4, float, bt_turn4_16, 16, bt_turn_eights4)
BT_TURN_ALL(bt_turn_all8, double, bt_turn8_4, 4, bt_turn_ones8)
#elif BT_VECTOR == 32
BT_TURN_ALL(bt_turn_fours4, float, bt_turn4_4, 4, bt_turn_ones4)
BT_TURN_ALL(bt_turn_all4, float, bt_turn4_8, 8, bt_turn_fours4)
BT_TURN_ALL(bt_turn_all8, double, bt_turn8_4, 4, bt_turn_ones8)
#else
BT_TURN_ALL(bt_turn_all4, float, bt_turn4_4, 4, bt_turn_ones4)
BT_TURN_ALL(bt_turn_all8, double, bt_turn8_2, 2, bt_turn_ones8)
#endif

#endif
