/* transform/reassociate.h: multiplies chains of matrix products in the cheapest order. */
#ifndef BT_REASSOCIATE_H
#define BT_REASSOCIATE_H

#include "graph/graph.h"

/* The cost of g products [m, k] x [k, n], in floating-point operations: their own, plus the time for the call and for
 * the memory traffic, expressed in f32 operations. */
double bt_product_cost(bt_dtype dtype, int64_t g, int64_t m, int64_t k, int64_t n);

/* *shorter computes the same up to rounding: A (B C) becomes (A B) C, or the other way round, if that costs less, in
 * chains of dots and linear layers, through transposes. A product that others also need counts as free, so no product
 * is computed twice unless that is cheaper. *saved: the reduction in cost. Takes the graph inlined and simplified.
 * *shorter is NULL if nothing is gained (*saved = 0), and after an error. */
bt_status bt_reassociate(const bt_graph *graph, bt_graph **shorter, double *saved);

#endif
