/* base/doing.c: what this thread is at. */
#include "base/doing.h"

static _Thread_local bt_doing now = {"", ""};

/* A handler between the two finds no name, never one that does not belong there. */
void bt_doing_set(const char *what, const char *whose)
{
    *(const char *volatile *)&now.whose = "";
    *(const char *volatile *)&now.what = what;
    *(const char *volatile *)&now.whose = whose;
}

bt_doing bt_doing_now(void) { return now; }
