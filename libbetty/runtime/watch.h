/* runtime/watch.h: running without the plan (BETTY_PLAN=off): every value is its own allocation, made at the first step
 * that touches it and freed after the last. The peak of live bytes under malloc then equals the plan's lower bound.
 * This is a witness for the plan, and a way to tell a fault of the plan from one of a kernel. With BETTY_PLAN=guard
 * each value is followed by a red zone, which is checked when it is freed. Parts of a variable share an allocation only
 * if a step uses them as one. */
#ifndef BT_WATCH_H
#define BT_WATCH_H

#include "runtime/phase.h"

typedef struct bt_watch bt_watch;

bt_status bt_watch_plan(bt_phase *phase); /* allocates everything but values, so that running allocates only these */
void bt_watch_free(bt_phase *phase);
bt_status bt_watch_run(bt_phase *phase, int entry);
bt_status bt_watch_reach(bt_phase *phase, int entry, int64_t step); /* makes everything that the step needs available */
void bt_watch_drop(bt_phase *phase);                                /* frees what is still live */
char *bt_watch_address(const bt_phase *phase, int64_t value);       /* NULL: not live */
void bt_phase_clear(bt_phase *phase, int64_t value);                /* phase.c */

#endif
