/* base/overlap.h: finds which of many byte ranges ("stretches") overlap a given one. */
#ifndef BT_OVERLAP_H
#define BT_OVERLAP_H

#include "base/base.h"

typedef struct bt_stretch {
    uintptr_t of;      /* the buffer it belongs to, as any number; stretches of different buffers never overlap */
    size_t start, end; /* the first byte, and one past the last */
    int64_t item;      /* the caller's number for it, which bt_overlaps_find returns */
} bt_stretch;

typedef struct bt_overlaps {
    bt_stretch *stretches; /* sorted by `of`, then by start */
    size_t *ends;          /* the greatest end in each subtree of a buffer's implicit tree, at the index of its root */
    int64_t *found;        /* the items that bt_overlaps_find found */
    int64_t count, found_count;
} bt_overlaps;

/* Makes room for this many stretches. Write them to stretches[count++], then call bt_overlaps_sort before the first
 * query. */
bt_status bt_overlaps_new(bt_overlaps *overlaps, int64_t capacity);
void bt_overlaps_sort(bt_overlaps *overlaps);
void bt_overlaps_free(bt_overlaps *overlaps);

/* Sets `found` to the overlapping items, ordered by start. */
void bt_overlaps_find(bt_overlaps *overlaps, uintptr_t of, size_t start, size_t end);
bool bt_overlaps_any_of(const bt_overlaps *overlaps, uintptr_t of); /* whether any stretch belongs to `of` */

#endif
