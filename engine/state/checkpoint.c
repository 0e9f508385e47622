/* engine/state/checkpoint.c: saves the state of a run, and continues from it. */
#include "engine/state/checkpoint.h"

#include "base/version.h"
#include "engine/step/step.h"
#include <stdlib.h>
#include <string.h>

/* ---- saving ---- */

/* If a static int has changed, this rebuilds the programs, as the next step would: those are the ones that are
 * signed. */
static bt_status list_all(bt_context *context, bt_tensor_list *list)
{
    BT_TRY(bt_update_scalars(context));
    BT_TRY(bt_tensors_of_memory(context, list));
    return bt_tensors_of_variables(context, list);
}

static bt_status save(bt_context *context, const char *folder, bool best, const bt_log_lengths *lengths,
                      bt_tensor_list *list)
{
    char name[BT_CHECKPOINT_NAME] = BT_CHECKPOINT_BEST;
    if (!best)
        bt_checkpoint_name(name, context->step);
    BT_TRY(list_all(context, list));
    for (int64_t i = 0; i < list->count; i++)
        BT_TRY(bt_tensors_fetch(context, list, i));
    json_t *record = bt_record_new(context, lengths);
    if (!record)
        return bt_error_status();
    bt_status status = bt_checkpoint_write(folder, name, context->step, list, record);
    json_decref(record);
    return status;
}

bt_status bt_checkpoint_attend(bt_context *context)
{
    bt_tensor_list list = {0};
    bt_status status = list_all(context, &list);
    if (status == BT_OK)
        status = bt_tensors_attend(context, &list);
    bt_tensors_free(&list);
    return status;
}

bt_status bt_checkpoint_save(bt_context *context, const char *folder, bool best, const bt_log_lengths *lengths)
{
    bt_tensor_list list = {0};
    bt_status status = save(context, folder, best, lengths, &list);
    bt_tensors_free(&list);
    if (status != BT_OK)
        return bt_fail(status, "%s: a checkpoint: out of memory", folder);
    if (!best)
        bt_checkpoint_prune(folder, context->step, context->settings->checkpoint_keep);
    return BT_OK;
}

/* ---- resuming ---- */

/* Warns of differences that do not prevent a resume, but make it not bit-identical. */
static void warn_of_machine(bt_context *context, json_t *record)
{
    const char *was = json_string_value(json_object_get(record, "backend"));
    const char *version = json_string_value(json_object_get(record, "version"));
    char now[256];
    bt_context_backend(context, now);
    if (was && strcmp(was, now) != 0)
        bt_warn(context, "the checkpoint was written with %s, but this is %s: the last digits may differ", was, now);
    if (version && strcmp(version, BT_VERSION) != 0)
        bt_warn(context, "the checkpoint was written by version %s, but this is %s: the last digits may differ",
                version, BT_VERSION);
}

/* A cosine was planned for the length that the run had; beyond that it rises again. */
static bt_status warn_of_cosines(bt_context *context, json_t *record)
{
    const char *was = json_string_value(json_object_get(json_object_get(record, "config"), "engine.train_iters"));
    long long planned = was ? strtoll(was, NULL, 10) : 0;
    for (int i = 0; i < context->problem_count && planned > 0; i++) {
        const bt_scheduler *scheduler = &context->problems[i]->settings->scheduler;
        int64_t then, now;
        if (scheduler->kind != BT_SCHEDULER_COSINE)
            continue;
        BT_TRY(bt_config_whole_cosine(context->config, i, planned, &then));
        BT_TRY(bt_config_whole_cosine(context->config, i, context->settings->train_iters, &now));
        if (scheduler->t_max == then && now > then)
            bt_warn(context,
                    "[%s] scheduler = cosine: scheduler_t_max is %lld, which was the end of the run: its rate rises "
                    "again over as many updates",
                    context->problems[i]->name, (long long)then);
    }
    return BT_OK;
}

