/* engine/state/checkpoint.c: saves the state of a run, and goes on from what was saved. */
#include "engine/state/checkpoint.h"

#include "base/version.h"
#include <stdlib.h>
#include <string.h>

/* ---- saving ---- */

static bt_status save(bt_engine *engine, const char *folder, int64_t metrics_length, bt_tensor_list *list)
{
    /* A static int that has changed makes the programs anew before the next step; they are what is signed. */
    BT_TRY(bt_update_scalars(&engine->context));
    bt_engine_note_touched(engine);
    BT_TRY(bt_tensors_of_memory(engine, list));
    BT_TRY(bt_tensors_of_variables(engine, list));
    json_t *record = bt_record_new(engine, metrics_length);
    if (!record)
        return bt_error_status();
    bt_status status = bt_checkpoint_write(folder, engine->context.step, list->items, list->count, record);
    json_decref(record);
    return status;
}

bt_status bt_checkpoint_save(bt_engine *engine, const char *folder, int64_t metrics_length)
{
    bt_tensor_list list = {0};
    bt_status status = save(engine, folder, metrics_length, &list);
    bt_tensors_free(&list);
    if (status != BT_OK)
        return bt_fail(status, "%s: a checkpoint: out of memory", folder);
    bt_checkpoint_prune(folder, engine->context.step, engine->context.settings->checkpoint_keep);
    return BT_OK;
}

/* ---- resuming ---- */

/* What does not keep a run from going on, but from being bit-identical. */
static void warn_of_machine(bt_engine *engine, json_t *record)
{
    const char *was = json_string_value(json_object_get(record, "backend"));
    const char *version = json_string_value(json_object_get(record, "version"));
    char now[256];
    bt_engine_backend(engine, now);
    if (was && strcmp(was, now) != 0)
        bt_warn(&engine->context,
                "the checkpoint was written with %s, and this is %s: last digits may come out otherwise", was, now);
    if (version && strcmp(version, BT_VERSION) != 0)
        bt_warn(&engine->context,
                "the checkpoint was written by version %s, and this is %s: last digits may come out "
                "otherwise",
                version, BT_VERSION);
}

/* A cosine was planned for the length that the run had, and goes up again where that is passed. */
static void warn_of_cosines(bt_engine *engine, json_t *record)
{
    const char *was = json_string_value(json_object_get(json_object_get(record, "config"), "engine.train_iters"));
    long long planned = was ? strtoll(was, NULL, 10) : 0;
    for (int i = 0; i < engine->context.problem_count; i++) {
        const bt_scheduler *scheduler = &engine->context.problems[i]->settings->scheduler;
        if (scheduler->kind == BT_SCHEDULER_COSINE && scheduler->t_max == planned &&
            engine->context.settings->train_iters > planned)
            bt_warn(&engine->context,
                    "[%s] scheduler = cosine: scheduler_t_max is %lld, the train_iters that the run had: its "
                    "rate rises again after as many updates",
                    engine->context.problems[i]->name, planned);
    }
}

/* What callbacks read on the host comes first: programs may depend on it. */
static bt_status restore(bt_engine *engine, const bt_checkpoint *checkpoint, bt_tensor_list *memory,
                         bt_tensor_list *variables)
{
    BT_TRY(bt_record_rewire(engine, checkpoint->record));
    BT_TRY(bt_record_restore(engine, checkpoint->record));
    BT_TRY(bt_tensors_of_memory(engine, memory));
    BT_TRY(bt_tensors_restore(memory, &checkpoint->tensors));
    BT_TRY(bt_update_scalars(&engine->context));
    BT_TRY(bt_record_check_graphs(engine, checkpoint->record));
    BT_TRY(bt_tensors_of_variables(engine, variables));
    BT_TRY(bt_tensors_restore(variables, &checkpoint->tensors));
    if (memory->count + variables->count != checkpoint->tensors.count)
        return bt_fail(BT_ERROR_CONFIG, "the checkpoint has %lld tensors, of which this run knows %lld",
                       (long long)checkpoint->tensors.count, (long long)(memory->count + variables->count));
    bt_steps_show(&engine->context, false);
    return BT_OK;
}

bt_status bt_checkpoint_load(bt_engine *engine, const char *folder, int64_t *metrics_length)
{
    bt_checkpoint checkpoint;
    bt_text passed = {0};
    bt_tensor_list memory = {0}, variables = {0};
    *metrics_length = -1;
    bt_status status = bt_checkpoint_newest(folder, &checkpoint, &passed);
    if (status == BT_OK && passed.size)
        bt_warn(&engine->context, "%s; going on from step %lld", passed.data, (long long)checkpoint.step);
    bt_text_free(&passed);
    BT_TRY(status);
    status = bt_record_check(engine, checkpoint.record);
    if (status == BT_OK)
        status = bt_keep_error(&engine->context, restore(engine, &checkpoint, &memory, &variables));
    if (status == BT_OK) {
        const json_t *length = json_object_get(checkpoint.record, "metrics_length");
        *metrics_length = json_is_integer(length) ? json_integer_value(length) : -1;
        warn_of_machine(engine, checkpoint.record);
        warn_of_cosines(engine, checkpoint.record);
    } else {
        bt_fail(status, "out of memory");
        bt_error_context("%s/checkpoints/step-%lld", folder, (long long)checkpoint.step);
    }
    bt_tensors_free(&memory);
    bt_tensors_free(&variables);
    bt_checkpoint_free(&checkpoint);
    return status;
}

/* ---- the public calls ---- */

static bt_status between_runs(bt_engine *engine, const char *folder, const char *function)
{
    BT_TRY(bt_engine_enter(engine));
    if (!folder)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: a folder is needed", function);
    if (engine->context.running || engine->context.busy)
        return bt_fail(BT_ERROR_ARGUMENT,
                       "%s: the engine is running; a run writes checkpoints by itself, see engine.checkpoint_step",
                       function);
    return bt_check_restored(&engine->context);
}

bt_status bt_engine_save(bt_engine *engine, const char *folder)
{
    bt_output *output = NULL;
    BT_TRY(between_runs(engine, folder, "bt_engine_save"));
    if (!engine->output || strcmp(engine->output->path, folder) != 0)
        BT_TRY(bt_output_open(folder, true, &output));
    bt_status status = bt_checkpoint_save(engine, folder, bt_output_metrics(folder));
    bt_output_free(output);
    return status;
}

static bt_status resume(bt_engine *engine, const char *folder)
{
    bt_output *output;
    BT_TRY(bt_run_close(engine)); /* the run in progress is not the one that goes on */
    engine->closing = -1;
    bt_output_free(engine->output);
    engine->output = NULL;
    BT_TRY(bt_output_open(folder, false, &output));
    bt_status status = bt_checkpoint_load(engine, folder, &engine->metrics_length);
    const char *wanted = engine->context.settings->output;
    bool goes_on = engine->metrics_length >= 0 || engine->front.files || (wanted && strcmp(wanted, folder) == 0);
    if (status == BT_OK && goes_on)
        engine->output = output;
    else
        bt_output_free(output);
    return status;
}

bt_status bt_engine_resume(bt_engine *engine, const char *folder)
{
    bool before = engine && engine->context.ready; /* else it is set up without what a checkpoint brings */
    if (engine)
        engine->context.resuming = folder != NULL;
    bt_status status = between_runs(engine, folder, "bt_engine_resume");
    if (status != BT_OK) {
        if (engine)
            engine->context.resuming = false;
        return status;
    }
    status = resume(engine, folder);
    return before ? bt_fail(status, "failed") : bt_keep_error(&engine->context, status);
}
