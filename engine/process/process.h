/* engine/process/process.h: child processes that tell their parent, line by line. */
#ifndef BT_PROCESS_H
#define BT_PROCESS_H

#include "engine/output/json.h"

#include <signal.h>
#include <sys/types.h>

typedef struct bt_process {
    bt_status (*run)(void *user, FILE *tell);    /* in the child; tells JSON objects, each on a line */
    bt_status (*hear)(void *user, json_t *line); /* in the parent; what it returns ends all */
    void *user;
    const char *prints; /* the file for what the child prints, appended to it; NULL: that is lost */
    /* Of one that has ended: */
    bt_status failed; /* its own failure, or its death; BT_OK: neither */
    bt_text why;
    /* Not for others: */
    pid_t id; /* 0: it does not run */
    int end;
    bt_text line; /* that has not ended */
} bt_process;

/* Both processes continue: the calling one must have no threads. Only the parent gets Ctrl-C; if it ends, in any way,
 * the child ends with it. */
bt_status bt_process_start(bt_process *process);

/* Reads from those of the list that run, for a tenth of a second at most. *ended: one that has ended; NULL: none. */
bt_status bt_process_listen(bt_process *const *list, int64_t count, bt_process **ended);

void bt_process_ask(const bt_process *process); /* to finish: SIGTERM */
void bt_process_free(bt_process *process);      /* ends it at once, where it still runs */

/* ---- in the child ---- */

bt_status bt_process_tell(FILE *tell, json_t *line); /* frees the line */

/* SIGTERM ends it; after it says that it can finish, SIGTERM only sets what bt_process_asked returns. */
void bt_process_can_finish(void);
const volatile sig_atomic_t *bt_process_asked(void);

#endif
