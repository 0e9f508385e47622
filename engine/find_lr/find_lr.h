/* engine/find_lr/find_lr.h: betty-run --find-lr: the range test of Smith (2017, arXiv:1506.01186): the learning rate of
 * one level rises from step to step, the loss is smoothed, and the rate at which it falls fastest is suggested.
 *
 *   sweep.c   the steps, each with its own rate
 *   curve.c   smoothing, when to stop, what to suggest: only numbers
 *   show.c    the curve as text, CSV, JSON and a picture */
#ifndef BT_FIND_LR_H
#define BT_FIND_LR_H

#include "engine/session/front.h"

typedef struct bt_find_lr {
    const char *problem;
    const char *range;  /* "LOW:HIGH:N"; NULL: "1e-7:10:100" */
    const char *folder; /* where lr.csv and lr.svg go; NULL: runs/NAME-find-lr-N */
    bool json;
    FILE *file;     /* where it is printed */
    FILE *progress; /* NULL: nowhere */
} bt_find_lr;

/* For an engine that is configured but not set up; no run can follow. It is no failure if nothing can be suggested. */
bt_status bt_engine_find_lr(bt_engine *engine, const bt_find_lr *how);

#endif
