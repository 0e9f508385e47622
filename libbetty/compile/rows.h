/* compile/rows.h: arithmetic on a few numbers, many steps as one call: a list of row functions. */
#ifndef BT_ROWS_H
#define BT_ROWS_H

/* What a row is still short for: below, calling it costs more than what it computes. */
enum { BT_ROWS_FEW = 128 };

#endif
