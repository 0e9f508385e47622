/* engine/traced/logged.h: what programs log, in the trace in progress. */
#ifndef BT_TRACED_LOGGED_H
#define BT_TRACED_LOGGED_H

#include "engine/traced/traced.h"

bt_tensor *bt_assigned_or_read(bt_graph *graph, bt_var *var); /* metric.c: a variable as the graph has it so far */
void bt_metric_loss(bt_problem *problem, bt_tensor *loss);    /* metric.c: what the traced step has returned */
/* histogram.c: adds the values of a tensor, of any shape; only where log_histograms is set. */
void bt_histogram_add(bt_problem *problem, const char *name, bool valid, bt_tensor *value);

#endif
