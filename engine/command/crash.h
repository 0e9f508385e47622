/* engine/command/crash.h: what the command prints when the process is about to die in a problem's code. */
#ifndef BT_CRASH_H
#define BT_CRASH_H

#include <signal.h>

/* From here on, a crash in the code of a problem (a bad memory access, a stack overflow, a division by zero, abort) is
 * reported with the signal, the file, the problem and the callback. It then ends the process with the current value of
 * *code as its exit code. A call of exit in such code is treated in the same way. A crash in the library itself is
 * reported and then takes its usual course. A write beyond the file size limit fails instead of ending the process. */
void bt_crash_listen(const volatile sig_atomic_t *code);

#endif
