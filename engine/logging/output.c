/* engine/logging/output.c: the folder that a run leaves. */
#include "engine/logging/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *join(const char *folder, const char *name)
{
    bt_text text = {0};
    bt_text_add(&text, "%s/%s", folder, name);
    if (!text.failed)
        return text.data;
    bt_text_free(&text);
    return NULL;
}

/* ---- the folder ---- */

/* `path` and all folders above it. */
static bt_status make_folders(const char *path)
{
    char *copy = bt_strdup(path);
    if (!copy)
        return BT_ERROR_MEMORY;
    int error = 0;
    for (char *c = copy + 1; !error; c++) {
        char at = *c;
        if (at != '/' && at != 0)
            continue;
        *c = 0;
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            error = errno;
        *c = at;
        if (at == 0)
            break;
    }
    bt_free(copy);
    struct stat info;
    if (!error && (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)))
        error = ENOTDIR;
    return error ? bt_fail(BT_ERROR_FILE, "the output folder %s cannot be made: %s", path, strerror(error)) : BT_OK;
}

static bool holds(const char *folder, const char *name)
{
    char *path = join(folder, name);
    bool found = path && access(path, F_OK) == 0;
    bt_free(path);
    return found;
}

/* Another run's results are not written over. */
static bt_status check_wanted(const char *folder)
{
    if (holds(folder, "metrics.jsonl") || holds(folder, "summary.json"))
        return bt_fail(BT_ERROR_CONFIG, "the output folder %s holds a run already; remove it, or choose another",
                       folder);
    return BT_OK;
}

bt_status bt_output_check(const char *wanted) { return wanted ? check_wanted(wanted) : BT_OK; }

/* The first free number; mkdir decides, so that two runs at once get two folders. */
static bt_status make_numbered(const char *stem, char **path)
{
    BT_TRY(make_folders("runs"));
    for (int64_t n = 1; n < 1000000; n++) {
        bt_text text = {0};
        bt_text_add(&text, "runs/%s-%lld", stem, (long long)n);
        if (text.failed) {
            bt_text_free(&text);
            return BT_ERROR_MEMORY;
        }
        if (mkdir(text.data, 0777) == 0) {
            *path = text.data;
            return BT_OK;
        }
        int error = errno;
        if (error != EEXIST) {
            bt_fail(BT_ERROR_FILE, "the output folder %s cannot be made: %s", text.data, strerror(error));
            bt_text_free(&text);
            return BT_ERROR_FILE;
        }
        bt_text_free(&text);
    }
    return bt_fail(BT_ERROR_FILE, "runs/ holds too many runs of %s; give --output", stem);
}

bt_status bt_output_make(const char *wanted, const char *stem, char **path)
{
    if (!path || (!wanted && !stem))
        return bt_fail(BT_ERROR_ARGUMENT, "bt_output_make: an argument is NULL");
    *path = NULL;
    if (!wanted)
        return make_numbered(stem, path);
    if (!*wanted)
        return bt_fail(BT_ERROR_CONFIG, "the output folder has an empty name");
    BT_TRY(check_wanted(wanted));
    BT_TRY(make_folders(wanted));
    *path = bt_strdup(wanted);
    return *path ? BT_OK : BT_ERROR_MEMORY;
}

/* ---- files ---- */

static int write_all(int file, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t done = write(file, data, size);
        if (done < 0 && errno != EINTR)
            return errno;
        if (done > 0) {
            data += done;
            size -= (size_t)done;
        }
    }
    return fsync(file) == 0 ? 0 : errno;
}

/* So that the name is on the disk too, not only the file. */
static void sync_folder(const char *folder)
{
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file >= 0) {
        fsync(file);
        close(file);
    }
}

bt_status bt_output_write(const char *folder, const char *name, const void *data, size_t size)
{
    if (!folder || !name || (!data && size))
        return bt_fail(BT_ERROR_ARGUMENT, "bt_output_write: an argument is NULL");
    char *path = join(folder, name), *temporary = path ? bt_alloc(strlen(path) + 8) : NULL;
    if (!temporary) {
        bt_free(path);
        return BT_ERROR_MEMORY;
    }
    strcat(strcpy(temporary, path), ".XXXXXX");
    int error = 0, file = mkostemp(temporary, O_CLOEXEC);
    if (file < 0) {
        error = errno;
    } else {
        mode_t mask = umask(0); /* mkostemp gives the file to its owner only */
        umask(mask);
        if (fchmod(file, 0666 & ~mask) != 0)
            error = errno;
        int written = write_all(file, data, size);
        error = error ? error : written;
        if (close(file) != 0 && !error)
            error = errno;
        if (!error && rename(temporary, path) != 0)
            error = errno;
        if (error)
            unlink(temporary);
        sync_folder(folder);
    }
    bt_status s = error ? bt_fail(BT_ERROR_FILE, "%s cannot be written: %s", path, strerror(error)) : BT_OK;
    bt_free(temporary);
    bt_free(path);
    return s;
}
