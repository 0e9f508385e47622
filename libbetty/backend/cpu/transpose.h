/* backend/cpu/transpose.h: small squares of 4- and 8-byte values, turned over in registers. */
#ifndef BT_CPU_TRANSPOSE_H
#define BT_CPU_TRANSPOSE_H

#include "backend/cpu/vector.h"

#if BT_VECTOR >= 32
enum { BT_SQUARE4 = 8, BT_SQUARE8 = 4 }; /* side of the square, by the size of an element */

BT_INLINE void bt_turn4(const float *from, int64_t from_row, float *to, int64_t to_row)
{
    bt_f32x8 r[8], s[8];
    BT_UNROLL(8)
    for (int i = 0; i < 8; i++)
        r[i] = bt_f32x8_load(from + i * from_row);
    BT_UNROLL(4)
    for (int i = 0; i < 8; i += 2) {
        s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    BT_UNROLL(2)
    for (int i = 0; i < 8; i += 4) {
        r[i] = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        r[i + 1] = __builtin_shufflevector(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        r[i + 2] = __builtin_shufflevector(s[i + 1], s[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        r[i + 3] = __builtin_shufflevector(s[i + 1], s[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    BT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        bt_f32x8_store(to + i * to_row, __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11));
        bt_f32x8_store(to + (i + 4) * to_row, __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15));
    }
}

BT_INLINE void bt_turn8(const double *from, int64_t from_row, double *to, int64_t to_row)
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
#else
enum { BT_SQUARE4 = 4, BT_SQUARE8 = 2 };

BT_INLINE void bt_turn4(const float *from, int64_t from_row, float *to, int64_t to_row)
{
    bt_f32x4 r0 = bt_f32x4_load(from), r1 = bt_f32x4_load(from + from_row);
    bt_f32x4 r2 = bt_f32x4_load(from + 2 * from_row), r3 = bt_f32x4_load(from + 3 * from_row);
    bt_f32x4 s0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), s1 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
    bt_f32x4 s2 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5), s3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    bt_f32x4_store(to, __builtin_shufflevector(s0, s2, 0, 1, 4, 5));
    bt_f32x4_store(to + to_row, __builtin_shufflevector(s0, s2, 2, 3, 6, 7));
    bt_f32x4_store(to + 2 * to_row, __builtin_shufflevector(s1, s3, 0, 1, 4, 5));
    bt_f32x4_store(to + 3 * to_row, __builtin_shufflevector(s1, s3, 2, 3, 6, 7));
}

BT_INLINE void bt_turn8(const double *from, int64_t from_row, double *to, int64_t to_row)
{
    bt_f64x2 r0 = bt_f64x2_load(from), r1 = bt_f64x2_load(from + from_row);
    bt_f64x2_store(to, __builtin_shufflevector(r0, r1, 0, 2));
    bt_f64x2_store(to + to_row, __builtin_shufflevector(r0, r1, 1, 3));
}
#endif

/* to[j, i] = from[i, j] for rows x columns elements of `from`; rows of both are contiguous. */
#define BT_TURN_ALL(size, element)                                                                                     \
    static inline void bt_turn_all##size(const element *from, int64_t from_row, element *to, int64_t to_row,           \
                                         int64_t rows, int64_t columns)                                                \
    {                                                                                                                  \
        int64_t whole_rows = rows - rows % BT_SQUARE##size, whole_columns = columns - columns % BT_SQUARE##size;       \
        for (int64_t i = 0; i < whole_rows; i += BT_SQUARE##size) {                                                    \
            for (int64_t j = 0; j < whole_columns; j += BT_SQUARE##size)                                               \
                bt_turn##size(from + i * from_row + j, from_row, to + j * to_row + i, to_row);                         \
            for (int64_t j = whole_columns; j < columns; j++)                                                          \
                for (int64_t k = i; k < i + BT_SQUARE##size; k++)                                                      \
                    to[j * to_row + k] = from[k * from_row + j];                                                       \
        }                                                                                                              \
        for (int64_t i = whole_rows; i < rows; i++)                                                                    \
            for (int64_t j = 0; j < columns; j++)                                                                      \
                to[j * to_row + i] = from[i * from_row + j];                                                           \
    }
BT_TURN_ALL(4, float)
BT_TURN_ALL(8, double)

#endif
