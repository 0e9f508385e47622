/* plan/away.h: which values leave a memory for a while, so that its peak is as low as possible and few values are
 * copied. */
#ifndef BT_AWAY_H
#define BT_AWAY_H

#include "base/base.h"

typedef struct bt_absence { /* a value that can be away */
    size_t bytes;
    int64_t from, to; /* during these steps, both included */
    bool chosen;      /* the result: it is away */
} bt_absence;

/* there[s]: bytes at step s with no value away; on return, with the chosen ones away. Their peak is as low as it can
 * be. At the worst step, the value that is away longest goes first. */
bt_status bt_away_choose(bt_absence *absences, int64_t count, size_t *there, int64_t steps);

#endif
