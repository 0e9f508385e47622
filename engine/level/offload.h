/* engine/level/offload.h: which parts of a level are kept in the host's memory: its key `offload`. */
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

bool bt_offloads(const bt_problem *problem, bt_offload what); /* false if there is only one memory */

#endif
