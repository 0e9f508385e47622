/* engine/level/metrics.h: values that callbacks log: summed where they are computed, read when they are reported. */
#ifndef BT_METRICS_H
#define BT_METRICS_H

#include "engine/output/log.h"
#include "graph/variable.h"
#include <betty/problem.h>

typedef struct bt_context bt_context; /* context.h */

enum { BT_METRIC_NUMBERS = 5 };

typedef struct bt_metric_row {
    bt_problem *problem;
    char *name; /* "loss" */
    char *full; /* "classifier.valid.loss" */
    bool valid;
    bool traced;                  /* traced callbacks give it */
    bool exponential;             /* of the mean: a perplexity */
    bt_var *sum, *weight;         /* F64 []: of traced values, by count */
    double host_sum, host_spread; /* of numbers given on the host; spread: squares of the distances from the mean */
    int64_t host_count;
    double last, interval;            /* as last reported; NaN: never */
    char *numbers[BT_METRIC_NUMBERS]; /* the names of these in the ledger: "valid.loss.last" */
} bt_metric_row;

/* The row of that name, made if there is none; NULL after an error: no memory, or it would be taken for another. */
bt_metric_row *bt_metric_find(bt_context *context, bt_problem *problem, const char *name, bool valid);
/* As last reported; within a validation, what it has come to in this one, if anything. */
double bt_metric_last(const bt_metric_row *row);
/* What a problem's step or validation returns is logged under this name by itself: nothing else may be. */
bool bt_metric_is_taken(const bt_problem *problem, const char *name, bool valid);
/* A problem's values since the last call, of training or of validation, into `values`, which has room for all metrics
 * of the engine; returns how many. */
int bt_metrics_take(bt_context *context, const bt_problem *problem, bool valid, bt_metric_value *values);
void bt_metrics_free(bt_context *context);

#endif
