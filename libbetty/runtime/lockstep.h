/* runtime/lockstep.h: the ranks of one process. Each runs up to the next collective, one after the other, in one
 * thread; then the collective takes the values of all, in rank order. If each rank is a process, there is one rank
 * here, and the transport brings the values of the others. */
#ifndef BT_LOCKSTEP_H
#define BT_LOCKSTEP_H

#include "runtime/phase.h"

/* Room for this many ranks, allocated beforehand, so that running allocates nothing. NULL after an error. */
typedef struct bt_lockstep bt_lockstep;
bt_lockstep *bt_lockstep_new(int ranks);
void bt_lockstep_free(bt_lockstep *lockstep);

/* Runs the entry on all ranks of this process. They must all meet at the same collectives, else BT_ERROR_INTERNAL. */
bt_status bt_lockstep_run(bt_phase *phase, int entry);

#endif
