/* engine/command/ranks.c: the ranks of a run as processes. */
#include "engine/command/ranks.h"

#include "engine/command/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GRACE = 3, NAP = 100 }; /* seconds for ranks to end once one has failed; milliseconds */

static bt_page *page; /* shared by all processes of the run */
static int own = -1;  /* the rank of this process */

bool bt_ranks_follows(void) { return own > 0; }

bool bt_ranks_fail(const char *message, int code)
{
    if (own < 0)
        return false;
    bt_page_fail(page, message, code);
    return true;
}

void bt_ranks_end(void)
{
    if (own >= 0)
        bt_page_end(page, own);
}

/* ---- a rank ---- */

void bt_ranks_be_silent(bool errors_too)
{
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC), last = errors_too ? STDERR_FILENO : STDOUT_FILENO;
    for (int i = 0; nowhere >= 0 && i <= last; i++)
        dup2(nowhere, i);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
}

/* Terminal signals go to the parent, which forwards them to rank 0. */
static bt_status begin(pid_t parent, const sigset_t *mask, int rank, bt_transport **transport)
{
    own = rank;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    signal(SIGTTOU, SIG_IGN); /* because it prints from the background */
    if (rank)
        bt_ranks_be_silent(true);
    else
        bt_signals_again();
    sigprocmask(SIG_SETMASK, mask, NULL);
    *transport = bt_page_transport(page, rank);
    return *transport ? BT_OK : bt_error_status();
}

/* ---- the parent ---- */

typedef struct family {
    pid_t *ranks; /* 0: ended */
    int count, left;
    double deadline; /* when the remaining ones are killed; 0: none has failed */
} family;

static void fail(family *f, const char *message, int code)
{
    bt_page_fail(page, message, code);
    f->deadline = f->deadline > 0 ? f->deadline : bt_seconds() + GRACE;
}

/* Whether a rank has ended as it should not, and how; message "": already known. *code: the exit code of all. */
static bool is_early(const family *f, int rank, int how, char message[128], int *code)
{
    *message = 0;
    *code = WIFEXITED(how) ? WEXITSTATUS(how) : 1;
    if (WIFSIGNALED(how) && rank == 0 && WTERMSIG(how) == SIGPIPE) /* nobody reads its output */
        *code = 128 + SIGPIPE;
    else if (WIFSIGNALED(how))
        snprintf(message, 128, "rank %d of %d was ended by signal %d (%s)", rank, f->count, WTERMSIG(how),
                 strsignal(WTERMSIG(how)));
    else if (*code == BT_INTERRUPTED)
        return rank == 0; /* the others may end before it has written the checkpoint */
    else if (*code)
        snprintf(message, 128, "rank %d of %d has ended with code %d", rank, f->count, *code);
    else if (!bt_page_ended(page, rank)) {
        snprintf(message, 128, "rank %d of %d has ended before the run", rank, f->count);
        *code = 1;
    }
    return *code != 0;
}

static void bury(family *f, int rank, int how)
{
    char message[128];
    int code;
    f->ranks[rank] = 0;
    f->left--;
    if (is_early(f, rank, how, message, &code))
        fail(f, message, code);
}

static void look(family *f)
{
    int how;
    for (pid_t id; (id = waitpid(-1, &how, WNOHANG)) > 0;)
        for (int r = 0; r < f->count; r++)
            if (f->ranks[r] == id)
                bury(f, r, how);
    for (int r = 0; f->deadline > 0 && bt_seconds() > f->deadline && r < f->count; r++)
        if (f->ranks[r])
            kill(f->ranks[r], SIGKILL);
}

static void tell_all(const family *f, int signal)
{
    for (int r = 0; r < f->count; r++)
        if (f->ranks[r])
            kill(f->ranks[r], signal);
}

/* Rank 0 ends the run; once it has ended, the others are ended. Ctrl-Z stops all of them until they continue
 * together. */
static void hear(family *f, int signal)
{
    if (signal == SIGTSTP) {
        tell_all(f, SIGSTOP);
        raise(SIGSTOP);
        tell_all(f, SIGCONT);
    } else if (f->ranks[0]) {
        kill(f->ranks[0], signal);
    } else {
        fail(f, "", BT_INTERRUPTED);
    }
}

/* Returns the exit code. */
static int wait_for_all(family *f, const sigset_t *signals)
{
    int code = 0;
    for (look(f); f->left > 0; look(f)) {
        const int signal = sigtimedwait(signals, NULL, &(struct timespec){0, NAP * 1000000});
        if (signal > 0 && signal != SIGCHLD)
            hear(f, signal);
    }
    const char *message = bt_page_failure(page, &code);
    if (message && *message)
        fprintf(stderr, "betty-run: %s\n", message);
    return code;
}

static sigset_t heard(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGTSTP);
    return set;
}

/* Returns in each rank. */
static bt_status make(family *f, const sigset_t *before, bt_transport **transport)
{
    const pid_t parent = getpid();
    for (int r = 0; r < f->count; r++) {
        f->ranks[r] = fork();
        if (f->ranks[r] == 0)
            return begin(parent, before, r, transport);
        if (f->ranks[r] < 0) {
            f->ranks[r] = 0;
            char message[128];
            snprintf(message, sizeof message, "there is no process for rank %d of %d: %s", r, f->count,
                     strerror(errno));
            fail(f, message, 1);
            break;
        }
        f->left++;
    }
    return BT_OK;
}

bt_status bt_ranks_start(int ranks, bt_transport **transport)
{
    family f = {.ranks = bt_alloc_array((size_t)ranks, sizeof(pid_t)), .count = ranks};
    page = f.ranks ? bt_page_new(ranks) : NULL;
    if (!page) {
        bt_free(f.ranks);
        return bt_error_status();
    }
    const sigset_t signals = heard();
    sigset_t before;
    fflush(NULL);
    bt_signals_ready();
    sigprocmask(SIG_BLOCK, &signals, &before);
    bt_status status = make(&f, &before, transport);
    if (own < 0)
        exit(wait_for_all(&f, &signals));
    bt_free(f.ranks);
    return status;
}
