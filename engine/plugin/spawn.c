/* engine/plugin/spawn.c: runs another program, without a shell. */
#include "engine/plugin/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { OUT, ERR, STREAMS, MAX_MESSAGE = 3000 };

typedef struct pipes {
    int read[STREAMS], write[STREAMS]; /* -1: closed */
} pipes;

static void close_end(int *end)
{
    if (*end >= 0)
        close(*end);
    *end = -1;
}

static void close_pipes(pipes *p)
{
    for (int i = 0; i < STREAMS; i++) {
        close_end(&p->read[i]);
        close_end(&p->write[i]);
    }
}

static bool open_pipes(pipes *p)
{
    *p = (pipes){{-1, -1}, {-1, -1}};
    for (int i = 0; i < STREAMS; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) {
            close_pipes(p);
            return false;
        }
        p->read[i] = ends[0];
        p->write[i] = ends[1];
    }
    return true;
}

static int start(const char *const *argv, const pipes *p, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, p->write[OUT], STDOUT_FILENO);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, p->write[ERR], STDERR_FILENO);
    /* posix_spawnp does not write to its arguments; they are not const for historical reasons. */
    char *const *arguments;
    memcpy(&arguments, &argv, sizeof arguments);
    if (!error)
        error = posix_spawnp(child, argv[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static void keep(bt_text *message, const char *data, int64_t size)
{
    int64_t room = MAX_MESSAGE - message->size;
    if (room > 0)
        bt_text_add(message, size > room ? "%.*s\n..." : "%.*s", (int)(size < room ? size : room), data);
}

/* The hash is over blocks of a fixed size, so that it does not depend on how the pipe splits the output. */
typedef struct block {
    char data[8192];
    size_t fill;
} block;

static void hash_on(block *b, const char *data, size_t size, uint64_t *hash)
{
    while (size > 0) {
        size_t part = sizeof b->data - b->fill;
        part = part < size ? part : size;
        memcpy(b->data + b->fill, data, part);
        b->fill += part;
        data += part;
        size -= part;
        if (b->fill == sizeof b->data) {
            *hash = bt_hash(*hash, b->data, b->fill);
            b->fill = 0;
        }
    }
}

/* Reads from both streams, in turn, until both have ended. */
static void drain(pipes *p, bt_spawn_result *result)
{
    char buffer[8192];
    block out = {.fill = 0};
    while (p->read[OUT] >= 0 || p->read[ERR] >= 0) {
        struct pollfd fds[STREAMS];
        for (int i = 0; i < STREAMS; i++)
            fds[i] = (struct pollfd){.fd = p->read[i], .events = POLLIN};
        if (poll(fds, STREAMS, -1) < 0 && errno != EINTR)
            break;
        for (int i = 0; i < STREAMS; i++) {
            if (p->read[i] < 0 || !fds[i].revents)
                continue;
            ssize_t got = read(p->read[i], buffer, sizeof buffer);
            if (got == 0 || (got < 0 && errno != EINTR))
                close_end(&p->read[i]);
            else if (got > 0 && i == OUT)
                hash_on(&out, buffer, (size_t)got, &result->hash);
            else if (got > 0)
                keep(&result->message, buffer, got);
        }
    }
    result->hash = bt_hash(result->hash, out.data, out.fill);
}

bt_status bt_spawn(const char *const *argv, bt_spawn_result *result)
{
    if (!argv || !argv[0] || !result)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_spawn: an argument is NULL");
    *result = (bt_spawn_result){0};
    pipes p;
    if (!open_pipes(&p))
        return bt_fail(BT_ERROR_FILE, "%s cannot be run: no pipe: %s", argv[0], strerror(errno));
    pid_t child;
    int error = start(argv, &p, &child);
    close_end(&p.write[OUT]);
    close_end(&p.write[ERR]);
    if (!error)
        drain(&p, result);
    close_pipes(&p);
    if (error)
        return bt_fail(BT_ERROR_FILE, "%s cannot be run: %s", argv[0], strerror(error));
    int status = 0;
    pid_t ended;
    do
        ended = waitpid(child, &status, 0);
    while (ended < 0 && errno == EINTR);
    result->good = ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return BT_OK;
}
