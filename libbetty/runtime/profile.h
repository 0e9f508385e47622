/* runtime/profile.h: where the time of a run goes. Times every kernel call and work that callers name, such as drawing
 * batches: by the host's clock (some 50 ns each), or, on a device that can, by its own, for which the host waits once
 * per run of a program. */
#ifndef BT_PROFILE_H
#define BT_PROFILE_H

#include "runtime/phase.h"

typedef struct bt_profile_row { /* one step of a program, or other work; the texts are the profile's */
    const char *owner, *phase, *part, *name, *path;
    double flops, bytes; /* of one call: floating-point operations, bytes read and written */
    double seconds;      /* of all calls */
    int64_t calls;
    bool again; /* a step that runs again, in the same run of its program */
} bt_profile_row;

typedef struct bt_profile_event { /* one call; times count from the profile's start */
    int64_t row;
    double begin, seconds;
} bt_profile_event;

typedef struct bt_profile bt_profile;

bt_profile *bt_profile_new(void);
void bt_profile_free(bt_profile *profile); /* NULL ok */

/* Runs an entry of a phase whose instance has a profile. */
bt_status bt_profile_run(bt_phase *phase, int entry);
/* Adds one of its steps, which took from `begin` until now. */
bt_status bt_profile_step(bt_phase *phase, int entry, int64_t step, double begin);
void bt_profile_forget(bt_profile *profile, const bt_program *program); /* call when it is freed; its rows stay */

/* Adds work without a kernel, done since `begin` (bt_seconds). profile NULL: does nothing. */
bt_status bt_profile_add(bt_profile *profile, const char *owner, const char *name, double begin);

bool bt_profile_ticks(const bt_profile *profile); /* kernels have been timed by the device */
const bt_profile_row *bt_profile_rows(const bt_profile *profile, int64_t *count);
/* The first calls, in order, as many as there is room for. */
const bt_profile_event *bt_profile_events(const bt_profile *profile, int64_t *count);

#endif
