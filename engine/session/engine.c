/* engine/session/engine.c: the public engine: its life, its settings, training. */
#include "engine/session/session.h"

#include "engine/solve/methods.h"
#include <math.h>
#include <string.h>

bt_engine *bt_engine_new(void)
{
    bt_engine *engine = bt_alloc(sizeof *engine);
    if (!engine)
        return NULL;
    engine->context.engine = engine;
    engine->standing.best = NAN;
    engine->metrics_length = -1;
    engine->context.config = bt_config_new();
    engine->baseline = bt_live_bytes();
    bt_status status = engine->context.config ? BT_OK : BT_ERROR_MEMORY;
    for (int i = 0; status == BT_OK && bt_method_builtin(i); i++)
        status = bt_config_add_method(engine->context.config, bt_method_builtin(i));
    if (status == BT_OK)
        return engine;
    bt_engine_free(engine);
    return NULL;
}

void bt_engine_free(bt_engine *engine)
{
    if (!engine)
        return;
    bt_context *context = &engine->context;
    bt_loop_starts_close(context);
    for (int i = 0; i < context->problem_count; i++) {
        bt_problem_uncompile(context->problems[i]);
        bt_solve_forget(context->problems[i], NULL);
        bt_kept_free(context->problems[i]->adapted);
    }
    bt_metrics_free(&engine->context);
    bt_unwire(&engine->context);
    for (int i = 0; i < context->problem_count; i++)
        bt_problem_free(context->problems[i]);
    bt_free(context->ledger.rows);
    bt_output_free(engine->output);
    bt_instance_free(engine->context.instance);
    bt_config_free(engine->context.config);
    for (int i = 0; i < engine->dataset_count; i++)
        bt_dataset_unregister(engine->datasets[i]);
    bt_free(engine->datasets);
    for (int i = 0; i < engine->plugin_count; i++)
        bt_plugin_close(engine->plugins[i]);
    bt_free(engine->plugins);
    bt_free(engine->context.problems);
    bt_free(engine->due.list);
    bt_free(engine->context.message);
    bt_text_free(&engine->context.warnings);
    bt_text_free(&engine->context.notes);
    bt_free(engine);
}

/* Calls that change an engine: NULL, an earlier failure, or one that is planned already cannot be changed. */
static bt_status may_change(bt_engine *engine, const char *function)
{
    if (!engine)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: the engine is NULL", function);
    if (engine->context.status != BT_OK)
        return engine->context.status;
    if (engine->context.loaded)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: the engine is set up already", function);
    return BT_OK;
}

bt_status bt_engine_load(bt_engine *engine, const char *file)
{
    BT_TRY(may_change(engine, "bt_engine_load"));
    if (!file)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_load: a file is needed");
    return bt_keep_error(&engine->context, bt_config_read(engine->context.config, file));
}

bt_status bt_engine_use(bt_engine *engine, const bt_export *parts, void *user)
{
    BT_TRY(may_change(engine, "bt_engine_use"));
    if (!parts)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_use: a record is needed");
    return bt_keep_error(&engine->context, bt_engine_add(engine, parts, user, NULL));
}

bt_status bt_engine_set_from(bt_engine *engine, const char *key, const char *value, const char *origin)
{
    BT_TRY(may_change(engine, "bt_engine_set"));
    return bt_config_set(engine->context.config, key, value, origin);
}

bt_status bt_engine_set(bt_engine *engine, const char *key, const char *value, ...)
{
    va_list args;
    BT_TRY(may_change(engine, "bt_engine_set"));
    if (!key || !value)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_set: the %s is NULL", key ? "value" : "key");
    va_start(args, value);
    char *text = bt_format(value, args);
    va_end(args);
    bt_status status = text ? bt_engine_set_from(engine, key, text, "bt_engine_set") : BT_ERROR_MEMORY;
    bt_free(text);
    return status;
}

bt_status bt_engine_attach(bt_engine *engine, const bt_front *front)
{
    if (!engine || !front)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_attach: an engine and a front are needed");
    engine->front = *front;
    return BT_OK;
}

bt_problem *bt_engine_problem(bt_engine *engine, const char *name)
{
    if (bt_engine_enter(engine) != BT_OK)
        return NULL;
    bt_problem *problem = bt_problem_find(&engine->context, name);
    if (!problem) {
        bt_text list = {0};
        bt_fail(BT_ERROR_ARGUMENT, "there is no problem `%s`; there are %s", name ? name : "(NULL)",
                bt_problem_list(&engine->context, &list));
        bt_text_free(&list);
    }
    return problem;
}

double bt_engine_metric(bt_engine *engine, const char *name)
{
    for (int i = 0; engine && name && i < engine->context.metric_count; i++)
        if (strcmp(engine->context.metrics[i]->full, name) == 0)
            return engine->context.metrics[i]->last;
    return NAN;
}
