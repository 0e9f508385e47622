/* tests/support/devices.h: ranks that have a device each, as processes; what they compute together. */
#ifndef TESTS_DEVICES_H
#define TESTS_DEVICES_H

#include "ops/ops.h"
#include "runtime/backend.h"

#include <stdio.h>
#include <unistd.h>

enum { MOST_DEVICES = 4, DEVICE_ROOM = 1 << 18, DEVICE_OPERANDS = 3, NO_NCCL = 77 };

typedef struct member { /* a rank, with a queue of its device, and a collective that it calls */
    bt_transport *transport;
    const bt_device_table *device;
    void *queue;
    int rank, ranks;
    bt_collective_attr attr;
    bt_view in[DEVICE_OPERANDS], out[DEVICE_OPERANDS]; /* far */
    bt_call call;
    const bt_kernel_impl *kernel;
    char *pinned; /* so many bytes: DEVICE_ROOM */
} member;
typedef void member_body(member *m);

/* In a member; what fails ends it, with 1. */
#define RIGHT(condition)                                                                                               \
    do                                                                                                                 \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "rank %d of %d, line %d: %s: %s\n", m->rank, m->ranks, __LINE__, #condition, bt_error());  \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    while (0)

/* A process for each rank; their exit codes, or -1 - signal. Who ends otherwise than with 0 ends the others' waiting,
 * as a parent would. The calling process must not have asked for a device. */
void devices_run(int ranks, member_body *body, int *codes);
void devices_right(int ranks, member_body *body); /* all have to end with 0 */

void member_join(member *m); /* to the others' devices; ends it with NO_NCCL where that is missing */
bt_status member_wait(member *m);
size_t member_bytes(const bt_view *view);
bt_view member_array(member *m, bt_dtype dtype, bool wide, int64_t n); /* far: [3, n, 5], or [n] */
void member_send(member *m, const bt_view *view);                      /* what is in `pinned` */
const char *member_fetch(member *m, const bt_view *view);              /* into `pinned` */
void member_choose(member *m, const bt_op *op, int operands);          /* the call, of `attr`, `in` and `out` */
bt_status member_launch(member *m);
void member_forget(member *m);                                /* its memory */
void member_alike(member *m, const char *bits, size_t bytes); /* all ranks have the same */

#endif
