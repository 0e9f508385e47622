/* plan/remat_inside.h: the simulation that remat.c and frontier.c share. It follows a choice through a graph in flat
 * arrays and allocates nothing but room for more launches. */
#ifndef BT_REMAT_INSIDE_H
#define BT_REMAT_INSIDE_H

#include "plan/remat.h"

typedef struct bt_walk_over { /* this output may overwrite that input, which a step computes */
    int32_t output, value;    /* values, both */
} bt_walk_over;

typedef struct bt_walk_limit { /* a walk that exceeds these stops and says so */
    double extra;
    int64_t most;
    int64_t goal; /* bytes: see `above` */
} bt_walk_limit;

typedef struct bt_walk {
    const bt_remat *remat;
    int64_t steps, values;
    /* the graph: step s reads in[in_at[s]] up to in[in_at[s + 1]], exclusive; and so on */
    int32_t *in_at, *in, *out_at, *out, *over_at;
    bt_walk_over *over;
    int32_t *maker;   /* by value: its step; -1: none */
    int32_t *first;   /* by value: its first gap */
    int64_t *bytes;   /* by value */
    int64_t *scratch; /* by step, aligned */
    int64_t kept;     /* bytes that are kept to the end */
    /* where the walk is */
    uint8_t *there;    /* by value */
    uint8_t *wanted;   /* by value, backwards: 1: read later; 2: kept to the end */
    uint8_t *begin;    /* by value: `wanted` at the end */
    int32_t *gap;      /* by value: the gap that it is in */
    uint64_t *marks;   /* by step, bits: it must run again */
    int64_t low, high; /* words of marks that may hold some */
    int32_t *stack, *passing;
    /* the result */
    int32_t *launches;                /* steps; of one that runs again, -1 - step */
    int64_t count, capacity, longest; /* longest: at most this many launches; 0: no limit */
    double extra;
    int64_t most, at;
    int64_t above; /* bytes above the goal, summed over all launches */
    int64_t *used; /* by launch: bytes; NULL: not asked for */
    bool failed;   /* out of memory */
} bt_walk;

bt_status bt_walk_new(bt_walk *walk, const bt_remat *remat, bt_region *region);
void bt_walk_free(bt_walk *walk);

/* Whether it reached the end within the limits. */
bool bt_walk_run(bt_walk *walk, const bool *dropped, const bool *brief, const bt_walk_limit *limit);

#endif
