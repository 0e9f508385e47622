/* backend/cpu/ahead.h: asks memory for what later work uses, while the present work computes. The processor does this
 * by itself only within a page, along lines of which it has seen the first few; and if everything is asked for at once,
 * the loads of the present work wait behind it. */
#ifndef BT_CPU_AHEAD_H
#define BT_CPU_AHEAD_H

#include "backend/math.h"

/* A walk over the lines of `rows` rows of `bytes` bytes, `row` bytes apart. {0} is at its end. */
typedef struct bt_ahead {
    const char *at, *end; /* the next line; where its row ends */
    int64_t rows, row, bytes;
    int64_t due;  /* now, in units of 1 / BT_LINE_PARTS of a line */
    int64_t step; /* is due for each part of the present work; 0: at the end */
} bt_ahead;

enum { BT_LINE = 64, /* bytes of a cache line */ BT_LINE_PARTS = 1 << 16 };

/* A walk that ends when the present work's `parts` parts have asked. */
static inline bt_ahead bt_ahead_of(const void *from, int64_t rows, int64_t row, int64_t bytes, int64_t parts)
{
    bt_ahead walk = {.at = from, .end = (const char *)from + bytes, .rows = rows, .row = row, .bytes = bytes};
    int64_t lines = rows * ((bytes + BT_LINE - 1) / BT_LINE);
    if (lines > 0 && parts > 0)
        walk.step = lines * BT_LINE_PARTS / parts + 1;
    return walk;
}

enum { BT_TO_L1, BT_TO_L2, BT_TO_WRITE };

/* Asks for the lines that are due after `parts` more parts. */
BT_INLINE void bt_ask(bt_ahead *walk, int64_t parts, int how)
{
    int64_t due = walk->due + parts * walk->step;
    const char *at = walk->at;
    for (; due >= BT_LINE_PARTS; due -= BT_LINE_PARTS) {
        if (how == BT_TO_WRITE)
            __builtin_prefetch(at, 1);
        else if (how == BT_TO_L2)
            __builtin_prefetch(at, 0, 2);
        else
            __builtin_prefetch(at);
        at += BT_LINE;
        if (at < walk->end)
            continue;
        walk->end += walk->row;
        at = walk->end - walk->bytes;
        if (--walk->rows == 0) {
            walk->step = due = 0;
            break;
        }
    }
    walk->at = at;
    walk->due = due;
}

#endif
