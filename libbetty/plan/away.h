/* plan/away.h: which values leave a memory for a while, so that the fewest bytes are in it at the worst moment, and few
 * are copied. */
#ifndef BT_AWAY_H
#define BT_AWAY_H

#include "base/base.h"

typedef struct bt_absence { /* a value that can be away */
    size_t bytes;
    int64_t from, to; /* during these steps, both included */
    bool chosen;      /* the result: it is */
} bt_absence;

/* there[s]: bytes at step s with none away; becomes what there is with those chosen. The most of them is the least that
 * there can be; of the values that can be away at the worst of the steps, the one that is away longest goes first. */
bt_status bt_away_choose(bt_absence *absences, int64_t count, size_t *there, int64_t steps);

#endif
