/* runtime/device.h: a device whose memory is far: the processor can neither read nor write it. Work for it is put onto
 * a queue and done in that order, at any time before somebody waits for it. The processor's own memory is near, and
 * work on it is done at once: the CPU has no such table. */
#ifndef BT_DEVICE_H
#define BT_DEVICE_H

#include "compile/kernels.h"
#include "runtime/transport.h"

typedef struct bt_launched { /* which call of which run: reported with a failure */
    const struct bt_bound *bound;
    int64_t step;
} bt_launched;

typedef struct bt_device_failure { /* the first failure of the work done so far */
    bt_failure failure;            /* status BT_OK: none */
    bt_launched site;
} bt_device_failure;

/* `queue` is the result of open. Memory is freed, and a queue closed, once all work has been waited for. */
typedef struct bt_device_table {
    size_t own;          /* bytes of the device that a queue takes for itself */
    void *(*open)(void); /* NULL after an error. Itself NULL: there is no device, only plans */
    void (*close)(void *queue);
    void *(*alloc)(void *queue, size_t bytes); /* far: aligned to BT_ALIGN, zeroed; NULL after an error */
    void (*free)(void *queue, void *memory);
    void *(*pin)(size_t bytes); /* near memory for copies to and from the device; NULL after an error */
    void (*unpin)(void *memory);
    /* Bytes of the device in use by anybody: when the queue was opened, and now. NULL: it cannot say. */
    void (*taken)(void *queue, size_t *before, size_t *now);

    /* Put onto the queue. A call's views are copied; everything else it points to must stay until the work is done. */
    bt_status (*send)(void *queue, void *far, const void *pinned, size_t bytes);
    bt_status (*copy)(void *queue, void *far, const void *from, size_t bytes); /* both far; no overlap */
    bt_status (*fetch)(void *queue, void *pinned, const void *far, size_t bytes);
    bt_status (*fill)(void *queue, void *to, int byte, size_t bytes);
    bt_status (*launch)(void *queue, const bt_kernel_impl *kernel, const bt_call *call, bt_launched site);
    /* A copy to or from pinned memory. It begins when everything put onto the queue before it is done, including
     * earlier copies, and may run alongside later work. `meet` makes later work wait for the first `number` copies,
     * numbered 1, 2, ... from the last point at which all had been met. */
    bt_status (*move)(void *queue, void *to, const void *from, size_t bytes, bool out, int64_t number);
    bt_status (*meet)(void *queue, int64_t number);
    int64_t (*mark)(void *queue); /* stands for everything put onto it so far; rises */

    /* Waits until all work up to the mark is done. Returns the first failure since the last such call; results of later
     * work are not valid. */
    bt_device_failure (*wait)(void *queue, int64_t mark);

    /* Records the time when the device reaches this place in the queue, as number 0, 1, ... of a series. Once they have
     * been waited for, between gives the seconds from number - 1 to number. NULL: the device takes no times. */
    bt_status (*tick)(void *queue, int64_t number);
    bt_status (*between)(void *queue, int64_t number, double *seconds);

    /* Work put onto the queue after record is kept, not done, until recorded returns it. replay puts it onto the queue
     * as one piece, any number of times: the same kernels at the same addresses. NULL: not supported. */
    bt_status (*record)(void *queue);
    void *(*recorded)(void *queue); /* NULL after an error */
    bt_status (*replay)(void *queue, void *recording);
    void (*discard)(void *recording); /* once all work has been waited for */

    /* From now on, collectives run between the ranks of the transport, which stays the caller's. Each rank is a process
     * with its own device, and all of them call this. A wait ends when another rank has failed. NULL: the device has no
     * ranks. */
    bt_status (*join)(void *queue, bt_transport *transport);
    /* Like launch, for a collective that may be under way while later work runs. It is number 1, 2, ... since the last
     * await of all. await makes later work wait for the collectives up to this number; 0: for all. NULL: not supported.
     */
    bt_status (*launch_apart)(void *queue, const bt_kernel_impl *kernel, const bt_call *call, bt_launched site);
    bt_status (*await)(void *queue, int64_t number);
} bt_device_table;

#endif
