/* engine/output/log.h: what a run prints and leaves behind: the progress line, its folder, summary.json. */
#ifndef BT_LOG_H
#define BT_LOG_H

#include "engine/config/config.h"
#include <betty/engine.h>
#include <stdio.h>

typedef struct bt_metric_value {
    const char *name; /* "classifier.valid.acc" */
    double value;
    double interval; /* half of the 95 % interval; NaN: a single value */
} bt_metric_value;

/* ---- progress.c: the progress of a run: on a terminal one line, rewritten a few times a second; in a pipe, plain
 * lines ---- */

typedef struct bt_progress bt_progress;

/* file NULL: prints nothing. total: leaf steps of the whole run. */
bt_progress *bt_progress_new(FILE *file, int64_t total);
/* The run begins after this step, not after step 0, and ends after step `total`. */
void bt_progress_start(bt_progress *progress, int64_t step, int64_t total);
void bt_progress_step(bt_progress *progress, int64_t step); /* after each leaf step; cheap */
/* After each batch of a validation of `batches` batches; in a pipe, a line every 10 seconds. */
void bt_progress_validation(void *progress, const char *level, int64_t done, int64_t batches);
/* Prints a line that stays; a bt_log_fn, for a bt_progress. But with BT_LINE_TRAINING the values go into the progress
 * line on a terminal, and in a pipe into at most one line a second. */
void bt_progress_line(void *progress, bt_line kind, const char *text);
void bt_progress_end(bt_progress *progress); /* the line on the terminal stays as it is; NULL ok */
/* "step 10/6000  classifier.loss 0.43": a line of metrics. */
void bt_metrics_text(int64_t step, int64_t total, const bt_metric_value *metrics, int count, bt_text *text);
void bt_progress_free(bt_progress *progress); /* ended; NULL ok */

/* ---- timing.c: the mean time of a step ---- */

typedef struct bt_timing {
    int64_t warmup, count; /* steps still to skip; steps measured since */
    double seconds;        /* of these */
} bt_timing;
void bt_timing_start(bt_timing *timing, int64_t total_steps); /* skips the first 10 % of the steps, at most 50 */
void bt_timing_add(bt_timing *timing, double seconds);
double bt_timing_mean_ms(const bt_timing *timing); /* NaN if there was no step */

/* ---- output.c: the folder ---- */

typedef struct bt_output {
    char *path;
    int lock; /* keeps other runs out; -1: this file system has no locks */
} bt_output;

/* Whether bt_output_make would take this folder; creates nothing. NULL is fine. */
bt_status bt_output_check(const char *wanted);

/* Creates the run's folder and locks it. wanted NULL: runs/STEM-N with the next free N. BT_ERROR_CONFIG: the wanted
 * folder holds a run, or is in use by one. */
bt_status bt_output_make(const char *wanted, const char *stem, bt_output **output);

/* Opens and locks a folder that may hold a run; make: creates it if it is missing. */
bt_status bt_output_open(const char *folder, bool make, bt_output **output);
void bt_output_free(bt_output *output); /* also unlocks the folder; NULL ok */

typedef enum bt_output_content {
    BT_OUTPUT_NOTHING,
    BT_OUTPUT_REMAINS, /* a run that ended before its first checkpoint */
    BT_OUTPUT_RUN,     /* a run with a checkpoint */
    BT_OUTPUT_RUNS     /* the folders of several runs: engine/grid */
} bt_output_content;
#define BT_OUTPUT_GRID "grid.json"
#define BT_OUTPUT_LOG  "log.txt" /* what each of several runs prints */
bt_output_content bt_output_holds(const char *folder);
void bt_output_clear(const char *folder); /* removes the files of a run without a checkpoint */

/* Writes `size` bytes to folder/name: under a temporary name, flushed to disk, then renamed. */
bt_status bt_output_write(const char *folder, const char *name, const void *data, size_t size);

bt_status bt_output_remove(const char *folder, const char *name); /* a file that may be missing */

/* ---- table.c: a CSV file, written as a whole; closing it reports any failure ---- */

typedef struct bt_table bt_table;
bt_table *bt_table_open(const char *path); /* NULL: no memory */
void bt_table_name(bt_table *table, const char *name);
void bt_table_number(bt_table *table, double value);
void bt_table_end_row(bt_table *table);
bt_status bt_table_close(bt_table *table, bool keep); /* keep false: leaves no file; frees it. NULL ok */

/* ---- summary.c ---- */

typedef struct bt_memory_sizes {
    size_t arena, persistent;
    size_t host; /* in addition, in the host's memory: `offload` */
} bt_memory_sizes;

typedef struct bt_summary {
    int64_t steps;
    double ms_per_step, seconds;
    double data_seconds;            /* of these: gathering batches, or waiting for them */
    const bt_metric_value *metrics; /* last values */
    int metric_count;
    bt_memory_sizes planned, measured;
    size_t data, program, program_peak; /* bytes of data sets; of graphs, kernel calls and tables: now, and at most */
    size_t device_planned, device_measured; /* bytes on a device; 0: there is none */
    size_t device_before, device_outside;   /* other bytes in use there: before the run, and since */
    size_t outside;                         /* other resident bytes: those of libraries */
    int64_t seed;
    const char *device, *backend; /* "cpu", "x86-64-v4, 2 threads"; NULL: left out */
    const char *stopped;          /* "train_iters", "early_stopping", "interrupted" */
    const bt_metric_value *best;  /* the value of the best validation; NULL: none was judged */
    int64_t best_step;
    const bt_config *config; /* resolved; NULL: left out */
} bt_summary;
bt_status bt_summary_write(const char *folder, const bt_summary *summary); /* summary.json */

#endif
