/* tests/support/forked.h: ranks as processes that share a page of memory. */
#ifndef TESTS_FORKED_H
#define TESTS_FORKED_H

#include "runtime/transport.h"

/* Runs in the process of a rank; the transport lives as long as the process. Returns the exit code: 0 for success. */
typedef int forked_fn(bt_transport *transport, int rank, void *user);

/* Runs a process for each rank, at most FORKED_MOST; codes: the exit codes, or -1 - signal. When one does not exit with
 * 0, the others' waits end, as under a real parent process. */
enum { FORKED_MOST = 8 };
void forked_run(int ranks, forked_fn *body, void *user, int *codes);

#endif
