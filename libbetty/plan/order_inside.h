/* plan/order_inside.h: what the rules of order.c and backwards.c share. */
#ifndef BT_ORDER_INSIDE_H
#define BT_ORDER_INSIDE_H

#include "plan/order.h"
#include "plan/ready.h"

typedef struct bt_order_edge {
    int64_t before, after;           /* steps */
    int64_t next_after, next_before; /* the next edge of the same step before, and of the same step after; -1: none */
} bt_order_edge;

typedef struct bt_ordering {
    const bt_order *given;
    bt_region *region;
    int64_t *reads;   /* by value: steps that read it; -1: kept to the end */
    int64_t *left;    /* by value: readers still to come */
    int64_t *who;     /* the sum of their step numbers: with one left, its number */
    int64_t *maker;   /* by value: the step that computes it; -1: none */
    int64_t *afters;  /* by step: its first edge to a step that waits for it; -1: none */
    int64_t *befores; /* by step: its first edge to a step that it waits for; -1: none */
    int64_t *waits;   /* by step: how many it still has to wait for */
    int64_t *with;    /* by step: the step just before which it runs; -1: none */
    bt_order_edge *edges;
    int64_t edge_count, edge_capacity;
    bt_ready ready;
} bt_ordering;

/* Chooses from the last step to the first, each time the one that leaves the least alive before it. */
bt_status bt_order_backwards(bt_ordering *o, int64_t *order);

#endif
