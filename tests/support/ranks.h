/* tests/support/ranks.h: runs a graph on several ranks with plain loops, in lockstep: each rank's graph up to its next
 * collective, then the collective for all ranks, and so on. Any failure fails the test. */
#ifndef TESTS_RANKS_H
#define TESTS_RANKS_H

#include "graph/variable.h"
#include "ops/interpret.h"
#include "transform/shard.h"

enum { RANKS_MOST = 8, RANKS_VARS = 96 };

typedef struct rank_var { /* a root variable of the whole graph, and the one of each rank */
    bt_var *whole, *own[RANKS_MOST];
    bt_spread spread;
    bool known;
} rank_var;

typedef struct rank_user { /* the user pointer of a rank's bt_world */
    struct ranks *ranks;
    int rank;
} rank_user;

typedef struct ranks {
    const bt_graph *whole;
    int count;
    size_t window; /* bt_world.window */
    size_t bucket; /* for bt_bucket; 0: no bucketing */
    bt_graph *graphs[RANKS_MOST];
    interpreter *values[RANKS_MOST];
    bt_sharded_report reports[RANKS_MOST];
    rank_var vars[RANKS_VARS];
    int var_count;
    bt_var *windows[RANKS_VARS * RANKS_MOST], *of[RANKS_VARS * RANKS_MOST]; /* of: the variables of the whole graph */
    int window_count;
    rank_user users[RANKS_MOST];
    double *out; /* the last result returned */
} ranks;

void ranks_begin(ranks *r, const bt_graph *whole, int count);
/* Sets how the variable is laid out; call it before ranks_shard. The ranks' summands of a partial one add up
 * exactly. */
void ranks_spread(ranks *r, bt_var *root, bt_spread spread);
bt_world ranks_world(ranks *r, int rank);
void ranks_shard(ranks *r); /* shards the graph for each rank; all reports must agree */
void ranks_run(ranks *r);
void ranks_free(ranks *r);
bt_spread ranks_found(const ranks *r, const bt_var *root); /* the layout that was decided on */

/* Values of the whole graph, assembled from those of the ranks; valid until the next call. Replicated values must have
 * the same bits on all ranks. */
const double *ranks_assigned(ranks *r, int64_t assign);
const double *ranks_output(ranks *r, int64_t output);

/* Compares all of them with the whole graph, as computed by plain loops from its variables: to `tolerance` times the
 * largest element; 0: bit for bit. */
void ranks_expect_whole(ranks *r, double tolerance, const char *name);

#endif
