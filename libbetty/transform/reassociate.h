/* transform/reassociate.h: chains of matrix products, multiplied in the cheapest order. */
#ifndef BT_REASSOCIATE_H
#define BT_REASSOCIATE_H

#include "graph/graph.h"

/* What g products [m, k] x [k, n] cost, in floating-point operations: their own, and the time of their call and of the
 * memory that they read and write, counted in operations of f32 that a processor does meanwhile. */
double bt_product_cost(bt_dtype dtype, int64_t g, int64_t m, int64_t k, int64_t n);

/* *shorter computes the same up to rounding: A (B C) has become (A B) C, or the other way round, where that costs less,
 * in chains of dots and of linear layers, through transposes. A product that others need as well is there for nothing,
 * so that none is computed twice unless that is cheaper. *saved: by how much the cost fell. Take the graph inlined and
 * simplified. *shorter is NULL where nothing is gained (*saved = 0), and after an error. */
bt_status bt_reassociate(const bt_graph *graph, bt_graph **shorter, double *saved);

#endif
