/* plan/sweep.c: a lower bound for placements, and a check of one: a sweep over the steps at which an interval begins or
 * ends. */
#include "plan/place.h"

#include <stdlib.h>

typedef struct event {
    int64_t step, item;
    bool begins;
} event;

static int in_time(const void *a, const void *b)
{
    const event *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->begins != y->begins)
        return x->begins ? 1 : -1; /* ends come before begins */
    return x->item < y->item ? -1 : x->item > y->item;
}

/* Lists where the intervals with a life and bytes begin and end, in step order. NULL: out of memory. */
static event *list(const bt_interval *intervals, int64_t count, int64_t *event_count)
{
    event *events = bt_alloc_array(2 * (size_t)count, sizeof *events);
    *event_count = 0;
    for (int64_t i = 0; events && i < count; i++)
        if (intervals[i].bytes && intervals[i].last >= intervals[i].first) {
            events[(*event_count)++] = (event){intervals[i].first, i, true};
            events[(*event_count)++] = (event){intervals[i].last + 1, i, false};
        }
    if (*event_count)
        qsort(events, (size_t)*event_count, sizeof *events, in_time);
    return events;
}

bt_status bt_place_bound(const bt_interval *intervals, int64_t count, size_t *bound, int64_t *step)
{
    int64_t event_count;
    event *events = list(intervals, count, &event_count);
    size_t live = 0;
    *bound = 0;
    *step = 0;
    for (int64_t e = 0; e < event_count && *bound < SIZE_MAX; e++) {
        size_t bytes = intervals[events[e].item].bytes;
        if (!events[e].begins)
            live -= bytes;
        else if (!bt_add_size(live, bytes, &live))
            live = SIZE_MAX;
        if (live > *bound) {
            *bound = live;
            *step = events[e].step;
        }
    }
    bt_free(events);
    return events ? BT_OK : BT_ERROR_MEMORY;
}

/* ---- the verifier ---- */

typedef struct by_offset {
    size_t offset;
    int64_t item;
} by_offset;

/* The intervals by offset, and a tree over them of where the ones alive now end; 0 for the others. */
typedef struct verifier {
    const bt_interval *intervals;
    int64_t count;
    by_offset *sorted;
    int64_t *rank; /* by interval: its place in `sorted` */
    size_t *ends;  /* node k has the larger one of nodes 2k and 2k + 1; the leaves begin at `count` */
} verifier;

static int ascending(const void *a, const void *b)
{
    const by_offset *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

static void set_end(verifier *v, int64_t rank, size_t end)
{
    int64_t node = v->count + rank;
    v->ends[node] = end;
    while (node /= 2)
        v->ends[node] = v->ends[2 * node] > v->ends[2 * node + 1] ? v->ends[2 * node] : v->ends[2 * node + 1];
}

/* The greatest end of the live intervals of ranks from .. to - 1; 0: none is alive. */
static size_t last_end(const verifier *v, int64_t from, int64_t to)
{
    size_t end = 0;
    for (from += v->count, to += v->count; from < to; from /= 2, to /= 2) {
        if (from % 2 && v->ends[from++] > end)
            end = v->ends[from - 1];
        if (to % 2 && v->ends[--to] > end)
            end = v->ends[to];
    }
    return end;
}

/* The first rank with at least this offset. */
static int64_t rank_of(const verifier *v, size_t offset)
{
    int64_t low = 0, high = v->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (v->sorted[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Whether the interval shares a byte with a live one: an earlier one that ends after its start, or one that begins in
 * it. */
static bool overlaps(const verifier *v, int64_t item)
{
    const bt_interval *interval = &v->intervals[item];
    int64_t rank = v->rank[item];
    return last_end(v, 0, rank) > interval->offset ||
           last_end(v, rank + 1, rank_of(v, interval->offset + interval->bytes)) > 0;
}

static bt_status fail_overlap(const verifier *v, int64_t item)
{
    const bt_interval *a = &v->intervals[item];
    int64_t other = 0;
    for (int64_t rank = 0; rank < v->count; rank++) {
        const bt_interval *b = &v->intervals[v->sorted[rank].item];
        bool lives = v->ends[v->count + rank] > 0;
        if (lives && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
            other = v->sorted[rank].item;
    }
    return bt_fail(BT_ERROR_INTERNAL, "plan: values %lld and %lld overlap", (long long)(other < item ? other : item),
                   (long long)(other < item ? item : other));
}

static bt_status sweep(verifier *v, const event *events, int64_t event_count)
{
    for (int64_t i = 0; i < v->count; i++)
        v->sorted[i] = (by_offset){v->intervals[i].offset, i};
    if (v->count)
        qsort(v->sorted, (size_t)v->count, sizeof *v->sorted, ascending);
    for (int64_t i = 0; i < v->count; i++)
        v->rank[v->sorted[i].item] = i;
    for (int64_t e = 0; e < event_count; e++) {
        const bt_interval *interval = &v->intervals[events[e].item];
        if (events[e].begins && overlaps(v, events[e].item))
            return fail_overlap(v, events[e].item);
        set_end(v, v->rank[events[e].item], events[e].begins ? interval->offset + interval->bytes : 0);
    }
    return BT_OK;
}

static bt_status check_places(const bt_interval *intervals, int64_t count, size_t arena)
{
    for (int64_t i = 0; i < count; i++) {
        const bt_interval *a = &intervals[i];
        if (a->offset > arena || arena - a->offset < a->bytes)
            return bt_fail(BT_ERROR_INTERNAL, "plan: value %lld ends beyond the arena", (long long)i);
        if (i > 0 && a->joined && a->offset != a[-1].offset + a[-1].bytes)
            return bt_fail(BT_ERROR_INTERNAL, "plan: value %lld lies apart from the one it belongs to", (long long)i);
    }
    return BT_OK;
}

bt_status bt_place_verify(const bt_interval *intervals, int64_t count, size_t arena)
{
    BT_TRY(check_places(intervals, count, arena));
    int64_t event_count;
    event *events = list(intervals, count, &event_count);
    verifier v = {.intervals = intervals, .count = count};
    v.sorted = bt_alloc_array((size_t)count, sizeof *v.sorted);
    v.rank = bt_alloc_array((size_t)count, sizeof *v.rank);
    v.ends = bt_alloc_array(2 * (size_t)count, sizeof *v.ends);
    bt_status status = BT_ERROR_MEMORY;
    if (events && v.sorted && v.rank && v.ends)
        status = sweep(&v, events, event_count);
    bt_free(events);
    bt_free(v.sorted);
    bt_free(v.rank);
    bt_free(v.ends);
    return status;
}
