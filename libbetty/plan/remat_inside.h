/* plan/remat_inside.h: the simulation that remat.c and frontier.c share. It follows a choice through a graph in flat
 * arrays and allocates nothing but room for more launches. */
#ifndef BT_REMAT_INSIDE_H
#define BT_REMAT_INSIDE_H

#include "plan/remat.h"

typedef struct bt_walk_over { /* this output may be written over that input, which a step computes */
    int32_t output, value;    /* values, both */
} bt_walk_over;

typedef struct bt_walk_limit { /* what a walk must not exceed: it stops, and says so */
    double extra;
    int64_t most;
    int64_t goal; /* bytes: see `above` */
} bt_walk_limit;

typedef struct bt_walk {
    const bt_remat *remat;
    int64_t steps, values;
    /* the graph: what a step reads is in[in_at[s]] up to in[in_at[s + 1]], and so on */
    int32_t *in_at, *in, *out_at, *out, *over_at;
    bt_walk_over *over;
    int32_t *maker;   /* by value; -1 */
    int32_t *first;   /* by value: its first gap */
    int64_t *bytes;   /* by value */
    int64_t *scratch; /* by step, aligned */
    int64_t kept;     /* bytes that are kept to the end */
    /* where the walk is */
    uint8_t *there;    /* by value */
    uint8_t *wanted;   /* by value, backwards: 1: read later; 2: kept to the end */
    uint8_t *begin;    /* `wanted` of the end */
    int32_t *gap;      /* by value: the one that it is in */
    uint64_t *marks;   /* by step, bits: it must run again */
    int64_t low, high; /* words of marks that may hold some */
    int32_t *stack, *passing;
    /* what came of it */
    int32_t *launches;                /* steps; of one that runs again, -1 - step */
    int64_t count, capacity, longest; /* longest: no more launches than so many; 0: as many as it takes */
    double extra;
    int64_t most, at;
    int64_t above; /* bytes above the goal, summed over all launches */
    int64_t *used; /* by launch: bytes; NULL: not asked for */
    bool failed;   /* out of memory */
} bt_walk;

bt_status bt_walk_new(bt_walk *walk, const bt_remat *remat, bt_region *region);
void bt_walk_free(bt_walk *walk);

/* Whether it came to the end, within the limits. */
bool bt_walk_run(bt_walk *walk, const bool *dropped, const bool *brief, const bt_walk_limit *limit);

#endif
