/* base/doing.c: what this thread is doing. */
#include "base/doing.h"

static _Thread_local bt_doing now = {"", ""};

/* Ordered so that a handler that interrupts this finds an empty name, never the wrong one. */
void bt_doing_set(const char *what, const char *whose)
{
    *(const char *volatile *)&now.whose = "";
    *(const char *volatile *)&now.what = what;
    *(const char *volatile *)&now.whose = whose;
}

bt_doing bt_doing_now(void) { return now; }
