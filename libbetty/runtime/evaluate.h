/* runtime/evaluate.h: a graph run once. */
#ifndef BT_EVALUATE_H
#define BT_EVALUATE_H

#include "runtime/phase.h"

/* Compiles and runs the graph, on one thread. Output i is converted into results[i]; assigns are applied. */
bt_status bt_evaluate(const bt_graph *graph, const bt_array *results);

/* Where output i of the entry's graph lies after a run. */
bt_array bt_phase_result(const bt_phase *phase, int entry, int64_t output);

#endif
