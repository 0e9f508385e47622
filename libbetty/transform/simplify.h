/* transform/simplify.h: constants folded, algebra, common subexpressions merged, dead nodes dropped. */
#ifndef BT_SIMPLIFY_H
#define BT_SIMPLIFY_H

#include "graph/graph.h"

/* A new graph that computes the same. With `final`, identities (detach, alias) are dropped: no derivative may be taken
 * afterwards. NULL after an error, which is in bt_error. */
bt_graph *bt_simplify(const bt_graph *graph, bool final);

#endif
