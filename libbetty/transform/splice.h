/* transform/splice.h: records a graph again within another: a graph traced on its own becomes part of the current
 * trace, with other inputs. */
#ifndef BT_SPLICE_H
#define BT_SPLICE_H

#include "graph/graph.h"

typedef struct bt_splice {
    bt_var *(*stand_in)(void *user, bt_var *var); /* the variable to read instead; NULL: the same one */
    void *user;
    bool assigns;               /* also record the graph's assigns; else only the value */
    bt_tensor *const *detached; /* an earlier splice of the graph, whose detached values are reused; NULL: none */
    bool wide;                  /* values that the graph stores in 16 bits are f32 here, and nothing is rounded */
} bt_splice;

/* Records what the tensor `value` of `from`, its effects and (if `assigns`) its assigns need, with their tags.
 * Variables are read as a callback reads them: from an overlay, if there is one. Returns, by tensor id of `from`, its
 * counterpart here, NULL if not needed; it lasts as long as the trace's graph. NULL: out of memory. */
bt_tensor **bt_graph_splice(const bt_graph *from, const bt_tensor *value, const bt_splice *splice);

#endif
