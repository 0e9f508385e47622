/* transform/bucket.h: joins sums over ranks. shard.c leaves an all_reduce for each value, and each of these is a
 * meeting of all ranks; those that do not depend on each other are joined into one of several operands. */
#ifndef BT_BUCKET_H
#define BT_BUCKET_H

#include "graph/graph.h"

enum {
    BT_BUCKET = 25 << 20
}; /* bytes, a value that has proved itself elsewhere: Li et al. 2020, "PyTorch Distributed" */

/* A rank's own graph, in which an all_reduce of several operands of one dtype and reduction, at most `bytes` together,
 * replaces the last of those that it joins; *reductions falls by the others. Whatever reads one of its results comes
 * after it; everything else keeps its order. The bits are the same. The decision uses dependencies between collectives
 * and whole shapes, so it is the same on all ranks. *joined: NULL if there is nothing to join. The graph still belongs
 * to the caller. */
bt_status bt_bucket(const bt_graph *graph, size_t bytes, bt_graph **joined, int64_t *reductions);

#endif
