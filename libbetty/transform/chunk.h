/* transform/chunk.h: wide values that are computed and used up a few rows at a time.
 *
 * The logits of a large vocabulary are a matrix product. Each row is read on its own and little of it remains: a loss,
 * a prediction. If the product is recorded in pieces of rows, only the logits of one piece need to exist at a time.
 * This holds in the forward pass and, if the results of one piece do not wait for the others, in derivatives of every
 * order. */
#ifndef BT_CHUNK_H
#define BT_CHUNK_H

#include "graph/graph.h"

/* The number of pieces for such a product; 1: it stays whole. Called once for each product, in order. */
typedef int64_t bt_chunk_fn(void *user, const bt_node *product);

/* Replaces *graph (freed) by one with these products in pieces, if there is anything to do. kept[count], tensors of the
 * graph or NULL, are replaced by their counterparts; nodes that neither they nor assigns and outputs need may be
 * dropped. After an error *graph does not change. */
bt_status bt_chunk(bt_graph **graph, bt_tensor **kept, int count, bt_chunk_fn *chunks, void *user);

#endif
