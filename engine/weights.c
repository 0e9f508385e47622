/* engine/weights.c: a problem that starts from values in a file. */
#include "engine/problem.h"

#include <string.h>
#include <unistd.h>

/* The file as it is named, or beside the INI file; to be freed. */
static char *find(const bt_engine *engine, const char *name)
{
    const char *folder = bt_config_folder(engine->config);
    bt_text text = {0};
    if (*name == '/' || access(name, R_OK) == 0 || !folder || !*folder)
        bt_text_add(&text, "%s", name);
    else
        bt_text_add(&text, "%s/%s", folder, name);
    if (text.failed)
        bt_text_free(&text);
    return text.data;
}

bt_status bt_problem_load_weights(bt_problem *problem)
{
    const bt_problem_settings *s = problem->settings;
    if (!s->weights || problem->engine->resuming) /* a checkpoint has them all */
        return BT_OK;
    char *path = find(problem->engine, s->weights);
    if (!path)
        return BT_ERROR_MEMORY;
    bt_load_options options = {
        .names = s->weights_names, .plain = s->weights_layout == 1, .partial = s->weights_missing == 1};
    bt_text report = {0};
    bt_status status = bt_module_fill(problem->module, path, &options, &report);
    if (status == BT_OK)
        bt_text_add(&problem->engine->notes, "%s: %s: %s\n", problem->name, path, bt_text_get(&report));
    else
        bt_error_context("[%s] weights", problem->name);
    bt_text_free(&report);
    bt_free(path);
    return status;
}
