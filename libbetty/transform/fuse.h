/* transform/fuse.h: what reads a value alone is computed together with it. */
#ifndef BT_FUSE_H
#define BT_FUSE_H

#include "graph/graph.h"

/* *fused computes the same, to the same bits, in fewer passes over memory: where an op can take its only reader along,
 * by its record's `absorb`, the two are one node. Take the graph inlined and simplified; no derivative may be taken
 * afterwards. *fused is NULL where there is nothing to do, and after an error. */
bt_status bt_fuse(const bt_graph *graph, bt_graph **fused);

#endif
