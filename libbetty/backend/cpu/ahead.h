/* backend/cpu/ahead.h: asks memory for what later work uses, while the present work computes. The processor does this
 * by itself only within a page, along lines of which it has seen the first few; and if everything is asked for at once,
 * the loads of the present work wait behind it. */
#ifndef BT_CPU_AHEAD_H
#define BT_CPU_AHEAD_H

#include "backend/math.h"

/* A walk over `rows` rows of `bytes` bytes, `row` bytes apart, in a number of equal parts. {0} is at its end. */
typedef struct bt_ahead {
    const char *at, *end; /* the next line; where its row ends */
    int64_t rows, row, bytes;
    int64_t each; /* lines of a part; 0: at the end */
} bt_ahead;

enum { BT_LINE = 64 }; /* bytes of a cache line */

BT_INLINE bt_ahead bt_ahead_of(const void *from, int64_t rows, int64_t row, int64_t bytes, int64_t parts)
{
    bt_ahead walk = {.at = from, .end = (const char *)from + bytes, .rows = rows, .row = row, .bytes = bytes};
    walk.each = (rows * ((bytes + BT_LINE - 1) / BT_LINE) + parts - 1) / parts;
    return walk;
}

/* Asks for the next part's lines. If they will be written, no other core keeps a copy. */
BT_INLINE void bt_ask(bt_ahead *walk, bool write)
{
    for (int64_t i = walk->each; i > 0; i--) {
        if (write)
            __builtin_prefetch(walk->at, 1);
        else
            __builtin_prefetch(walk->at);
        walk->at += BT_LINE;
        if (walk->at < walk->end)
            continue;
        walk->end += walk->row;
        walk->at = walk->end - walk->bytes;
        if (--walk->rows == 0) {
            walk->each = 0;
            return;
        }
    }
}

#endif
