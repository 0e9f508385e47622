/* engine/state/record_inside.h: between record_write.c, record_check.c and record_restore.c.
 *
 *   {"numbers": {"step": 12, "best": "0.25", ...},                    of the run
 *    "problems": [{"name": ..., "numbers": {"steps": 12, ...},        by the ledger, as those above
 *                  "streams": {"batches": {"position": 24, "kept": 2, "hash": ...}},
 *                  "batches_per_epoch": ..., "data": {...}, "graphs": [...], "spacing": 2}, ...],
 *    "metrics": [{"problem": ..., "name": ..., "valid": false}, ...], in the order in which they are reported
 *    "config": {...}, "dependencies": {...}, "backend": ..., "metrics_length": ...}
 *    and, of other logs, "csv_length", "events_length"
 *
 * Reals are texts, for they need not be finite, and read back to the same bits. */
#ifndef BT_RECORD_INSIDE_H
#define BT_RECORD_INSIDE_H

#include "engine/state/checkpoint.h"

/* ---- record_check.c ---- */

bt_status bt_record_malformed(const char *what); /* BT_ERROR_FILE: which entry is not as this version writes it */

/* ---- record_write.c; JSON is NULL after an error ---- */

json_t *bt_record_config(const bt_context *context); /* {"classifier.lr": "0.1", ...} */
/* As they are now: bt_set_dependency may have changed them. */
json_t *bt_record_dependencies(const bt_context *context);
json_t *bt_record_data(const bt_problem *problem);    /* {"image": "HASH", ...} of the training data */
int64_t bt_record_batches(const bt_problem *problem); /* of an epoch; 0: without end */
int64_t bt_record_spacing(const bt_problem *problem); /* of states, where a budget chooses it; 0: it does not */
/* Hashes: of a callback's graph as it stands ("": there is none), and of the batches at hand, by which it is seen
 * whether a resumed run draws the same. */
void bt_record_graph(bt_problem *problem, int kind, char text[17]);
void bt_record_kept(bt_stream *stream, char text[17]);

#endif
