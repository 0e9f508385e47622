/* tests/plan/graphs.h: graphs of arrays for the tests of recomputation. */
#ifndef TESTS_PLAN_GRAPHS_H
#define TESTS_PLAN_GRAPHS_H

#include "plan/remat.h"

enum { GRAPH_STEPS = 256, GRAPH_VALUES = 512, GRAPH_IN = 4, GRAPH_OUT = 2 };

typedef struct graph { /* owns its memory */
    bt_order order;
    double cost[GRAPH_STEPS];
    bt_order_step steps[GRAPH_STEPS];
    bt_order_value values[GRAPH_VALUES];
    bt_order_over overs[GRAPH_STEPS][GRAPH_IN];
    int64_t in[GRAPH_STEPS][GRAPH_IN + 1], out[GRAPH_STEPS][GRAPH_OUT];
} graph;

void graph_begin(graph *g);
int64_t graph_value(graph *g, size_t bytes, bool there);

/* Adds a step of this cost that computes one value from others; the list ends with -1. */
int64_t graph_step(graph *g, double cost, size_t bytes, const int64_t *in);
#define STEP(g, cost, bytes, ...) graph_step((g), (cost), (bytes), (const int64_t[]){__VA_ARGS__, -1})

/* The last step's output may overwrite one of its operands. */
void graph_over(graph *g, int64_t value);

/* Forward: x[i], of bytes[i] bytes, from x[i - 1], i = 1 to n - 1, with x[0] given. Backward: from n to 1, step i reads
 * x[i - 1] and the result of the step before it, which takes no bytes. over: x[i] may overwrite x[i - 1]. */
void graph_chain(graph *g, int n, const int *bytes, const int *cost, bool over);

uint32_t graph_draw(uint32_t *seed, uint32_t below);

/* Random steps that read a few of the last values and some of the first; with several outputs, values to keep, steps
 * that must not be rerun, operands to overwrite, and scratch. */
void graph_random(graph *g, uint32_t seed, int steps);

#endif
