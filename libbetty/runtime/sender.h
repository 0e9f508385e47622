/* runtime/sender.h: a thread that makes calls of a joint, one after the other, while others compute. What it is given
 * is done in that order; whoever makes a call of the joint himself waits before, until it has nothing left to do. */
#ifndef BT_SENDER_H
#define BT_SENDER_H

#include "runtime/transport.h"

typedef struct bt_sender bt_sender;
bt_sender *bt_sender_new(bt_joint *joint); /* NULL after an error; the joint stays the caller's */
void bt_sender_free(bt_sender *sender);    /* when all is done; before its joint */

/* bt_joint_call, later. The call, and what it reads and gives, is the sender's until it is done. Waits where there is
 * too much to do already. Returns its number, counted from 1 since all was done. */
int64_t bt_sender_give(bt_sender *sender, const bt_call *call, uint64_t at);
/* Until this one is done, and so all before it. The first failure of any of them, behind which none is made. */
bt_status bt_sender_wait(bt_sender *sender, int64_t number);
/* Waits until all are done, whether or not they failed; then it can start again. */
void bt_sender_drain(bt_sender *sender);

#endif
