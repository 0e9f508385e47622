/* plan/ready.h: steps that may run next, with the one that adds the least on top. */
#ifndef BT_READY_H
#define BT_READY_H

#include "base/base.h"

typedef struct bt_rank { /* the least goes first */
    int64_t adds;        /* bytes that the step adds to those alive */
    int64_t then;        /* if several add the same; then the step number decides */
} bt_rank;

typedef struct bt_ready {
    bt_rank *ranks; /* by step, of the ready ones */
    int64_t *heap;  /* the ready steps, the least on top */
    int64_t *at;    /* by step: its place in the heap; -1: not ready */
    int64_t count;
} bt_ready;

bt_status bt_ready_new(bt_ready *ready, bt_region *region, int64_t steps); /* none is ready */
void bt_ready_clear(bt_ready *ready, int64_t steps);
void bt_ready_enter(bt_ready *ready, int64_t step, bt_rank rank);
int64_t bt_ready_leave(bt_ready *ready);                         /* takes out the first */
void bt_ready_remove(bt_ready *ready, int64_t step);             /* does nothing if it is not ready */
void bt_ready_less(bt_ready *ready, int64_t step, size_t bytes); /* if the step is ready: it adds this much less */

#endif
