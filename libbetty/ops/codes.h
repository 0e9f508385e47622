/* ops/codes.h: numbers in 8 bits: the dynamic map of Dettmers et al. ("8-bit optimizers via block-wise quantization",
 * ICLR 2022), each block of BT_CODES_BLOCK numbers relative to the largest of them. */
#ifndef BT_CODES_H
#define BT_CODES_H

#include "base/base.h"
#include "base/everywhere.h"

enum { BT_CODES = 256, BT_CODES_BLOCK = 256, BT_CODES_ZERO = 127 }; /* ZERO: the code of 0 among those with signs */

/* Ascending. With signs: for i = 0 .. 6 the middles of 2^i equal parts of [0.1, 1], times 10^(i - 6), both signs; 0;
 * and
 * 1. Positive: of 2^(i + 1) parts, without signs. */
typedef struct bt_code_book {
    bool positive;
    double value[BT_CODES], middle[BT_CODES]; /* middle: to the next one; the last is endless */
} bt_code_book;
void bt_code_book_fill(bt_code_book *book, bool positive);

/* The book's value of a code, to be computed anywhere. */
BT_EVERYWHERE static inline double bt_code_value(int code, bool positive)
{
    static const double tens[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
    const int from = positive ? 0 : BT_CODES_ZERO, sign = code < from ? -1 : 1;
    int k = sign * (code - from), decade = 0, parts = positive ? 2 : 1;
    if (code == BT_CODES - 1 || k == 0)
        return k != 0;
    for (k--; k >= parts; parts *= 2, decade++)
        k -= parts;
    return sign * ((0.1 + 0.9 * (k + 0.5) / parts) * tens[decade]);
}

/* The nearest code, the lower one of two; but what is not 0 gets no code of 0. x: -1 .. 1. */
BT_EVERYWHERE static inline uint8_t bt_code_of(const bt_code_book *book, double x)
{
    int code = 0;
    for (int step = BT_CODES / 2; step; step /= 2)
        code += x > book->middle[code + step - 1] ? step : 0;
    if (book->positive)
        return (uint8_t)(code == 0 && x > 0 ? 1 : code);
    return (uint8_t)(code == BT_CODES_ZERO ? code + (x > 0) - (x < 0) : code);
}

#endif
