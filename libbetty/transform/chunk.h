/* transform/chunk.h: wide values that are made and used up a few rows at a time.
 *
 * The logits of a large vocabulary are a matrix product, of which each row is read by itself, and little of it is left:
 * a loss, a prediction. Recorded in pieces of rows, only the logits of one piece need to be there at once, in the
 * forward pass and, where what is left of one piece does not wait for the others, in derivatives of every order. */
#ifndef BT_CHUNK_H
#define BT_CHUNK_H

#include "graph/graph.h"

/* How many pieces such a product is to be made in; 1: it stays. It is asked once for each, in their order. */
typedef int64_t bt_chunk_fn(void *user, const bt_node *product);

/* The graph with these products in pieces, in the place of *graph, which is freed; or the graph itself, where there is
 * nothing to do. Of kept[count], tensors of the graph or NULL, are made what stands for them; what neither they nor
 * assigns and outputs need may be left out. After an error *graph stays. */
bt_status bt_chunk(bt_graph **graph, bt_tensor **kept, int count, bt_chunk_fn *chunks, void *user);

#endif
