/* runtime/bind.h: a program in one place: its calls with their pointers. A program may be bound more than once. */
#ifndef BT_BIND_H
#define BT_BIND_H

#include "compile/program.h"
#include "runtime/device.h"

typedef struct bt_patch { /* a pointer that changes from run to run: into a variable bound from outside */
    char **pointer;
    bt_var *var;
    size_t offset;
} bt_patch;

typedef struct bt_bound {
    const bt_program *program;
    const bt_device_memory *memory; /* that all of it lies in */
    bt_region *region;
    bt_call *calls;    /* by step */
    char **tails;      /* by tail of the program */
    int64_t *values;   /* by buffer: the value of the phase that it begins in; -1: none */
    bt_patch *patches; /* room for all, so that binding cannot fail */
    int64_t patch_count;
} bt_bound;

/* Where byte `start` of a value of the phase lies; NULL: nowhere. */
typedef char *bt_place_fn(void *user, int64_t value, size_t start);

bt_bound *bt_bound_new(const bt_program *program,
                       const bt_device_memory *memory); /* without addresses; NULL: out of memory */
void bt_bound_free(bt_bound *bound);                    /* before its program */

/* Sets every pointer; those into the arena and into variables of the phase by `place`. */
void bt_bound_set(bt_bound *bound, bt_place_fn *place, void *user);
bt_status bt_bound_run(bt_bound *bound);

/* A run in parts, for who looks at every step. */
bt_status bt_bound_begin(bt_bound *bound); /* pointers into variables that are bound from outside */
bt_status bt_bound_step(const bt_bound *bound, int64_t step);
void bt_bound_end(const bt_bound *bound); /* clears what lies behind windows that were written */

#endif
