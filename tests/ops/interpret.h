/* tests/ops/interpret.h: an independent reference: computes graphs in double precision with plain loops, whatever their
 * dtypes. Composites are computed by their bodies. Shares no code with the planner or with any kernel. */
#ifndef TESTS_OPS_INTERPRET_H
#define TESTS_OPS_INTERPRET_H

#include "graph/graph.h"

typedef struct interpreter interpreter;

interpreter *interpreter_new(const bt_graph *graph);
void interpreter_free(interpreter *in);

/* Sets the values of a leaf, copied. Without this call, a variable's values come from its memory and a constant's are
 * its own. */
void interpreter_set(interpreter *in, const bt_tensor *leaf, const double *values);

/* Computes every node. Aborts on anything unknown: an op without a rule here, a leaf without values. */
void interpreter_run(interpreter *in);

/* Computes nodes from number *at on, up to the first one that involves all ranks, and returns it; NULL: all are
 * computed. The caller sets its values (interpreter_set) and continues at *at + 1. */
const bt_node *interpreter_advance(interpreter *in, int64_t *at);

/* Row-major; valid until the next run. */
const double *interpreter_value(const interpreter *in, const bt_tensor *x);

#endif
