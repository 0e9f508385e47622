/* engine/output/output.c: the output folder of a run. */
#include "engine/output/sinks.h"

#include "io/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 10, BETWEEN_TRIES = 50000 }; /* microseconds */

/* ---- the folder ---- */

/* Creates `path` and all folders above it. */
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
    return error ? bt_fail(BT_ERROR_FILE, "the output folder %s cannot be created: %s", path, strerror(error)) : BT_OK;
}

static bool holds(const char *folder, const char *name)
{
    char *path = bt_string("%s/%s", folder, name);
    bool found = path && access(path, F_OK) == 0;
    bt_free(path);
    return found;
}

static bool holds_checkpoint(const char *folder)
{
    char *path = bt_string("%s/checkpoints", folder);
    DIR *list = path ? opendir(path) : NULL;
    bool found = false;
    for (const struct dirent *entry; list && !found && (entry = readdir(list)) != NULL;) {
        size_t length = strlen(entry->d_name);
        found = strncmp(entry->d_name, "step-", 5) == 0 && strcmp(entry->d_name + length - 5, ".json") == 0;
    }
    if (list)
        closedir(list);
    bt_free(path);
    return found;
}

bt_output_content bt_output_holds(const char *folder)
{
    if (holds_checkpoint(folder))
        return BT_OUTPUT_RUN;
    if (holds(folder, "metrics.jsonl") || holds(folder, "summary.json") || holds(folder, "checkpoints"))
        return BT_OUTPUT_REMAINS;
    return holds(folder, BT_OUTPUT_GRID) ? BT_OUTPUT_RUNS : BT_OUTPUT_NOTHING;
}

/* Never overwrites the results of another run. */
static bt_status check_unused(const char *folder)
{
    switch (bt_output_holds(folder)) {
    case BT_OUTPUT_NOTHING:
        break;
    case BT_OUTPUT_RUN:
        return bt_fail(
            BT_ERROR_CONFIG,
            "the output folder %s already holds a run; continue it (--resume), remove it, or choose another folder",
            folder);
    case BT_OUTPUT_RUNS:
        return bt_fail(BT_ERROR_CONFIG,
                       "the output folder %s already holds several runs; continue them or add others (--resume), "
                       "remove it, or choose another folder",
                       folder);
    case BT_OUTPUT_REMAINS:
        return bt_fail(BT_ERROR_CONFIG,
                       "the output folder %s holds a run that ended before its first checkpoint and cannot be "
                       "continued; remove it, or choose another folder",
                       folder);
    }
    return BT_OK;
}

static void remove_files(const char *folder, const char *sub)
{
    char *path = bt_string("%s/%s", folder, sub);
    DIR *list = path ? opendir(path) : NULL;
    for (const struct dirent *entry; list && (entry = readdir(list)) != NULL;)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(list), entry->d_name, 0);
    if (list)
        closedir(list);
    if (path)
        rmdir(path);
    bt_free(path);
}

void bt_output_clear(const char *folder)
{
    static const char *const names[] = {"summary.json", "config.ini", "plan.json", "equation.txt", BT_OUTPUT_LOG};
    remove_files(folder, "checkpoints");
    bt_log_remove(folder);
    for (int i = 0; i < BT_COUNT_OF(names); i++) {
        char *path = bt_string("%s/%s", folder, names[i]);
        if (path)
            unlink(path);
        bt_free(path);
    }
}

/* Locks the folder itself; the lock ends with the process, however that ends. *lock is -1 if the file system has no
 * locks; then nobody is kept out. */
static bt_status lock_folder(const char *folder, int *lock)
{
    *lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0)
        return bt_fail(BT_ERROR_FILE, "the output folder %s cannot be opened: %s", folder, strerror(errno));
    bool taken = true;
    for (int tries = 0; taken && tries < TRIES; tries++) { /* the children of a killed grid end a little later */
        if (flock(*lock, LOCK_EX | LOCK_NB) == 0)
            return BT_OK;
        taken = errno == EWOULDBLOCK;
        if (taken)
            usleep(BETWEEN_TRIES);
    }
    close(*lock);
    *lock = -1;
    if (!taken)
        return BT_OK;
    return bt_fail(BT_ERROR_CONFIG,
                   "the output folder %s is in use by another run; wait for its end, or choose another folder", folder);
}

