/* runtime/device.c: near memory as a device's. */
#include "runtime/device.h"

#include <string.h>

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes)
        memcpy(to, from, bytes);
}

static void fill(void *to, int byte, size_t bytes)
{
    if (bytes)
        memset(to, byte, bytes);
}

const bt_device_memory bt_near_memory = {
    .alloc = bt_alloc_aligned, .free = bt_free_aligned, .read = copy, .write = copy, .copy = copy, .fill = fill};
