/* plan/place.c: size-descending, first gap (TensorFlow Lite Micro's greedy planner is the known example); where that
 * is above the bound, life-descending as well, which suits what a derivative keeps, the first value longest. */
#include "plan/place.h"

#include <stdlib.h>
#include <string.h>

typedef struct value { /* an interval, or several whose places follow from the first one's */
    bt_interval *parts;
    int64_t count;
    size_t bytes; /* of all parts */
} value;

static int by_size(const void *a, const void *b)
{
    const value *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->parts->first != y->parts->first)
        return x->parts->first < y->parts->first ? -1 : 1;
    return x->parts < y->parts ? -1 : x->parts > y->parts;
}

static int64_t life(const value *v)
{
    int64_t first = v->parts->first, last = v->parts->last;
    for (int64_t i = 1; i < v->count; i++) {
        first = v->parts[i].first < first ? v->parts[i].first : first;
        last = v->parts[i].last > last ? v->parts[i].last : last;
    }
    return last - first;
}

static int by_life(const void *a, const void *b)
{
    int64_t x = life(a), y = life(b);
    return x != y ? (x > y ? -1 : 1) : by_size(a, b);
}

static bool together(const bt_interval *a, const bt_interval *b) { return a->first <= b->last && b->first <= a->last; }

/* The lowest place from `at` on where the interval fits between those placed before, which stand in order of their
 * offsets. */
static size_t first_gap(bt_interval *const *placed, int64_t count, const bt_interval *interval, size_t at)
{
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

/* The lowest place where all parts fit: each is moved up to its own next gap, until none has to move. */
static size_t first_place(bt_interval *const *placed, int64_t count, const value *v)
{
    size_t at = 0, within = 0;
    for (int64_t part = 0; part < v->count && at <= SIZE_MAX - v->bytes;) {
        size_t gap = first_gap(placed, count, &v->parts[part], at + within);
        bool again = part > 0 && gap > at + within;
        at = gap - within;
        within = again ? 0 : within + v->parts[part].bytes;
        part = again ? 0 : part + 1;
    }
    return at;
}

/* The values that the intervals are. */
static bt_status list(bt_interval *intervals, int64_t count, value *values, int64_t *value_count)
{
    int64_t last = -1;
    for (int64_t i = 0; i < count; i++) {
        if (last < 0 || !intervals[i].joined)
            values[++last] = (value){.parts = &intervals[i]};
        values[last].count++;
        if (!bt_add_size(values[last].bytes, intervals[i].bytes, &values[last].bytes))
            return bt_fail(BT_ERROR_MEMORY, "the plan needs more bytes than there are addresses");
    }
    *value_count = last + 1;
    return BT_OK;
}

static bt_status place_all(const value *values, int64_t count, bt_interval **placed, size_t *arena)
{
    int64_t done = 0;
    for (int64_t i = 0; i < count; i++) {
        size_t at = first_place(placed, done, &values[i]), end;
        if (!bt_add_size(at, values[i].bytes, &end))
            return bt_fail(BT_ERROR_MEMORY, "the plan needs more bytes than there are addresses");
        *arena = end > *arena ? end : *arena;
        for (int64_t part = 0; part < values[i].count; part++) {
            bt_interval *interval = &values[i].parts[part];
            interval->offset = at;
            at += interval->bytes;
            insert(placed, done++, interval);
        }
    }
    return BT_OK;
}

static void keep(bt_interval *intervals, int64_t count, size_t *offsets)
{
    for (int64_t i = 0; i < count; i++)
        offsets[i] = intervals[i].offset;
}

static bt_status place_best(bt_interval *intervals, int64_t count, value *values, int64_t value_count,
                            bt_interval **placed, size_t *offsets, size_t *arena)
{
    static int (*const orders[])(const void *, const void *) = {by_size, by_life};
    int64_t step;
    size_t bound;
    BT_TRY(bt_place_bound(intervals, count, &bound, &step));
    for (int o = 0; o < BT_COUNT_OF(orders) && (o == 0 || *arena > bound); o++) {
        size_t found = 0;
        qsort(values, (size_t)value_count, sizeof *values, orders[o]);
        BT_TRY(place_all(values, value_count, placed, &found));
        if (o == 0 || found < *arena) {
            *arena = found;
            keep(intervals, count, offsets);
        }
    }
    for (int64_t i = 0; i < count; i++)
        intervals[i].offset = offsets[i];
    return BT_OK;
}

bt_status bt_place(bt_interval *intervals, int64_t count, size_t *arena)
{
    value *values = bt_alloc_array((size_t)count, sizeof *values);
    bt_interval **placed = bt_alloc_array((size_t)count, sizeof(bt_interval *));
    size_t *offsets = bt_alloc_array((size_t)count, sizeof *offsets);
    bt_status status = values && placed && offsets ? BT_OK : BT_ERROR_MEMORY;
    int64_t value_count = 0;
    *arena = 0;
    if (status == BT_OK)
        status = list(intervals, count, values, &value_count);
    if (status == BT_OK && value_count)
        status = place_best(intervals, count, values, value_count, placed, offsets, arena);
    bt_free(values);
    bt_free(placed);
    bt_free(offsets);
    return status;
}
