/* runtime/watch.h: running without the plan (BETTY_PLAN=off): every value is an allocation of its own, made at the
 * first step that touches it and freed after the last. The peak of live bytes under malloc is then the plan's lower
 * bound: a witness, and a way to tell a fault of the plan from one of a kernel. With BETTY_PLAN=guard each has a red
 * zone behind it, which is looked at when it is freed. */
#ifndef BT_WATCH_H
#define BT_WATCH_H

#include "runtime/phase.h"

bt_status bt_watch_run(bt_phase *phase, int entry);
void bt_watch_drop(bt_phase *phase);                 /* frees what is still live */
void bt_phase_clear(bt_phase *phase, int64_t value); /* phase.c */

#endif
