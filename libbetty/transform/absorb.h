/* transform/absorb.h: what reads a value alone is computed together with it. */
#ifndef BT_ABSORB_H
#define BT_ABSORB_H

#include "graph/graph.h"

/* *absorbed computes the same, to the same bits, in fewer passes over memory: where an op can take its only reader
 * along, by its record's `absorb`, the two are one node. Take the graph inlined and simplified; no derivative may be
 * taken afterwards. *absorbed is NULL where there is nothing to do, and after an error. */
bt_status bt_absorb(const bt_graph *graph, bt_graph **absorbed);

#endif
