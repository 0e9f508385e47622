/* runtime/device_bytes.h: what the programs of an instance need on a device. */
#ifndef BT_DEVICE_BYTES_H
#define BT_DEVICE_BYTES_H

#include "runtime/phase.h"

typedef struct bt_device_bytes {
    size_t arena, variables; /* variables of the run, with the mail */
    size_t batches;          /* places of what is bound from outside, but for rows of trajectories, which lie there */
    size_t constants;
    size_t own;  /* what the queue takes for itself */
    size_t host; /* not on the device: what offload has in pinned memory */
} bt_device_bytes;

/* Of the programs that there are. All of them have run: bt_queue_bytes is the sum, to the byte. */
bt_status bt_instance_device_bytes(const bt_instance *instance, bt_device_bytes *bytes);
size_t bt_device_sum(const bt_device_bytes *bytes);

#endif
