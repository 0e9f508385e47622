/* tests/ops/interpret.h: an independent reference: graphs computed in double precision by plain loops, whatever their
 * dtypes. Composites are computed by their bodies. Shares no code with the planner or with any kernel. */
#ifndef TESTS_OPS_INTERPRET_H
#define TESTS_OPS_INTERPRET_H

#include "graph/graph.h"

typedef struct interpreter interpreter;

interpreter *interpreter_new(const bt_graph *graph);
void interpreter_free(interpreter *in);

/* The values of a leaf, as doubles, copied: else a variable's are taken from its memory, and a constant's are its own.
 */
void interpreter_set(interpreter *in, const bt_tensor *leaf, const double *values);

/* Computes every node. Aborts on what is not understood: an op without a rule here, a leaf without values. */
void interpreter_run(interpreter *in);

/* Computes nodes from number *at on, up to the first that takes all ranks, which is returned, NULL: all have been. Its
 * values are for the caller to set (interpreter_set), who goes on at *at + 1. */
const bt_node *interpreter_advance(interpreter *in, int64_t *at);

/* Row-major; valid until the next run. */
const double *interpreter_value(const interpreter *in, const bt_tensor *x);

#endif
