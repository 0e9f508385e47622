/* runtime/settle.h: where variables lie that a device works on. A variable is near when it is made, so that whoever
 * fills it need not know of a device. With the first program of a device that reads or writes it, it goes there for
 * good. */
#ifndef BT_SETTLE_H
#define BT_SETTLE_H

#include "graph/variable.h"
#include "runtime/queue.h"

/* A variable of the run, which is its own root: its bytes lie on the device from now on. Where they lie on one already,
 * or queue is NULL, nothing happens. */
bt_status bt_var_settle(bt_var *var, bt_queue *queue);

/* A variable from outside whose data is near: rows of a trajectory lie where that does. */
static inline bool bt_var_lands(const bt_var *var)
{
    return var->lifetime == BT_EXTERNAL && var->category != BT_TRAJECTORY;
}

bt_status bt_var_place(bt_var *var, bt_queue *queue); /* makes its place on the device, before it is first sent there */

/* A variable from outside: *data is where the queue's device has what its near data held when it was last pointed there
 * (runtime/store.h); sent the first time that it is asked for. One that is laid within another lies where that does. */
bt_status bt_var_land(bt_var *var, bt_queue *queue, char **data);
void bt_var_moved(bt_var *var); /* its near data is another from now on */

void bt_var_unsettle(bt_var *var); /* frees what is the variable's own of all that */

#endif
