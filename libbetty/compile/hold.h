/* compile/hold.h: what is held between two parts of a computation, the second of which runs repeatedly. */
#ifndef BT_HOLD_H
#define BT_HOLD_H

#include "transform/linearize.h"

/* From the most memory to the least, and from the least work to the most. */
typedef enum bt_holding {
    BT_HOLD_ALL,      /* everything that the second part reads, except cheap values */
    BT_HOLD_PRODUCTS, /* values that need no product (BT_OP_PRODUCT) are recomputed */
    BT_HOLD_FORWARD,  /* derivatives are recomputed, products and all */
    BT_HOLD_CUTS,     /* so is everything between cuts, which are values that a forward pass continues from alone */
    BT_HOLD_NOTHING,  /* everything is computed again */
    BT_HOLDINGS
} bt_holding;
extern const char *const bt_holding_names[BT_HOLDINGS];

typedef struct bt_parts { /* as bt_linearize makes them */
    bt_graph *once, *each;
    bt_var *const *kept; /* the variables in which the first part keeps values */
    int64_t kept_count;
} bt_parts;

/* Makes the same parts with less held between them, by the same operations on the same operands. Holds the fewest bytes
 * that suffice; a value of a few KiB is held rather than recomputed. A variable that either part changes is read as it
 * was. Both graphs are NULL after an error. */
bt_status bt_hold(const bt_parts *parts, bt_holding holding, bt_keep_fn *keep, void *user, bt_graph **once,
                  bt_graph **each);

#endif
