/* engine/command/ranks.h: the ranks of a run as processes of this machine. */
#ifndef BT_RANKS_H
#define BT_RANKS_H

#include "runtime/transport.h"

/* Makes a process for each rank, and returns in each of them, with its transport; bt_front.spread. The calling process
 * waits for them and ends as they do: it tells rank 0 what signals tell it, and when a rank fails, or dies, it says why
 * and ends the others. Only rank 0 prints. Called before there are threads; in these processes only after an error. */
bt_status bt_ranks_start(int ranks, bt_transport **transport);

/* In a rank: it fails, with this exit code; the message is said once. False: this process is none. */
bool bt_ranks_fail(const char *message, int code);
bool bt_ranks_follows(void); /* a rank other than 0, which says nothing */
void bt_ranks_end(void);     /* in a rank: the run has come to its end */

/* It prints nothing, errors neither if that is said, and leaves signals to rank 0. */
void bt_ranks_be_silent(bool errors_too);

#endif
