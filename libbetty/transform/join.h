/* transform/join.h: two graphs that run one after the other, made one. */
#ifndef BT_JOIN_H
#define BT_JOIN_H

#include "graph/graph.h"

/* *joined does what `first` and then `second` do: what the second reads of variables that the first assigns is the
 * assigned value itself. Assigns to `last`, or to windows of it, are left out: the second is the last to read it; NULL:
 * nothing is left out. *joined is NULL after an error, and where the two must stay apart: a variable that the second
 * reads is assigned in part only, or both assign variables that share some bytes. */
bt_status bt_join(const bt_graph *first, const bt_graph *second, const bt_var *last, bt_graph **joined);

#endif
