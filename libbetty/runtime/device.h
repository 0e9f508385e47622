/* runtime/device.h: a device's memory. "Near" is memory that the processor reads and writes itself. */
#ifndef BT_DEVICE_H
#define BT_DEVICE_H

#include "base/base.h"

typedef struct bt_device_memory {
    void *(*alloc)(size_t bytes); /* aligned to BT_ALIGN, zeroed; NULL after an error */
    void (*free)(void *memory);   /* NULL: nothing to do */
    void (*read)(void *near, const void *from, size_t bytes);
    void (*write)(void *to, const void *near, size_t bytes);
    void (*copy)(void *to, const void *from, size_t bytes); /* both of this memory; they do not overlap */
    void (*fill)(void *to, int byte, size_t bytes);
} bt_device_memory;

extern const bt_device_memory bt_near_memory;

#endif
