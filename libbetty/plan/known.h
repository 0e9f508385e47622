/* plan/known.h: the searches that have been made, so that a graph that comes again, for another budget, is not searched
 * again. */
#ifndef BT_KNOWN_H
#define BT_KNOWN_H

#include "plan/remat.h"

typedef struct bt_known bt_known;

bt_known *bt_known_new(void); /* NULL: out of memory */
void bt_known_free(bt_known *known);

/* What bt_frontier_new finds: now, or when it was asked for before with all these just the same. It is `known`'s, and
 * is not freed. start and may are not NULL. */
bt_status bt_known_search(bt_known *known, const bt_remat *remat, const bt_remat_choice *start, const bt_remat_may *may,
                          int64_t simulations, bt_frontier *found);

#endif
