/* tests/support/forked.h: ranks that are processes, and meet on a page. */
#ifndef TESTS_FORKED_H
#define TESTS_FORKED_H

#include "runtime/transport.h"

/* In the process of a rank; the transport is freed with it. Its exit code: 0 where all was right. */
typedef int forked_fn(bt_transport *transport, int rank, void *user);

/* A process for each rank, at most FORKED_MOST; their exit codes, or -1 - signal. The first to end otherwise than with
 * 0 ends the others' waiting, as a parent would. */
enum { FORKED_MOST = 8 };
void forked_run(int ranks, forked_fn *body, void *user, int *codes);

#endif
