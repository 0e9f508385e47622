/* tests/engine/two_nets.h: two levels for tests of precision: a classifier with norms, and above it a small network
 * that weighs examples by their losses. */
#ifndef TWO_NETS_H
#define TWO_NETS_H

#include "levels.h"

enum { TWO_NETS_ROWS = 64, TWO_NETS_UPPER = 7 }; /* examples, all in each batch; parameters of `upper` */

/* Fields x and label, with different draws for a problem called "upper"; and a loss for each example. */
bt_dataset *two_nets_rows(bt_problem *self);
bt_module *two_nets_classifier(bt_problem *self);
bt_tensor *two_nets_losses(bt_problem *lower, const bt_batch *batch);

/* "upper" and "lower" with these precisions and further settings; NULL after an error. */
bt_engine *two_nets_engine(const char *upper_precision, const char *lower_precision, const char *more);

/* The bytes that a lower step of that precision saves for derivatives. */
size_t two_nets_saved(const char *precision);

#endif
