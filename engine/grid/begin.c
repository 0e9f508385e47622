/* engine/grid/begin.c: what to run, and where: a new request, or the runs of a folder plus added ones. */
#include "engine/config/config.h"
#include "engine/grid/grid_inside.h"
#include "engine/output/left.h"

#include "base/version.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bt_status out_of_memory(bool good) { return good ? BT_OK : bt_fail(BT_ERROR_MEMORY, "out of memory"); }

static bool is_text_object(json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (!json_is_string(value))
            return false;
    }
    return json_is_object(object);
}

static bool is_list_of(json_t *list, json_type type)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_typeof(json_array_get(list, i)) != type)
            return false;
    return json_is_array(list);
}

/* Only we write this file, but anybody can change it. */
static bool is_grid(const json_t *all)
{
    json_t *vary = json_object_get(all, "vary"), *runs = json_object_get(all, "runs"), *values;
    const char *key;
    bool good = is_text_object(json_object_get(all, "settings")) && json_is_object(vary) &&
                is_list_of(json_object_get(all, "seeds"), JSON_INTEGER) && is_list_of(runs, JSON_OBJECT);
    json_object_foreach(vary, key, values)
    {
        good = good && is_list_of(values, JSON_STRING) && json_array_size(values) > 0;
    }
    for (size_t i = 0; i < json_array_size(runs); i++)
        good = good && is_text_object(json_object_get(json_array_get(runs, i), "settings"));
    return good;
}

static bt_status read_grid(const bt_grid *grid, bt_grid_begun *b)
{
    BT_TRY(bt_output_open(grid->resume, false, &b->output));
    BT_TRY(bt_left_json(grid->resume, BT_OUTPUT_GRID, &b->all));
    if (!is_grid(b->all))
        return bt_fail(BT_ERROR_CONFIG, "%s/%s cannot be read: this program did not write it", grid->resume,
                       BT_OUTPUT_GRID);
    return bt_grid_join(b->all, grid->asked);
}

static bt_status find_file(const bt_grid *grid, bt_grid_begun *b)
{
    const char *old = json_string_value(json_object_get(b->all, "file"));
    const char *wanted = grid->file ? grid->file : old;
    char path[PATH_MAX];
    if (!wanted)
        return BT_OK;
    if (!grid->file && access(wanted, R_OK) != 0)
        return bt_fail(BT_ERROR_CONFIG,
                       "%s was started with %s, which no longer exists; name the file: betty-run FILE --resume %s",
                       grid->resume, wanted, grid->resume);
    b->file = bt_strdup(wanted);
    BT_TRY(out_of_memory(b->file != NULL));
    return out_of_memory(json_object_set_new(b->all, "file", bt_json_string(realpath(wanted, path) ? path : wanted)) ==
                         0);
}

/* The settings of [engine], as far as they are known here. */
static bt_status read_settings(const bt_grid_begun *b, bt_config *config)
{
    json_t *value;
    const char *key;
    if (!config)
        return BT_ERROR_MEMORY;
    if (b->file)
        BT_TRY(bt_config_read(config, b->file));
    json_object_foreach(json_object_get(b->all, "settings"), key, value)
    {
        char *origin = bt_string("--set %s", key);
        bt_status status = origin ? bt_config_set(config, key, json_string_value(value), origin) : BT_ERROR_MEMORY;
        bt_free(origin);
        BT_TRY(status);
    }
    return bt_config_engine(config) ? BT_OK : bt_error_status();
}

static bt_status open_output(const bt_grid *grid, bt_grid_begun *b, const bt_config *config, const char *wanted)
{
    char *name = bt_string("%s-grid", bt_config_stem(config));
    bt_status status =
        out_of_memory(name && json_object_set_new(b->all, "name", bt_json_string(bt_config_stem(config))) == 0);
    if (status == BT_OK && !b->output && !grid->plan)
        status = bt_output_make(wanted, name, &b->output);
    bt_free(name);
    json_object_del(json_object_get(b->all, "settings"), "engine.output"); /* each run has its own */
    return status == BT_ERROR_FILE ? BT_ERROR_CONFIG : status;
}

static bt_status find_all(const bt_grid *grid, bt_grid_begun *b)
{
    if (grid->resume)
        return read_grid(grid, b);
    b->all = bt_json_with(json_deep_copy(grid->asked), "runs", json_array());
    return out_of_memory(b->all != NULL);
}

static bt_status begin(const bt_grid *grid, bt_grid_begun *b, bt_config *config)
{
    BT_TRY(find_all(grid, b));
    BT_TRY(out_of_memory(json_object_set_new(b->all, "version", json_string(BT_VERSION)) == 0));
    if (json_array_size(json_object_get(b->all, "seeds")) &&
        json_object_get(json_object_get(b->all, "settings"), "engine.seed"))
        return bt_fail(BT_ERROR_CONFIG, "--seed and --seeds cannot be used together");
    BT_TRY(find_file(grid, b));
    BT_TRY(read_settings(b, config));
    BT_TRY(bt_grid_list(b->all, b->file, grid->plan));
    b->threads = bt_config_engine(config)->threads;
    return open_output(grid, b, config, bt_config_engine(config)->output);
}

bt_status bt_grid_begin(const bt_grid *grid, bt_grid_begun *begun)
{
    bt_config *config = bt_config_new();
    *begun = (bt_grid_begun){0};
    bt_status status = begin(grid, begun, config);
    bt_config_free(config);
    return status;
}

void bt_grid_end(bt_grid_begun *begun)
{
    json_decref(begun->all);
    bt_output_free(begun->output);
    bt_free(begun->file);
    *begun = (bt_grid_begun){0};
}
