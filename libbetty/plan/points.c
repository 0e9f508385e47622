/* plan/points.c: a list of points, kept sorted. */
#include "plan/points.h"

#include <string.h>

int64_t bt_points_place(const bt_remat_point *list, int64_t count, size_t most)
{
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (list[middle].most > most)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void take_away(bt_points *p, int64_t at)
{
    bt_remat_point gone = p->list[at];
    memmove(p->list + at, p->list + at + 1, (size_t)(p->count - at - 1) * sizeof gone);
    p->list[--p->count] = gone;
    p->spare++;
}

/* Makes an entry after the last point, with memory for a choice. */
static bt_status make_place(bt_points *p, const bt_remat *remat)
{
    if (p->spare > 0) {
        p->spare--;
        return BT_OK;
    }
    bt_remat_point *list = bt_grow(p->list, &p->capacity, p->count + 1, sizeof *list);
    if (!list)
        return BT_ERROR_MEMORY;
    p->list = list;
    return bt_remat_choice_new(remat, p->region, &list[p->count].choice);
}

bt_status bt_points_offer(bt_points *points, const bt_remat *remat, const bt_remat_point *point)
{
    int64_t at = bt_points_place(points->list, points->count, point->most);
    if (at < points->count && points->list[at].extra <= point->extra)
        return BT_OK;
    if (at < points->count && points->list[at].most == point->most)
        take_away(points, at);
    for (; at > 0 && points->list[at - 1].extra >= point->extra; at--)
        take_away(points, at - 1);
    BT_TRY(make_place(points, remat));
    bt_remat_choice choice = points->list[points->count].choice;
    memmove(points->list + at + 1, points->list + at, (size_t)(points->count - at) * sizeof *points->list);
    memcpy(choice.dropped, point->choice.dropped, (size_t)remat->gap_count);
    memcpy(choice.brief, point->choice.brief, (size_t)remat->given->value_count);
    points->list[at] = (bt_remat_point){choice, point->most, point->extra};
    points->count++;
    return BT_OK;
}
