/* plan/cut.h: what to hold of many values, so that all that is wanted can be made of it: the fewest bytes. */
#ifndef BT_CUT_H
#define BT_CUT_H

#include "base/base.h"

typedef struct bt_cut_value {
    int64_t bytes; /* -1: it cannot be held */
    bool given;    /* it cannot be made of other values: it is held wherever somebody needs it */
    bool wanted;   /* it must be held, or made of what is */
    bool held;     /* the result */
} bt_cut_value;

typedef struct bt_cut_need { /* a value that is not given is made of all that it needs, and of what costs nothing */
    int64_t value, of;
} bt_cut_need;

/* A least vertex cut between what is given and what is wanted: the maximum flow by Dinic's algorithm (1970). Of several
 * the one nearest to what is wanted, so that least is made again. *bytes: of what is held. A value that is both given
 * and wanted must be one that can be held. */
bt_status bt_cut(bt_cut_value *values, int64_t count, const bt_cut_need *needs, int64_t need_count, int64_t *bytes);

#endif
