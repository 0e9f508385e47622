/* engine/command/crash.h: what the command says when the process is about to die within a problem's code. */
#ifndef BT_CRASH_H
#define BT_CRASH_H

#include <signal.h>

/* From here on a crash (a bad memory access, a stack overflow, a division by zero, abort) in the code of a problem is
 * told, with the signal, the file, the problem and the callback, and ends the process with the exit code that *code has
 * by then; so does a call of exit. A crash in the library itself is told, and goes its usual way. A write to a file
 * that may not grow fails, instead of ending the process. */
void bt_crash_listen(const volatile sig_atomic_t *code);

#endif
