/* runtime/fit.h: a phase within a budget. */
#ifndef BT_FIT_H
#define BT_FIT_H

#include "runtime/phase.h"

/* Plans the phase anew until its arena has at most so many bytes: programs that have more alive are compiled again,
 * with more of their values computed again. anything: whatever no level has a policy for; else only what the levels
 * with `checkpointing = budget` compute. Afterwards phase->arena says whether it fits: if not, it is the least that was
 * found. A phase that fits stays as it is. */
bt_status bt_phase_fit(bt_phase *phase, size_t budget, bool anything);

/* What the programs of the phase do again, as a part of the work of the one that does most. */
double bt_phase_extra(const bt_phase *phase);

#endif
