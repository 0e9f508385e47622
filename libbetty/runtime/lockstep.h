/* runtime/lockstep.h: the ranks of one process: each computes up to the next collective, one after the other, in one
 * thread; then the collective takes the values of all, in the order of ranks. If each rank is a process, there is one
 * here, and the transport brings the values of the others. */
#ifndef BT_LOCKSTEP_H
#define BT_LOCKSTEP_H

#include "runtime/phase.h"

/* Room for so many, had before, so that running allocates nothing. NULL after an error. */
typedef struct bt_lockstep bt_lockstep;
bt_lockstep *bt_lockstep_new(int ranks);
void bt_lockstep_free(bt_lockstep *lockstep);

/* The entry on all ranks of this process. All of them must meet at the same collectives, BT_ERROR_INTERNAL. */
bt_status bt_lockstep_run(bt_phase *phase, int entry);

#endif
