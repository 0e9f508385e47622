/* engine/level/metrics_inside.h: between metrics.c and histogram.c. */
#ifndef BT_METRICS_INSIDE_H
#define BT_METRICS_INSIDE_H

#include "engine/level/metrics.h"

/* A variable of the problem with a name of its own, "valid.loss.sum"; NULL after an error. */
bt_var *bt_metric_part(const bt_metric_row *row, const char *part, bt_array shape);
void bt_histogram_free(const bt_metric_row *row); /* the row's histogram */

#endif
