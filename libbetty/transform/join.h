/* transform/join.h: joins two graphs that run one after the other. */
#ifndef BT_JOIN_H
#define BT_JOIN_H

#include "graph/graph.h"

/* *joined does what `first` and then `second` do: where the second reads variables that the first assigns, it gets the
 * assigned value itself. Assigns to `last`, or to windows of it, are dropped: the second is the last to read it; NULL:
 * none are dropped. *joined is NULL after an error, and if the two must stay apart: the first assigns only part of a
 * variable that the second reads, or both assign variables that share some bytes. */
bt_status bt_join(const bt_graph *first, const bt_graph *second, const bt_var *last, bt_graph **joined);

#endif
