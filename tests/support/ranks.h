/* tests/support/ranks.h: a graph on several ranks, computed by plain loops, in lockstep: each rank's own graph up to
 * its next collective, that one for all, and so on. Whatever goes wrong fails the test. */
#ifndef TESTS_RANKS_H
#define TESTS_RANKS_H

#include "graph/variable.h"
#include "ops/interpret.h"
#include "transform/shard.h"

enum { RANKS_MOST = 8, RANKS_VARS = 96 };

typedef struct rank_var { /* a root variable of the whole graph, and each rank's */
    bt_var *whole, *own[RANKS_MOST];
    bt_spread spread;
    bool known;
} rank_var;

typedef struct rank_user { /* of a rank's world */
    struct ranks *ranks;
    int rank;
} rank_user;

typedef struct ranks {
    const bt_graph *whole;
    int count;
    size_t window; /* bt_world.window */
    size_t bucket; /* for bt_bucket; 0: nothing is joined */
    bt_graph *graphs[RANKS_MOST];
    interpreter *values[RANKS_MOST];
    bt_sharded_report reports[RANKS_MOST];
    rank_var vars[RANKS_VARS];
    int var_count;
    bt_var *windows[RANKS_VARS * RANKS_MOST], *of[RANKS_VARS * RANKS_MOST]; /* of: the whole graph's */
    int window_count;
    rank_user users[RANKS_MOST];
    double *out; /* what was asked for last */
} ranks;

void ranks_begin(ranks *r, const bt_graph *whole, int count);
/* Before ranks_shard: how the variable lies. Of a partial one the ranks have summands that add up exactly. */
void ranks_spread(ranks *r, bt_var *root, bt_spread spread);
bt_world ranks_world(ranks *r, int rank);
void ranks_shard(ranks *r); /* each rank's own graph; they come to the same reports */
void ranks_run(ranks *r);
void ranks_free(ranks *r);
bt_spread ranks_found(const ranks *r, const bt_var *root); /* how it lies, as was decided */

/* Values of the whole graph, put together from those of the ranks; valid until the next call. Replicated ones have the
 * same bits on all ranks. */
const double *ranks_assigned(ranks *r, int64_t assign);
const double *ranks_output(ranks *r, int64_t output);

/* All of them are those of the whole graph, as computed by plain loops from its variables: to `tolerance` of the
 * largest element; 0: bit for bit. */
void ranks_expect_whole(ranks *r, double tolerance, const char *name);

#endif
