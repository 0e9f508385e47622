/* engine/process/process.c: child processes that report to their parent line by line. */
#include "engine/process/process.h"

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
    return fflush(tell) == 0 ? BT_OK : bt_fail(BT_ERROR_FILE, "nobody is listening any more");
}

static volatile sig_atomic_t asked;

static void on_asked(int number)
{
    (void)number;
    asked = 1;
}

const volatile sig_atomic_t *bt_process_asked(void) { return &asked; }

void bt_process_can_finish(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_asked;
    sigaction(SIGTERM, &action, NULL);
}

/* What a problem prints must not get between the parent's lines. */
static void live(const bt_process *process, pid_t parent, int end)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    int prints = process->prints ? open(process->prints, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (prints < 0)
        prints = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (prints >= 0)
        dup2(prints, STDOUT_FILENO);
    FILE *tell = fdopen(end, "w");
    if (!tell)
        _exit(1);
    bt_status status = process->run(process->user, tell);
    if (status != BT_OK)
        bt_process_tell(tell, json_pack("{s:o, s:i}", "error", bt_json_string(bt_error()), "status", (int)status));
    fflush(NULL);
    _exit(status == BT_OK ? 0 : 1);
}

/* ---- the parent ---- */

bt_status bt_process_start(bt_process *process)
{
    int ends[2];
    process->failed = BT_OK;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return bt_fail(BT_ERROR_FILE, "cannot create a pipe: %s", strerror(errno));
    fflush(NULL);
    const pid_t parent = getpid(), id = fork();
    if (id == 0) {
        close(ends[0]);
        live(process, parent, ends[1]);
    }
    close(ends[1]);
    if (id < 0) {
        bt_status status = bt_fail(BT_ERROR_FILE, "cannot start a process: %s", strerror(errno));
        close(ends[0]);
        return status;
    }
    process->id = id;
    process->end = ends[0];
    return BT_OK;
}

static bt_status take_line(bt_process *process, const char *text, size_t size)
{
    json_t *line = json_loadb(text, size, 0, NULL);
    const json_t *error = json_object_get(line, "error");
    bt_status status = BT_OK;
    if (!line)
        status = bt_fail(BT_ERROR_INTERNAL, "a child process sent a line that is not JSON: %.*s", (int)size, text);
    else if (error) {
        process->failed = (bt_status)json_integer_value(json_object_get(line, "status"));
        bt_text_add(&process->why, "%s",
                    *json_string_value(error) ? json_string_value(error) : "failed without saying why");
    } else {
        status = process->hear(process->user, line);
    }
    json_decref(line);
    return status;
}

static bt_status take(bt_process *process, const char *data, size_t size)
{
    while (size > 0) {
        const char *end = memchr(data, '\n', size);
        size_t part = end ? (size_t)(end - data) + 1 : size;
        bt_text_add(&process->line, "%.*s", (int)part, data);
        data += part;
        size -= part;
        if (!end)
            break;
        if (process->line.failed)
            return BT_ERROR_MEMORY;
        BT_TRY(take_line(process, process->line.data, (size_t)process->line.size));
        process->line.size = 0;
    }
    return BT_OK;
}

/* Waits for its end, and returns how it ended. */
static int bury(bt_process *process)
{
    int how = 0;
    close(process->end);
    while (waitpid(process->id, &how, 0) < 0 && errno == EINTR)
        ;
    process->id = 0;
    return how;
}

static void end_of(bt_process *process)
{
    const int how = bury(process);
    if (process->failed != BT_OK || (WIFEXITED(how) && WEXITSTATUS(how) == 0))
        return;
    process->failed = BT_ERROR_INTERNAL;
    if (WIFSIGNALED(how))
        bt_text_add(&process->why, "its process was ended by signal %d (%s)", WTERMSIG(how), strsignal(WTERMSIG(how)));
    else
        bt_text_add(&process->why, "its process ended with exit code %d; see its messages above", WEXITSTATUS(how));
}

/* A child has ended when it has closed its end of the pipe. */
static bt_status hear(bt_process *process, bool *ended)
{
    char buffer[8192];
    ssize_t got = read(process->end, buffer, sizeof buffer);
    *ended = got == 0;
    if (got > 0)
        return take(process, buffer, (size_t)got);
    if (got < 0 && errno != EINTR)
        return bt_fail(BT_ERROR_FILE, "cannot read from a child process: %s", strerror(errno));
    if (*ended)
        end_of(process);
    return BT_OK;
}

bt_status bt_process_listen(bt_process *const *list, int64_t count, bt_process **ended)
{
    struct pollfd *ends = bt_alloc_array((size_t)count + 1, sizeof *ends);
    bt_status status = ends ? BT_OK : BT_ERROR_MEMORY;
    *ended = NULL;
    for (int64_t i = 0; ends && i < count; i++)
        ends[i] = (struct pollfd){.fd = list[i]->id ? list[i]->end : -1, .events = POLLIN};
    const int ready = ends ? poll(ends, (nfds_t)count, WAIT) : 0;
    for (int64_t i = 0; ready > 0 && i < count && status == BT_OK && !*ended; i++) {
        bool over = false;
        if (ends[i].revents)
            status = hear(list[i], &over);
        *ended = over ? list[i] : NULL;
    }
    bt_free(ends);
    return status;
}

void bt_process_ask(const bt_process *process)
{
    if (process->id)
        kill(process->id, SIGTERM);
}

void bt_process_free(bt_process *process)
{
    if (process->id) {
        kill(process->id, SIGKILL);
        bury(process);
    }
    bt_text_free(&process->why);
    bt_text_free(&process->line);
}
