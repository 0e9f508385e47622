/* engine/process/process.h: child processes that report to their parent, line by line. */
#ifndef BT_PROCESS_H
#define BT_PROCESS_H

#include "engine/output/json.h"

#include <signal.h>
#include <sys/types.h>

typedef struct bt_process {
    bt_status (*run)(void *user, FILE *tell);    /* in the child; sends JSON objects, each on a line */
    bt_status (*hear)(void *user, json_t *line); /* in the parent; an error ends everything */
    void *user;
    const char *prints; /* the file to which the child's output is appended; NULL: it is discarded */
    /* Once it has ended: */
    bt_status failed; /* it failed or died; BT_OK: neither */
    bt_text why;
    /* Private: */
    pid_t id; /* 0: it is not running */
    int end;
    bt_text line; /* not complete yet */
} bt_process;

/* Forks: both processes continue, and the calling one must have no threads. Only the parent gets Ctrl-C; if it ends, in
 * any way, the child ends too. */
bt_status bt_process_start(bt_process *process);

/* Reads from the running processes of the list, for a tenth of a second at most. *ended: one that has ended; NULL:
 * none. */
bt_status bt_process_listen(bt_process *const *list, int64_t count, bt_process **ended);

void bt_process_ask(const bt_process *process); /* asks it to finish: SIGTERM */
void bt_process_free(bt_process *process);      /* ends it at once if it is still running */

/* ---- in the child ---- */

bt_status bt_process_tell(FILE *tell, json_t *line); /* frees the line */

/* By default SIGTERM ends the child. After this call it only sets what bt_process_asked returns. */
void bt_process_can_finish(void);
const volatile sig_atomic_t *bt_process_asked(void);

#endif
