/* transform/absorb.h: an op that alone reads a value is computed together with it. */
#ifndef BT_ABSORB_H
#define BT_ABSORB_H

#include "graph/graph.h"

/* *absorbed computes the same, with the same bits, in fewer passes over memory: if an op can include its only reader,
 * by its record's `absorb`, the two become one node. Takes the graph inlined and simplified; no derivative may be taken
 * afterwards. *absorbed is NULL if there is nothing to do, and after an error. */
bt_status bt_absorb(const bt_graph *graph, bt_graph **absorbed);

#endif
