/* engine/session/engine.c: the public engine: creation and destruction, settings, problems and metrics by name. */
#include "engine/session/session.h"

#include "base/footprint.h"
#include "data/dataset.h"
#include "engine/solve/methods.h"
#include <math.h>
#include <string.h>

/* The progress of a run, which checkpoints contain. */
static bt_status enter_numbers(bt_engine *engine)
{
    const struct {
        const char *name;
        bt_row_kind kind;
        void *number;
    } rows[] = {
        {"step", BT_ROW_INT, &engine->context.step}, {"seconds", BT_ROW_REAL, &engine->seconds},
        {"best", BT_ROW_REAL, &engine->best},        {"patience", BT_ROW_INT, &engine->patience},
        {"touched", BT_ROW_INT, &engine->touched},   {"best_step", BT_ROW_INT, &engine->best_step},
    };
    for (int i = 0; i < BT_COUNT_OF(rows); i++)
        BT_TRY(
            bt_ledger_enter_number(&engine->context, NULL, BT_ROLE_CLOCK, rows[i].name, rows[i].kind, rows[i].number));
    return BT_OK;
}

bt_engine *bt_engine_new(void)
{
    bt_engine *engine = bt_alloc(sizeof *engine);
    if (!engine)
        return NULL;
    engine->context.engine = engine;
    engine->best = NAN;
    engine->lengths = bt_log_nothing;
    engine->closing = -1;
    engine->context.config = bt_config_new();
    engine->baseline = bt_live_bytes();
    engine->host_baseline = bt_live_host_bytes();
    engine->own_before = bt_own_bytes();
    engine->data_before = bt_store_bytes();
    engine->absent_before = bt_store_absent();
    bt_own_peak_begin();
    bt_status status = engine->context.config ? enter_numbers(engine) : BT_ERROR_MEMORY;
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
    if (context->stages.depth > 0) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_engine_free: a call of the engine is under way, and this is one of its "
                                   "callbacks: free it after that call has returned");
        return;
    }
    bt_run_close(engine);
    bt_loop_starts_close(context);
    context->ledger.count = 0; /* everything goes now, so nothing needs to be removed singly */
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
    bt_free(engine->left);
    bt_progress_free(engine->progress);
    bt_text_free(&engine->name);
    bt_instance_free(engine->context.instance);
    if (engine->transport)
        engine->transport->close(engine->transport);
    bt_free(engine->context.checkpointing);
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

static bt_status may_change(bt_engine *engine, const char *function)
{
    if (!engine)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: the engine is NULL", function);
    return bt_context_may(&engine->context, BT_REQUEST_CONFIGURE, function);
}

bt_status bt_engine_load(bt_engine *engine, const char *file)
{
    BT_TRY(may_change(engine, "bt_engine_load"));
    if (!file)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_load: the file is NULL");
    return bt_keep_error(&engine->context, bt_config_read(engine->context.config, file));
}

bt_status bt_engine_use(bt_engine *engine, const bt_export *parts, void *user)
{
    BT_TRY(may_change(engine, "bt_engine_use"));
    if (!parts)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_use: the record is NULL");
    return bt_keep_error(&engine->context, bt_engine_add(engine, parts, user, NULL));
}

bt_status bt_engine_set_from(bt_engine *engine, const char *key, const char *value, const char *origin)
{
    BT_TRY(may_change(engine, "bt_engine_set"));
    return bt_config_set(engine->context.config, key, value, origin);
}

/* Between two training calls. */
static bt_status change(bt_engine *engine, const char *key, const char *value)
{
    BT_TRY(bt_context_may(&engine->context, BT_REQUEST_CHANGE, "bt_engine_set"));
    BT_TRY(bt_config_change(engine->context.config, key, value, "bt_engine_set"));
    engine->changed = true;
    return BT_OK;
}

bt_status bt_engine_set(bt_engine *engine, const char *key, const char *value, ...)
{
    va_list args;
    bool late = engine && bt_stage_now(&engine->context) != BT_STAGE_NEW;
    if (!late)
        BT_TRY(may_change(engine, "bt_engine_set"));
    if (!key || !value)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_set: the %s is NULL", key ? "value" : "key");
    va_start(args, value);
    char *text = bt_format(value, args);
    va_end(args);
    bt_status status = !text  ? BT_ERROR_MEMORY
                       : late ? change(engine, key, text)
                              : bt_engine_set_from(engine, key, text, "bt_engine_set");
    bt_free(text);
    return status;
}

bt_status bt_engine_log(bt_engine *engine, bt_log_fn *fn, void *user)
{
    if (!engine)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_log: the engine is NULL");
    BT_TRY(bt_context_may(&engine->context, BT_REQUEST_LOG, "bt_engine_log"));
    engine->context.log = fn;
    engine->context.log_user = user;
    bt_say_unheard(&engine->context);
    return BT_OK;
}

bt_status bt_engine_attach(bt_engine *engine, const bt_front *front)
{
    if (!engine || !front)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_attach: an engine and a front are needed");
    engine->front = *front;
    bt_progress_free(engine->progress);
    engine->progress = NULL;
    engine->context.validating = NULL;
    if (!front->progress)
        return BT_OK;
    engine->progress = bt_progress_new(front->progress, 0);
    engine->context.validating = bt_progress_validation;
    engine->context.validating_user = engine->progress;
    return engine->progress ? bt_engine_log(engine, bt_progress_line, engine->progress) : BT_ERROR_MEMORY;
}

bt_problem *bt_engine_problem(bt_engine *engine, const char *name)
{
    if (bt_engine_enter(engine, BT_REQUEST_LOOK, "bt_engine_problem") != BT_OK)
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
            return bt_metric_last(engine->context.metrics[i]);
    return NAN;
}
