/* engine/output/append.c: a file that grows by whole pieces, and can be continued from its length at a checkpoint. */
#include "engine/output/sinks_inside.h"

#include <errno.h>
#include <limits.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct bt_append {
    FILE *file;
    char *path;
    off_t whole; /* bytes of complete pieces */
};

static bt_status cannot_write(const bt_append *append)
{
    return bt_fail(BT_ERROR_FILE, "%s cannot be written: %s", append->path, strerror(errno));
}

/* Opens a file to append, keeping its first `length` bytes. */
static FILE *reopen(const char *path, int64_t length)
{
    FILE *file = fopen(path, "r+be");
    if (file && ftruncate(fileno(file), length) == 0 && fseeko(file, 0, SEEK_END) == 0)
        return file;
    int error = errno;
    if (file)
        fclose(file);
    errno = error;
    return NULL;
}

bt_append *bt_append_open(const char *folder, const char *name, int64_t length)
{
    bt_append *append = bt_alloc(sizeof *append);
    if (!append || !(append->path = bt_string("%s/%s", folder, name))) {
        bt_append_close(append);
        return NULL;
    }
    append->file = length < 0 ? fopen(append->path, "wbe") : reopen(append->path, length);
    append->whole = length < 0 ? 0 : (off_t)length;
    if (append->file)
        return append;
    cannot_write(append);
    bt_append_close(append);
    return NULL;
}

bt_status bt_append_put(bt_append *append, const void *data, size_t size)
{
    if (fwrite(data, 1, size, append->file) == size && fflush(append->file) == 0) {
        append->whole = ftello(append->file);
        return BT_OK;
    }
    bt_status status = cannot_write(append);
    __fpurge(append->file);
    if (ftruncate(fileno(append->file), append->whole) != 0)
        bt_error_context("%s ends within a line", append->path);
    return status;
}

bt_status bt_append_sync(bt_append *append, int64_t *length)
{
    *length = append->whole;
    return fsync(fileno(append->file)) == 0 ? BT_OK : cannot_write(append);
}

bt_status bt_append_close(bt_append *append)
{
    if (!append)
        return BT_OK;
    bt_status status = append->file && fclose(append->file) != 0 ? cannot_write(append) : BT_OK;
    bt_free(append->path);
    bt_free(append);
    return status;
}

int64_t bt_append_size(const char *folder, const char *name)
{
    struct stat info;
    char path[PATH_MAX]; /* on the stack: a lack of memory must not look like a missing file */
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &info) == 0 ? (int64_t)info.st_size : -1;
}
