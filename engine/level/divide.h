/* engine/level/divide.h: what the ranks of a run divide among themselves: the key `strategy` of each level. */
#ifndef BT_DIVIDE_H
#define BT_DIVIDE_H

#include "engine/level/level.h"

/* The stage of ZeRO: 0: nothing is divided, 1: optimiser state, 2: also gradients and vectors, 3: also parameters. */
int bt_zero_stage(const bt_problem *problem);
bool bt_divides_parameters(const bt_context *context); /* whether any active level does */
/* From this stage on each rank has only a part of root (NULL: does nothing). */
bt_status bt_divide_from(const bt_problem *problem, int stage, bt_var *root);
bt_status bt_divide_slots(const bt_problem *problem, const bt_block *slots);
bt_status bt_divide_gradients(const bt_problem *problem, bt_var *flat);

#endif
