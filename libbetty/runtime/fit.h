/* runtime/fit.h: a phase within a budget. */
#ifndef BT_FIT_H
#define BT_FIT_H

#include "runtime/phase.h"

/* Plans the phase again until its arena has at most so many bytes: programs that have more alive are compiled again,
 * with more of their values recomputed. anything: whatever no level has a policy for; else only what the levels with
 * `checkpointing = budget` compute. Afterwards phase->arena says whether it fits: if not, it is the smallest that was
 * found. A phase that fits does not change. */
bt_status bt_phase_fit(bt_phase *phase, size_t budget, bool anything);

/* The work of one run of the phase, in compile/work.h's operations. */
typedef struct bt_phase_work {
    double all, again; /* again: of all, what has been computed before */
} bt_phase_work;
bt_phase_work bt_phase_count(const bt_phase *phase);
/* Recomputed work, as a part of all other work. */
double bt_phase_extra(const bt_phase *phase);

#endif
