/* engine/output/profile.h: what a profiled run prints and leaves behind. */
#ifndef BT_ENGINE_PROFILE_H
#define BT_ENGINE_PROFILE_H

#include "runtime/profile.h"
#include <stdio.h>

typedef struct bt_profile_total { /* of the whole loop, validations included */
    int64_t steps;                /* leaf steps */
    double seconds;
} bt_profile_total;

/* Prints the time by part, by kernel and level, and of the slowest calls, with shares of the run. */
bt_status bt_profile_print(const bt_profile *profile, const bt_profile_total *total, FILE *file);

/* profile.json: every call; trace.json: the first calls one by one, for chrome://tracing or ui.perfetto.dev. */
bt_status bt_profile_write(const bt_profile *profile, const bt_profile_total *total, const char *folder);

#endif
