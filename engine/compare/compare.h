/* engine/compare/compare.h: runs beside each other, by what their folders have. */
#ifndef BT_COMPARE_H
#define BT_COMPARE_H

#include "engine/output/left.h"
#include <stdio.h>

/* ---- read.c ---- */

/* What is read of a run: objects, by the names of rows. Code is what a checkpoint records of it: versions, and hashes
 * of what the callbacks trace and of the data. */
typedef struct bt_compared {
    json_t *settings, *code, *results; /* code NULL: there is no checkpoint */
    json_t *summary;                   /* its file; NULL: the run has not ended */
} bt_compared;

/* bt_compared_free in any case. BT_ERROR_CONFIG: the folder holds no run. hear gets each line of its metrics; NULL:
 * they are read only where there is no summary. */
bt_status bt_compared_read(const char *folder, bt_left_line_fn *hear, void *user, bt_compared *run);
void bt_compared_free(bt_compared *run);

/* ---- compare.c ---- */

/* {"runs": [ONE, OTHER, ...], "configuration": ROWS, "code": ROWS, "results": ROWS}, a row being {"name":
 * "classifier.lr", "values": ["0.1", "0.2", ...]}, with null for what a run lacks. Of configuration and code there are
 * the rows that differ, of results all. "code" is null where one of the runs has no checkpoint. NULL: out of memory. */
json_t *bt_compare_runs(const char *const *names, const bt_compared *runs, size_t count);

/* Of two, by their folders. NULL after an error: BT_ERROR_CONFIG where a folder holds no run. */
json_t *bt_compare(const char *one, const char *other);
void bt_compare_text(const json_t *compared, bt_text *text);

#endif
