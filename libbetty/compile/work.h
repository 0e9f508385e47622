/* compile/work.h: how much a planned call has to do, and how many threads that is worth. */
#ifndef BT_WORK_H
#define BT_WORK_H

#include "compile/kernels.h"

double bt_call_flops(const bt_call *call); /* as the op counts them; if it does not, the elements of its output */
double bt_call_bytes(const bt_call *call); /* read and written; a repeated element counts once */

/* The work for which waking a thread is worth it: some 60 microseconds, in operations on numbers. A byte read or
 * written counts as BT_WORK_OF_A_BYTE of them. */
#define BT_WORK_OF_A_THREAD ((double)(1 << 22))
#define BT_WORK_OF_A_BYTE   4.0
double bt_call_work(const bt_call *call);
/* Each thread gets enough work to be worth waking; 1 to `most`. The same for the same call, always and everywhere. */
int bt_call_threads(const bt_call *call, int most);

/* No input or output has more than BT_WORK_OF_A_COPY elements: a plain loop over them takes less time than one more
 * step of the program, so no copy is made to avoid it. */
enum { BT_WORK_OF_A_COPY = 16 };
bool bt_call_small(const bt_call *call);

#endif
