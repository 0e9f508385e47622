/* runtime/bind.h: a program in one place: its calls with their pointers. A program may be bound several times. */
#ifndef BT_BIND_H
#define BT_BIND_H

#include "compile/program.h"
#include "runtime/queue.h"

typedef struct bt_patch { /* a pointer that changes from run to run: into a variable bound from outside */
    char **pointer;
    bt_var *var;
    size_t offset;
} bt_patch;

typedef struct bt_repeat { /* a run that the device repeats: runtime/device.h */
    void *kept;
    uint64_t at; /* hash of the pointers that change from run to run */
} bt_repeat;

typedef struct bt_bound {
    const bt_program *program;
    bt_queue *queue; /* the queue it runs on; not owned */
    bt_region *region;
    bt_call *calls;    /* by step */
    char **tails;      /* by tail of the program */
    int64_t *values;   /* by buffer: the phase's value in which it begins; -1: none */
    bt_patch *patches; /* room for all, so that binding cannot fail */
    int64_t patch_count;
    char *constants;       /* far: the program's constants, one after the other; NULL: they are near */
    size_t *constant;      /* by buffer: its first byte there */
    bt_repeat *recordings; /* of runs, kept by the device */
    int64_t recording_count, recording_capacity;
    bool has_run;      /* since its addresses were set */
    bool shares;       /* reads or writes a variable that lies on another queue */
    const char *place; /* what it runs for: "classifier, step, gradient"; NULL: unknown; not owned */
} bt_bound;

/* Where byte `start` of the phase's value lies; NULL: nowhere. */
typedef char *bt_place_fn(void *user, int64_t value, size_t start);

bt_bound *bt_bound_new(const bt_program *program); /* without addresses; NULL after an error */
/* Call before setting its addresses and running it. It then runs on this queue; the run's variables that it touches,
 * and its constants, move to the queue's device. A program that is only planned does not need this. */
bt_status bt_bound_settle(bt_bound *bound, bt_queue *queue);
void bt_bound_free(bt_bound *bound); /* call before freeing its program; waits for its work on the queue */

/* Sets every pointer; those into the arena and into variables of the phase by `place`. */
void bt_bound_set(bt_bound *bound, bt_place_fn *place, void *user);
bt_status bt_bound_run(bt_bound *bound); /* on a device: puts it onto the queue */

/* A run in parts, for a caller that needs to act at every step. */
bt_status bt_bound_begin(bt_bound *bound);                    /* sets pointers into variables bound from outside */
bt_status bt_bound_meet(const bt_bound *bound, int64_t step); /* waits for the moves that the step waits for */
bt_status bt_bound_step(const bt_bound *bound, int64_t step);
bt_status bt_bound_end(const bt_bound *bound); /* clears the bytes behind windows that were written */

/* Adds to the current failure where it happened: which op, in which module, in whose run. */
void bt_bound_blame(const bt_bound *bound, int64_t step, bt_status status);

#endif
