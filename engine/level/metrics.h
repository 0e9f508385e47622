/* engine/level/metrics.h: values that callbacks log: summed where they are computed, and read when they are
 * reported. */
#ifndef BT_METRICS_H
#define BT_METRICS_H

#include "engine/output/sinks.h"
#include "graph/variable.h"
#include <betty/problem.h>

typedef struct bt_context bt_context; /* context.h */

enum { BT_METRIC_NUMBERS = 5 };

typedef struct bt_histogram_row {  /* what else a row has if it is a histogram, which reports no number */
    bt_var *counts;                /* F64 [BT_HISTOGRAM_BUCKETS] */
    bt_var *least, *most, *square; /* F64 []; the first two mean something only if the row's weight is above 0 */
    double taken[BT_HISTOGRAM_BUCKETS];
} bt_histogram_row;

typedef struct bt_metric_row {
    bt_problem *problem;
    char *name; /* "loss" */
    char *full; /* "classifier.valid.loss" */
    bool valid;
    bool traced;                  /* traced callbacks log it */
    bool exponential;             /* exp of the mean is reported: a perplexity */
    bt_var *sum, *weight;         /* F64 []: of traced values, weighted by their counts */
    bt_histogram_row *histogram;  /* NULL: a number */
    double host_sum, host_spread; /* of numbers logged on the host; spread: sum of squared deviations */
    int64_t host_count;
    double last, interval;            /* as last reported; NaN: never */
    char *numbers[BT_METRIC_NUMBERS]; /* their names in the ledger: "valid.loss.last" */
} bt_metric_row;

/* The row of that name, created if there is none; NULL after an error: out of memory, or the name is used otherwise. */
bt_metric_row *bt_metric_find(bt_context *context, bt_problem *problem, const char *name, bool valid);
/* The last value reported; during a validation, its value so far in it, if any. */
double bt_metric_last(const bt_metric_row *row);
/* What a problem's step or validation returns is logged under this name automatically; nothing else may use it. */
bool bt_metric_is_taken(const bt_problem *problem, const char *name, bool valid);
/* A problem's values since the last call, of training or of validation, into `values`, which has room for all metrics
 * of the engine; returns how many. */
int bt_metrics_take(bt_context *context, const bt_problem *problem, bool valid, bt_metric_value *values);
/* Likewise its histograms. */
int bt_histograms_take(bt_context *context, const bt_problem *problem, bool valid, bt_histogram_value *values);
/* The row of a histogram, in a trace; NULL after an error, also if a number has that name. */
bt_metric_row *bt_histogram_find(bt_context *context, bt_problem *problem, const char *name, bool valid);
bool bt_metric_keeps(const bt_metric_row *row, const bt_var *var); /* var is one of the row's variables */
void bt_metrics_free(bt_context *context);

#endif
