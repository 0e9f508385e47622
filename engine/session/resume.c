/* engine/session/resume.c: bt_engine_save and bt_engine_resume: checkpoints between two runs. */
#include "engine/session/session.h"
#include "engine/state/checkpoint.h"

#include <string.h>

static bt_status between_runs(bt_engine *engine, const char *folder, const char *function)
{
    BT_TRY(bt_engine_enter(engine, BT_REQUEST_SAVE, function));
    if (!folder)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: the folder is NULL", function);
    return bt_check_restored(&engine->context);
}

bt_status bt_engine_save(bt_engine *engine, const char *folder)
{
    bt_output *output = NULL;
    BT_TRY(between_runs(engine, folder, "bt_engine_save"));
    if (!engine->output || strcmp(engine->output->path, folder) != 0)
        BT_TRY(bt_output_open(folder, true, &output));
    bt_engine_note_touched(engine);
    const bt_log_lengths lengths = bt_log_lengths_of(folder);
    bt_status status = bt_checkpoint_save(&engine->context, folder, false, &lengths);
    bt_output_free(output);
    return status;
}

static bt_status resume(bt_engine *engine, const char *folder, const char *name)
{
    bt_output *output;
    BT_TRY(bt_run_close(engine)); /* the current run is not the one to continue */
    engine->closing = -1;
    bt_output_free(engine->output);
    engine->output = NULL;
    if (bt_instance_home(engine->context.instance)) /* rank 0 owns the folder */
        return bt_checkpoint_load(&engine->context, folder, name, &engine->lengths);
    BT_TRY(bt_output_open(folder, false, &output));
    bt_status status = bt_checkpoint_load(&engine->context, folder, name, &engine->lengths);
    const char *wanted = engine->context.settings->output;
    bool goes_on =
        engine->lengths.bytes[BT_SINK_JSONL] >= 0 || engine->front.files || (wanted && strcmp(wanted, folder) == 0);
    if (status == BT_OK && goes_on)
        engine->output = output;
    else
        bt_output_free(output);
    return status;
}

bt_status bt_engine_resume(bt_engine *engine, const char *folder)
{
    bool before = engine && bt_stage_now(&engine->context) !=
                                BT_STAGE_NEW; /* if false, the set-up leaves out what the checkpoint contains */
    if (engine)
        engine->context.resuming = folder != NULL;
    bt_status status = between_runs(engine, folder, "bt_engine_resume");
    if (status != BT_OK) {
        if (engine)
            engine->context.resuming = false;
        return status;
    }
    char *run = NULL, name[BT_CHECKPOINT_NAME];
    status = bt_checkpoint_place(folder, &run, name);
    if (status == BT_OK)
        status = resume(engine, run, name);
    bt_free(run);
    return before ? bt_fail(status, "failed") : bt_keep_error(&engine->context, status);
}
