/* engine/ablation/process.c: a child process that tells its parent, line by line. */
#include "engine/ablation/ablation_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT = 100 }; /* milliseconds */

/* ---- the child ---- */

bt_status bt_process_tell(FILE *tell, json_t *line)
{
    size_t size;
    char *text = bt_json_text(line, JSON_COMPACT, &size);
    json_decref(line);
    if (!text)
        return BT_ERROR_MEMORY;
    fwrite(text, 1, size, tell);
    bt_free(text);
    return fflush(tell) == 0 ? BT_OK : bt_fail(BT_ERROR_FILE, "nobody listens any more");
}

/* It ends with its parent, which alone takes Ctrl-C; what a problem prints does not get between the parent's lines. */
static void live(const bt_process *child, int end)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0)
        dup2(nowhere, STDOUT_FILENO);
    FILE *tell = fdopen(end, "w");
    if (!tell)
        _exit(1);
    bt_status status = child->run(child->user, tell);
    if (status != BT_OK)
        bt_process_tell(tell, json_pack("{s:o, s:i}", "error", bt_json_string(bt_error()), "status", (int)status));
    fflush(NULL);
    _exit(status == BT_OK ? 0 : 1);
}

/* ---- the parent ---- */

typedef struct hearing {
    const bt_process *child;
    bt_status *failed;
    bt_text *why;
    bt_text line; /* that has not ended */
} hearing;

static bt_status take_line(hearing *h, const char *text, size_t size)
{
    json_t *line = json_loadb(text, size, 0, NULL);
    const json_t *error = json_object_get(line, "error");
    bt_status status = BT_OK;
    if (!line)
        status = bt_fail(BT_ERROR_INTERNAL, "a child has told what is no JSON: %.*s", (int)size, text);
    else if (error) {
        *h->failed = (bt_status)json_integer_value(json_object_get(line, "status"));
        bt_text_add(h->why, "%s", *json_string_value(error) ? json_string_value(error) : "failed without saying why");
    } else {
        status = h->child->hear(h->child->user, line);
    }
    json_decref(line);
    return status;
}

static bt_status take(hearing *h, const char *data, size_t size)
{
    while (size > 0) {
        const char *end = memchr(data, '\n', size);
        size_t part = end ? (size_t)(end - data) + 1 : size;
        bt_text_add(&h->line, "%.*s", (int)part, data);
        data += part;
        size -= part;
        if (!end)
            break;
        if (h->line.failed)
            return BT_ERROR_MEMORY;
        BT_TRY(take_line(h, h->line.data, (size_t)h->line.size));
        h->line.size = 0;
    }
    return BT_OK;
}

/* Until the child has closed its end. */
static bt_status listen_to(hearing *h, int end)
{
    char buffer[8192];
    for (;;) {
        struct pollfd fd = {.fd = end, .events = POLLIN};
        int ready = poll(&fd, 1, WAIT);
        if (h->child->stop && *h->child->stop)
            return BT_ERROR_INTERRUPTED;
        if (h->child->wait)
            h->child->wait(h->child->user);
        if (ready <= 0)
            continue;
        ssize_t got = read(end, buffer, sizeof buffer);
        if (got == 0)
            return BT_OK;
        if (got > 0)
            BT_TRY(take(h, buffer, (size_t)got));
        else if (errno != EINTR)
            return bt_fail(BT_ERROR_FILE, "a child cannot be heard: %s", strerror(errno));
    }
}

static void end_of(const hearing *h, int how)
{
    if (*h->failed != BT_OK || (WIFEXITED(how) && WEXITSTATUS(how) == 0))
        return;
    *h->failed = BT_ERROR_INTERNAL;
    if (WIFSIGNALED(how))
        bt_text_add(h->why, "its process was ended by signal %d (%s)", WTERMSIG(how), strsignal(WTERMSIG(how)));
    else
        bt_text_add(h->why, "its process ended with exit code %d; what it said stands above", WEXITSTATUS(how));
}

bt_status bt_process_run(const bt_process *child, bt_status *failed, bt_text *why)
{
    int ends[2];
    hearing h = {.child = child, .failed = failed, .why = why};
    *failed = BT_OK;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return bt_fail(BT_ERROR_FILE, "there is no pipe: %s", strerror(errno));
    fflush(NULL);
    pid_t process = fork();
    if (process == 0) {
        close(ends[0]);
        live(child, ends[1]);
    }
    close(ends[1]);
    bt_status status =
        process > 0 ? listen_to(&h, ends[0]) : bt_fail(BT_ERROR_FILE, "there is no process: %s", strerror(errno));
    close(ends[0]);
    bt_text_free(&h.line);
    if (process < 0)
        return status;
    if (status != BT_OK)
        kill(process, SIGKILL);
    int how = 0;
    while (waitpid(process, &how, 0) < 0 && errno == EINTR)
        ;
    if (status == BT_OK)
        end_of(&h, how);
    return status;
}
