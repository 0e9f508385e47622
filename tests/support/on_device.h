/* tests/support/on_device.h: runs a kernel of a backend whose memory is far, on operands of the host's. */
#ifndef ON_DEVICE_H
#define ON_DEVICE_H

#include "runtime/backend.h"

typedef struct host_span { /* memory of the host's into which operands point, with guards if it has some */
    char *memory;
    size_t bytes;
} host_span;

enum { MOST_SPANS = 32 };

/* The spans are copied to the device, where each begins at a multiple of BT_ALIGN, and back. A call has its state
 * already. */
bt_status run_on_device(const bt_backend *backend, const bt_kernel_impl *kernel, bt_call *call, const host_span *spans,
                        int count);

/* The backend that BETTY_TEST_BACKEND names besides `far`; NULL: none. */
const bt_backend *device_backend(void);
/* Whether there is one, without a look at it: a process that has looked at a device must not fork, as Check does for
 * each test. */
bool device_is_chosen(void);

#endif
