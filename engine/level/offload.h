/* engine/level/offload.h: what of a level lies in the host's memory, by its key `offload`. */
#ifndef BT_OFFLOAD_H
#define BT_OFFLOAD_H

#include "engine/level/level.h"

/* In the order of the key's words. */
typedef enum bt_offload {
    BT_OFFLOAD_NONE,
    BT_OFFLOAD_OPTIMIZER,
    BT_OFFLOAD_ACTIVATIONS,
    BT_OFFLOAD_TRAJECTORY
} bt_offload;

bool bt_offloads(const bt_problem *problem, bt_offload what); /* false where there is one memory */

#endif
