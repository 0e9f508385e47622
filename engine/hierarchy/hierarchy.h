/* engine/hierarchy/hierarchy.h: levels as places 0 .. count - 1, and the edges between them. Only numbers: the
 * configuration has the names, level/ the problems. */
#ifndef BT_HIERARCHY_H
#define BT_HIERARCHY_H

#include "base/base.h"

typedef enum bt_direction { BT_U2L, BT_L2U, BT_DIRECTIONS } bt_direction; /* upper > lower, lower > upper */

typedef struct bt_edge {
    bt_direction direction;
    int from, to;
} bt_edge;

typedef enum bt_sense { BT_ALONG, BT_AGAINST, BT_SENSES } bt_sense; /* with the edges, or against them */

typedef struct bt_places {
    const int *list;
    int count;
} bt_places;

typedef struct bt_hierarchy { /* starts as {0}: no place */
    int count;
    int *first[BT_DIRECTIONS][BT_SENSES]; /* by place: where its neighbours begin in `next`; and, at the end, where the
                                             last ones end */
    int *next[BT_DIRECTIONS][BT_SENSES];
    int *room;   /* workspace and results of the functions below, so that they cannot fail */
    bool *marks; /* likewise */
} bt_hierarchy;

/* No edge may occur twice. On failure everything allocated is freed. */
bt_status bt_hierarchy_new(bt_hierarchy *hierarchy, int count, const bt_edge *edges, int64_t edge_count);
void bt_hierarchy_free(bt_hierarchy *hierarchy);

/* The neighbours of a place, ascending. A parent uses the solutions of its children: BT_L2U leads along to the
 * parents of a place, against to its children. */
bt_places bt_hierarchy_next(const bt_hierarchy *hierarchy, bt_direction direction, bt_sense sense, int place);
bool bt_hierarchy_has(const bt_hierarchy *hierarchy, bt_direction direction, int from, int to);

/* Marks every place that can be reached from `from`; that place itself only if it is on a cycle. */
void bt_hierarchy_reach(const bt_hierarchy *hierarchy, bt_direction direction, bt_sense sense, int from, bool *seen);

bool bt_hierarchy_reaches(const bt_hierarchy *hierarchy, bt_direction direction, int from, int to);

/* A shortest path along the edges: `way` gets its places, without `from` and with `to`. Returns their number; 0:
 * there is no path. `way` has room for one more than there are places. */
int bt_hierarchy_way(const bt_hierarchy *hierarchy, bt_direction direction, int from, int to, int *way);

/* ---- order.c ---- */

/* The places in `in`, in topological order: each comes after all its neighbours; among several candidates, the
 * lowest first. Shorter than `in` if there is a cycle. The list is valid until the next call for an order. */
bt_places bt_hierarchy_order(const bt_hierarchy *hierarchy, bt_direction direction, bt_sense sense, const bool *in);

/* The lower places whose adjoints an upper one needs, in the order in which they are solved: the places below it
 * (u2l) that reach its loss (l2u), and those below it that are reached from one of these against u2l. */
bt_places bt_hierarchy_lowers(const bt_hierarchy *hierarchy, int upper);

/* The places in `in` without children, in the order in which they step: if the loss of one reads the solution of
 * another, the other comes first. */
bt_places bt_hierarchy_leaves(const bt_hierarchy *hierarchy, const bool *in);

/* ---- check.c ---- */

bool bt_hierarchy_has_cycle(const bt_hierarchy *hierarchy, bt_direction direction);

/* A hypergradient follows an l2u edge only if the upper place also reaches the lower one by u2l. */
bool bt_hierarchy_follows(const bt_hierarchy *hierarchy, const bt_edge *edge);

/* Whether the edge is a link of a chain, top > bottom > mid > top: mid's loss uses the solution of bottom, and
 * bottom depends on a place above mid. The hypergradient of that place follows the edge if it is in u2l. */
bool bt_hierarchy_links(const bt_hierarchy *hierarchy, const bt_edge *edge);

#endif
