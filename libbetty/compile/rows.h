/* compile/rows.h: arithmetic on a few numbers, many steps as one call: a list of row functions. */
#ifndef BT_ROWS_H
#define BT_ROWS_H

#include "compile/program.h"

/* What a row is still short for: below, calling it costs more than what it computes. */
enum { BT_ROWS_FEW = 128 };

bool bt_is_rows(const bt_call *call);
int64_t bt_rows_count(const bt_call *call); /* how many steps it stands for */
double bt_rows_flops(const bt_call *call);  /* of all of them */

/* Whether output o may lie where input i does: its row is the last to read that, if any, and may write over it. */
bool bt_rows_overwrites(const bt_call *call, int o, int i);

#endif
