/* plan/place.c: size-descending, first gap (TensorFlow Lite Micro's greedy planner is the known example); where that
 * is above the bound, life-descending as well, which suits what a derivative keeps, the first value longest. */
#include "plan/place.h"

#include "plan/skyline.h"

#include <stdlib.h>
#include <string.h>

typedef struct value { /* an interval, or several whose places follow from the first one's */
    bt_interval *parts;
    int64_t count;
    size_t bytes; /* of all parts */
} value;

typedef struct placement { /* those that have their places, in order of their offsets */
    bt_interval *list;
    int64_t count;
    size_t *reach;      /* by place in the list: where the last one ends of those up to it */
    bt_skyline skyline; /* of them */
} placement;

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

static bool lives(const bt_interval *interval) { return interval->bytes && interval->first <= interval->last; }

/* The first of those placed that has an offset of at least this, or, with `ends`, up to which one ends behind it. */
static int64_t first_from(const placement *p, size_t offset, bool ends)
{
    int64_t low = 0, high = p->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (ends ? p->reach[middle] <= offset : p->list[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The lowest place from `at` on where the interval fits between those placed before. */
static size_t first_gap(const placement *p, const bt_interval *interval, size_t at)
{
    size_t full = lives(interval) ? bt_skyline_highest(&p->skyline, interval->first, interval->last) : 0;
    at = full > at ? full : at;
    for (int64_t i = first_from(p, at, true); i < p->count; i++) {
        const bt_interval *other = &p->list[i];
        if (!together(other, interval))
            continue;
        if (other->offset >= at && other->offset - at >= interval->bytes)
            break;
        if (other->offset + other->bytes > at)
            at = other->offset + other->bytes;
    }
    return at;
}

static void insert(placement *p, const bt_interval *interval)
{
    int64_t i = first_from(p, interval->offset, false), moved = p->count++ - i;
    size_t end = interval->offset + interval->bytes;
    memmove(p->list + i + 1, p->list + i, (size_t)moved * sizeof *p->list);
    memmove(p->reach + i + 1, p->reach + i, (size_t)moved * sizeof *p->reach);
    p->list[i] = *interval;
    p->reach[i] = i ? p->reach[i - 1] : 0;
    for (; i < p->count && p->reach[i] < end; i++)
        p->reach[i] = end;
    if (lives(interval))
        bt_skyline_raise(&p->skyline, interval->first, interval->last, interval->offset, end);
}

/* The lowest place where all parts fit: each is moved up to its own next gap, until none has to move. */
static size_t first_place(const placement *p, const value *v)
{
    size_t at = 0, within = 0;
    for (int64_t part = 0; part < v->count && at <= SIZE_MAX - v->bytes;) {
        size_t gap = first_gap(p, &v->parts[part], at + within);
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

static bt_status place_all(const value *values, int64_t count, placement *p, size_t *arena)
{
    p->count = 0;
    bt_skyline_clear(&p->skyline);
    for (int64_t i = 0; i < count; i++) {
        size_t at = first_place(p, &values[i]), end;
        if (!bt_add_size(at, values[i].bytes, &end))
            return bt_fail(BT_ERROR_MEMORY, "the plan needs more bytes than there are addresses");
        *arena = end > *arena ? end : *arena;
        for (int64_t part = 0; part < values[i].count; part++) {
            bt_interval *interval = &values[i].parts[part];
            interval->offset = at;
            at += interval->bytes;
            insert(p, interval);
        }
    }
    return BT_OK;
}

static void keep(bt_interval *intervals, int64_t count, size_t *offsets)
{
    for (int64_t i = 0; i < count; i++)
        offsets[i] = intervals[i].offset;
}

static bt_status place_best(bt_interval *intervals, int64_t count, value *values, int64_t value_count, placement *p,
                            size_t *offsets, size_t *arena)
{
    static int (*const orders[])(const void *, const void *) = {by_size, by_life};
    int64_t step;
    size_t bound;
    BT_TRY(bt_place_bound(intervals, count, &bound, &step));
    for (int o = 0; o < BT_COUNT_OF(orders) && (o == 0 || *arena > bound); o++) {
        size_t found = 0;
        qsort(values, (size_t)value_count, sizeof *values, orders[o]);
        BT_TRY(place_all(values, value_count, p, &found));
        if (o == 0 || found < *arena) {
            *arena = found;
            keep(intervals, count, offsets);
        }
    }
    for (int64_t i = 0; i < count; i++)
        intervals[i].offset = offsets[i];
    return BT_OK;
}

static bt_status placement_new(placement *p, const bt_interval *intervals, int64_t count)
{
    int64_t last = 0;
    for (int64_t i = 0; i < count; i++)
        last = intervals[i].last > last ? intervals[i].last : last;
    *p = (placement){.list = bt_alloc_array((size_t)count, sizeof *p->list)};
    p->reach = bt_alloc_array((size_t)count, sizeof *p->reach);
    return p->list && p->reach ? bt_skyline_new(&p->skyline, last + 1) : BT_ERROR_MEMORY;
}

bt_status bt_place(bt_interval *intervals, int64_t count, size_t *arena)
{
    placement p;
    value *values = bt_alloc_array((size_t)count, sizeof *values);
    size_t *offsets = bt_alloc_array((size_t)count, sizeof *offsets);
    bt_status status = placement_new(&p, intervals, count);
    int64_t value_count = 0;
    *arena = 0;
    if (!values || !offsets)
        status = BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = list(intervals, count, values, &value_count);
    if (status == BT_OK && value_count)
        status = place_best(intervals, count, values, value_count, &p, offsets, arena);
    bt_free(values);
    bt_free(offsets);
    bt_free(p.list);
    bt_free(p.reach);
    bt_skyline_free(&p.skyline);
    return status;
}
