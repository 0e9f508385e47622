/* base/guest.c: the user's code that runs on this thread. */
#include "base/base.h"

static _Thread_local bt_guest now;

bt_guest bt_guest_enter(bt_guest guest)
{
    bt_guest before = now;
    now = guest;
    return before;
}

void bt_guest_leave(bt_guest before) { now = before; }

bt_guest bt_guest_now(void) { return now; }
