/* engine/level/rates.h: logs the learning rates that updates use, and the updates that change nothing. */
#ifndef BT_RATES_H
#define BT_RATES_H

#include "engine/level/level.h"

/* The index of lr among the optimiser's hyperparameters; -1: it has none, or does not use it (adafactor's relative
 * steps). */
int bt_rates_index(const bt_problem *problem);
bool bt_rates_move(const bt_problem *problem); /* rates vary: only the program knows which it used */
bt_status bt_rates_open(bt_problem *problem);
void bt_rates_close(bt_problem *problem);
/* For each group with trained parameters, the rate that the last update used: "classifier.biases.lr". With
 * unroll_tolerance, also the number of updates that changed nothing: "classifier.rested_steps". Returns how many
 * values: at most one for each group, and one more. */
int bt_rates_take(const bt_problem *problem, bt_metric_value *values);

#endif
