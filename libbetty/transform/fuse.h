/* transform/fuse.h: operations that cost less as a part of a matrix product. */
#ifndef BT_FUSE_H
#define BT_FUSE_H

#include "graph/graph.h"

/* *fused computes the same up to rounding: a sum with a product has become dot_add, which reads and writes the sum
 * once; a factor of a large matrix that only products read is multiplied into their results, where these are smaller.
 * Take the graph inlined and simplified. *fused is NULL where there is nothing to do, and after an error. */
bt_status bt_fuse(const bt_graph *graph, bt_graph **fused);

#endif
