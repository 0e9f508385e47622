/* runtime/backend.h: what a backend offers: kernels, and its memory. */
#ifndef BT_BACKEND_H
#define BT_BACKEND_H

#include "compile/kernels.h"
#include "runtime/device.h"

typedef struct bt_backend {
    const char *name;
    const char *(*isa)(void); /* "x86-64-v4" */
    bt_kernel_table kernels;
    const bt_device_memory *memory;
} bt_backend;

const bt_backend *bt_backend_cpu(void);

#endif
