/* runtime/evaluate.h: runs a graph once. */
#ifndef BT_EVALUATE_H
#define BT_EVALUATE_H

#include "runtime/phase.h"

/* Compiles and runs the graph, on one thread. Output i is converted into results[i]; assigns are applied. */
bt_status bt_evaluate(const bt_graph *graph, const bt_array *results);

/* Output i of the entry's graph after a run, in place; from a device, a near copy, which the next call for the same
 * output replaces. data is NULL after an error. */
bt_array bt_phase_result(const bt_phase *phase, int entry, int64_t output);

bt_status bt_phase_give(const bt_phase *phase, int entry, int64_t output, bt_array to); /* likewise, converted */

#endif
