/* transform/rebind.h: the same graph on other variables. */
#ifndef BT_REBIND_H
#define BT_REBIND_H

#include "graph/graph.h"

/* The replacement for a variable that is read or assigned, of the same dtype and shape; the variable itself: it stays;
 * NULL: out of memory. */
typedef bt_var *bt_rebind_fn(void *user, bt_var *var, bool assigned);

bt_graph *bt_rebind(const bt_graph *graph, bt_rebind_fn *stand_in, void *user); /* NULL after an error */

#endif
