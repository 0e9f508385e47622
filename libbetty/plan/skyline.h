/* plan/skyline.h: for each step of an arena, how far it is full from its start without a gap. */
#ifndef BT_SKYLINE_H
#define BT_SKYLINE_H

#include "base/base.h"

typedef struct bt_skyline { /* a tree over the steps: node k has nodes 2 k and 2 k + 1 below it */
    size_t *low, *high;     /* by node: the lowest and highest of its steps; if equal, the nodes below it are ignored */
    int64_t steps;          /* a power of two */
} bt_skyline;

bt_status bt_skyline_new(bt_skyline *skyline, int64_t steps); /* all steps are empty */
void bt_skyline_free(bt_skyline *skyline);
void bt_skyline_clear(bt_skyline *skyline);

/* The greatest height of the steps first .. last: nothing that lives throughout them can lie below it. */
size_t bt_skyline_highest(const bt_skyline *skyline, int64_t first, int64_t last);

/* Takes the bytes start .. end: steps that are full up to `start` are then full up to `end`. */
void bt_skyline_raise(bt_skyline *skyline, int64_t first, int64_t last, size_t start, size_t end);

#endif
