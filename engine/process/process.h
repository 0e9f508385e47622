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
    const char *prints; /* the file that gets what the child prints, behind what it has; NULL: that is lost */
    /* Of one that has ended: */
    bt_status failed; /* its own failure, or its death; BT_OK: neither */
    bt_text why;
    /* Not for others: */
    pid_t id; /* 0: it does not run */
    int end;
    bt_text line; /* that has not ended */
} bt_process;

/* Both processes go on: the calling one must have no threads. Ctrl-C is for the parent alone, with which the child
 * ends, however that ends. */
bt_status bt_process_start(bt_process *process);

/* Hears those of the list that run, for a tenth of a second at most. *ended: one that has come to its end; NULL: none.
 */
bt_status bt_process_listen(bt_process *const *list, int64_t count, bt_process **ended);

void bt_process_ask(const bt_process *process); /* to finish: SIGTERM */
void bt_process_free(bt_process *process);      /* ends it at once, where it still runs */

/* ---- in the child ---- */

bt_status bt_process_tell(FILE *tell, json_t *line); /* frees the line */

/* SIGTERM ends it, but once it can finish only sets what bt_process_asked gives. */
void bt_process_can_finish(void);
const volatile sig_atomic_t *bt_process_asked(void);

#endif
