/* plan/points.h: points of which none is better than another: fewer bytes cost more. */
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
    bt_remat_point *list; /* the most bytes first; after the last one lie `spare` unused entries */
    int64_t count, spare, capacity;
} bt_points;

/* The index of the first point with at most this many bytes; count: none. */
int64_t bt_points_place(const bt_remat_point *list, int64_t count, size_t most);

/* Inserts a copy of a point, unless another is as good, and removes the points that it beats. */
bt_status bt_points_offer(bt_points *points, const bt_remat *remat, const bt_remat_point *point);

#endif
