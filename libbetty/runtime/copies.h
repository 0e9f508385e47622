/* runtime/copies.h: variables on several ranks. Each rank of this process has a variable of its own instead of one of
 * the whole run: a copy if it is replicated, its own rows if it is split. One rank is at home here: it has the variable
 * itself if that is not split. They are made when a program of that rank first needs them. */
#ifndef BT_COPIES_H
#define BT_COPIES_H

#include "runtime/variable.h"
#include "transform/shard.h"

typedef struct bt_copies {
    int ranks, home;
    bool known; /* how it lies */
    bt_spread layout;
    bt_var **own; /* by rank; NULL: not made yet */
} bt_copies;

/* Of a root: how it lies; of one of a phase that no program has assigned yet false. */
bool bt_var_layout(const bt_var *root, bt_spread *layout);
bt_status bt_var_decide(bt_var *root, int home, int ranks, const bt_spread *layout);

/* The rank's own in the place of this one, root or window; owned by it. NULL after an error. */
bt_var *bt_var_of_rank(bt_var *var, int rank, int home, int ranks);

/* Where the byte of this one lies in the memory of a rank; NULL: nowhere, or the rank has none of its own. */
char *bt_var_data_of(const bt_var *var, int rank);
/* Of a root: from now on each rank has a stretch of its elements, which are divided like so many rows, and nobody has
 * all of them; all: on every rank in this process, else only on the one at home. Before the first program that needs
 * it. */
bt_status bt_var_part(bt_var *root, int home, int ranks, bool all, int64_t rows);
bool bt_var_is_parted(const bt_var *var);
size_t bt_var_home_bytes(const bt_var *root); /* that the rank at home has of it */
/* Of such: the bytes that ranks of this process have, zeros for the others; and into them, from NULL: zeros. Those on a
 * device are read as runtime/queue.h says. */
bt_status bt_var_collect(const bt_var *var, size_t offset, void *to, size_t bytes);
bt_status bt_var_distribute(const bt_var *var, size_t offset, const void *from, size_t bytes);
bool bt_var_alike(const bt_var *a, const bt_var *b); /* each rank has the same elements of both */
bt_status bt_var_copy_parts(const bt_var *to, const bt_var *from, size_t offset, size_t bytes); /* of such */
bool bt_var_is_partial(const bt_var *var); /* the ranks have summands */
/* Of such: the sum of what the ranks of this process have there; element by element, in their order. */
bt_status bt_var_sum(const bt_var *var, size_t offset, void *to, size_t bytes);
/* Where it is in parts, one on each rank: BT_ERROR_INTERNAL. */
bt_status bt_var_check_whole(const bt_var *var);
int bt_var_ranks(const bt_var *var); /* how many may have their own; 1: it is on one rank only */
int bt_var_home(const bt_var *var);  /* the rank that is at home here */

void bt_var_follow(bt_var *var); /* those from outside lie where this one now lies */
void bt_var_drop_copies(bt_var *var);

#endif
