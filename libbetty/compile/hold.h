/* compile/hold.h: what is held between two parts of a computation, of which the second runs again and again. */
#ifndef BT_HOLD_H
#define BT_HOLD_H

#include "transform/linearize.h"

/* From the most memory to the least, and from the least work to the most. */
typedef enum bt_holding {
    BT_HOLD_ALL,      /* all that the second part reads, but what is cheap */
    BT_HOLD_PRODUCTS, /* what needs no product (BT_OP_PRODUCT) is computed again from what is held */
    BT_HOLD_FORWARD,  /* derivatives are computed again, products and all */
    BT_HOLD_CUTS,     /* so is all between two values after which a forward pass goes on with no other */
    BT_HOLD_NOTHING,  /* everything is computed again */
    BT_HOLDINGS
} bt_holding;
extern const char *const bt_holding_names[BT_HOLDINGS];

/* Of two parts as bt_linearize makes them: the same with less held between them, by the same operations on the same
 * operands. What is held is the fewest bytes that suffice; what needs at most a few KiB is held before it is computed
 * again. A variable that either part changes is read as it was. */
bt_status bt_hold(const bt_graph *once, const bt_graph *each, bt_holding holding, bt_keep_fn *keep, void *user,
                  bt_graph **held_once, bt_graph **held_each);

#endif
