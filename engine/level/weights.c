/* engine/level/weights.c: a problem that starts from the values in a file. */
#include "engine/level/level.h"

#include <unistd.h>

/* The file as named or, if it does not exist, in the folder of the INI file; to be freed. */
static char *find(const bt_context *context, const char *name)
{
    const char *folder = bt_config_folder(context->config);
    if (*name == '/' || access(name, F_OK) == 0 || !folder || !*folder)
        return bt_strdup(name);
    char *beside = bt_string("%s/%s", folder, name);
    if (beside && access(beside, F_OK) != 0) {
        bt_fail(BT_ERROR_FILE, "%s: file not found in the working folder or in %s", name, folder);
        bt_free(beside);
        return NULL;
    }
    return beside;
}

bt_status bt_problem_load_weights(bt_problem *problem)
{
    const bt_config *config = problem->context->config;
    const bt_problem_settings *s = problem->settings;
    if (!s->weights && s->weights_names)
        return bt_fail(BT_ERROR_CONFIG, "%s = %s: weights is not set; name the file there",
                       bt_config_place(config, problem->name, "weights_names"), s->weights_names);
    if (!s->weights || problem->context->resuming) /* a checkpoint has all of them */
        return BT_OK;
    if (problem->def->start)
        return bt_fail(BT_ERROR_CONFIG,
                       "%s = %s: each inner loop of %s starts with the values from its `start`; set the weights of the "
                       "problem that provides them",
                       bt_config_place(config, problem->name, "weights"), s->weights, problem->name);
    char *path = find(problem->context, s->weights);
    bt_load_options options = {
        .names = s->weights_names, .layout = (bt_layout)s->weights_layout, .partial = s->weights_missing == 1};
    bt_text report = {0};
    bt_status status = path ? bt_module_fill(problem->module, path, &options, &report) : bt_error_status();
    if (status == BT_OK)
        bt_say(problem->context, BT_LINE_NOTE, "%s: %s: %s", problem->name, path, bt_text_get(&report));
    else
        bt_error_context("%s", bt_config_place(config, problem->name, "weights"));
    bt_text_free(&report);
    bt_free(path);
    return status;
}
