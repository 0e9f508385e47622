/* plan/order.h: in which order steps run. */
#ifndef BT_ORDER_H
#define BT_ORDER_H

#include "base/base.h"

typedef struct bt_order_over { /* this output may be written over that input */
    int output;
    int64_t value;
} bt_order_over;

typedef struct bt_order_step {
    const int64_t *in, *out; /* values that it reads, each once, and that it computes */
    const bt_order_over *over;
    int64_t inputs, outputs, overs;
    size_t scratch; /* bytes that it needs while it runs */
} bt_order_step;

typedef struct bt_order_value {
    size_t bytes; /* that it takes while it is alive; 0: none that count */
    bool there;   /* before the first step */
    bool kept;    /* to the end, whoever reads it */
} bt_order_value;

typedef struct bt_order_wait { /* besides waiting for its inputs */
    int64_t step, before;      /* this step comes after that one */
} bt_order_wait;

typedef struct bt_order {
    const bt_order_step *steps; /* in the order in which they were written, which is one that is possible */
    const bt_order_value *values;
    const bt_order_wait *waits;
    int64_t step_count, value_count, wait_count;
} bt_order;

/* order[i]: the step that runs as i-th. The order as it was written, unless another one holds fewer bytes at its worst
 * moment. */
bt_status bt_order_steps(const bt_order *given, int64_t *order);

#endif
