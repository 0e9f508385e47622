/* engine/traced/batch.h: what a loss does with its batch: what it is a mean of, and how its rows are split. */
#ifndef BT_TRACED_BATCH_H
#define BT_TRACED_BATCH_H

#include "engine/traced/traced.h"

/* additive.c: reports a loss that is not the sum over micro-batches, such as with a normalisation over the batch;
 * before its rows are split into pieces. */
void bt_warn_batch(bt_problem *problem, const bt_traced *traced);

/* chunks.c: logits in pieces, as `chunks` of their level says. Replaces *graph by another one, and likewise
 * kept[count], tensors of it or NULL; it builds only what these, its assigns and its outputs need. */
bt_status bt_chunk_rows(bt_problem *problem, bt_graph **graph, bt_tensor **kept, int count);

/* prune.c: x, which is like parameter i, with 0 where that is pruned. */
bt_tensor *bt_pruned(const bt_problem *problem, int64_t i, bt_tensor *x);

/* ---- count.c: what a batch counts ---- */

bt_tensor *bt_weight_of(const bt_tracing *tracing); /* F64 []; NULL: its examples */
/* The loss times 1; times NaN if the count is not above 0: nothing has no mean, and there is no step. */
bt_tensor *bt_counted_loss(bt_tensor *loss);
bt_tensor *bt_count_of(bt_problem *self, const bt_batch *batch); /* F64 []: what the batch counts in training */
/* callback.c: the count that its loss declares for a batch, in the trace in progress; NULL: none, or after an error. */
bt_tensor *bt_traced_count(bt_problem *problem, const bt_micro *micro);
/* If its loss declares the count of a micro-batch: the entries for it, to run before the part's own. */
bt_status bt_counts_add(bt_problem *problem, bt_micro_set *set, bt_phase *phase, int loop, bt_micro_part *part);

#endif
