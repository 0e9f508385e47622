/* engine/plugin/spawn.h: runs another program, without a shell. */
#ifndef BT_SPAWN_H
#define BT_SPAWN_H

#include "base/base.h"

typedef struct bt_spawn_result {
    bool good;       /* it exited with code 0 */
    uint64_t hash;   /* of what it wrote to its standard output */
    bt_text message; /* its standard error, up to a limit; the caller frees it */
} bt_spawn_result;

/* Runs argv (ends with NULL; argv[0] is looked up in PATH) to completion, with empty input. If the program fails, this
 * function does not: see result->good. */
bt_status bt_spawn(const char *const *argv, bt_spawn_result *result);

#endif
