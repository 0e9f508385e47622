/* transform/bucket.h: joins sums over ranks. shard.c leaves an all_reduce for each value, and each of these is a
 * meeting of all ranks; those that do not depend on each other are joined into one of several operands. */
#ifndef BT_BUCKET_H
#define BT_BUCKET_H

#include "graph/graph.h"

enum { BT_BUCKET = 25 << 20 }; /* bytes, a proven value: Li et al. 2020, "PyTorch Distributed" */

/* *joined: the rank's own graph with sums joined. Sums of one dtype and reduction, at most `bytes` together, become one
 * all_reduce of several operands in place of the last of them; *reductions falls accordingly. Readers of a result come
 * after it; everything else keeps its order. The bits are the same. The decision depends only on dependencies between
 * collectives and on whole shapes, so it is the same on all ranks. NULL: there is nothing to join. The graph still
 * belongs to the caller. */
bt_status bt_bucket(const bt_graph *graph, size_t bytes, bt_graph **joined, int64_t *reductions);

#endif
