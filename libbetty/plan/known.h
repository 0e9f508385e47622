/* plan/known.h: the searches that have been made, so that a graph that comes again, for another budget, is not searched
 * again. */
#ifndef BT_KNOWN_H
#define BT_KNOWN_H

#include "plan/remat.h"

typedef struct bt_known bt_known;

bt_known *bt_known_new(void); /* NULL: out of memory */
void bt_known_free(bt_known *known);

typedef struct bt_known_point { /* as bt_remat_point */
    size_t most;
    double extra;
    const int64_t *what; /* gaps that are dropped; -1 - value: it is brief */
    int64_t count;
} bt_known_point;

typedef struct bt_known_frontier { /* as bt_frontier */
    const bt_known_point *points;
    int64_t count;
} bt_known_frontier;

/* What bt_frontier_new finds: now, or when it was asked for before with all these just the same. It is `known`'s. */
bt_status bt_known_search(bt_known *known, const bt_remat *remat, const bt_remat_choice *start, const bool *may,
                          int64_t simulations, bt_known_frontier *found);

/* The cheapest that needs no more than so many bytes; the one with fewest bytes that costs no more than so much; or
 * NULL. */
const bt_known_point *bt_known_within(const bt_known_frontier *frontier, size_t bytes);
const bt_known_point *bt_known_for(const bt_known_frontier *frontier, double extra);

void bt_known_choice(const bt_known_point *point, const bt_remat *remat, bt_remat_choice *choice);

#endif
