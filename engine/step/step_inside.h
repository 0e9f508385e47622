/* engine/step/step_inside.h: shared by the files that build the phases of a level. */
#ifndef BT_STEP_INSIDE_H
#define BT_STEP_INSIDE_H

#include "engine/step/step.h"

/* gradient.c */
bt_status bt_gradients_trace(bt_problem *problem, bt_graph **gradients); /* by shape of the batch */
bt_status bt_gradients_add(bt_problem *problem, bt_graph *const *gradients);

/* pieces.c: cuts the stretches into pieces, if they are to be updated in pieces. */
bt_status bt_pieces_make(bt_problem *problem);

/* warn.c: parameters that neither the loss nor a lower problem's loss uses. */
bt_status bt_check_used(bt_problem *problem);

#endif
