/* transform/chunk.h: wide values that are computed and used up a few rows at a time.
 *
 * The logits of a large vocabulary are a matrix product; each row is read by itself, and little of it remains: a loss,
 * a prediction. Recorded in pieces of rows, only the logits of one piece need to exist at once, in the forward pass
 * and, if what remains of one piece does not wait for the others, in derivatives of every order. */
#ifndef BT_CHUNK_H
#define BT_CHUNK_H

#include "graph/graph.h"

/* Into how many pieces such a product is to be divided; 1: it stays whole. Called once for each, in their order. */
typedef int64_t bt_chunk_fn(void *user, const bt_node *product);

/* The graph with these products in pieces, which replaces *graph (freed); or the graph itself, if there is nothing to
 * do. kept[count], tensors of the graph or NULL, are replaced by their counterparts; what neither they nor assigns and
 * outputs need may be left out. After an error *graph does not change. */
bt_status bt_chunk(bt_graph **graph, bt_tensor **kept, int count, bt_chunk_fn *chunks, void *user);

#endif
