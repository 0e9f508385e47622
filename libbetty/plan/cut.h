/* plan/cut.h: chooses which values to hold so that all wanted ones can be computed from them, in the fewest bytes. */
#ifndef BT_CUT_H
#define BT_CUT_H

#include "base/base.h"

typedef struct bt_cut_value {
    int64_t bytes; /* -1: it cannot be held */
    bool given;    /* it cannot be computed from other values: it is held if anybody needs it */
    bool wanted;   /* it must be held, or computed from held values */
    bool held;     /* the result */
} bt_cut_value;

typedef struct bt_cut_need { /* a value that is not given is computed from all that it needs, and from free values */
    int64_t value, of;
} bt_cut_need;

/* A minimum vertex cut between the given and the wanted values, by Dinic's maximum flow algorithm (1970). Of several it
 * takes the one nearest to the wanted values, so that the least is recomputed. *bytes: of the held values. A value that
 * is both given and wanted must be holdable. */
bt_status bt_cut(bt_cut_value *values, int64_t count, const bt_cut_need *needs, int64_t need_count, int64_t *bytes);

#endif
