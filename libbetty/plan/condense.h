/* plan/condense.h: a graph without what is too small to matter for the search of what runs again. */
#ifndef BT_CONDENSE_H
#define BT_CONDENSE_H

#include "plan/remat_inside.h"

typedef struct bt_condensed {
    bt_order order;
    double *cost;
    int64_t *value; /* by value of `order`: which one of the given it is */
    bt_remat remat; /* of `order` */
} bt_condensed;

/* Only values that stay and the steps that read or make them. The others are held, as long as they are with nothing
 * dropped: their bytes are added to the steps' scratch. Memory is the region's, but for what bt_remat_free frees. */
bt_status bt_condense(bt_condensed *condensed, const bt_remat *remat, const bool *stays, bt_region *region);

/* A choice of the one graph as one of the other. */
void bt_condensed_from(const bt_condensed *condensed, const bt_remat *remat, const bt_remat_choice *given,
                       bt_remat_choice *choice);
void bt_condensed_to(const bt_condensed *condensed, const bt_remat *remat, const bt_remat_choice *choice,
                     bt_remat_choice *given);

#endif
