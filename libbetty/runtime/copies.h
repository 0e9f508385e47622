/* runtime/copies.h: variables on several ranks. Each rank in this process has its own counterpart of a variable of the
 * whole run: a copy if it is replicated, its own part if it is split. One rank is at home in this process: it has the
 * variable itself, unless that is split. Counterparts are made when a program of that rank first needs them. */
#ifndef BT_COPIES_H
#define BT_COPIES_H

#include "runtime/variable.h"
#include "transform/shard.h"

typedef struct bt_copies {
    int ranks, home;
    bool known; /* the layout is known */
    bt_spread layout;
    bt_var **own; /* by rank; NULL: not made yet */
} bt_copies;

/* The layout of a root; false: not decided yet. */
bool bt_var_layout(const bt_var *root, bt_spread *layout);
bt_status bt_var_decide(bt_var *root, int home, int ranks, const bt_spread *layout);

/* The rank's counterpart of this variable, root or window; owned by this variable. NULL after an error. */
bt_var *bt_var_of_rank(bt_var *var, int rank, int home, int ranks);

/* Where the variable lies in a rank's memory; NULL: nowhere, or the rank has no counterpart. */
char *bt_var_data_of(const bt_var *var, int rank);
/* Divides a root: from now on each rank has a stretch of its elements, which are split like `rows` rows, and nobody has
 * all of them. all: on every rank in this process, else only on the one at home. Call before the first program that
 * needs it. */
bt_status bt_var_part(bt_var *root, int home, int ranks, bool all, int64_t rows);
bool bt_var_is_parted(const bt_var *var);
size_t bt_var_home_bytes(const bt_var *root); /* the bytes that the rank at home has */
/* Reads a divided variable: the bytes of the ranks in this process, zeros for the others; and writes it (from NULL:
 * zeros). Bytes on a device are read as runtime/queue.h says. */
bt_status bt_var_collect(const bt_var *var, size_t offset, void *to, size_t bytes);
bt_status bt_var_distribute(const bt_var *var, size_t offset, const void *from, size_t bytes);
bool bt_var_alike(const bt_var *a, const bt_var *b); /* each rank has the same elements of both */
bt_status bt_var_copy_parts(const bt_var *to, const bt_var *from, size_t offset, size_t bytes); /* of two such */
bool bt_var_is_partial(const bt_var *var); /* each rank has a summand */
/* Adds up the summands of the ranks in this process, element by element, in rank order. */
bt_status bt_var_sum(const bt_var *var, size_t offset, void *to, size_t bytes);
/* BT_ERROR_INTERNAL if the variable is divided among ranks. */
bt_status bt_var_check_whole(const bt_var *var);
int bt_var_ranks(const bt_var *var); /* how many ranks may have a counterpart; 1: it is on one rank only */
int bt_var_home(const bt_var *var);  /* the rank at home in this process */

void bt_var_follow(bt_var *var); /* counterparts of an external variable move to where it now lies */
void bt_var_drop_copies(bt_var *var);

#endif
