/* transform/inline.h: composites replaced by their bodies. */
#ifndef BT_INLINE_H
#define BT_INLINE_H

#include "graph/graph.h"

/* A new graph in which every composite that `keep` does not hold on to is replaced by its body, down to the last level.
 * keep may be NULL: nothing is held. NULL after an error, which is in bt_error. */
bt_graph *bt_inline(const bt_graph *graph, bool (*keep)(const bt_node *node, void *user), void *user);

#endif
