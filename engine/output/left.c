/* engine/output/left.c: reads what runs have left in their folders. */
#include "engine/output/left.h"

#include "engine/output/log.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bt_status bt_left_folder(const char *folder)
{
    struct stat info;
    if (stat(folder, &info) != 0)
        return bt_fail(BT_ERROR_CONFIG, "cannot open the folder %s: %s", folder, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return bt_fail(BT_ERROR_CONFIG, "%s is not a folder; name the folder of a run", folder);
    return BT_OK;
}

bool bt_left_has(const char *folder, const char *name)
{
    char path[PATH_MAX]; /* on the stack: a lack of memory must not look like a missing file */
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && access(path, F_OK) == 0;
}

bt_status bt_left_run(const char *folder)
{
    BT_TRY(bt_left_folder(folder));
    if (bt_left_has(folder, "config.ini"))
        return BT_OK;
    if (bt_output_holds(folder) == BT_OUTPUT_RUNS)
        return bt_fail(BT_ERROR_CONFIG, "%s holds several runs; name the subfolder of one, or read grid.md there",
                       folder);
    return bt_fail(BT_ERROR_CONFIG, "%s is not the folder of a run: it has no config.ini, which every run writes",
                   folder);
}

/* *path: for bt_free; NULL: out of memory. *file NULL: it does not exist, or the status says why it cannot be read. */
static bt_status open_file(const char *folder, const char *name, char **path, FILE **file)
{
    *path = bt_string("%s/%s", folder, name);
    *file = *path ? fopen(*path, "re") : NULL;
    if (*file || (*path && errno == ENOENT))
        return BT_OK;
    return *path && errno != ENOMEM ? bt_fail(BT_ERROR_CONFIG, "%s: %s", *path, strerror(errno)) : BT_ERROR_MEMORY;
}

/* jansson does not report that it ran out of memory. */
static bool lacks_memory(const json_error_t *why)
{
    const enum json_error_code code = json_error_code(why);
    return code == json_error_unknown || code == json_error_out_of_memory;
}

static bt_status parse(FILE *file, const char *path, json_t **value)
{
    json_error_t why;
    char shown[JSON_ERROR_TEXT_LENGTH + 1];
    *value = json_loadf(file, 0, &why);
    if (!*value && lacks_memory(&why))
        return BT_ERROR_MEMORY;
    if (!*value) {
        bt_show_controls(shown, sizeof shown, why.text);
        return bt_fail(BT_ERROR_CONFIG, "%s: line %d: it cannot be read as JSON: %s", path, why.line, shown);
    }
    if (json_is_object(*value))
        return BT_OK;
    json_decref(*value);
    *value = NULL;
    return bt_fail(BT_ERROR_CONFIG, "%s: it is JSON, but no object: no run has written it", path);
}

bt_status bt_left_json(const char *folder, const char *name, json_t **value)
{
    char *path;
    FILE *file;
    *value = NULL;
    bt_status status = open_file(folder, name, &path, &file);
    if (file) {
        status = parse(file, path, value);
        fclose(file);
    }
    bt_free(path);
    return bt_fail(status, "%s: no memory for its %s", folder, name);
}

static bt_status take_lines(FILE *file, const char *path, bt_left_line_fn *take, void *user)
{
    char *line = NULL;
    size_t room = 0;
    bt_status status = BT_OK;
    while (status == BT_OK && (errno = 0, getline(&line, &room, file)) > 0) {
        json_error_t why;
        json_t *object = json_loads(line, 0, &why);
        if (!object && lacks_memory(&why))
            status = BT_ERROR_MEMORY;
        else if (json_is_object(object))
            status = take(user, object);
        json_decref(object);
    }
    if (status == BT_OK && !feof(file))
        status = errno == ENOMEM ? BT_ERROR_MEMORY : bt_fail(BT_ERROR_CONFIG, "%s: %s", path, strerror(errno));
    free(line);
    return status;
}

bt_status bt_left_lines(const char *folder, bt_left_line_fn *take, void *user)
{
    char *path;
    FILE *file;
    bt_status status = open_file(folder, "metrics.jsonl", &path, &file);
    if (file) {
        status = take_lines(file, path, take, user);
        fclose(file);
    }
    bt_free(path);
    return bt_fail(status, "%s: no memory for its metrics", folder);
}
