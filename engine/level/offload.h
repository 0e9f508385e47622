/* engine/level/offload.h: what of a level lies in the host's memory, by its key `offload`. */
#ifndef BT_OFFLOAD_H
#define BT_OFFLOAD_H

#include "engine/level/level.h"

bool bt_offloads(const bt_problem *problem, bt_offload what); /* false where there is one memory */

#endif
