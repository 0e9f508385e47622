/* engine/command/signals.c: Ctrl-C and similar signals, and the progress messages of a long set-up. The handlers use
 * only what is safe in a signal handler: no stdio, no allocation. Other threads of the library take no signals. */
#include "engine/command/signals.h"

#include "base/base.h"
#include "base/doing.h"
#include <errno.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { FIRST = 1, AGAIN = 5 }; /* seconds of set-up before the first message, and between messages */

static volatile sig_atomic_t stop, seconds, teller = -1;
static const char *volatile last_words; /* of work that finishes when it is asked to stop; NULL: none */

static void put(int file, const char *text)
{
    ssize_t told = write(file, text, strlen(text));
    (void)told; /* perhaps nobody is there to read it */
}

static void on_signal(int number)
{
    (void)number;
    const char *words = last_words;
    if (!words || stop) {
        put(STDERR_FILENO, "\nbetty-run: interrupted\n");
        _exit(BT_INTERRUPTED);
    }
    const int before = errno;
    stop = 1;
    put(STDERR_FILENO, "\nbetty-run: ");
    put(STDERR_FILENO, words);
    put(STDERR_FILENO, "; a second signal stops at once");
    errno = before;
}

void bt_signals_listen(void)
{
    struct sigaction action, was;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
}

const volatile sig_atomic_t *bt_signals_stop(void) { return &stop; }

void bt_signals_finish(const char *stopping) { last_words = stopping; }

/* ---- a long set-up ---- */

/* " (12 s)" */
static void put_seconds(int file, int count)
{
    char digits[12], *at = digits + sizeof digits - 1;
    *at = 0;
    for (; count > 0; count /= 10)
        *--at = (char)('0' + count % 10);
    put(file, " (");
    put(file, at);
    put(file, " s)");
}

static void on_alarm(int number)
{
    (void)number;
    const int before = errno;
    const bt_doing doing = bt_doing_now();
    seconds += seconds ? AGAIN : FIRST;
    put(teller, "setting up");
    put(teller, *doing.what ? ": " : "");
    put(teller, doing.what);
    put(teller, doing.whose);
    put_seconds(teller, seconds);
    put(teller, "\n");
    errno = before;
}

void bt_signals_setup(bool reports, bool quiet)
{
    teller = quiet || (reports && !isatty(STDERR_FILENO)) ? -1 : reports ? STDERR_FILENO : STDOUT_FILENO;
    bt_signals_again();
}

void bt_signals_again(void)
{
    if (teller < 0)
        return;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_sec = FIRST}, .it_interval = {.tv_sec = AGAIN}}, NULL);
}

void bt_signals_ready(void)
{
    if (teller < 0)
        return;
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_sec = 0}}, NULL);
    signal(SIGALRM, SIG_DFL);
}
