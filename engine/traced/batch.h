/* engine/traced/batch.h: what a loss does with its batch: what it averages over, and how its rows are split. */
#ifndef BT_TRACED_BATCH_H
#define BT_TRACED_BATCH_H

#include "engine/traced/traced.h"

/* additive.c: warns if a loss is not a sum over micro-batches, as with normalisation over the batch. Call it before the
 * rows are split into pieces. */
void bt_warn_batch(bt_problem *problem, const bt_traced *traced);

/* chunks.c: computes logits in pieces, as the level's key `chunks` says. Replaces *graph, and kept[count], which are
 * tensors of it or NULL. The new graph contains only what these, its assigns and its outputs need. */
bt_status bt_chunk_rows(bt_problem *problem, bt_graph **graph, bt_tensor **kept, int count);

/* prune.c: x, which is shaped like parameter i, with 0 where that is pruned. */
bt_tensor *bt_pruned(const bt_problem *problem, int64_t i, bt_tensor *x);

/* ---- count.c: the count of a batch ---- */

bt_tensor *bt_weight_of(const bt_tracing *tracing); /* F64 []; NULL: its examples */
/* The loss; NaN if the count is not above 0: an empty batch has no mean, and no step follows. */
bt_tensor *bt_counted_loss(bt_tensor *loss);
bt_tensor *bt_count_of(bt_problem *self, const bt_batch *batch); /* F64 []: its count in training */
/* callback.c: the count that its loss declares for a batch, in the trace in progress; NULL: none, or after an error. */
bt_tensor *bt_traced_count(bt_problem *problem, const bt_micro *micro);
/* If the loss declares the count of a micro-batch: adds the entries that compute it, which run before the part's
 * own. */
bt_status bt_counts_add(bt_problem *problem, bt_micro_set *set, bt_phase *phase, int loop, bt_micro_part *part);

#endif
