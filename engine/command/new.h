/* engine/command/new.h: betty-run --new: writes the files of a new problem, which train as they are. */
#ifndef BT_NEW_H
#define BT_NEW_H

#include "base/base.h"
#include <stdio.h>

/* Writes NAME.c and NAME.ini, and reports that in `said`. NAME: letters, digits, _ and -, optionally after an existing
 * folder. BT_ERROR_CONFIG: NAME is invalid; BT_ERROR_FILE: one of the files exists or cannot be written. After an error
 * no new file is left. */
bt_status bt_new_write(const char *name, FILE *said);

extern const char bt_new_c[], bt_new_ini[]; /* NAME stands for the name */

#endif
