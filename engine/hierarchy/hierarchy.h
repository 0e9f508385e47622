/* engine/hierarchy/hierarchy.h: levels as places 0 .. count - 1, and the edges between them. Nothing but numbers: names
 * are the configuration's, problems those of level/. */
#ifndef BT_HIERARCHY_H
#define BT_HIERARCHY_H

#include "base/base.h"

typedef enum bt_direction { BT_U2L, BT_L2U, BT_DIRECTIONS } bt_direction; /* upper > lower, lower > upper */

typedef struct bt_edge {
    bt_direction direction;
    int from, to;
} bt_edge;

typedef enum bt_sense { BT_ALONG, BT_AGAINST, BT_SENSES } bt_sense; /* of the edges */

typedef struct bt_places {
    const int *list;
    int count;
} bt_places;

typedef struct bt_hierarchy { /* starts as {0}: no place */
    int count;
    int *first[BT_DIRECTIONS][BT_SENSES]; /* by place: where its neighbours begin in `next`; one more, where they end */
    int *next[BT_DIRECTIONS][BT_SENSES];
    int *room;   /* work and results of the functions below, so that these cannot fail */
    bool *marks; /* likewise */
} bt_hierarchy;

/* An edge must not stand there twice. All that was allocated is freed on failure. */
bt_status bt_hierarchy_new(bt_hierarchy *hierarchy, int count, const bt_edge *edges, int64_t edge_count);
void bt_hierarchy_free(bt_hierarchy *hierarchy);

/* A parent uses the solution of its children: against BT_L2U are the children of a place, along it its parents.
 * Ascending. */
bt_places bt_hierarchy_next(const bt_hierarchy *hierarchy, bt_direction direction, bt_sense sense, int place);
bool bt_hierarchy_has(const bt_hierarchy *hierarchy, bt_direction direction, int from, int to);

/* Marks all that can be reached from `from`; that place itself only if there is a cycle. */
void bt_hierarchy_reach(const bt_hierarchy *hierarchy, bt_direction direction, bt_sense sense, int from, bool *seen);

bool bt_hierarchy_reaches(const bt_hierarchy *hierarchy, bt_direction direction, int from, int to);

/* The places of a shortest path along the edges, without `from` and with `to`, and their number; 0: there is none.
 * `way` has room for one more than there are places. */
int bt_hierarchy_way(const bt_hierarchy *hierarchy, bt_direction direction, int from, int to, int *way);

/* ---- order.c ---- */

/* Those that are `in`, one after another: a place comes when none of its neighbours still waits; among several such the
 * lowest first. If there is a cycle, fewer than are in. The list is valid until the next call for an order. */
bt_places bt_hierarchy_order(const bt_hierarchy *hierarchy, bt_direction direction, bt_sense sense, const bool *in);

/* The lower places whose adjoints an upper one needs, in the order in which they are solved: what is below it (u2l) and
 * reaches its loss (l2u), and what is below it and reaches one of these against u2l. */
bt_places bt_hierarchy_lowers(const bt_hierarchy *hierarchy, int upper);

/* Those of `in` without children, in the order of their steps: if the loss of one reads the solution of another, that
 * other one comes first. */
bt_places bt_hierarchy_leaves(const bt_hierarchy *hierarchy, const bool *in);

/* ---- check.c ---- */

bool bt_hierarchy_has_cycle(const bt_hierarchy *hierarchy, bt_direction direction);

/* A hypergradient follows an l2u edge only where the upper place also reaches the lower one, by u2l. */
bool bt_hierarchy_follows(const bt_hierarchy *hierarchy, const bt_edge *edge);

/* The edge is a link of a chain, top > bottom > mid > top: mid's loss uses the solution of bottom, and a place above
 * mid is what bottom depends on. The hypergradient of that one goes along it where it is in u2l. */
bool bt_hierarchy_links(const bt_hierarchy *hierarchy, const bt_edge *edge);

#endif
