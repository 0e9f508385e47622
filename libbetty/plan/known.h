/* plan/known.h: finished searches, so that the same graph is not searched again for another budget. */
#ifndef BT_KNOWN_H
#define BT_KNOWN_H

#include "plan/remat.h"

typedef struct bt_known bt_known;

bt_known *bt_known_new(void); /* NULL: out of memory */
void bt_known_free(bt_known *known);

/* What bt_frontier_new finds: computed now, or remembered from an earlier call with the same arguments. `known` owns
 * it; do not free it. start and may are not NULL. */
bt_status bt_known_search(bt_known *known, const bt_remat *remat, const bt_remat_choice *start, const bt_remat_may *may,
                          int64_t simulations, bt_frontier *found);

#endif
