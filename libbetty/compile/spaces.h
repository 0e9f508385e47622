/* compile/spaces.h: moves: steps that copy a value from one space to the other. */
#ifndef BT_SPACES_H
#define BT_SPACES_H

#include "compile/program.h"

bool bt_is_move(const bt_call *call);
bt_space bt_move_to(const bt_call *call); /* the space that the move copies into */

/* Checks a program with moves: kernels read and write values of the device's space only, a move goes from one space to
 * the other, and while one is under way nobody writes what it reads or touches what it writes. BT_ERROR_INTERNAL names
 * the step that does. */
bt_status bt_spaces_verify(const bt_program *program);

#endif
