/* engine/command/crash.c: what the command prints when the process is about to die in a problem's code. The handlers
 * use only what is safe in a signal handler: no stdio, no allocation. */
#include "engine/command/crash.h"

#include "engine/command/ranks.h"

#include "base/base.h"
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { HANDLER_STACK = 1 << 16, NEAR_THE_END = 1 << 20, LINE = 1024 };

static const struct {
    int number;
    const char *name, *meaning;
} signals[] = {{SIGSEGV, "SIGSEGV", "a bad memory access"},
               {SIGBUS, "SIGBUS", "a bad memory access"},
               {SIGFPE, "SIGFPE", "a division by zero, or another arithmetic fault"},
               {SIGILL, "SIGILL", "an illegal instruction"},
               {SIGABRT, "SIGABRT", "abort was called, or an assertion failed"}};

static struct sigaction usual[BT_COUNT_OF(signals)];
static const volatile sig_atomic_t *exit_code;
static uintptr_t stack_end; /* the lowest address of the main thread's stack; 0: no limit */

typedef struct line {
    char text[LINE];
    size_t length;
} line;

static void add(line *l, const char *text)
{
    for (; *text && l->length < LINE - 1; text++)
        l->text[l->length++] = *text;
}

/* A rank passes its message to the process that waits for it. */
static void say(line *l)
{
    l->text[l->length] = 0;
    if (bt_ranks_fail(l->text + strlen("betty-run: "), *exit_code))
        return;
    l->text[l->length++] = '\n';
    ssize_t written = write(STDERR_FILENO, l->text, l->length);
    (void)written;
}

/* "betty-run: problem.c: model, training_step" */
static void add_guest(line *l, bt_guest guest)
{
    add(l, "betty-run: ");
    if (guest.file) {
        add(l, guest.file);
        add(l, ": ");
    }
    if (guest.owner) {
        add(l, guest.owner);
        add(l, ", ");
    }
    add(l, guest.function);
}

static bool is_stack_overflow(int number, const siginfo_t *info)
{
    uintptr_t address = (uintptr_t)info->si_addr;
    return number == SIGSEGV && stack_end && address >= stack_end - NEAR_THE_END && address < stack_end + NEAR_THE_END;
}

static void on_crash(int number, siginfo_t *info, void *context)
{
    (void)context;
    line l = {.length = 0};
    bt_guest guest = bt_guest_now();
    int i = 0;
    while (i < BT_COUNT_OF(signals) - 1 && signals[i].number != number)
        i++;
    if (guest.function)
        add_guest(&l, guest);
    else
        add(&l, "betty-run: the program itself");
    add(&l, " crashed: ");
    add(&l, signals[i].name);
    add(&l, ", ");
    add(&l, is_stack_overflow(number, info) ? "a stack overflow: a recursion without end?" : signals[i].meaning);
    say(&l);
    if (guest.function)
        _exit(*exit_code);
    sigaction(number, &usual[i], NULL); /* the fault occurs again on return */
    if (info->si_code <= 0)             /* but not if a process sent the signal */
        raise(number);
}

static void on_exit_of_guest(void)
{
    bt_guest guest = bt_guest_now();
    if (!guest.function)
        return;
    line l = {.length = 0};
    add_guest(&l, guest);
    add(&l, " ended the process: return a bt_status with bt_fail instead of calling exit");
    say(&l);
    _exit(*exit_code);
}

void bt_crash_listen(const volatile sig_atomic_t *code)
{
    static char room[HANDLER_STACK]; /* to handle a stack overflow, the handler needs a stack of its own */
    const stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    struct rlimit limit;
    exit_code = code;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        stack_end = (uintptr_t)&limit - limit.rlim_cur;
    sigaltstack(&stack, NULL);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < BT_COUNT_OF(signals); i++)
        sigaction(signals[i].number, &action, &usual[i]);
    action.sa_handler = SIG_IGN;
    action.sa_flags = 0;
    sigaction(SIGXFSZ, &action, NULL);
    atexit(on_exit_of_guest);
}
