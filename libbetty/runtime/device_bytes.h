/* runtime/device_bytes.h: what an instance's programs need on a device. */
#ifndef BT_DEVICE_BYTES_H
#define BT_DEVICE_BYTES_H

#include "runtime/phase.h"

typedef struct bt_device_bytes {
    size_t arena, variables; /* variables of the run, with the mail */
    size_t batches;          /* places of variables bound from outside; not rows of trajectories, which lie in place */
    size_t constants;
    size_t own;  /* taken by the queue for itself */
    size_t host; /* not on the device: offloaded bytes in pinned memory */
} bt_device_bytes;

/* Counts the instance's current programs. Once all of them have run, bt_queue_bytes equals the sum, to the byte. */
bt_status bt_instance_device_bytes(const bt_instance *instance, bt_device_bytes *bytes);
size_t bt_device_sum(const bt_device_bytes *bytes);

#endif
