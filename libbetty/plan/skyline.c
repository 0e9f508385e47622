/* plan/skyline.c: a segment tree. Runs of steps with the same height are raised at once. */
#include "plan/skyline.h"

bt_status bt_skyline_new(bt_skyline *s, int64_t steps)
{
    *s = (bt_skyline){.steps = 1};
    while (s->steps < steps)
        s->steps *= 2;
    s->low = bt_alloc_array(2 * (size_t)s->steps, sizeof *s->low);
    s->high = bt_alloc_array(2 * (size_t)s->steps, sizeof *s->high);
    if (s->low && s->high)
        return BT_OK;
    bt_skyline_free(s);
    return BT_ERROR_MEMORY;
}

void bt_skyline_free(bt_skyline *s)
{
    bt_free(s->low);
    bt_free(s->high);
    *s = (bt_skyline){0};
}

void bt_skyline_clear(bt_skyline *s) { s->low[1] = s->high[1] = 0; }

static size_t highest(const bt_skyline *s, int64_t node, int64_t from, int64_t to, int64_t first, int64_t last)
{
    if (to < first || last < from)
        return 0;
    if (s->low[node] == s->high[node] || (first <= from && to <= last))
        return s->high[node];
    int64_t middle = from + (to - from) / 2;
    size_t left = highest(s, 2 * node, from, middle, first, last);
    size_t right = highest(s, 2 * node + 1, middle + 1, to, first, last);
    return left > right ? left : right;
}

size_t bt_skyline_highest(const bt_skyline *s, int64_t first, int64_t last)
{
    return highest(s, 1, 0, s->steps - 1, first, last);
}

typedef struct taken {
    int64_t first, last;
    size_t start, end;
} taken;

static void raise(bt_skyline *s, int64_t node, int64_t from, int64_t to, const taken *t)
{
    if (to < t->first || t->last < from || t->start < s->low[node] || s->high[node] < t->start)
        return;
    bool level = s->low[node] == s->high[node];
    if (level && t->first <= from && to <= t->last) {
        s->low[node] = s->high[node] = t->end;
        return;
    }
    int64_t left = 2 * node, right = left + 1, middle = from + (to - from) / 2;
    if (level)
        s->low[left] = s->high[left] = s->low[right] = s->high[right] = s->high[node];
    raise(s, left, from, middle, t);
    raise(s, right, middle + 1, to, t);
    s->low[node] = s->low[left] < s->low[right] ? s->low[left] : s->low[right];
    s->high[node] = s->high[left] > s->high[right] ? s->high[left] : s->high[right];
}

void bt_skyline_raise(bt_skyline *s, int64_t first, int64_t last, size_t start, size_t end)
{
    raise(s, 1, 0, s->steps - 1, &(taken){first, last, start, end});
}
