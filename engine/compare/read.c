/* engine/compare/read.c: settings, code and results of a run, read from its folder. Anybody may have written what is
 * there: a value that a run would not write is skipped. */
#include "engine/compare/compare.h"

#include "engine/config/ini.h"
#include "engine/output/json.h"
#include "engine/state/checkpoint.h"
#include <string.h>

/* ---- settings ---- */

/* The location of a run is not a difference. */
static bt_status take_setting(void *user, const char *section, const char *key, const char *value, int64_t line)
{
    json_t **settings = user;
    (void)line;
    if (!key || (strcmp(section, "engine") == 0 && (strcmp(key, "output") == 0 || strcmp(key, "folder_here") == 0)))
        return BT_OK;
    char *name = bt_string("%s.%s", section, key);
    *settings = name ? bt_json_with(*settings, name, bt_json_string(value)) : *settings;
    bt_free(name);
    return name && *settings ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status read_settings(const char *folder, bt_compared *run)
{
    char *path = bt_string("%s/config.ini", folder);
    run->settings = json_object();
    bt_status status = path && run->settings ? bt_ini_read(path, take_setting, &run->settings) : BT_ERROR_MEMORY;
    bt_free(path);
    return status;
}

/* ---- code ---- */

/* Does nothing if there is no value. */
static void put(json_t **object, const char *level, const char *what, const char *name, json_t *value)
{
    if (!value)
        return;
    char *key = bt_string("%s%s%s%s", level, *level ? "." : "", what, name);
    *object = key ? bt_json_with(*object, key, json_incref(value)) : (json_decref(*object), NULL);
    bt_free(key);
}

/* In the order of BT_PURE_STEP and the kinds after it. */
static const char *const callbacks[BT_PURE_KINDS] = {"training_step", "validation_step", "update", "condition",
                                                     "start"};

static void take_level(json_t **code, json_t *level)
{
    const char *name = bt_json_read_text(level, "name"), *field;
    json_t *value, *graphs = json_object_get(level, "graphs"), *data = json_object_get(level, "data");
    for (size_t k = 0; k < BT_PURE_KINDS; k++) {
        value = json_array_get(graphs, k);
        if (json_string_length(value))
            put(code, name, callbacks[k], "", value);
    }
    json_object_foreach(data, field, value) { put(code, name, "data ", field, value); }
}

static bt_status read_code(const char *folder, bt_compared *run)
{
    json_t *record = NULL, *level;
    size_t i;
    BT_TRY(bt_checkpoint_record(folder, &record));
    if (!record)
        return BT_OK;
    run->code = json_object();
    put(&run->code, "", "version", "", json_object_get(record, "version"));
    put(&run->code, "", "kernels", "", json_object_get(record, "backend"));
    json_array_foreach(json_object_get(record, "problems"), i, level) { take_level(&run->code, level); }
    json_decref(record);
    return run->code ? BT_OK : bt_fail(BT_ERROR_MEMORY, "%s: no memory for its code", folder);
}

/* ---- results ---- */

static void take_all(json_t **results, json_t *object, const char *before)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) { put(results, "", before, name, value); }
}

static void take_summary(json_t **results, json_t *summary)
{
    static const char *const names[] = {"stopped",    "steps",         "seconds",           "ms_per_step",
                                        "data_bytes", "program_bytes", "program_peak_bytes"};
    const json_t *best = json_object_get(summary, "best");
    take_all(results, json_object_get(summary, "metrics"), "");
    if (best) {
        put(results, "best", bt_json_read_text(best, "metric"), "", json_object_get(best, "value"));
        put(results, "best", "step", "", json_object_get(best, "step"));
    }
    for (int i = 0; i < BT_COUNT_OF(names); i++)
        put(results, "", names[i], "", json_object_get(summary, names[i]));
    take_all(results, json_object_get(summary, "planned_bytes"), "planned_bytes.");
    take_all(results, json_object_get(summary, "measured_bytes"), "measured_bytes.");
}

typedef struct lines {
    json_t *last; /* the last value of each metric of an unfinished run; NULL: it has finished */
    bt_left_line_fn *hear;
    void *user;
} lines;

static bt_status take_line(void *user, json_t *line)
{
    const lines *l = user;
    if (l->last && json_object_update(l->last, line) != 0)
        return BT_ERROR_MEMORY;
    return l->hear ? l->hear(l->user, line) : BT_OK;
}

static void take_last(json_t **results, json_t *last)
{
    *results = bt_json_with(*results, "stopped", json_string("not yet: it has no summary.json"));
    put(results, "", "steps", "", json_object_get(last, "step"));
    put(results, "", "seconds", "", json_object_get(last, "time"));
    json_object_del(last, "step");
    json_object_del(last, "time");
    take_all(results, last, "");
}

static bt_status read_results(const char *folder, bt_left_line_fn *hear, void *user, bt_compared *run)
{
    lines l = {.hear = hear, .user = user};
    BT_TRY(bt_left_json(folder, "summary.json", &run->summary));
    run->results = json_object();
    if (!run->summary && !(l.last = json_object()))
        return BT_ERROR_MEMORY;
    bt_status status = l.last || hear ? bt_left_lines(folder, take_line, &l) : BT_OK;
    if (run->summary)
        take_summary(&run->results, run->summary);
    else
        take_last(&run->results, l.last);
    json_decref(l.last);
    return bt_fail(status == BT_OK && !run->results ? BT_ERROR_MEMORY : status, "%s: no memory for its results",
                   folder);
}

/* ---- a run ---- */

bt_status bt_compared_read(const char *folder, bt_left_line_fn *hear, void *user, bt_compared *run)
{
    *run = (bt_compared){0};
    BT_TRY(bt_left_run(folder));
    BT_TRY(read_settings(folder, run));
    BT_TRY(read_code(folder, run));
    return read_results(folder, hear, user, run);
}

void bt_compared_free(bt_compared *run)
{
    json_decref(run->settings);
    json_decref(run->code);
    json_decref(run->results);
    json_decref(run->summary);
    *run = (bt_compared){0};
}
