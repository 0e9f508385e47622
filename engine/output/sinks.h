/* engine/output/sinks.h: where the metrics of a run are written, line by line: metrics.jsonl always, and the logs that
 * logger_type names. Each line is written whole and at once, so that the logs of a killed run can be read. */
#ifndef BT_SINKS_H
#define BT_SINKS_H

#include "engine/output/log.h"

/* In the order of the words of logger_type: bit k of it asks for sink k. */
typedef enum bt_sink_kind {
    BT_SINK_JSONL,  /* metrics.jsonl, one object a line: {"step": 100, "time": 1.25, "classifier.loss": 0.4} */
    BT_SINK_CSV,    /* metrics.csv, one value a line: step,time,metric,value,interval */
    BT_SINK_EVENTS, /* events.out.tfevents.SECONDS.HOST.betty, for TensorBoard */
    BT_SINK_KINDS
} bt_sink_kind;

/* Buckets of a histogram: 8 per octave from 2^-24 to 2^24, on either side of one for smaller values; the outermost take
 * all larger values. TensorBoard's own buckets are as wide. */
enum { BT_HISTOGRAM_PER_OCTAVE = 8, BT_HISTOGRAM_OCTAVES = 24 };
enum { BT_HISTOGRAM_SIDE = 2 * BT_HISTOGRAM_OCTAVES * BT_HISTOGRAM_PER_OCTAVE };
enum { BT_HISTOGRAM_BUCKETS = 2 * BT_HISTOGRAM_SIDE + 1 };
double bt_histogram_limit(int bucket); /* its upper limit, the lower limit of the next */

typedef struct bt_histogram_value {
    const char *name;                        /* "classifier.weight" */
    double number, least, most, sum, square; /* of the finite values; square: sum of squares */
    const double *counts;                    /* by bucket */
} bt_histogram_value;

typedef struct bt_log_line {
    int64_t step;
    double time; /* seconds since the start of the run */
    const bt_metric_value *metrics;
    int count;
    const bt_histogram_value *histograms; /* only for events */
    int histogram_count;
} bt_log_line;

/* Bytes of each sink that belong to a run, as a checkpoint records them; -1: it has none. */
typedef struct bt_log_lengths {
    int64_t bytes[BT_SINK_KINDS];
} bt_log_lengths;
extern const bt_log_lengths bt_log_nothing;           /* -1 each */
const char *bt_log_length_key(int kind);              /* its key in a checkpoint's record: "metrics_length" */
bt_log_lengths bt_log_lengths_of(const char *folder); /* what is on the disk */
void bt_log_remove(const char *folder);               /* the files of all sinks */

typedef struct bt_sinks bt_sinks;
/* Opens metrics.jsonl and the sinks of these bits. Keeps the first `lengths` bytes of each, and appends lines after
 * `step`; -1: starts the file again. NULL on failure. */
bt_sinks *bt_sinks_open(const char *folder, unsigned kinds, const bt_log_lengths *lengths, int64_t step);
bt_status bt_sinks_write(bt_sinks *sinks, const bt_log_line *line);
bt_status bt_sinks_sync(bt_sinks *sinks, bt_log_lengths *lengths); /* flushes to disk; sets lengths of open sinks */
bt_status bt_sinks_close(bt_sinks *sinks);                         /* NULL ok */

#endif
