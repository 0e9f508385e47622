/* engine/command/new.h: betty-run --new: the files of a new problem, which train as they are. */
#ifndef BT_NEW_H
#define BT_NEW_H

#include "base/base.h"
#include <stdio.h>

/* Writes NAME.c and NAME.ini, and says so to the file. NAME: letters, digits, _ and -, perhaps after a folder that
 * exists. BT_ERROR_CONFIG: it is none; BT_ERROR_FILE: one of the files exists, or cannot be written. Nothing is left
 * then. */
bt_status bt_new_write(const char *name, FILE *said);

extern const char bt_new_c[], bt_new_ini[]; /* with NAME in the place of the name */

#endif