bt_status bt_output_check(const char *wanted)
{
    int lock;
    struct stat info;
    if (!wanted || stat(wanted, &info) != 0 || !S_ISDIR(info.st_mode))
        return BT_OK; /* whether it can be created will be seen later */
    BT_TRY(lock_folder(wanted, &lock));
    if (lock >= 0)
        close(lock);
    return check_unused(wanted);
}

/* Takes the first free number. mkdir decides, so two runs at the same time get different folders. */
static bt_status make_numbered(const char *stem, char **path)
{
    BT_TRY(make_folders("runs"));
    for (int64_t n = 1; n < 1000000; n++) {
        char *name = bt_string("runs/%s-%lld", stem, (long long)n);
        if (!name)
            return BT_ERROR_MEMORY;
        if (mkdir(name, 0777) == 0) {
            *path = name;
            return BT_OK;
        }
        int error = errno;
        if (error != EEXIST)
            bt_fail(BT_ERROR_FILE, "the output folder %s cannot be created: %s", name, strerror(error));
        bt_free(name);
        if (error != EEXIST)
            return BT_ERROR_FILE;
    }
    return bt_fail(BT_ERROR_FILE, "runs/ holds too many runs of %s; give --output", stem);
}

static bt_status make_wanted(const char *wanted, char **path)
{
    if (!*wanted)
        return bt_fail(BT_ERROR_CONFIG, "the output folder has an empty name");
    BT_TRY(make_folders(wanted));
    *path = bt_strdup(wanted);
    return *path ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status take(bt_output **output, char *path, bool unused)
{
    bt_output *made = bt_alloc(sizeof *made);
    if (!made) {
        bt_free(path);
        return BT_ERROR_MEMORY;
    }
    *made = (bt_output){.path = path, .lock = -1};
    bt_status status = lock_folder(path, &made->lock);
    if (status == BT_OK && unused)
        status = check_unused(path);
    if (status == BT_OK)
        *output = made;
    else
        bt_output_free(made);
    return status;
}

bt_status bt_output_make(const char *wanted, const char *stem, bt_output **output)
{
    char *path = NULL;
    if (output)
        *output = NULL;
    if (!output || (!wanted && !stem))
        return bt_fail(BT_ERROR_ARGUMENT, "bt_output_make: an argument is NULL");
    BT_TRY(wanted ? make_wanted(wanted, &path) : make_numbered(stem, &path));
    return take(output, path, true);
}

bt_status bt_output_open(const char *folder, bool make, bt_output **output)
{
    char *path = NULL;
    if (output)
        *output = NULL;
    if (!output || !folder)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_output_open: an argument is NULL");
    if (make)
        BT_TRY(make_wanted(folder, &path));
    else if (!(path = bt_strdup(folder)))
        return BT_ERROR_MEMORY;
    return take(output, path, false);
}

void bt_output_free(bt_output *output)
{
    if (!output)
        return;
    if (output->lock >= 0)
        close(output->lock);
    bt_free(output->path);
    bt_free(output);
}

/* ---- files ---- */

bt_status bt_output_write(const char *folder, const char *name, const void *data, size_t size)
{
    if (!folder || !name || (!data && size))
        return bt_fail(BT_ERROR_ARGUMENT, "bt_output_write: an argument is NULL");
    char *path = bt_string("%s/%s", folder, name);
    bt_writer *writer = path ? bt_writer_open(path) : NULL;
    bt_free(path);
    if (!writer)
        return BT_ERROR_MEMORY;
    bt_writer_put(writer, data, size);
    return bt_writer_close(writer, true, NULL);
}

bt_status bt_output_remove(const char *folder, const char *name)
{
    char *path = folder && name ? bt_string("%s/%s", folder, name) : NULL;
    if (!path)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_output_remove: an argument is NULL");
    bt_status status = BT_OK;
    if (unlink(path) != 0 && errno != ENOENT)
        status = bt_fail(BT_ERROR_FILE, "%s cannot be removed: %s", path, strerror(errno));
    bt_free(path);
    return status;
}
