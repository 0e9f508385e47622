/* runtime/variable.h: variables: storage that outlives a program, and the blocks it stands in. */
#ifndef BT_VARIABLE_H
#define BT_VARIABLE_H

#include "graph/graph.h"

/* What a byte is for: the rows of the memory report. */
#define BT_CATEGORY_LIST(X)                                                                                            \
    X(BT_PARAMETERS, "parameters")                                                                                     \
    X(BT_GRADIENTS, "gradients")                                                                                       \
    X(BT_OPTIMIZER, "optimizer state")                                                                                 \
    X(BT_BUFFERS, "buffers")                                                                                           \
    X(BT_VECTORS, "hypergradient vectors")                                                                             \
    X(BT_BATCH, "batch")                                                                                               \
    X(BT_ACTIVATIONS, "activations")                                                                                   \
    X(BT_WORKSPACE, "workspace")
typedef enum bt_category {
#define BT_CATEGORY_ITEM(name, text) name,
    BT_CATEGORY_LIST(BT_CATEGORY_ITEM)
#undef BT_CATEGORY_ITEM
    BT_CATEGORIES
} bt_category;
const char *bt_category_name(bt_category category);

typedef enum bt_lifetime {
    BT_RUN,     /* kept from start to end: parameters, optimiser state, counters */
    BT_PHASE,   /* kept between the programs of one phase; lies in the arena */
    BT_EXTERNAL /* somebody else's memory, bound before each run: a batch */
} bt_lifetime;

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
    size_t offset;  /* bytes, within base */
    char *data;     /* BT_RUN: at once; BT_PHASE: set by the phase; BT_EXTERNAL: set by the binder */
    size_t *gaps;   /* of a block in a phase: offset, length pairs that are zeroed when the phase begins */
    int64_t gap_count;
    uint64_t random_id; /* free for the owner */
};

bt_var *bt_var_new(bt_lifetime lifetime, bt_category category, const char *owner, const char *name, bt_array shape);
bt_var *bt_var_window(bt_var *base, size_t offset, const char *name, bt_array shape);
void bt_var_free(bt_var *var); /* windows before their base */
bt_var *bt_var_root(bt_var *var);         /* the base, or itself */
size_t bt_var_start(const bt_var *var);   /* its first byte within the root */
char *bt_var_data(const bt_var *var);     /* NULL if not bound */
bt_array bt_var_array(const bt_var *var); /* with data */

/* A block: windows of one dtype, each aligned to BT_ALIGN, in one flat variable. `order` gives the order of storage:
 * window i of the block is shapes[order[i]]. windows[j] belongs to shapes[j]. */
typedef struct bt_block {
    bt_var *flat;     /* [elements with the gaps] */
    bt_var **windows; /* in the order of shapes */
    int64_t count;
} bt_block;
bt_status bt_block_new(bt_block *block, bt_lifetime lifetime, bt_category category, const char *owner, const char *name,
                       bt_dtype dtype, const bt_array *shapes, const char *const *names, const int64_t *order,
                       int64_t count);
void bt_block_free(bt_block *block);

#endif
