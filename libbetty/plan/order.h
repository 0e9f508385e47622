/* plan/order.h: the order in which steps run. */
#ifndef BT_ORDER_H
#define BT_ORDER_H

#include "base/base.h"

typedef struct bt_order_over { /* this output may overwrite that input */
    int output;
    int64_t value;
} bt_order_over;

typedef struct bt_order_step {
    const int64_t *in, *out; /* values that it reads, each listed once, and values that it computes */
    const bt_order_over *over;
    int64_t inputs, outputs, overs;
    size_t scratch; /* bytes that it needs while it runs */
} bt_order_step;

typedef struct bt_order_value {
    size_t bytes; /* bytes that it takes while alive; 0: they do not count */
    size_t place; /* bytes of the value in whose place it is computed */
    bool there;   /* before the first step */
    bool kept;    /* kept to the end, whoever reads it */
} bt_order_value;

typedef struct bt_order_wait { /* besides the waits for inputs */
    int64_t step, before;      /* this step comes after that one */
} bt_order_wait;

typedef struct bt_order {
    const bt_order_step *steps; /* in the order in which they were written, which is a valid one */
    const bt_order_value *values;
    const bt_order_wait *waits;
    int64_t step_count, value_count, wait_count;
} bt_order;

/* The orders that are tried. All but the first choose one step after the other, each time the one that adds the least
 * to what is alive; they differ in the choice among equals. In all but the first and the last, a step that could run at
 * any time, because it reads nothing computed, runs just before the only reader of its result. */
#define BT_ORDER_LIST(X)                                                                                               \
    X(BT_ORDER_WRITTEN, "as traced")                                                                                   \
    X(BT_ORDER_EARLIEST, "least first, the earliest of equals")                                                        \
    X(BT_ORDER_LONGEST, "least first, of equals who waits longest")                                                    \
    X(BT_ORDER_LATEST, "least first, the latest of equals")                                                            \
    X(BT_ORDER_BACKWARDS, "from the end, least before")
typedef enum bt_order_rule {
#define BT_ORDER_ITEM(name, text) name,
    BT_ORDER_LIST(BT_ORDER_ITEM)
#undef BT_ORDER_ITEM
        BT_ORDERS
} bt_order_rule;
const char *bt_order_name(bt_order_rule rule);

typedef struct bt_order_choice {
    bt_order_rule rule;
    size_t most; /* bytes at the peak of its order */
} bt_order_choice;

/* order[i]: the i-th step to run, by the rule whose order has the lowest peak; of equals, the first in the list. */
bt_status bt_order_steps(const bt_order *given, int64_t *order, bt_order_choice *choice);

/* The order by one rule, and the bytes at its peak. */
bt_status bt_order_by(const bt_order *given, bt_order_rule rule, int64_t *order, size_t *most);

#endif
