/* transform/bucket.h: sums over ranks taken together. What shard.c leaves has an all_reduce for each value, and each of
 * them is a meeting of all ranks; those that do not depend on each other are joined into one of several operands. */
#ifndef BT_BUCKET_H
#define BT_BUCKET_H

#include "graph/graph.h"

enum {
    BT_BUCKET = 25 << 20
}; /* bytes, as they have shown themselves worth elsewhere: Li et al. 2020, "PyTorch
      Distributed" */

/* A rank's own graph, in which an all_reduce of several operands of one dtype and reduction, `bytes` together at most,
 * stands in the place of the last of those that it joins; *reductions becomes less by the others. Whatever reads one of
 * its results comes behind it, all else keeps its order. The bits are the same. Decided by dependencies between
 * collectives and by shapes that are whole, it is the same on all ranks: where one joins, all do. *joined: NULL, there
 * is nothing to join. The graph stays the caller's. */
bt_status bt_bucket(const bt_graph *graph, size_t bytes, bt_graph **joined, int64_t *reductions);

#endif
