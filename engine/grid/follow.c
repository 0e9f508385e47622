/* engine/grid/follow.c: follows the output of a run. */
#include "engine/grid/grid_inside.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bt_status bt_follow_open(bt_follow *follow, const char *path)
{
    struct stat info;
    *follow = (bt_follow){.path = bt_strdup(path), .at = stat(path, &info) == 0 ? (int64_t)info.st_size : 0};
    return follow->path ? BT_OK : BT_ERROR_MEMORY;
}

static void take_line(bt_follow *f, void (*hear)(void *user, const char *warning), void *user)
{
    static const char warning[] = "warning: ", step[] = "step ";
    const char *line = bt_text_get(&f->part);
    if (strncmp(line, warning, sizeof warning - 1) == 0) {
        hear(user, line + sizeof warning - 1);
    } else if (strncmp(line, step, sizeof step - 1) == 0) {
        f->last.size = 0;
        bt_text_add(&f->last, "%s", line);
    }
    f->part.size = 0;
}

static void take(bt_follow *f, const char *data, size_t size, void (*hear)(void *, const char *), void *user)
{
    while (size > 0) {
        const char *end = memchr(data, '\n', size);
        const size_t part = end ? (size_t)(end - data) : size;
        bt_text_add(&f->part, "%.*s", (int)part, data);
        if (!end)
            return;
        take_line(f, hear, user);
        data += part + 1;
        size -= part + 1;
    }
}

void bt_follow_read(bt_follow *f, void (*hear)(void *user, const char *warning), void *user)
{
    char buffer[8192];
    ssize_t got;
    int file = f->path ? open(f->path, O_RDONLY | O_CLOEXEC) : -1;
    while (file >= 0 && (got = pread(file, buffer, sizeof buffer, (off_t)f->at)) > 0) {
        f->at += got;
        take(f, buffer, (size_t)got, hear, user);
    }
    if (file >= 0)
        close(file);
}

void bt_follow_close(bt_follow *f)
{
    bt_free(f->path);
    bt_text_free(&f->part);
    bt_text_free(&f->last);
    *f = (bt_follow){0};
}
