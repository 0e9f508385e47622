/* ops/codes.c: the books of 8-bit codes. */
#include "ops/codes.h"

#include <math.h>

/* Number k, from 1, of the positive values below 1, of `first` parts in the lowest decade. */
static double small_value(int k, int first)
{
    static const double tens[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
    int decade = 0, parts = first;
    for (k--; k >= parts; parts *= 2, decade++)
        k -= parts;
    return (0.1 + 0.9 * (k + 0.5) / parts) * tens[decade];
}

void bt_code_book_fill(bt_code_book *book, bool positive)
{
    double value[BT_CODES];
    for (int code = 0; code < BT_CODES - 1; code++) {
        int k = positive ? code : code - BT_CODES_ZERO;
        value[code] = k == 0 ? 0 : k > 0 ? small_value(k, positive ? 2 : 1) : -small_value(-k, 1);
    }
    value[BT_CODES - 1] = 1;
    book->positive = positive;
    for (int code = 0; code < BT_CODES; code++) {
        book->value[code] = value[code];
        book->middle[code] = code + 1 < BT_CODES ? (value[code] + value[code + 1]) / 2 : (double)INFINITY;
    }
}
