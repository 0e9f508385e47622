/* plan/remat.h: which steps run again, so that their values need not be held until they are read for the last time.
 *
 * A value is read by steps, one after the other. Before its first reader, between two of them and after the last there
 * is a gap. A value that is dropped in a gap is recomputed where somebody needs it, from what is there; what is not
 * there is recomputed before it, and so on. Values made on the way are left there, as if they had been held, or, if a
 * value is brief, dropped as soon as it has been read. */
#ifndef BT_REMAT_H
#define BT_REMAT_H

#include "plan/order.h"

typedef struct bt_remat {
    const bt_order *given; /* in the order in which its steps run; its waits are not looked at */
    const double *cost;    /* by step: of running it once more; below 0: it must not run again */
    /* made by bt_remat_new */
    bt_region *region;
    int64_t *gaps;    /* by value, and one more: its first gap, the one before its first reader; the next value's comes
                         behind the gap that follows its last reader */
    int64_t *readers; /* by gap: the step that ends it; -1: the end */
    int64_t *maker;   /* by value: the step that computes it; -1: it is there */
    int64_t gap_count;
    bool *fixed;  /* by value: it cannot be dropped: it was there before, is kept to the end, or its step must not run
                     again */
    size_t most;  /* at the peak, with nothing dropped */
    size_t large; /* bytes: values of fewer do not matter: each is below one 500th of that, and all that are not fixed
                     are together below a twentieth */
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
    int64_t *launches; /* steps in the order in which they run; NULL: not asked for. One that comes again runs again;
                          who reads a value reads what its step made last, but of a value that is kept to the end what
                          it made first */
    int64_t count;
    size_t most;  /* bytes at the worst moment */
    int64_t at;   /* the launch that runs then */
    double extra; /* cost of what runs again */
} bt_remat_plan;

/* What follows from a choice. The launches are in the region; NULL: without them. */
bt_status bt_remat_follow(const bt_remat *remat, const bt_remat_choice *choice, bt_region *region, bt_remat_plan *plan);

/* Whether a search may drop a value. Half of a search with values of both kinds uses only those that come first: if
 * bytes fall only when many values are dropped at once, these are found among few. */
typedef enum bt_remat_may { BT_REMAT_HOLD, BT_REMAT_DROP, BT_REMAT_DROP_FIRST } bt_remat_may;

/* Choices from holding everything (or from what `start` drops) down to the fewest bytes that are found, each the
 * cheapest that is found for its bytes. Beyond that only values that `may` names (NULL: all that are not fixed) are
 * dropped. It takes the same number of simulations on every machine: a function of its arguments. */
typedef struct bt_frontier_point {
    size_t most;
    double extra;
    const int64_t *what; /* gaps that are dropped; -1 - value: it is brief */
    int64_t count;
} bt_frontier_point;

typedef struct bt_frontier {
    bt_region *region;
    const bt_frontier_point *points; /* the most bytes and least cost first; both change from one to the next */
    int64_t count;
    int64_t simulations; /* that it took */
} bt_frontier;

bt_status bt_frontier_new(bt_frontier *frontier, const bt_remat *remat, const bt_remat_choice *start,
                          const bt_remat_may *may, int64_t simulations);
void bt_frontier_free(bt_frontier *frontier);

/* The cheapest that needs no more than so many bytes, or NULL; the one with fewest bytes that costs no more than so
 * much. */
const bt_frontier_point *bt_frontier_within(const bt_frontier *frontier, size_t bytes);
const bt_frontier_point *bt_frontier_for(const bt_frontier *frontier, double extra);
void bt_frontier_choice(const bt_frontier_point *point, const bt_remat *remat, bt_remat_choice *choice);

/* Whether the plan does what remat.h promises: every operand is there, `most` is the most, `extra` the cost. Shares
 * nothing with the code that makes plans. Fails with what is wrong. */
bt_status bt_remat_verify(const bt_remat *remat, const bt_remat_plan *plan);

#endif
