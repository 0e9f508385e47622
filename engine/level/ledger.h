/* engine/level/ledger.h: the list of everything that makes up the state of a run: variables, numbers on the host,
 * the users' memory, streams of batches. Whoever creates such a thing enters it, and removes it before freeing it.
 * Checkpoints, roll_back, bt_adapt, questions, the check and the memory report are loops over this list and nothing
 * else. */
#ifndef BT_LEDGER_H
#define BT_LEDGER_H

#include "engine/level/stream.h"
#include "runtime/variable.h"

typedef struct bt_context bt_context; /* context.h */

/* What rows are for. For each role its name, and whether
 *   saved   checkpoints contain it; if not, it is set again before each program that reads it
 *   rolls   roll_back returns it to the start of the inner loop
 *   update  only updates write it, so questions, which make none, leave it unchanged */
#define BT_ROLE_LIST(X)                                                                                                \
    X(BT_ROLE_PARAM, "parameters", true, true, true)                                                                   \
    X(BT_ROLE_BUFFER, "buffers", true, true, false)                                                                    \
    X(BT_ROLE_SLOT, "optimizer state", true, true, true)                                                               \
    X(BT_ROLE_OPTIMIZER, "optimizer settings", true, false, true)                                                      \
    X(BT_ROLE_SUM, "gradient sums", true, false, true)                                                                 \
    X(BT_ROLE_METRIC, "metrics", true, false, false)                                                                   \
    X(BT_ROLE_SOLVER, "solver state", true, false, false)                                                              \
    X(BT_ROLE_TRAJECTORY, "trajectory", true, false, true)                                                             \
    X(BT_ROLE_SNAPSHOT, "start of the inner loop", true, false, true)                                                  \
    X(BT_ROLE_CLOCK, "counters", true, false, false)                                                                   \
    X(BT_ROLE_MEMORY, "memory of the user", true, false, false)                                                        \
    X(BT_ROLE_STREAM, "batches", true, false, false)                                                                   \
    X(BT_ROLE_INPUT, "inputs", false, false, false)
typedef enum bt_role {
#define BT_ROLE_ITEM(name, text, saved, rolls, update) name,
    BT_ROLE_LIST(BT_ROLE_ITEM)
#undef BT_ROLE_ITEM
        BT_ROLES
} bt_role;

typedef struct bt_role_info {
    const char *name;
    bool saved, rolls, update;
} bt_role_info;
const bt_role_info *bt_role_of(bt_role role);

typedef enum bt_row_kind {
    BT_ROW_VAR,
    BT_ROW_INT, /* a count: never below 0 */
    BT_ROW_REAL,
    BT_ROW_BOOL,
    BT_ROW_BYTES,
    BT_ROW_STREAM
} bt_row_kind;

typedef struct bt_ledger_row {
    const bt_problem *problem; /* its owner; NULL: the run */
    bt_role role;
    bt_row_kind kind;
    const char *name;      /* unique within the problem; lives as long as the row */
    void *data;            /* bt_var, int64_t, double, bool, bytes, bt_stream */
    size_t size;           /* bytes of what data points to */
    const bt_block *block; /* the block, if the variable is a whole block; else NULL */
    int64_t number;        /* rows ever entered before it */
} bt_ledger_row;

typedef struct bt_ledger {
    bt_ledger_row *rows; /* in the order in which they were entered */
    int64_t count, capacity;
    int64_t entered; /* rows ever */
} bt_ledger;

/* Creates a run variable and enters it. NULL after an error: no memory, or a saved one has that name. */
bt_var *bt_ledger_var(bt_context *context, const bt_problem *problem, bt_role role, bt_category category,
                      const char *name, bt_array shape);
void bt_ledger_var_free(bt_context *context, bt_var *var); /* removes and frees it; NULL ok */

/* Enters what exists already. data NULL: allocating it failed; that error is returned. */
bt_status bt_ledger_enter_var(bt_context *context, const bt_problem *problem, bt_role role, bt_var *var);
bt_status bt_ledger_enter_block(bt_context *context, const bt_problem *problem, bt_role role, const bt_block *block);
bt_status bt_ledger_enter_number(bt_context *context, const bt_problem *problem, bt_role role, const char *name,
                                 bt_row_kind kind, void *number);
bt_status bt_ledger_enter_bytes(bt_context *context, const bt_problem *problem, const char *name, void *data,
                                size_t size);
bt_status bt_ledger_enter_stream(bt_context *context, const bt_problem *problem, bt_stream *stream);
void bt_ledger_leave(bt_context *context, const void *data); /* removes it; ignores NULL, and what is not in it */
bool bt_row_is_number(const bt_ledger_row *row);

/* Every run variable of all levels, or of one problem; block: the one whose flat variable it is, or NULL. */
typedef void bt_visit_var_fn(void *user, const bt_var *var, const bt_block *block);
void bt_visit_vars(const bt_context *context, const bt_problem *problem, bt_visit_var_fn *visit, void *user);

/* Bytes that are allocated for the whole run, of one problem or (NULL) of all; returns their sum. */
size_t bt_persistent_bytes(const bt_context *context, size_t by_category[BT_CATEGORIES], const bt_problem *problem);
/* Likewise for what `offload` keeps in host memory, which bt_persistent_bytes does not count. */
size_t bt_host_bytes(const bt_context *context, size_t by_category[BT_CATEGORIES], const bt_problem *problem);

#endif
