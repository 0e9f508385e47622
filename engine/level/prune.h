/* engine/level/prune.h: magnitude pruning: weights that stay 0, by masks of one bit each. */
#ifndef BT_PRUNE_H
#define BT_PRUNE_H

#include "engine/level/level.h"

/* How many of `weights` are 0 after so many updates: a fraction prune (1 - (1 - t)^3), where t rises from 0 at
 * prune_begin to 1 at prune_end. Zhu and Gupta, "To prune, or not to prune" (ICLR workshop 2018). */
int64_t bt_prune_due(const bt_problem_settings *settings, int64_t updates, int64_t weights);
bt_status bt_prune_open(bt_problem *problem); /* the masks, all 1, if it prunes; else nothing */
/* After an update: sets as many weights to 0 as are due, the smallest first, and with them what the optimiser keeps
 * for each. */
bt_status bt_prune_step(bt_problem *problem);

#endif
