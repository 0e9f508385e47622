/* engine/level/inputs.h: what programs read from the host; numbers of a run that lie in variables. */
#ifndef BT_INPUTS_H
#define BT_INPUTS_H

#include "engine/level/context.h"

void bt_number_set(const bt_context *context, bt_var *var, double value); /* F64 [] */
double bt_number_get(const bt_context *context, const bt_var *var);
void bt_count_set(const bt_context *context, bt_var *var, int64_t value); /* I64 [] */
int64_t bt_count_get(const bt_context *context, const bt_var *var);

/* To a program that makes a new step, bt_step is the number of updates so far (now); to one that repeats or
 * differentiates an earlier step, it is what that step saw. */
bool bt_steps_show(bt_context *context, bool now);                 /* returns what they showed before */
bool bt_shows_steps(const bt_problem *problem, const bt_var *var); /* var is what shows the problem's */
bool bt_scalars_update(bt_context *context); /* host scalars get their values; whether a static int has changed */
int64_t bt_tick(const bt_context *context);  /* updates of all levels */

typedef struct bt_stray {  /* a hyperparameter that `schedule` sets; NULL: it does not */
    bt_var *count, *first; /* F64 []: how often outside of its range; to what the first time */
    bool told;
} bt_stray;

#endif
