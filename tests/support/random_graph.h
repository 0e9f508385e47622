/* tests/support/random_graph.h: graphs drawn at random, of every family of ops, on small shapes: elementwise,
 * reductions, views of all kinds, joining, contraction, indices, composites, ops of a user, derivatives; some assign to
 * variables: to windows of a block, to a whole block, to variables that are read, and values that are views of
 * variables. */
#ifndef TESTS_RANDOM_GRAPH_H
#define TESTS_RANDOM_GRAPH_H

#include "support/scene.h"

enum {
    RANDOM_ASSIGNS = 1,
    RANDOM_SMOOTH = 2, /* nothing whose value jumps: casts to integers, signs, the numbers of random ops */
    RANDOM_COMPOSITES = 4,
    RANDOM_GRADIENTS = 8,
    RANDOM_INTEGERS = 16 /* whole numbers only: sums are the same in any order, as long as they are not too large */
};

/* Records about `nodes` ops in a new scene, whose trace it ends. The same seed gives the same graph. */
void random_graph(scene *s, uint64_t seed, bt_dtype dtype, int nodes, unsigned what);

/* Likewise, and s->vars[5], [rows], and s->vars[6], [rows, ...], are a batch. */
void random_graph_of_rows(scene *s, uint64_t seed, bt_dtype dtype, int nodes, unsigned what, int64_t rows);

/* Ops that a user might have made: of two outputs, by a body; of one, by a kernel that needs dense inputs. */
extern const bt_op random_blend, random_fold;

#endif
