/* compile/rows.h: many steps of arithmetic on a few numbers as one call: a list of row functions. */
#ifndef BT_ROWS_H
#define BT_ROWS_H

/* Below this length a row is short: calling a function for it costs more than its arithmetic. */
enum { BT_ROWS_FEW = 128 };

#endif
