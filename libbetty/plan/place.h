/* plan/place.h: places intervals of time in one arena. */
#ifndef BT_PLACE_H
#define BT_PLACE_H

#include "base/base.h"

typedef struct bt_interval {
    size_t bytes;        /* a multiple of BT_ALIGN */
    int64_t first, last; /* steps, both included; last < first: it lives at none */
    size_t offset;       /* the result */
    bool joined;         /* begins where the one before it in the list ends: a part of the same value */
} bt_interval;

/* Places one value after the other, each into the lowest gaps between those that live at the same time: the largest
 * first or, if that needs less, the longest-lived or the last to end. *arena: the bytes needed. */
bt_status bt_place(bt_interval *intervals, int64_t count, size_t *arena);

/* The most bytes that live at one step (SIZE_MAX: more than there are addresses), and the first such step: no placement
 * can need less. */
bt_status bt_place_bound(const bt_interval *intervals, int64_t count, size_t *bound, int64_t *step);

/* Fails if two intervals share a byte at the same time, one ends beyond the arena, or parts of a value lie apart. */
bt_status bt_place_verify(const bt_interval *intervals, int64_t count, size_t arena);

#endif
