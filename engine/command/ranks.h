/* engine/command/ranks.h: the ranks of a run as processes on this machine. */
#ifndef BT_RANKS_H
#define BT_RANKS_H

#include "runtime/transport.h"

/* bt_front.spread: forks a process for each rank, and returns in each of them with its transport. The calling process
 * waits for them and exits as they do. It forwards its signals to rank 0; when a rank fails or dies, it says why and
 * ends the others. Only rank 0 prints. Call it before there are threads; it returns in the calling process only after
 * an error. */
bt_status bt_ranks_start(int ranks, bt_transport **transport);

/* In a rank: reports its failure with this exit code; only one message is printed. False: this process is not a
 * rank. */
bool bt_ranks_fail(const char *message, int code);
bool bt_ranks_follows(void); /* a rank other than 0, which prints nothing */
void bt_ranks_end(void);     /* in a rank: the run has reached its end */

/* This process prints nothing (with errors_too not even errors) and leaves signals to rank 0. */
void bt_ranks_be_silent(bool errors_too);

#endif
