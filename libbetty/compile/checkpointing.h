/* compile/checkpointing.h: which forward values of a level are recomputed instead of held until its derivatives have
 * read them. None of this changes a bit of the results. */
#ifndef BT_CHECKPOINTING_H
#define BT_CHECKPOINTING_H

#include "base/base.h"

/* A cut is a step after which only one large forward value of the level is still read by later forward steps. */
#define BT_CHECKPOINTING_LIST(X)                                                                                       \
    X(BT_CHECKPOINTING_UNSET, "")          /* all are held, unless there is a budget */                                \
    X(BT_CHECKPOINTING_NONE, "none")       /* all are held */                                                          \
    X(BT_CHECKPOINTING_CHEAP, "cheap")     /* as cost:5%, and no matrix product and no convolution runs again */       \
    X(BT_CHECKPOINTING_COST, "cost")       /* the fewest bytes with at most this much extra work */                    \
    X(BT_CHECKPOINTING_BUDGET, "budget")   /* the least extra work with at most this many bytes */                     \
    X(BT_CHECKPOINTING_EVERY, "every")     /* every N-th cut is held */                                                \
    X(BT_CHECKPOINTING_SQRT, "sqrt")       /* holds the cuts that need the fewest bytes; nothing runs 3 times */       \
    X(BT_CHECKPOINTING_MODULES, "modules") /* values within these modules are not held */                              \
    X(BT_CHECKPOINTING_OPS, "ops")         /* outputs of these ops are not held */
typedef enum bt_checkpointing_kind {
#define BT_CHECKPOINTING_ITEM(name, text) name,
    BT_CHECKPOINTING_LIST(BT_CHECKPOINTING_ITEM)
#undef BT_CHECKPOINTING_ITEM
        BT_CHECKPOINTINGS
} bt_checkpointing_kind;

typedef struct bt_checkpointing {
    bt_checkpointing_kind kind;
    double cost;          /* cost: extra work, as a fraction of the program's: 0.05 */
    int64_t number;       /* budget: bytes; every: N */
    const char *patterns; /* modules, ops: comma-separated, for bt_pattern_match; borrowed */
} bt_checkpointing;

typedef struct bt_level_checkpointing {
    const char *level; /* bt_tag.level */
    bt_checkpointing how;
    bool offloads; /* values that its derivatives read are kept in host memory in between */
    int64_t named; /* the result: how many values it named, in all programs compiled with it */
} bt_level_checkpointing;

#endif
