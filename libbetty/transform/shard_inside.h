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
    size_t stamp; /* of a stretch: what had been gathered when it was made whole */
    bool only; /* of a stretch: it stays one with such alone: it is a parameter that a network reads, or made of such */
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
    int depth;       /* of bt_lay_part within itself */
    bool uneven;     /* bt_sharded_report */
    size_t gathered; /* bytes of stretches that were made whole */
} bt_sharding;

/* What the rank needs of x for it to lie so; recorded as what computes x was. NULL or poison: the graph has failed. */
bt_tensor *bt_lay_whole(bt_sharding *s, const bt_tensor *x);
bt_tensor *bt_lay_part(bt_sharding *s, const bt_tensor *x, int axis, int64_t rows);
bt_tensor *bt_lay_as(bt_sharding *s, const bt_tensor *x, const bt_spread *layout);

/* Whether a part of what the node gives, whose inputs are all replicated, may be computed by itself. */
bool bt_lay_computes(const bt_sharding *s, const bt_node *node);
/* The node, its attributes made those of the part; NULL: the graph has failed. */
bt_node *bt_lay_record(bt_sharding *s, const bt_node *node, bt_tensor *const *in, const bt_spread *layout);
/* The node on these inputs, whose outputs lie so. False: the graph has failed. */
bool bt_lay_node(bt_sharding *s, const bt_node *node, bt_tensor *const *in, const bt_spread *outputs);
/* An output of the whole graph lies so, as this; checked. */
bool bt_lay_output(bt_sharding *s, const bt_tensor *x, const bt_spread *layout, bt_tensor *own);

/* ---- stretch.c ---- */

bt_tensor *bt_lay_stretch(bt_sharding *s, const bt_tensor *x, const bt_spread *layout);
bt_tensor *bt_stretch_in_shape(bt_tensor *line, const bt_tensor *x); /* all elements, in the shape of x */
bt_tensor *bt_stretch_whole(bt_sharding *s, const bt_tensor *x);     /* of one that lies as a stretch: gathered */
bt_tensor *bt_stretch_scatter(bt_sharding *s, bt_tensor *summand, const bt_spread *layout); /* the rank's, of the sum */
/* A node with such an input, computed on stretches. False: it is not. */
bool bt_stretch_visit(bt_sharding *s, const bt_node *node);

#endif
