/* graph/variable.h: what a variable is, and where it lies; runtime/variable.h makes them. */
#ifndef BT_GRAPH_VARIABLE_H
#define BT_GRAPH_VARIABLE_H

#include "graph/graph.h"

/* What a byte is for: the rows of the memory report. */
#define BT_CATEGORY_LIST(X)                                                                                            \
    X(BT_PARAMETERS, "parameters")                                                                                     \
    X(BT_GRADIENTS, "gradients")                                                                                       \
    X(BT_OPTIMIZER, "optimizer state")                                                                                 \
    X(BT_BUFFERS, "buffers")                                                                                           \
    X(BT_VECTORS, "hypergradient vectors")                                                                             \
    X(BT_TRAJECTORY, "trajectory")                                                                                     \
    X(BT_BATCH, "batch")                                                                                               \
    X(BT_ACTIVATIONS, "activations")                                                                                   \
    X(BT_WORKSPACE, "workspace")
typedef enum bt_category {
#define BT_CATEGORY_ITEM(name, text) name,
    BT_CATEGORY_LIST(BT_CATEGORY_ITEM)
#undef BT_CATEGORY_ITEM
        BT_CATEGORIES
} bt_category;

typedef enum bt_lifetime {
    BT_RUN,     /* kept from start to end: parameters, optimiser state, counters */
    BT_PHASE,   /* kept between the programs of one phase; lies in the arena */
    BT_EXTERNAL /* somebody else's memory, bound before each run: a batch */
} bt_lifetime;

/* Where bytes lie. Kernels read and write the device's memory only; what lies in the host's is copied out and back, by
 * steps that compile/spaces.c puts in. */
typedef enum bt_space { BT_SPACE_DEVICE, BT_SPACE_HOST, BT_SPACES } bt_space;

/* A variable is a window of a base variable (base != NULL), or stands for itself. All are zero at first. */
struct bt_var {
    const char *name;  /* "classifier.layer2.weight"; owned */
    const char *owner; /* the problem; "" if none; owned */
    bt_category category;
    bt_lifetime lifetime;
    bt_dtype dtype;
    int rank;
    int64_t dims[BT_MAX_RANK];
    size_t bytes;
    bt_var *base;
    size_t offset;              /* bytes, within base */
    bt_space space;             /* of a root, of the run or external; others: BT_SPACE_DEVICE */
    char *data;                 /* BT_RUN: at once; BT_PHASE: set by the phase; BT_EXTERNAL: set by the binder */
    struct bt_queue *queue;     /* of the device in whose memory data lies: runtime/queue.h; NULL: it is near */
    struct bt_landing *landing; /* BT_EXTERNAL: where a device has its near data: runtime/settle.h; NULL: nowhere */
    struct bt_copies *copies;   /* on several ranks: runtime/copies.h; NULL: on one */
    bool mailed;                /* one number of 8 bytes that only the host sets: on a device it comes with the mail */
    size_t tail;                /* bytes behind a window, up to the next: zeroed whenever a program writes the window */
    bool clear;                 /* of a phase: zeroed before the first program of the phase that touches it */
    bool lasting; /* of a phase: lives through all of it, in one piece, for who looks at it between two programs */
};

bt_var *bt_var_root(bt_var *var);                      /* the base, or itself */
size_t bt_var_start(const bt_var *var);                /* its first byte within the root */
bt_space bt_var_space(const bt_var *var);              /* of its root */
bt_array bt_var_array(const bt_var *var);              /* its dtype and shape, no data: runtime/store.h */
bool bt_var_overlap(const bt_var *a, const bt_var *b); /* whether they have a byte in common */

#endif
