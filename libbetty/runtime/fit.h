/* runtime/fit.h: fits a phase into a budget. */
#ifndef BT_FIT_H
#define BT_FIT_H

#include "runtime/phase.h"

/* Plans the phase again until its arena has at most this many bytes: programs with more alive are compiled again, with
 * more of their values recomputed. anything: also values for which no level has a policy; else only those of levels
 * with `checkpointing = budget`. Afterwards phase->arena says whether it fits; if not, it is the smallest that was
 * found. A phase that fits does not change. */
bt_status bt_phase_fit(bt_phase *phase, size_t budget, bool anything);

/* The work of one run of the phase, in compile/work.h's operations. */
typedef struct bt_phase_work {
    double all, again; /* again: the part that recomputes */
} bt_phase_work;
bt_phase_work bt_phase_count(const bt_phase *phase);
/* Recomputed work, as a fraction of all other work. */
double bt_phase_extra(const bt_phase *phase);

#endif
