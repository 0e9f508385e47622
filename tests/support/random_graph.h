/* tests/support/random_graph.h: random graphs on small shapes, drawn from every family of ops: elementwise,
 * reductions, views, joining, contraction, indexing, composites, user-defined ops, derivatives. Some graphs also
 * assign to variables: windows of a block, a whole block, variables that are also read, and values that are views of
 * variables. */
#ifndef TESTS_RANDOM_GRAPH_H
#define TESTS_RANDOM_GRAPH_H

#include "support/scene.h"

enum {
    RANDOM_ASSIGNS = 1,
    RANDOM_SMOOTH = 2, /* no discontinuous ops: casts to integers, signs, random numbers */
    RANDOM_COMPOSITES = 4,
    RANDOM_GRADIENTS = 8,
    RANDOM_INTEGERS = 16 /* integers only: a sum is exact in any order, as long as it is not too large */
};

/* Records about `nodes` ops in a new scene and ends its trace. The same seed gives the same graph. */
void random_graph(scene *s, uint64_t seed, bt_dtype dtype, int nodes, unsigned what);

/* The same, but s->vars[5], [rows], and s->vars[6], [rows, ...], form a batch. */
void random_graph_of_rows(scene *s, uint64_t seed, bt_dtype dtype, int nodes, unsigned what, int64_t rows);

/* Examples of user-defined ops: one with two outputs and a body, one with one output and a kernel that needs dense
 * inputs. */
extern const bt_op random_blend, random_fold;

#endif
