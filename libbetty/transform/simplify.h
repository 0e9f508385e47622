/* transform/simplify.h: folds constants, simplifies algebra, merges common subexpressions, drops dead nodes. */
#ifndef BT_SIMPLIFY_H
#define BT_SIMPLIFY_H

#include "graph/graph.h"

/* A new graph that computes the same. With `final`, identities (detach, alias) are dropped: no derivative may be taken
 * afterwards. NULL after an error, which is in bt_error. */
bt_graph *bt_simplify(const bt_graph *graph, bool final);

/* Ends a pass that has made `found`, which is freed: *better is its simplified form. NULL if nothing was changed, and
 * after an error: found is NULL, or could not be simplified. */
bt_status bt_simplify_found(bt_graph *found, bool changed, bool final, bt_graph **better);

#endif
