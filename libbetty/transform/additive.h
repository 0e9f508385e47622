/* transform/additive.h: whether a loss is a mean over the examples of its batch.
 *
 * Only such a loss can be computed over micro-batches: it is the mean of theirs, each weighted by its number of
 * examples, or by whatever else the loss is a mean over. */
#ifndef BT_ADDITIVE_H
#define BT_ADDITIVE_H

#include "graph/graph.h"

typedef enum bt_split {
    BT_SPLITS,    /* it is a mean over the examples, or does not depend on them */
    BT_SPLIT_SUM, /* it is a sum over them: its size depends on the size of the batch */
    BT_SPLIT_NOT  /* it depends on something computed over the whole batch */
} bt_split;

/* Classifies a loss in a graph whose leaves say which axis counts the `examples` examples. `found` is called for the
 * first node of each place where the loss ceases to be a mean: the sum, or the node that mixes examples. count: the
 * loss is a mean over this many things of the batch, by which micro-batches are weighted; it counts as a constant, and
 * a sum divided by it as a mean. NULL: the mean is over the examples. */
typedef void bt_split_fn(void *user, const bt_node *node);
bt_status bt_split_of(bt_graph *graph, bt_tensor *loss, bt_tensor *count, int64_t examples, bt_split_fn *found,
                      void *user, bt_split *split);

#endif
