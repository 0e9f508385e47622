/* plan/place.c: largest first, into the first gap (TensorFlow Lite Micro's greedy planner is the known example). If
 * that is well above the bound, other orders are tried: longest life first suits values kept for derivatives, the first
 * of which is kept longest; of equal sizes, latest end first suits a program that goes back through such values. */
#include "plan/place.h"

#include "plan/skyline.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef struct value { /* an interval, or several that are placed one after the other */
    bt_interval *parts;
    int64_t count;
    size_t bytes;        /* of all parts */
    int64_t first, last; /* steps, over all parts */
} value;

enum { BLOCK = 128, NEAR = 512 }; /* NEAR: a placement less than bound / NEAR above the bound is good enough */

typedef struct block {                  /* adjacent placed intervals; from `count` on `begins` is INT32_MAX */
    int32_t begins[BLOCK], ends[BLOCK]; /* steps, both included */
    size_t offset[BLOCK], top[BLOCK];   /* bytes; top: the first byte after it */
    int64_t count;
} block;

typedef struct span { /* summary of a block: usually this is enough to skip it */
    size_t highest;   /* top */
    int32_t first, last;
    block *block;
} span;

typedef struct placement { /* the placed intervals by offset, in blocks, so that inserting moves few */
    span *spans;
    int64_t count, room;
    bt_skyline skyline; /* of the placed intervals */
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

static int by_life(const void *a, const void *b)
{
    const value *v = a, *w = b;
    int64_t x = v->last - v->first, y = w->last - w->first;
    return x != y ? (x > y ? -1 : 1) : by_size(a, b);
}

static int by_end(const void *a, const void *b)
{
    const value *x = a, *y = b;
    int64_t last = x->parts->last, other = y->parts->last;
    return last != other ? (last > other ? -1 : 1) : by_size(a, b);
}

static int by_size_and_end(const void *a, const void *b)
{
    const value *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes > y->bytes ? -1 : 1) : by_end(a, b);
}

static bool lives(const bt_interval *interval) { return interval->bytes && interval->first <= interval->last; }

/* apart[i]: whether neighbour i never lives at the same time as the interval. Branch-free, to be vectorised. */
static void tell_apart(const block *some, const bt_interval *interval, uint8_t apart[BLOCK])
{
    const int32_t first = (int32_t)interval->first, last = (int32_t)interval->last;
    for (int i = 0; i < BLOCK; i++)
        apart[i] = (uint8_t)((some->begins[i] > last) | (some->ends[i] < first));
}

/* Whether the block has a gap for the interval. *at: the gap, or where to continue the search. */
static bool gap_below(const block *some, const bt_interval *interval, size_t *at)
{
    enum { WORD = sizeof(uint64_t) };
    const uint64_t all = UINT64_MAX / UINT8_MAX; /* a bit in each byte */
    const size_t bytes = interval->bytes;
    size_t free_from = *at;
    bool found = false;
    uint8_t apart[BLOCK];
    tell_apart(some, interval, apart);
    for (int64_t w = 0; w < some->count && !found; w += WORD) {
        uint64_t any;
        memcpy(&any, &apart[w], sizeof any);
        for (any ^= all; any && !found; any &= any - 1) { /* one bit per neighbour met, the lowest first */
            const int64_t i = w + __builtin_ctzll(any) / CHAR_BIT;
            found = some->offset[i] >= free_from && some->offset[i] - free_from >= bytes;
            free_from = !found && some->top[i] > free_from ? some->top[i] : free_from;
        }
    }
    *at = free_from;
    return found;
}

/* The lowest place from `at` on where the interval fits between the placed ones. */
static size_t first_gap(const placement *p, const bt_interval *interval, size_t at)
{
    size_t full = lives(interval) ? bt_skyline_highest(&p->skyline, interval->first, interval->last) : 0;
    at = full > at ? full : at;
    for (int64_t b = 0; b < p->count; b++) {
        const span *span = &p->spans[b];
        if (span->highest > at && span->first <= interval->last && interval->first <= span->last &&
            gap_below(span->block, interval, &at))
            return at;
    }
    return at;
}

static void see(span *span, int32_t begins, int32_t ends, size_t top)
{
    span->first = begins < span->first ? begins : span->first;
    span->last = ends > span->last ? ends : span->last;
    span->highest = top > span->highest ? top : span->highest;
}

static span nothing_in(block *some) { return (span){.first = INT32_MAX, .last = -1, .block = some}; }

static void copy(block *to, int64_t at, const block *from, int64_t i)
{
    to->begins[at] = from->begins[i];
    to->ends[at] = from->ends[i];
    to->offset[at] = from->offset[i];
    to->top[at] = from->top[i];
}

