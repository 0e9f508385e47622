/* base/overlap.h: which of many stretches of bytes share one with a given stretch. */
#ifndef BT_OVERLAP_H
#define BT_OVERLAP_H

#include "base/base.h"

typedef struct bt_stretch {
    uintptr_t of;      /* what it is a part of: any number; different ones share nothing */
    size_t start, end; /* the first byte, and the one after the last */
    int64_t item;      /* whose it is */
} bt_stretch;

typedef struct bt_overlaps {
    bt_stretch *stretches; /* sorted by what they are of, then by their starts */
    size_t *ends;          /* of each group's implicit tree, by its root: the last end in it */
    int64_t *found;        /* by bt_overlaps_find: items */
    int64_t count, found_count;
} bt_overlaps;

/* With room for this many; they are then written to stretches[count++], before the first question. */
bt_status bt_overlaps_new(bt_overlaps *overlaps, int64_t capacity);
void bt_overlaps_sort(bt_overlaps *overlaps);
void bt_overlaps_free(bt_overlaps *overlaps);

/* Fills `found`, in the order of their starts. */
void bt_overlaps_find(bt_overlaps *overlaps, uintptr_t of, size_t start, size_t end);
bool bt_overlaps_any_of(const bt_overlaps *overlaps, uintptr_t of); /* there is a stretch of it */

#endif
