/* transform/absorb.h: computes a value together with its only reader. */
#ifndef BT_ABSORB_H
#define BT_ABSORB_H

#include "graph/graph.h"

/* *absorbed computes the same, bit for bit, in fewer passes over memory: if an op's record says by `absorb` that it can
 * include its only reader, the two become one node. Takes the graph inlined and simplified; no derivative may be taken
 * afterwards. *absorbed is NULL if there is nothing to do, and after an error. */
bt_status bt_absorb(const bt_graph *graph, bt_graph **absorbed);

#endif
