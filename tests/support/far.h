/* tests/support/far.h: a device for tests, made of the CPU's kernels: memory that the host cannot touch, and work that
 * is done as late as possible.
 *
 * With BETTY_TEST_BACKEND=far, every instance that a test's program makes runs on it, whatever backend it asks for. */
#ifndef FAR_H
#define FAR_H

#include "runtime/phase.h"

const bt_backend *far_backend(void); /* the CPU's kernels on that device */
bool far_is_chosen(void);            /* by BETTY_TEST_BACKEND */

/* What the device has been asked for, on all queues of the process since the last call of far_forget. */
typedef struct far_counts {
    int64_t launches, copies, fills, waits; /* what is recorded is counted then, */
    int64_t replays;                        /* and each time that it is put onto a queue again, as one */
    int64_t bytes;                          /* copied, */
    int64_t sent;                           /* and of these, from the host */
    int64_t moves, moved_out, moved_back;   /* between the spaces, and bytes of them; when they are recorded */
} far_counts;
far_counts far_counted(void);
void far_forget(void);

/* A device that does everything at once: what differs from it depends on when work is done. */
void far_hurry(bool at_once);

#endif
