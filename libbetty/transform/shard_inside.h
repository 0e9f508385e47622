/* transform/shard_inside.h: shared by shard.c, lay.c and stretch.c: the values of the whole graph as they lie on this
 * rank. */
#ifndef BT_SHARD_INSIDE_H
#define BT_SHARD_INSIDE_H

#include "transform/rewrite.h"
#include "transform/shard.h"

typedef struct bt_lain { /* one value; each form of it is made once */
    bt_spread layout;    /* its layout as it was computed */
    bt_tensor *own;      /* the rank's share of it, in that layout */
    bt_tensor *whole;    /* replicated; NULL: not made */
    bt_tensor *part;     /* sharded as `as` says; NULL: not made */
    bt_spread as;
    size_t stamp; /* of a stretch: `gathered` when it was made whole */
    bool only; /* of a stretch: it is a parameter that a network reads, or computed from such alone; with other values
                  it is made whole */
} bt_lain;

typedef struct bt_sharding {
    bt_rewrite rewrite;
    const bt_world *world;
    bt_lain *values; /* by tensor id of the whole graph */
    int64_t *uses;   /* by tensor id: how often it is read */
    bt_text *places;
    int64_t place_count;
    const bt_node *reader; /* the node that needs values now; NULL: a variable or an output, `wanted_by` */
    const char *wanted_by;
    int depth;       /* recursion of bt_lay_part */
    bool uneven;     /* bt_sharded_report */
    size_t gathered; /* bytes of stretches that were made whole */
} bt_sharding;

/* The rank's share of x in this layout; recorded with the tag of x's node. NULL or poison: the graph has failed. */
bt_tensor *bt_lay_whole(bt_sharding *s, const bt_tensor *x);
bt_tensor *bt_lay_part(bt_sharding *s, const bt_tensor *x, int axis, int64_t rows);
bt_tensor *bt_lay_as(bt_sharding *s, const bt_tensor *x, const bt_spread *layout);

/* Whether all inputs of the node are replicated and part of its output may be computed on its own. */
bool bt_lay_computes(const bt_sharding *s, const bt_node *node);
/* Records the node with its attributes adapted to the part; NULL: the graph has failed. */
bt_node *bt_lay_record(bt_sharding *s, const bt_node *node, bt_tensor *const *in, const bt_spread *layout);
/* Records the node on these inputs, with these layouts of its outputs. False: the graph has failed. */
bool bt_lay_node(bt_sharding *s, const bt_node *node, bt_tensor *const *in, const bt_spread *outputs);
/* Notes that `own` is the rank's share of x in this layout, after checking its shape. */
bool bt_lay_output(bt_sharding *s, const bt_tensor *x, const bt_spread *layout, bt_tensor *own);

/* ---- stretch.c ---- */

bt_tensor *bt_lay_stretch(bt_sharding *s, const bt_tensor *x, const bt_spread *layout);
bt_tensor *bt_stretch_in_shape(bt_tensor *line, const bt_tensor *x); /* all elements, in the shape of x */
bt_tensor *bt_stretch_whole(bt_sharding *s, const bt_tensor *x);     /* gathers a value that lies as a stretch */
bt_tensor *bt_stretch_scatter(bt_sharding *s, bt_tensor *summand, const bt_spread *layout); /* its own, of the sum */
/* Computes a node with such an input on stretches. False: it cannot be. */
bool bt_stretch_visit(bt_sharding *s, const bt_node *node);

#endif