/* Values that callbacks read on the host come first, because programs may depend on them. */
static bt_status restore(bt_context *context, const bt_checkpoint_content *checkpoint, bt_tensor_list *memory,
                         bt_tensor_list *variables)
{
    BT_TRY(bt_record_rewire(context, checkpoint->record));
    BT_TRY(bt_record_restore(context, checkpoint->record));
    if (context->step != checkpoint->step)
        return bt_fail(BT_ERROR_FILE, "the checkpoint's record is of step %lld", (long long)context->step);
    BT_TRY(bt_tensors_of_memory(context, memory));
    BT_TRY(bt_tensors_restore(memory, &checkpoint->tensors));
    BT_TRY(bt_update_scalars(context));
    BT_TRY(bt_record_space(context, checkpoint->record));
    BT_TRY(bt_record_check_graphs(context, checkpoint->record));
    BT_TRY(bt_tensors_of_variables(context, variables));
    BT_TRY(bt_tensors_restore(variables, &checkpoint->tensors));
    if (memory->count + variables->count != checkpoint->tensors.count)
        return bt_fail(BT_ERROR_CONFIG, "the checkpoint has %lld tensors, but this run knows only %lld of them",
                       (long long)checkpoint->tensors.count, (long long)(memory->count + variables->count));
    bt_steps_show(context, false);
    return BT_OK;
}

/* taking: "continuing from". */
static bt_status open_told(bt_context *context, const char *folder, const char *name, const char *taking,
                           bt_checkpoint_content *checkpoint)
{
    bt_text passed = {0};
    bt_status status = bt_checkpoint_open(folder, name, checkpoint, &passed);
    if (status == BT_OK && passed.size)
        bt_warn(context, "%s; %s step %lld", passed.data, taking, (long long)checkpoint->step);
    bt_text_free(&passed);
    return status;
}

bt_status bt_checkpoint_load(bt_context *context, const char *folder, const char *name, bt_log_lengths *lengths)
{
    bt_checkpoint_content checkpoint;
    bt_tensor_list memory = {0}, variables = {0};
    *lengths = bt_log_nothing;
    BT_TRY(open_told(context, folder, name, "continuing from", &checkpoint));
    bt_status status = bt_record_check(context, checkpoint.record);
    if (status == BT_OK)
        status = bt_keep_error(context, restore(context, &checkpoint, &memory, &variables));
    if (status == BT_OK) {
        *lengths = bt_record_lengths(checkpoint.record);
        warn_of_machine(context, checkpoint.record);
        status = warn_of_cosines(context, checkpoint.record);
    } else {
        bt_fail(status, "out of memory");
        bt_error_context("%s/checkpoints/%s", folder, checkpoint.name);
    }
    bt_tensors_free(&memory);
    bt_tensors_free(&variables);
    bt_checkpoint_free(&checkpoint);
    return status;
}

/* ---- the model alone ---- */

static bt_status restore_model(bt_context *context, const bt_checkpoint_content *checkpoint, bt_tensor_list *kept,
                               bt_tensor_list *model)
{
    BT_TRY(bt_tensors_of_memory(context, kept));
    BT_TRY(bt_tensors_restore(kept, &checkpoint->tensors));
    context->step = checkpoint->step;
    bt_record_restore_steps(context, checkpoint->record);
    BT_TRY(bt_update_scalars(context));
    BT_TRY(bt_tensors_of_model(context, model));
    BT_TRY(bt_tensors_restore(model, &checkpoint->tensors));
    bt_steps_show(context, false);
    return BT_OK;
}

static bt_status load_model(bt_context *context, const char *folder, const char *name)
{
    bt_checkpoint_content checkpoint;
    bt_tensor_list kept = {0}, model = {0};
    BT_TRY(open_told(context, folder, name, "taking", &checkpoint));
    bt_status status = bt_keep_error(context, restore_model(context, &checkpoint, &kept, &model));
    if (status != BT_OK) {
        bt_fail(status, "out of memory");
        bt_error_context("%s/checkpoints/%s", folder, checkpoint.name);
    }
    bt_tensors_free(&kept);
    bt_tensors_free(&model);
    bt_checkpoint_free(&checkpoint);
    return status;
}

bt_status bt_checkpoint_load_model(bt_context *context, const char *path)
{
    char *folder, name[BT_CHECKPOINT_NAME];
    BT_TRY(bt_checkpoint_place(path, &folder, name));
    bt_status status = load_model(context, folder, name);
    bt_free(folder);
    return status;
}
