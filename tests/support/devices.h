/* tests/support/devices.h: ranks as processes with a device each, and the collectives that they run. */
#ifndef TESTS_DEVICES_H
#define TESTS_DEVICES_H

#include "ops/ops.h"
#include "runtime/backend.h"

#include <stdio.h>
#include <unistd.h>

enum { MOST_DEVICES = 4, DEVICE_ROOM = 1 << 18, DEVICE_OPERANDS = 3, NO_NCCL = 77 };

typedef struct member { /* a rank: its device, a queue, and the collective that it calls */
    bt_transport *transport;
    const bt_device_table *device;
    void *queue;
    int rank, ranks;
    bt_collective_attr attr;
    bt_view in[DEVICE_OPERANDS], out[DEVICE_OPERANDS]; /* in device memory */
    bt_call call;
    const bt_kernel_impl *kernel;
    char *pinned; /* DEVICE_ROOM bytes */
} member;
typedef void member_body(member *m);

/* For use in a member: if the condition is false, the process exits with 1. */
#define RIGHT(condition)                                                                                               \
    do                                                                                                                 \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "rank %d of %d, line %d: %s: %s\n", m->rank, m->ranks, __LINE__, #condition, bt_error());  \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    while (0)

/* Runs a process for each rank; codes: the exit codes, or -1 - signal. If one does not exit with 0, the others' waits
 * end, as under a real parent process. The calling process must not have used a device before. */
void devices_run(int ranks, member_body *body, int *codes);
void devices_right(int ranks, member_body *body); /* all must exit with 0 */

void member_join(member *m); /* connects to the other devices; exits with NO_NCCL if NCCL is missing */
bt_status member_wait(member *m);
size_t member_bytes(const bt_view *view);
bt_view member_array(member *m, bt_dtype dtype, bool wide, int64_t n); /* in device memory: [3, n, 5], or [n] */
void member_send(member *m, const bt_view *view);                      /* sends the contents of `pinned` */
const char *member_fetch(member *m, const bt_view *view);              /* into `pinned` */
void member_choose(member *m, const bt_op *op, int operands);          /* a kernel for `attr`, `in` and `out` */
bt_status member_launch(member *m);
void member_forget(member *m);                                /* frees its device memory */
void member_alike(member *m, const char *bits, size_t bytes); /* checks that all ranks have the same bits */

#endif
