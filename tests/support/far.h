/* tests/support/far.h: a device for tests, built on the CPU's kernels: the host cannot touch its memory, and it does
 * its work as late as possible.
 *
 * With BETTY_TEST_BACKEND=far, every instance of a test program runs on it, whichever backend it asks for. */
#ifndef FAR_H
#define FAR_H

#include "runtime/phase.h"

const bt_backend *far_backend(void); /* the CPU's kernels on that device */
bool far_is_chosen(void);            /* with BETTY_TEST_BACKEND */

/* Requests to the device since the last call of far_forget, over all queues of the process. */
typedef struct far_counts {
    int64_t launches, copies, fills, waits; /* counted once when recorded, */
    int64_t replays;                        /* and one for each replay of a recording */
    int64_t bytes;                          /* bytes copied, */
    int64_t sent;                           /* of these, sent by the host */
    int64_t moves, moved_out, moved_back;   /* between memory spaces, and their bytes; counted when recorded */
} far_counts;
far_counts far_counted(void);
void far_forget(void);

/* Makes the device do everything at once: a different result means an error in the order of the work. */
void far_hurry(bool at_once);

#endif
