/* plan/place.c: size-descending, first gap: within a percent of the bound on the graphs that people train
 * (TensorFlow Lite Micro's greedy planner is the known example). */
#include "plan/place.h"

#include <stdlib.h>
#include <string.h>

static int by_size(const void *a, const void *b)
{
    const bt_interval *x = *(const bt_interval *const *)a, *y = *(const bt_interval *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x < y ? -1 : x > y;
}

static bool together(const bt_interval *a, const bt_interval *b) { return a->first <= b->last && b->first <= a->last; }

/* The lowest place where the interval fits between those placed before, which stand in order of their offsets. */
static size_t first_gap(bt_interval *const *placed, int64_t count, const bt_interval *interval)
{
    size_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        const bt_interval *other = placed[i];
        if (!together(other, interval))
            continue;
        if (other->offset >= at && other->offset - at >= interval->bytes)
            break;
        if (other->offset + other->bytes > at)
            at = other->offset + other->bytes;
    }
    return at;
}

static void insert(bt_interval **placed, int64_t count, bt_interval *interval)
{
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (placed[middle]->offset < interval->offset)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(placed + low + 1, placed + low, (size_t)(count - low) * sizeof *placed);
    placed[low] = interval;
}

bt_status bt_place(bt_interval *intervals, int64_t count, size_t *arena)
{
    bt_interval **order = bt_alloc_array((size_t)count, sizeof(bt_interval *));
    bt_interval **placed = bt_alloc_array((size_t)count, sizeof(bt_interval *));
    bt_status status = order && placed ? BT_OK : BT_ERROR_MEMORY;
    *arena = 0;
    for (int64_t i = 0; status == BT_OK && i < count; i++)
        order[i] = &intervals[i];
    if (status == BT_OK && count > 1)
        qsort(order, (size_t)count, sizeof(bt_interval *), by_size);
    for (int64_t i = 0; status == BT_OK && i < count; i++) {
        size_t end;
        order[i]->offset = first_gap(placed, i, order[i]);
        if (!bt_add_size(order[i]->offset, order[i]->bytes, &end)) {
            status = bt_fail(BT_ERROR_MEMORY, "the plan needs more bytes than there are addresses");
            break;
        }
        *arena = end > *arena ? end : *arena;
        insert(placed, i, order[i]);
    }
    bt_free(order);
    bt_free(placed);
    return status;
}

size_t bt_place_bound(const bt_interval *intervals, int64_t count, int64_t *step)
{
    size_t most = 0;
    *step = 0;
    for (int64_t i = 0; i < count; i++) { /* the most is reached where something begins */
        size_t live = 0;
        for (int64_t j = 0; j < count; j++)
            if (intervals[j].first <= intervals[i].first && intervals[j].last >= intervals[i].first)
                live = live > SIZE_MAX - intervals[j].bytes ? SIZE_MAX : live + intervals[j].bytes;
        if (live > most || (live == most && intervals[i].first < *step)) {
            most = live;
            *step = intervals[i].first;
        }
    }
    return most;
}

bt_status bt_place_verify(const bt_interval *intervals, int64_t count, size_t arena)
{
    for (int64_t i = 0; i < count; i++) {
        const bt_interval *a = &intervals[i];
        if (a->offset > arena || arena - a->offset < a->bytes)
            return bt_fail(BT_ERROR_INTERNAL, "plan: value %lld ends beyond the arena", (long long)i);
        for (int64_t j = 0; j < i; j++) {
            const bt_interval *b = &intervals[j];
            if (a->bytes && b->bytes && together(a, b) && a->offset < b->offset + b->bytes &&
                b->offset < a->offset + a->bytes)
                return bt_fail(BT_ERROR_INTERNAL, "plan: values %lld and %lld overlap", (long long)j, (long long)i);
        }
    }
    return BT_OK;
}
