/* io/file.c: reads and writes whole files. */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 1 << 16 }; /* bytes written and hashed at a time */

/* ---- reading ---- */

static int read_all(int file, char *data, size_t size)
{
    while (size > 0) {
        ssize_t got = read(file, data, size);
        if (got < 0 && errno != EINTR)
            return errno;
        if (got == 0)
            return EIO; /* the file is shorter than its size said */
        if (got > 0) {
            data += got;
            size -= (size_t)got;
        }
    }
    return 0;
}

static bt_status read_open(int file, const char *path, char **data, size_t *size)
{
    struct stat info;
    if (fstat(file, &info) != 0)
        return bt_fail(BT_ERROR_FILE, "%s cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return bt_fail(BT_ERROR_FILE, "%s cannot be read: it is not a regular file", path);
    size_t room;
    if (!bt_add_size((size_t)info.st_size, 1, &room) || !(*data = bt_alloc(room)))
        return bt_fail(BT_ERROR_MEMORY, "%s: there is no memory to read it", path);
    *size = (size_t)info.st_size;
    int error = read_all(file, *data, *size);
    if (!error)
        return BT_OK;
    bt_free(*data);
    *data = NULL;
    return bt_fail(BT_ERROR_FILE, "%s cannot be read: %s", path, strerror(error));
}

bt_status bt_file_read(const char *path, char **data, size_t *size)
{
    if (!path || !data || !size)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_file_read: an argument is NULL");
    *data = NULL;
    *size = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return bt_fail(BT_ERROR_FILE, "%s cannot be read: %s", path, strerror(errno));
    bt_status status = read_open(file, path, data, size);
    close(file);
    return status;
}

static void add_block(bt_file_sum *sum, const char *data, size_t size)
{
    sum->hash = bt_hash(sum->hash, data, size);
    sum->bytes += size;
}

bt_file_sum bt_file_sum_of(const char *data, size_t size)
{
    bt_file_sum sum = {0};
    for (size_t at = 0; data && at < size; at += BLOCK)
        add_block(&sum, data + at, size - at < BLOCK ? size - at : BLOCK);
    return sum;
}

/* ---- writing ---- */

struct bt_writer {
    char *path, *temporary;
    bool direct;     /* written in place, without a temporary file */
    int file, error; /* errno of the first failure */
    bt_file_sum sum;
    size_t used;
    char block[BLOCK];
};

static void writer_free(bt_writer *writer)
{
    bt_free(writer->path);
    bt_free(writer->temporary);
    bt_free(writer);
}

/* A device or a pipe cannot be replaced by a file, so it is written directly. */
static bool is_device(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

bt_writer *bt_writer_open(const char *path)
{
    bt_writer *writer = path ? bt_alloc(sizeof *writer) : NULL;
    if (!writer) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_writer_open: the path is NULL");
        return NULL;
    }
    bt_text temporary = {0};
    bt_text_add(&temporary, "%s.tmp", path);
    writer->path = bt_strdup(path);
    writer->temporary = temporary.data;
    if (!writer->path || temporary.failed) {
        writer_free(writer);
        return NULL;
    }
    writer->direct = is_device(path);
    /* Overwrites what a killed process may have left under this name. */
    writer->file = writer->direct
                       ? open(path, O_WRONLY | O_CLOEXEC)
                       : open(writer->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (writer->file < 0)
        writer->error = errno;
    return writer;
}

static void flush_block(bt_writer *writer)
{
    const char *data = writer->block;
    add_block(&writer->sum, data, writer->used);
    while (writer->used > 0 && !writer->error) {
        ssize_t done = write(writer->file, data, writer->used);
        if (done < 0 && errno != EINTR)
            writer->error = errno;
        if (done > 0) {
            data += done;
            writer->used -= (size_t)done;
        }
    }
    writer->used = 0;
}

void bt_writer_put(bt_writer *writer, const void *data, size_t size)
{
    const char *from = data;
    while (writer && data && size > 0 && !writer->error) {
        size_t room = BLOCK - writer->used, piece = size < room ? size : room;
        memcpy(writer->block + writer->used, from, piece);
        writer->used += piece;
        from += piece;
        size -= piece;
        if (writer->used == BLOCK)
            flush_block(writer);
    }
}

void bt_folder_sync(const char *folder)
{
    int file = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (file >= 0) {
        fsync(file);
        close(file);
    }
}

/* Makes sure that the name is on disk too, not only the content. */
static void sync_folder_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
    bt_folder_sync(!slash ? "." : slash == path ? "/" : path);
    if (slash)
        *slash = '/';
}

/* Gives the finished file its name, or removes it. */
static void settle(bt_writer *writer, bool keep)
{
    if (keep && !writer->error && rename(writer->temporary, writer->path) != 0)
        writer->error = errno;
    if (!keep || writer->error)
        unlink(writer->temporary);
    else
        sync_folder_of(writer->path);
}

bt_status bt_writer_close(bt_writer *writer, bool keep, bt_file_sum *sum)
{
    if (!writer)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_writer_close: the writer is NULL");
    if (keep && writer->used && !writer->error)
        flush_block(writer);
    if (keep && !writer->error && !writer->direct && fsync(writer->file) != 0)
        writer->error = errno;
    if (writer->file >= 0 && close(writer->file) != 0 && !writer->error)
        writer->error = errno;
    if (writer->file >= 0 && !writer->direct)
        settle(writer, keep);
    bt_status status = BT_OK;
    if (keep && writer->error)
        status = bt_fail(BT_ERROR_FILE, "%s cannot be written: %s", writer->path, strerror(writer->error));
    if (sum)
        *sum = writer->sum;
    writer_free(writer);
    return status;
}
