/* engine/compare/compare.h: compares runs by what their folders contain. */
#ifndef BT_COMPARE_H
#define BT_COMPARE_H

#include "engine/output/left.h"
#include <stdio.h>

/* ---- read.c ---- */

/* What is read of a run: objects keyed by row name. `code` is what a checkpoint records of the code: versions, and
 * hashes of the traced callbacks and of the data. */
typedef struct bt_compared {
    json_t *settings, *code, *results; /* code NULL: there is no checkpoint */
    json_t *summary;                   /* its file; NULL: the run has not ended */
} bt_compared;

/* bt_compared_free in any case. BT_ERROR_CONFIG: the folder holds no run. `hear` gets each line of its metrics; if
 * NULL, the metrics are only read if there is no summary. */
bt_status bt_compared_read(const char *folder, bt_left_line_fn *hear, void *user, bt_compared *run);
void bt_compared_free(bt_compared *run);

/* ---- compare.c ---- */

/* {"runs": [ONE, OTHER, ...], "configuration": ROWS, "code": ROWS, "results": ROWS}. A row is {"name": "classifier.lr",
 * "values": ["0.1", "0.2", ...]}, with null for a value that a run lacks. Configuration and code have only the rows
 * that differ, results all rows. "code" is null if one of the runs has no checkpoint. NULL: out of memory. */
json_t *bt_compare_runs(const char *const *names, const bt_compared *runs, size_t count);

/* Compares two runs by their folders. NULL after an error: BT_ERROR_CONFIG if a folder holds no run. */
json_t *bt_compare(const char *one, const char *other);
void bt_compare_text(const json_t *compared, bt_text *text);

#endif
