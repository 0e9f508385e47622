/* compile/spaces.h: moves: steps that copy a value from one space to the other. */
#ifndef BT_SPACES_H
#define BT_SPACES_H

#include "compile/program.h"

bool bt_is_move(const bt_call *call);
bt_space bt_move_to(const bt_call *call); /* the space that the move copies into */

/* Checks a program with moves: kernels read and write only values in device memory; a move goes from one space to the
 * other; and while a move is under way, nobody overwrites its source or touches its target. Otherwise BT_ERROR_INTERNAL
 * names the step. */
bt_status bt_spaces_verify(const bt_program *program);

#endif
