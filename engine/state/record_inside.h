/* engine/state/record_inside.h: shared by record_write.c, record_check.c and record_restore.c.
 *
 *   {"numbers": {"step": 12, "best": "0.25", ...},                    of the run
 *    "problems": [{"name": ..., "numbers": {"steps": 12, ...},        from the ledger, like those above
 *                  "streams": {"batches": {"position": 24, "kept": 2, "hash": ...}},
 *                  "batches_per_epoch": ..., "data": {...}, "graphs": [...], "spacing": 2}, ...],
 *    "metrics": [{"problem": ..., "name": ..., "valid": false}, ...], in the order in which they are reported
 *    "config": {...}, "dependencies": {...}, "backend": ..., "metrics_length": ...}
 *    and, for other logs, "csv_length", "events_length"
 *
 * Reals are strings, because they need not be finite, and they read back to the same bits. */
#ifndef BT_RECORD_INSIDE_H
#define BT_RECORD_INSIDE_H

#include "engine/state/checkpoint.h"

/* ---- record_check.c ---- */

bt_status bt_record_malformed(const char *what); /* BT_ERROR_FILE: this entry is not as this version writes it */

/* ---- record_write.c; JSON is NULL after an error ---- */

json_t *bt_record_config(const bt_context *context); /* {"classifier.lr": "0.1", ...} */
/* As they are now: bt_set_dependency may have changed them. */
json_t *bt_record_dependencies(const bt_context *context);
json_t *bt_record_data(const bt_problem *problem);    /* {"image": "HASH", ...} of the training data */
int64_t bt_record_batches(const bt_problem *problem); /* in an epoch; 0: endless */
int64_t bt_record_spacing(const bt_problem *problem); /* of states, if a budget chooses it; 0: it does not */
/* Hashes: of a callback's present graph ("": there is none), and of the kept batches, to check that a resumed run draws
 * the same ones. */
void bt_record_graph(bt_problem *problem, int kind, char text[17]);
void bt_record_kept(bt_stream *stream, char text[17]);

#endif
