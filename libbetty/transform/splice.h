/* transform/splice.h: records a graph once more within another: what was traced on its own takes part in the trace in
 * progress, with other inputs. */
#ifndef BT_SPLICE_H
#define BT_SPLICE_H

#include "graph/graph.h"

typedef struct bt_splice {
    bt_var *(*stand_in)(void *user, bt_var *var); /* what is read in the place of a variable; NULL: itself */
    void *user;
    bool assigns;               /* what the graph assigns is assigned here, too; else only the value counts */
    bt_tensor *const *detached; /* result of an earlier splice of the graph, whose detached values stay; NULL: none */
    bool wide;                  /* what the graph stores in 16 bits is f32 here, and nothing is rounded to them */
} bt_splice;

/* Records what the tensor `value` of `from`, its effects and its assigns need, with the tags that it has there.
 * Variables are read like a callback reads them: where there is an overlay, that. By tensor id of `from`: what stands
 * for it here, NULL where nothing needs it; it lasts as long as the graph of the trace. NULL: out of memory. */
bt_tensor **bt_graph_splice(const bt_graph *from, const bt_tensor *value, const bt_splice *splice);

#endif
