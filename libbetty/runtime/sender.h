/* runtime/sender.h: a thread that makes a joint's calls one after the other, in order, while others compute. Anyone
 * else who calls the joint first waits until the thread has nothing left to do. */
#ifndef BT_SENDER_H
#define BT_SENDER_H

#include "runtime/transport.h"

typedef struct bt_sender bt_sender;
bt_sender *bt_sender_new(bt_joint *joint); /* NULL after an error; the joint stays the caller's */
void bt_sender_free(bt_sender *sender);    /* call when all is done, before freeing its joint */

/* Makes a bt_joint_call later. The call and its operands and results belong to the sender until it is done. Waits if
 * too many calls are pending. Returns its number, counted from 1 since the last drain. */
int64_t bt_sender_give(bt_sender *sender, const bt_call *call, uint64_t at);
/* Waits until this call and all before it are done. Returns the first failure of any of them; after a failure no more
 * calls are made. */
bt_status bt_sender_wait(bt_sender *sender, int64_t number);
/* Waits until all are done, failed or not, and starts afresh. */
void bt_sender_drain(bt_sender *sender);

#endif
