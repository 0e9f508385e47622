/* base/overlap.c: an interval tree stored in a sorted array: the root of a range is its middle element. */
#include "base/overlap.h"

#include <stdlib.h>

bt_status bt_overlaps_new(bt_overlaps *overlaps, int64_t capacity)
{
    *overlaps = (bt_overlaps){0};
    overlaps->stretches = bt_alloc_array((size_t)capacity, sizeof *overlaps->stretches);
    overlaps->ends = bt_alloc_array((size_t)capacity, sizeof *overlaps->ends);
    overlaps->found = bt_alloc_array((size_t)capacity, sizeof *overlaps->found);
    return overlaps->stretches && overlaps->ends && overlaps->found ? BT_OK : BT_ERROR_MEMORY;
}

void bt_overlaps_free(bt_overlaps *overlaps)
{
    bt_free(overlaps->stretches);
    bt_free(overlaps->ends);
    bt_free(overlaps->found);
    *overlaps = (bt_overlaps){0};
}

static int ascending(const void *a, const void *b)
{
    const bt_stretch *x = a, *y = b;
    if (x->of != y->of)
        return x->of < y->of ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Computes the tree over the stretches from .. to-1. Returns the greatest end among them. */
static size_t grow(bt_overlaps *overlaps, int64_t from, int64_t to)
{
    if (from >= to)
        return 0;
    int64_t root = from + (to - from) / 2;
    size_t left = grow(overlaps, from, root), right = grow(overlaps, root + 1, to);
    size_t end = overlaps->stretches[root].end;
    end = left > end ? left : end;
    return overlaps->ends[root] = right > end ? right : end;
}

/* Index of the first stretch whose `of` is at least this one. */
static int64_t first_of(const bt_overlaps *overlaps, uintptr_t of)
{
    int64_t low = 0, high = overlaps->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (overlaps->stretches[middle].of < of)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* One past the last stretch that has the same `of` as the one at `from`. */
static int64_t end_of(const bt_overlaps *overlaps, int64_t from)
{
    uintptr_t of = overlaps->stretches[from].of;
    return of == UINTPTR_MAX ? overlaps->count : first_of(overlaps, of + 1);
}

void bt_overlaps_sort(bt_overlaps *overlaps)
{
    if (overlaps->count)
        qsort(overlaps->stretches, (size_t)overlaps->count, sizeof *overlaps->stretches, ascending);
    for (int64_t from = 0, to; from < overlaps->count; from = to) {
        to = end_of(overlaps, from);
        grow(overlaps, from, to);
    }
}

static void find(bt_overlaps *overlaps, int64_t from, int64_t to, size_t start, size_t end)
{
    int64_t root = from + (to - from) / 2;
    if (from >= to || overlaps->ends[root] <= start)
        return;
    const bt_stretch *stretch = &overlaps->stretches[root];
    find(overlaps, from, root, start, end);
    if (stretch->start >= end)
        return;
    if (stretch->end > start)
        overlaps->found[overlaps->found_count++] = stretch->item;
    find(overlaps, root + 1, to, start, end);
}

void bt_overlaps_find(bt_overlaps *overlaps, uintptr_t of, size_t start, size_t end)
{
    overlaps->found_count = 0;
    if (bt_overlaps_any_of(overlaps, of)) {
        int64_t from = first_of(overlaps, of);
        find(overlaps, from, end_of(overlaps, from), start, end);
    }
}

bool bt_overlaps_any_of(const bt_overlaps *overlaps, uintptr_t of)
{
    int64_t first = first_of(overlaps, of);
    return first < overlaps->count && overlaps->stretches[first].of == of;
}
