/* tests/plan/graphs.h: graphs of arrays for the tests of recomputation. */
#ifndef TESTS_PLAN_GRAPHS_H
#define TESTS_PLAN_GRAPHS_H

#include "plan/remat.h"

enum { GRAPH_STEPS = 256, GRAPH_VALUES = 512, GRAPH_IN = 4, GRAPH_OUT = 2 };

typedef struct graph { /* in its own memory */
    bt_order order;
    double cost[GRAPH_STEPS];
    bt_order_step steps[GRAPH_STEPS];
    bt_order_value values[GRAPH_VALUES];
    bt_order_over overs[GRAPH_STEPS][GRAPH_IN];
    int64_t in[GRAPH_STEPS][GRAPH_IN + 1], out[GRAPH_STEPS][GRAPH_OUT];
} graph;

void graph_begin(graph *g);
int64_t graph_value(graph *g, size_t bytes, bool there);

/* A step of so much cost that computes one value from others; ends with -1. */
int64_t graph_step(graph *g, double cost, size_t bytes, const int64_t *in);
#define STEP(g, cost, bytes, ...) graph_step((g), (cost), (bytes), (const int64_t[]){__VA_ARGS__, -1})

/* The last step's output may be written over one of its operands. */
void graph_over(graph *g, int64_t value);

/* Forwards: x[i], of so many bytes, from x[i - 1], i = 1 to n - 1, with x[0] there. Backwards: from n to 1, step i
 * reads x[i - 1] and what the step before it has made, which counts no bytes. over: x[i] may be written over x[i - 1].
 */
void graph_chain(graph *g, int n, const int *bytes, const int *cost, bool over);

uint32_t graph_draw(uint32_t *seed, uint32_t below);

/* Steps that read a few of the last values and some of the first; several outputs, values that are kept, steps that
 * must not run again, operands to write over, scratch. */
void graph_random(graph *g, uint32_t seed, int steps);

#endif
