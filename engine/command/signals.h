/* engine/command/signals.h: Ctrl-C and similar signals, and the progress messages of a long set-up. */
#ifndef BT_SIGNALS_H
#define BT_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

enum { BT_INTERRUPTED = 130 }; /* exit code */

/* From here on SIGINT, SIGTERM and SIGHUP (unless it is ignored, as under nohup) end the process at once. After
 * bt_signals_finish the first of them only prints `stopping` and asks to stop; a second one ends the process at
 * once. */
void bt_signals_listen(void);
const volatile sig_atomic_t *bt_signals_stop(void); /* not 0: stop now */
void bt_signals_finish(const char *stopping);       /* NULL: end at once again */

/* A set-up of more than a second prints every few seconds what it is doing: on standard output or, if that is kept for
 * a report, on the terminal if there is one. quiet: prints nothing. It lasts until bt_signals_ready. */
void bt_signals_setup(bool reports, bool quiet);
void bt_signals_ready(void);
void bt_signals_again(void); /* in a process forked in the meantime */

#endif
