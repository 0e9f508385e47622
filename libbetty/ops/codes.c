/* ops/codes.c: fills the books of 8-bit codes. */
#include "ops/codes.h"

#include <math.h>

void bt_code_book_fill(bt_code_book *book, bool positive)
{
    book->positive = positive;
    for (int code = 0; code < BT_CODES; code++) {
        const double next = code + 1 < BT_CODES ? bt_code_value(code + 1, positive) : (double)INFINITY;
        book->value[code] = bt_code_value(code, positive);
        book->middle[code] = (book->value[code] + next) / 2;
    }
}
