/* transform/shard.h: the graph of one rank. A graph is traced and differentiated for the whole batch; here each of its
 * values gets one of three forms on the ranks, by what the op's record says (bt_op_info.shares): replicated, the same
 * bits on every rank; sharded, split along an axis as the rows of the batch are; or partial, a sum that has not been
 * taken over the ranks yet. If an op needs an input in another form, a collective is recorded (ops/collective.c). An
 * input without a rule is gathered: correct, slower, and reported. */
#ifndef BT_SHARD_H
#define BT_SHARD_H

#include "ops/ops.h"

typedef enum bt_lying { BT_REPLICATED, BT_SHARDED, BT_PARTIAL, BT_STRETCH } bt_lying;
/* Sharded: along `axis`, whose size is a multiple of `rows`, as a batch of `rows` is split. A stretch (stretch.c): the
 * elements, in the order of memory, are those from `from` on of a line of `of`, a multiple of `rows`, which is split as
 * a batch of `rows` is; a rank has those that lie in its part, as one axis. A variable that is partial and has `of` is
 * added into stretches where it is read, but by a program that adds to it. */
typedef struct bt_spread {
    bt_lying kind;
    int axis;
    int64_t rows, of, from;
} bt_spread;

typedef struct bt_world {
    int rank, ranks;
    /* How a root variable lies; false: nobody knows yet. */
    bool (*layout)(void *user, const bt_var *root, bt_spread *layout);
    /* The pass has chosen its form, once for all programs; every rank chooses the same. */
    bt_status (*decide)(void *user, bt_var *root, const bt_spread *layout);
    /* The rank's own variable in the place of this one, root or window, of the shape of the rank's part
     * (bt_local_shape). It may be asked for again and again; how the root lies has been decided before. NULL after an
     * error. */
    bt_var *(*local)(void *user, bt_var *var);
    size_t window; /* a stretch that was gathered is gathered again for a reader before which others of so many bytes
                    * were gathered: until then it is kept */
    void *user;
} bt_world;

typedef struct bt_sharded_report {
    int64_t reductions, gathers; /* collectives that one run meets; a reduction: an all_reduce or a reduce_scatter */
    int64_t reduced, gathered;   /* elements of the whole values that go through them */
    bool uneven;                 /* some ranks have more rows than others, and so other sizes */
    int64_t place_count;         /* of the gathers, those of a value that an op, or a variable, wants whole */
    bt_text places;              /* one a line: "classifier.pool: cumsum: all of operand 1, [4, 10]" */
} bt_sharded_report;
void bt_sharded_free(bt_sharded_report *report);

/* The shape of the rank's part of what has this shape. */
bt_array bt_local_shape(bt_array shape, const bt_spread *layout, int rank, int ranks);
/* stretch.c: the first of so many elements that is the rank's or comes after it. */
int64_t bt_stretch_first(const bt_spread *layout, int64_t count, int rank, int ranks);
bt_spread bt_spread_within(const bt_spread *root, const bt_var *var); /* how a window of a root lies */
bool bt_spread_same(const bt_spread *a, const bt_spread *b);

/* The rank's own graph, with local shapes, local variables and collectives, of a graph without composites that could be
 * taken apart (transform/inline.h). Its outputs are replicated. The form of variables that have none yet is decided: an
 * external one with a batch axis is sharded along it; one of a phase is sharded like the first value that is assigned
 * to it, if that is one piece, and partial if it is cleared at first and this graph adds summands to it; others are
 * replicated. The graph still belongs to the caller; *report is overwritten. With one rank the graph is the same except
 * for its variables. NULL after an error, which is in bt_error. */
bt_graph *bt_shard(const bt_graph *graph, const bt_world *world, bt_sharded_report *report);

#endif
