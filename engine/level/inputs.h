/* engine/level/inputs.h: what programs read from the host, and numbers of a run that are stored in variables. */
#ifndef BT_INPUTS_H
#define BT_INPUTS_H

#include "engine/level/context.h"

void bt_number_set(const bt_context *context, bt_var *var, double value); /* F64 [] */
double bt_number_get(const bt_context *context, const bt_var *var);
void bt_count_set(const bt_context *context, bt_var *var, int64_t value); /* I64 [] */
int64_t bt_count_get(const bt_context *context, const bt_var *var);

/* In a program that makes a new step (now), bt_step is the number of updates so far. In one that repeats or
 * differentiates an earlier step, it is the number that this step saw. */
bool bt_steps_show(bt_context *context, bool now);                 /* returns the previous `now` */
bool bt_shows_steps(const bt_problem *problem, const bt_var *var); /* var shows the problem's steps */
bool bt_scalars_update(bt_context *context); /* sets the host scalars; returns whether a static int has changed */
int64_t bt_tick(const bt_context *context);  /* the number of updates of all levels together */

typedef struct bt_stray {  /* a hyperparameter that `schedule` sets; NULLs: it does not */
    bt_var *count, *first; /* F64 []: how often it was out of range; the first such value */
    bool told;
} bt_stray;

#endif
