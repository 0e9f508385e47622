/* transform/shard_inside.h: what shard.c and lay.c share: the values of the whole graph as they lie on this rank. */
#ifndef BT_SHARD_INSIDE_H
#define BT_SHARD_INSIDE_H

#include "transform/rewrite.h"
#include "transform/shard.h"

typedef struct bt_lain { /* one value; what has been made of it is made once */
    bt_spread layout;    /* as it came out */
    bt_tensor *own;      /* and what the rank has of it */
    bt_tensor *whole;    /* replicated; NULL: not made */
    bt_tensor *part;     /* sharded as `as` says; NULL: not made */
    bt_spread as;
} bt_lain;

typedef struct bt_sharding {
    bt_rewrite rewrite;
    const bt_world *world;
    bt_lain *values; /* by tensor id of the whole graph */
    int64_t *uses;   /* likewise: how often it is read */
    bt_text *places;
    int64_t place_count;
    const bt_node *reader; /* for whom values are made; NULL: a variable or an output, `wanted_by` */
    const char *wanted_by;
    int depth; /* of bt_lay_part within itself */
} bt_sharding;

/* What the rank needs of x for it to lie so; recorded as what computes x was. NULL or poison: the graph has failed. */
bt_tensor *bt_lay_whole(bt_sharding *s, const bt_tensor *x);
bt_tensor *bt_lay_part(bt_sharding *s, const bt_tensor *x, int axis, int64_t rows);
bt_tensor *bt_lay_as(bt_sharding *s, const bt_tensor *x, const bt_spread *layout);

/* The node on these inputs, whose outputs lie so. False: the graph has failed. */
bool bt_lay_node(bt_sharding *s, const bt_node *node, bt_tensor *const *in, const bt_spread *outputs);
/* An output of the whole graph lies so, as this; checked. */
bool bt_lay_output(bt_sharding *s, const bt_tensor *x, const bt_spread *layout, bt_tensor *own);

#endif
