/* transform/shard.h: the graph of one rank. A graph is traced and differentiated for the whole batch; here each value
 * gets one of three forms on the ranks, according to the op's record (bt_op_info.shares). Replicated: the same bits on
 * every rank. Sharded: split along an axis like the rows of the batch. Partial: a sum not yet taken over the ranks. If
 * an op needs an input in another form, a collective is recorded (ops/collective.c). An input without a rule is
 * gathered: correct, slower, and reported. */
#ifndef BT_SHARD_H
#define BT_SHARD_H

#include "ops/ops.h"

typedef enum bt_lying { BT_REPLICATED, BT_SHARDED, BT_PARTIAL, BT_STRETCH } bt_lying;
/* Sharded: split along `axis`, whose size is a multiple of `rows`, as a batch of `rows` is split. Stretch (stretch.c):
 * the elements, in memory order, are those from `from` on of a line of `of` elements, a multiple of `rows`, which is
 * split as a batch of `rows` is; a rank has the elements that lie in its part, as one axis. A partial variable with
 * `of` is added up into stretches where it is read, except by a program that adds to it. */
typedef struct bt_spread {
    bt_lying kind;
    int axis;
    int64_t rows, of, from;
} bt_spread;

typedef struct bt_world {
    int rank, ranks;
    /* The layout of a root variable; false: not decided yet. */
    bool (*layout)(void *user, const bt_var *root, bt_spread *layout);
    /* The pass has decided its layout, once for all programs; every rank decides alike. */
    bt_status (*decide)(void *user, bt_var *root, const bt_spread *layout);
    /* The rank's own counterpart of this variable, root or window, in the shape of the rank's part (bt_local_shape).
     * May be called repeatedly; the root's layout has been decided before. NULL after an error. */
    bt_var *(*local)(void *user, bt_var *var);
    size_t window; /* a gathered stretch is kept until this many bytes of others have been gathered; for a later reader
                      it is gathered again */
    void *user;
} bt_world;

typedef struct bt_sharded_report {
    int64_t reductions, gathers; /* collectives in one run; a reduction: an all_reduce or a reduce_scatter */
    int64_t reduced, gathered;   /* elements of the whole values that they handle */
    bool uneven;                 /* some ranks have more rows than others, hence other sizes */
    int64_t place_count;         /* gathers because an op or a variable needs the whole value */
    bt_text places;              /* one per line: "classifier.pool: cumsum: all of operand 1, [4, 10]" */
} bt_sharded_report;
void bt_sharded_free(bt_sharded_report *report);

/* The shape of the rank's part of a value of this shape. */
bt_array bt_local_shape(bt_array shape, const bt_spread *layout, int rank, int ranks);
/* stretch.c: the first of `count` elements that belongs to this rank or a later one. */
int64_t bt_stretch_first(const bt_spread *layout, int64_t count, int rank, int ranks);
bt_spread bt_spread_within(const bt_spread *root, const bt_var *var); /* the layout of a window of a root */
bool bt_spread_same(const bt_spread *a, const bt_spread *b);

/* The rank's own graph, with local shapes, local variables and collectives. The graph must be inlined
 * (transform/inline.h). Its outputs are replicated. The layout of variables without one is decided: an external one
 * with a batch axis is sharded along it; one of a phase is sharded like the first value assigned to it, if that is
 * sharded and fills it, or partial if it is cleared first and this graph adds summands to it; others are replicated.
 * The graph still belongs to the caller; *report is overwritten. With one rank the graph is the same except for its
 * variables. NULL after an error, which is in bt_error. */
bt_graph *bt_shard(const bt_graph *graph, const bt_world *world, bt_sharded_report *report);

#endif
