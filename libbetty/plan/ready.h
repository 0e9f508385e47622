/* plan/ready.h: steps that may run next, the one that adds least on top. */
#ifndef BT_READY_H
#define BT_READY_H

#include "base/base.h"

typedef struct bt_rank { /* the least goes first */
    int64_t adds;        /* bytes that are alive with the step besides those without it */
    int64_t then;        /* where several add the same; then the step's own number */
} bt_rank;

typedef struct bt_ready {
    bt_rank *ranks; /* by step, of those that are ready */
    int64_t *heap;  /* who these are, the least on top, */
    int64_t *at;    /* each at this place; by step, -1: not ready */
    int64_t count;
} bt_ready;

bt_status bt_ready_new(bt_ready *ready, bt_region *region, int64_t steps); /* none is ready */
void bt_ready_clear(bt_ready *ready, int64_t steps);
void bt_ready_enter(bt_ready *ready, int64_t step, bt_rank rank);
int64_t bt_ready_leave(bt_ready *ready);                         /* the first, which is no longer ready */
void bt_ready_remove(bt_ready *ready, int64_t step);             /* if it is ready */
void bt_ready_less(bt_ready *ready, int64_t step, size_t bytes); /* if the step is ready: it adds less by so much */

#endif
