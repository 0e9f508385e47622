/* transform/rewrite.h: shared by all passes that make a new graph from an old one. */
#ifndef BT_REWRITE_H
#define BT_REWRITE_H

#include "graph/graph.h"

typedef struct bt_rewrite {
    const bt_graph *from;
    bt_graph *to;
    bt_tensor **map; /* by tensor id of `from`: its counterpart in `to`; NULL: none yet */
    bt_trace trace;  /* of `to`, in progress */
} bt_rewrite;

/* Begins a new graph and a trace of it. False: out of memory. */
bool bt_rewrite_begin(bt_rewrite *rewrite, const bt_graph *from);

/* Ends the trace and returns the new graph with assigns and outputs carried over (those whose value has a counterpart);
 * NULL after an error, which is in bt_error. */
bt_graph *bt_rewrite_end(bt_rewrite *rewrite);

/* Copies the node with mapped inputs and its old tag, and maps its outputs. */
void bt_rewrite_copy(bt_rewrite *rewrite, const bt_node *node);
void bt_rewrite_inputs(const bt_rewrite *rewrite, const bt_node *node, bt_tensor **in); /* mapped; NULL at the end */

/* Which nodes are needed: by node index; effects, assigned values and outputs are the roots. NULL: out of memory. */
bool *bt_live_nodes(const bt_graph *graph);
void bt_live_spread(const bt_graph *graph, bool *live); /* from the marked roots, and effects, to all they need */

/* By tensor id: how often these nodes, assigns and outputs read it; and, unless users is NULL, its last reader (NULL:
 * not a node). Both must be zero at first. */
void bt_count_uses(const bt_graph *graph, const bool *live, int64_t *uses, bt_node **users);

#endif
