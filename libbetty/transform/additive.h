/* transform/additive.h: whether a loss is a mean over the examples of its batch.
 *
 * Only such a loss is, over micro-batches, what it is over the large batch: then it is the mean of theirs, each
 * weighted by its number of examples, or by what else it is a mean of. */
#ifndef BT_ADDITIVE_H
#define BT_ADDITIVE_H

#include "graph/graph.h"

typedef enum bt_split {
    BT_SPLITS,    /* it is a mean over the examples, or does not depend on them */
    BT_SPLIT_SUM, /* it is their sum: a micro-batch weighs as much as the large batch */
    BT_SPLIT_NOT  /* it depends on something taken over the batch as a whole */
} bt_split;

/* Of a loss in a graph whose leaves say which axis counts the examples, `examples` of them. `found` is called for the
 * first node of each place at which the loss ceases to be a mean: the sum, or what mixes the examples. count: the loss
 * is a mean over so many things of the batch, by which micro-batches are weighted: it is as good as a constant, and
 * sums divided by it are means; NULL: the examples are what counts. */
typedef void bt_split_fn(void *user, const bt_node *node);
bt_status bt_split_of(bt_graph *graph, bt_tensor *loss, bt_tensor *count, int64_t examples, bt_split_fn *found,
                      void *user, bt_split *split);

#endif
