/* graph/variable.h: what a variable is, and where its bytes are; runtime/variable.h creates them. */
#ifndef BT_GRAPH_VARIABLE_H
#define BT_GRAPH_VARIABLE_H

#include "graph/graph.h"

/* What bytes are used for: the rows of the memory report. */
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
    BT_RUN,     /* kept for the whole run: parameters, optimiser state, counters */
    BT_PHASE,   /* kept between the programs of one phase; placed in the arena */
    BT_EXTERNAL /* memory of somebody else, bound before each run: a batch */
} bt_lifetime;

/* Which memory holds the bytes. Kernels use device memory only; variables in host memory are copied by steps that
 * compile/spaces.c adds. */
typedef enum bt_space { BT_SPACE_DEVICE, BT_SPACE_HOST, BT_SPACES } bt_space;

/* A variable is a window of a base variable, or has no base (NULL). All bytes are zero at first. */
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
    size_t offset;  /* bytes, within base */
    bt_space space; /* for a root that is BT_RUN or BT_EXTERNAL; all others: BT_SPACE_DEVICE */
    char *data;     /* BT_RUN: set when it is created; BT_PHASE: set by the phase; BT_EXTERNAL: set by the binder */
    struct bt_queue *queue;     /* of the device that holds data: runtime/queue.h; NULL: the host can reach it */
    struct bt_landing *landing; /* BT_EXTERNAL: the device's copy of its host data: runtime/settle.h; NULL: none */
    struct bt_copies *copies;   /* its copies on several ranks: runtime/copies.h; NULL: only one rank */
    bool mailed;                /* one 8-byte number that only the host sets: a device receives it with the mail */
    size_t tail;                /* bytes between a window and the next: zeroed whenever a program writes the window */
    bool clear;                 /* BT_PHASE: zeroed before the first program of the phase that uses it */
    bool lasting; /* BT_PHASE: kept for the whole phase, contiguous, so that it can be read between two programs */
};

bt_var *bt_var_root(bt_var *var);                      /* its base, or itself */
size_t bt_var_start(const bt_var *var);                /* its first byte within the root */
bt_space bt_var_space(const bt_var *var);              /* of its root */
bt_array bt_var_array(const bt_var *var);              /* its dtype and shape, no data: runtime/store.h */
bool bt_var_overlap(const bt_var *a, const bt_var *b); /* whether they share a byte */

#endif
