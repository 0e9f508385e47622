/* transform/linearize.h: splits a graph by what depends on certain variables: the rest is computed once. */
#ifndef BT_LINEARIZE_H
#define BT_LINEARIZE_H

#include "graph/graph.h"

/* Makes the variable that keeps a value of the first part for the second. NULL: out of memory. */
typedef bt_var *bt_keep_fn(void *user, const bt_tensor *value);

/* *once computes everything that does not depend on `moving` and keeps it in variables; *each reads them and computes
 * the rest. Cheap ops (views, broadcasts, constants) are recomputed instead of kept, except reads of variables that
 * *once changes. An assign whose value does not depend on `moving` is done in *once, unless its variable is a moving
 * one. Variables that share bytes with a moving one move. Effects happen in *each; the graph's outputs are ignored.
 * Takes the graph inlined and simplified. Both graphs are NULL after an error. */
bt_status bt_linearize(const bt_graph *graph, bt_var *const *moving, int count, bt_keep_fn *keep, void *user,
                       bt_graph **once, bt_graph **each);

#endif
