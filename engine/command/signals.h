/* engine/command/signals.h: Ctrl-C and its like, and what a long set-up says. */
#ifndef BT_SIGNALS_H
#define BT_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

enum { BT_INTERRUPTED = 130 }; /* exit code */

/* From here on SIGINT, SIGTERM and SIGHUP (where it is not ignored, as nohup has it) end the process at once; but after
 * bt_signals_finish the first of them only says that it is `stopping`, and asks to stop; a second one ends it at once.
 */
void bt_signals_listen(void);
const volatile sig_atomic_t *bt_signals_stop(void); /* not 0: what is done is to stop */
void bt_signals_finish(const char *stopping);       /* NULL: at once again */

/* A set-up that takes more than a second says every few seconds what it is at: on the standard output, or where that is
 * to be a report, on the terminal if there is one; quiet: it does not. It lasts until bt_signals_ready. */
void bt_signals_setup(bool reports, bool quiet);
void bt_signals_ready(void);
void bt_signals_again(void); /* in a process that has been made meanwhile */

#endif
