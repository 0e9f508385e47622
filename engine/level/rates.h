/* engine/level/rates.h: the learning rates that updates use, and updates that change nothing, as they are logged. */
#ifndef BT_RATES_H
#define BT_RATES_H

#include "engine/level/level.h"

/* Of lr among the optimiser's hyperparameters; -1: it has none, or, as adafactor's relative steps, does not use it. */
int bt_rates_index(const bt_problem *problem);
bool bt_rates_move(const bt_problem *problem); /* only its program knows what an update has used */
bt_status bt_rates_open(bt_problem *problem);
void bt_rates_close(bt_problem *problem);
/* Of each group with parameters that are trained, as the last update used it: "classifier.biases.lr"; and with
 * unroll_tolerance how many updates have moved nothing: "classifier.rested_steps". How many: one for each group, and
 * one, at most. */
int bt_rates_take(const bt_problem *problem, bt_metric_value *values);

#endif
