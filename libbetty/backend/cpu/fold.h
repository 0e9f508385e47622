/* backend/cpu/fold.h: one number from all elements of a vector: their sum, or the largest; NaN is larger than any
 * number. Halves are joined until one element is left. wide: the sums of the two halves, in f64. */
#ifndef BT_CPU_FOLD_H
#define BT_CPU_FOLD_H

#include "backend/cpu/vector.h"

/* By element: the larger of a and b. */
#define BT_LARGER(name)                                                                                                \
    BT_INLINE name name##_larger(name a, name b)                                                                       \
    {                                                                                                                  \
        __typeof__(b > a) take = (b > a) | (b != b);                                                                   \
        return (name)(((__typeof__(take))b & take) | ((__typeof__(take))a & ~take));                                   \
    }
/* For a vector of two halves, of type `half`. */
#define BT_HALVES(name, half, element, low, high)                                                                      \
    BT_LARGER(name)                                                                                                    \
    BT_INLINE element name##_most(name x) { return half##_most(half##_larger(low, high)); }

#define BT_FIRST2(x) __builtin_shufflevector(x, x, 0, 1)
#define BT_LAST2(x)  __builtin_shufflevector(x, x, 2, 3)
#define BT_FIRST4(x) __builtin_shufflevector(x, x, 0, 1, 2, 3)
#define BT_LAST4(x)  __builtin_shufflevector(x, x, 4, 5, 6, 7)
#define BT_FIRST8(x) __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7)
#define BT_LAST8(x)  __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15)

BT_LARGER(bt_f32x4)
BT_LARGER(bt_f64x2)
BT_INLINE float bt_f32x4_most(bt_f32x4 x)
{
    x = bt_f32x4_larger(x, __builtin_shufflevector(x, x, 2, 3, 0, 1));
    return bt_f32x4_larger(x, __builtin_shufflevector(x, x, 1, 0, 3, 2))[0];
}
BT_INLINE double bt_f64x2_most(bt_f64x2 x) { return bt_f64x2_larger(x, __builtin_shufflevector(x, x, 1, 0))[0]; }
BT_INLINE bt_f64x2 bt_f32x4_wide(bt_f32x4 x)
{
    return (bt_f64x2){(double)x[0] + (double)x[2], (double)x[1] + (double)x[3]};
}
BT_INLINE double bt_f64x2_sum(bt_f64x2 x) { return x[0] + x[1]; }

#if BT_VECTOR >= 32
BT_HALVES(bt_f32x8, bt_f32x4, float, BT_FIRST4(x), BT_LAST4(x))
BT_HALVES(bt_f64x4, bt_f64x2, double, BT_FIRST2(x), BT_LAST2(x))
BT_INLINE double bt_f64x4_sum(bt_f64x4 x) { return bt_f64x2_sum(BT_FIRST2(x) + BT_LAST2(x)); }
BT_INLINE bt_f64x4 bt_f32x8_wide(bt_f32x8 x)
{
    return __builtin_convertvector(BT_FIRST4(x), bt_f64x4) + __builtin_convertvector(BT_LAST4(x), bt_f64x4);
}
#endif
#if BT_VECTOR >= 64
BT_HALVES(bt_f32x16, bt_f32x8, float, BT_FIRST8(x), BT_LAST8(x))
BT_HALVES(bt_f64x8, bt_f64x4, double, BT_FIRST4(x), BT_LAST4(x))
BT_INLINE double bt_f64x8_sum(bt_f64x8 x) { return bt_f64x4_sum(BT_FIRST4(x) + BT_LAST4(x)); }
BT_INLINE bt_f64x8 bt_f32x16_wide(bt_f32x16 x)
{
    return __builtin_convertvector(BT_FIRST8(x), bt_f64x8) + __builtin_convertvector(BT_LAST8(x), bt_f64x8);
}
#endif

#undef BT_LARGER
#undef BT_HALVES
#undef BT_FIRST2
#undef BT_LAST2
#undef BT_FIRST4
#undef BT_LAST4
#undef BT_FIRST8
#undef BT_LAST8

#endif
