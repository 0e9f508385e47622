/* transform/fuse.h: operations that cost less inside a matrix product. */
#ifndef BT_FUSE_H
#define BT_FUSE_H

#include "graph/graph.h"

/* *fused computes the same up to rounding. A sum with a product becomes dot_add, which reads and writes the sum once. A
 * factor of a large matrix that only products read is applied to their results, if these are smaller. Takes the graph
 * inlined and simplified. *fused is NULL if there is nothing to do, and after an error. */
bt_status bt_fuse(const bt_graph *graph, bt_graph **fused);

#endif
