/* runtime/settle.h: where variables lie that a device works on. A variable is near when it is made, so that filling it
 * needs no knowledge of a device. When the first program on a device reads or writes it, it moves there for good. */
#ifndef BT_SETTLE_H
#define BT_SETTLE_H

#include "graph/variable.h"
#include "runtime/queue.h"

/* Moves a root variable of the run to the device. Does nothing if it lies on one already, or queue is NULL. */
bt_status bt_var_settle(bt_var *var, bt_queue *queue);

/* Whether this is a variable from outside with near data; rows of a trajectory lie where the trajectory does. */
static inline bool bt_var_lands(const bt_var *var)
{
    return var->lifetime == BT_EXTERNAL && var->category != BT_TRAJECTORY;
}

bt_status bt_var_place(bt_var *var, bt_queue *queue); /* allocates its place there, before it is first sent */

/* A variable from outside: *data is the copy, on the queue's device, of its near data as it was when the variable was
 * last pointed there (runtime/store.h). It is sent when first asked for. A variable laid within another lies where that
 * one does. */
bt_status bt_var_land(bt_var *var, bt_queue *queue, char **data);
void bt_var_moved(bt_var *var); /* its near data has been replaced */

void bt_var_unsettle(bt_var *var); /* frees what the variable owns of all that */

#endif
