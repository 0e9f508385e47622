/* transform/rewrite.h: what every pass that makes a new graph from an old one shares. */
#ifndef BT_REWRITE_H
#define BT_REWRITE_H

#include "graph/graph.h"

typedef struct bt_rewrite {
    const bt_graph *from;
    bt_graph *to;
    bt_tensor **map; /* by tensor id of `from`: what stands for it in `to`; NULL: nothing yet */
    bt_trace trace;  /* of `to`, in progress */
} bt_rewrite;

/* Begins a new graph and a trace of it. False: out of memory. */
bool bt_rewrite_begin(bt_rewrite *rewrite, const bt_graph *from);

/* Ends the trace and returns the new graph with assigns and outputs carried over (those whose value has a stand-in);
 * NULL after an error, which is in bt_error. */
bt_graph *bt_rewrite_end(bt_rewrite *rewrite);

/* The node again, with mapped inputs and its old tag; its outputs are mapped. */
void bt_rewrite_copy(bt_rewrite *rewrite, const bt_node *node);
void bt_rewrite_inputs(const bt_rewrite *rewrite, const bt_node *node, bt_tensor **in); /* mapped; NULL at the end */

/* Which nodes are needed: by node index; effects, assigned values and outputs are the roots. NULL: out of memory. */
bool *bt_live_nodes(const bt_graph *graph);
void bt_live_spread(const bt_graph *graph, bool *live); /* from the roots marked in it, and effects, to all they need */

/* By tensor id: how often these nodes, assigns and outputs read it; and, unless users is NULL, the last node that does
 * (NULL: it is not a node). Both are zeros at first. */
void bt_count_uses(const bt_graph *graph, const bool *live, int64_t *uses, bt_node **users);

#endif
