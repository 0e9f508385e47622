/* engine/traced/logged.h: what programs log; all in the trace in progress. */
#ifndef BT_TRACED_LOGGED_H
#define BT_TRACED_LOGGED_H

#include "engine/traced/traced.h"

bt_tensor *bt_assigned_or_read(bt_graph *graph, bt_var *var); /* metric.c: the variable's present value in the graph */
void bt_metric_loss(bt_problem *problem, bt_tensor *loss);    /* metric.c: logs what the traced step returned */
/* histogram.c: adds the values of a tensor of any shape, if log_histograms is set. */
void bt_histogram_add(bt_problem *problem, const char *name, bool valid, bt_tensor *value);

#endif
