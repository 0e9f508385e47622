/* plan/remat.h: which steps run again, so that their values need not be held until their last reader.
 *
 * A value is read by several steps, one after the other. There is a gap before its first reader, between two readers,
 * and after the last. A value dropped in a gap is recomputed when somebody needs it, from what is there; anything
 * missing for that is recomputed first, and so on. Values recomputed on the way stay, as if they had been held; a brief
 * value is dropped as soon as it has been read. */
#ifndef BT_REMAT_H
#define BT_REMAT_H

#include "plan/order.h"

typedef struct bt_remat {
    const bt_order *given; /* in the order in which its steps run; its waits are ignored */
    const double *cost;    /* by step: the cost of running it again; below 0: it must not */
    /* set by bt_remat_new */
    bt_region *region;
    int64_t *gaps;    /* by value, and one more: its first gap, the one before its first reader; the value's last gap,
                         after its last reader, comes just before the next value's first */
    int64_t *readers; /* by gap: the step that ends it; -1: the end */
    int64_t *maker;   /* by value: the step that computes it; -1: it is there */
    int64_t gap_count;
    bool *fixed;  /* by value: it cannot be dropped: there before, kept to the end, or its step must not run again */
    size_t most;  /* bytes at the peak, with nothing dropped */
    size_t large; /* bytes: smaller values do not matter: each is below 1/500 of `most`, and all that are not fixed are
                     together below 1/20 */
    double total; /* cost of all steps, once */
} bt_remat;

bt_status bt_remat_new(bt_remat *remat, const bt_order *given, const double *cost);
void bt_remat_free(bt_remat *remat);

typedef struct bt_remat_choice { /* what is dropped */
    bool *dropped;               /* by gap; of a fixed value: false */
    bool *brief;                 /* by value */
} bt_remat_choice;

bt_status bt_remat_choice_new(const bt_remat *remat, bt_region *region, bt_remat_choice *choice); /* nothing */

typedef struct bt_remat_plan {
    int64_t *launches; /* steps in the order in which they run; NULL: not asked for. A step that occurs twice runs
                          again; a reader sees its latest result, or the first one if the value is kept to the end */
    int64_t count;
    size_t most;  /* bytes at the peak */
    int64_t at;   /* the launch at the peak */
    double extra; /* cost of what runs again */
} bt_remat_plan;

/* Finds the plan that follows from a choice. The launches are in the region; NULL: without them. */
bt_status bt_remat_follow(const bt_remat *remat, const bt_remat_choice *choice, bt_region *region, bt_remat_plan *plan);

/* Whether a search may drop a value. If there are values of both kinds, half the search uses only those that come
 * first: when bytes fall only if many values are dropped at once, that is found more easily among few. */
typedef enum bt_remat_may { BT_REMAT_HOLD, BT_REMAT_DROP, BT_REMAT_DROP_FIRST } bt_remat_may;

/* Choices from holding everything (or everything but what `start` drops) down to the fewest bytes found, each the
 * cheapest found for its bytes. Besides `start`, only values that `may` names (NULL: all that are not fixed) are
 * dropped. The number of simulations depends only on the arguments, not on the machine. */
typedef struct bt_frontier_point {
    size_t most;
    double extra;
    const int64_t *what; /* dropped gaps; -1 - value: a brief value */
    int64_t count;
} bt_frontier_point;

typedef struct bt_frontier {
    bt_region *region;
    const bt_frontier_point *points; /* from the most bytes and least cost to the fewest bytes and highest cost */
    int64_t count;
    int64_t simulations; /* how many it took */
} bt_frontier;

bt_status bt_frontier_new(bt_frontier *frontier, const bt_remat *remat, const bt_remat_choice *start,
                          const bt_remat_may *may, int64_t simulations);
void bt_frontier_free(bt_frontier *frontier);

/* The cheapest point with at most this many bytes; the point with the fewest bytes of at most this cost. NULL: none. */
const bt_frontier_point *bt_frontier_within(const bt_frontier *frontier, size_t bytes);
const bt_frontier_point *bt_frontier_for(const bt_frontier *frontier, double extra);
void bt_frontier_choice(const bt_frontier_point *point, const bt_remat *remat, bt_remat_choice *choice);

/* Checks that the plan does what remat.h promises: every operand is there, and `most` and `extra` are right. Shares no
 * code with the planner. Fails with a message that says what is wrong. */
bt_status bt_remat_verify(const bt_remat *remat, const bt_remat_plan *plan);

#endif
