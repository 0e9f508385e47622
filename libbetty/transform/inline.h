/* transform/inline.h: composites replaced by their bodies. */
#ifndef BT_INLINE_H
#define BT_INLINE_H

#include "graph/graph.h"

/* A new graph in which every composite is replaced by its body, recursively, except those for which `keep` returns
 * true. keep may be NULL: no exceptions. NULL after an error, which is in bt_error. */
bt_graph *bt_inline(const bt_graph *graph, bool (*keep)(const bt_node *node, void *user), void *user);

#endif
