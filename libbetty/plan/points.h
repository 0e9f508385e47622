/* plan/points.h: points none of which is better than another: fewer bytes cost more. */
#ifndef BT_POINTS_H
#define BT_POINTS_H

#include "plan/remat.h"

typedef struct bt_remat_point {
    bt_remat_choice choice;
    size_t most;
    double extra;
} bt_remat_point;

typedef struct bt_points {
    bt_region *region;
    bt_remat_point *list; /* the most bytes first; behind the last one lie `spare` that are not points any more */
    int64_t count, spare, capacity;
} bt_points;

/* The first with no more bytes than so many. */
int64_t bt_points_place(const bt_remat_point *list, int64_t count, size_t most);

/* Copies a point to its place, unless another is as good; removes those that it is better than. */
bt_status bt_points_offer(bt_points *points, const bt_remat *remat, const bt_remat_point *point);

#endif
