/* tests/support/on_device.h: runs a kernel of a device backend on operands in host memory. */
#ifndef ON_DEVICE_H
#define ON_DEVICE_H

#include "runtime/backend.h"

typedef struct host_span { /* host memory that holds operands, with guard bytes around them if it has any */
    char *memory;
    size_t bytes;
} host_span;

enum { MOST_SPANS = 32 };

/* Copies the spans to the device, each aligned to BT_ALIGN, and back. The call must have been prepared already. */
bt_status run_on_device(const bt_backend *backend, const bt_kernel_impl *kernel, bt_call *call, const host_span *spans,
                        int count);

/* The device backend that BETTY_TEST_BACKEND names, other than `far`; NULL: none. */
const bt_backend *device_backend(void);
/* Whether one is named, without touching the device: Check forks for each test, and a process that has used a device
 * must not fork. */
bool device_is_chosen(void);

#endif
