/* plan/condense.h: a graph without the values too small to matter in a search of what runs again. */
#ifndef BT_CONDENSE_H
#define BT_CONDENSE_H

#include "plan/remat_inside.h"

typedef struct bt_condensed {
    bt_order order;
    double *cost;
    int64_t *value; /* by value of `order`: the given value that it is */
    bt_remat remat; /* of `order` */
} bt_condensed;

/* Keeps only the values that stay and the steps that read or make them. The other values are held as long as with
 * nothing dropped: their bytes are added to the steps' scratch. Memory is the region's, except what bt_remat_free
 * frees. */
bt_status bt_condense(bt_condensed *condensed, const bt_remat *remat, const bool *stays, bt_region *region);

/* Translates a choice of one graph into one of the other. */
void bt_condensed_from(const bt_condensed *condensed, const bt_remat *remat, const bt_remat_choice *given,
                       bt_remat_choice *choice);
void bt_condensed_to(const bt_condensed *condensed, const bt_remat *remat, const bt_remat_choice *choice,
                     bt_remat_choice *given);

#endif
