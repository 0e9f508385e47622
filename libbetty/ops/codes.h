/* ops/codes.h: 8-bit codes for numbers: the dynamic map of Dettmers et al. ("8-bit optimizers via block-wise
 * quantization", ICLR 2022). Each block of BT_CODES_BLOCK numbers is scaled by its largest absolute value. */
#ifndef BT_CODES_H
#define BT_CODES_H

#include "base/base.h"
#include "base/everywhere.h"

enum { BT_CODES = 256, BT_CODES_BLOCK = 256, BT_CODES_ZERO = 127 }; /* ZERO: the signed book's code for 0 */

/* In ascending order. The signed book: for i = 0 .. 6, the midpoints of 2^i equal parts of [0.1, 1], times 10^(i - 6),
 * with both signs; also 0 and 1. The positive book has 2^(i + 1) parts and no signs. */
typedef struct bt_code_book {
    bool positive;
    double value[BT_CODES], middle[BT_CODES]; /* middle: halfway to the next value; infinite after the last */
} bt_code_book;
void bt_code_book_fill(bt_code_book *book, bool positive);

/* The value of a code, computed without a table. */
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

/* The nearest code to x in [-1, 1]; at a tie the lower one. A nonzero x never gets the code of 0. */
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