/* Adds an empty block after block b. */
static bt_status add_block(placement *p, int64_t b)
{
    span *spans = bt_grow(p->spans, &p->room, p->count + 1, sizeof *p->spans);
    p->spans = spans ? spans : p->spans;
    block *added = spans ? bt_alloc(sizeof *added) : NULL;
    if (!added)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < BLOCK; i++)
        added->begins[i] = INT32_MAX;
    memmove(p->spans + b + 2, p->spans + b + 1, (size_t)(p->count - b - 1) * sizeof *p->spans);
    p->spans[b + 1] = nothing_in(added);
    p->count++;
    return BT_OK;
}

/* Splits a full block in two. */
static bt_status split(placement *p, int64_t b)
{
    BT_TRY(add_block(p, b));
    block *low = p->spans[b].block, *high = p->spans[b + 1].block;
    low->count = 0;
    p->spans[b] = nothing_in(low);
    for (int64_t i = 0; i < BLOCK; i++) {
        block *half = i < BLOCK / 2 ? low : high;
        see(&p->spans[half == low ? b : b + 1], low->begins[i], low->ends[i], low->top[i]);
        copy(half, half->count++, low, i);
    }
    for (int64_t i = low->count; i < BLOCK; i++)
        low->begins[i] = INT32_MAX;
    return BT_OK;
}

/* The last block that begins below the offset; the first block if none does. */
static int64_t block_of(const placement *p, size_t offset)
{
    int64_t low = 0, high = p->count - 1;
    while (low < high) {
        int64_t middle = high - (high - low) / 2;
        if (p->spans[middle].block->offset[0] < offset)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static bt_status insert(placement *p, const bt_interval *interval)
{
    if (!p->count)
        BT_TRY(add_block(p, -1));
    int64_t b = block_of(p, interval->offset), i;
    if (p->spans[b].block->count == BLOCK) {
        BT_TRY(split(p, b));
        b = block_of(p, interval->offset);
    }
    block *some = p->spans[b].block;
    for (i = some->count; i > 0 && some->offset[i - 1] >= interval->offset; i--)
        copy(some, i, some, i - 1);
    some->begins[i] = (int32_t)interval->first;
    some->ends[i] = (int32_t)interval->last;
    some->offset[i] = interval->offset;
    some->top[i] = interval->offset + interval->bytes;
    see(&p->spans[b], some->begins[i], some->ends[i], some->top[i]);
    some->count++;
    if (lives(interval))
        bt_skyline_raise(&p->skyline, interval->first, interval->last, interval->offset,
                         interval->offset + interval->bytes);
    return BT_OK;
}

static void placement_clear(placement *p)
{
    for (int64_t b = 0; b < p->count; b++)
        bt_free(p->spans[b].block);
    p->count = 0;
}

/* The lowest place where all parts fit: moves up to the next gap of each part in turn, until none has to move. */
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

/* Groups joined intervals into values. */
static bt_status list(bt_interval *intervals, int64_t count, value *values, int64_t *value_count)
{
    int64_t last = -1;
    for (int64_t i = 0; i < count; i++) {
        if (last < 0 || !intervals[i].joined)
            values[++last] = (value){.parts = &intervals[i], .first = intervals[i].first, .last = intervals[i].last};
        value *v = &values[last];
        v->count++;
        v->first = intervals[i].first < v->first ? intervals[i].first : v->first;
        v->last = intervals[i].last > v->last ? intervals[i].last : v->last;
        if (!bt_add_size(v->bytes, intervals[i].bytes, &v->bytes))
            return bt_fail(BT_ERROR_MEMORY, "the plan needs more bytes than there are addresses");
    }
    *value_count = last + 1;
    return BT_OK;
}

static bt_status place_all(const value *values, int64_t count, placement *p, size_t *arena)
{
    placement_clear(p);
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
            BT_TRY(insert(p, interval));
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
    static int (*const orders[])(const void *, const void *) = {by_size, by_life, by_size_and_end, by_end};
    int64_t step;
    size_t bound;
    BT_TRY(bt_place_bound(intervals, count, &bound, &step));
    for (int o = 0; o < BT_COUNT_OF(orders) && (o == 0 || *arena - bound > bound / NEAR); o++) {
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
    *p = (placement){0};
    if (last >= INT32_MAX)
        return bt_fail(BT_ERROR_UNSUPPORTED, "the plan has %lld steps; at most %d are possible", (long long)last,
                       INT32_MAX);
    return bt_skyline_new(&p->skyline, last + 1);
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
    placement_clear(&p);
    bt_free(p.spans);
    bt_skyline_free(&p.skyline);
    return status;
}
