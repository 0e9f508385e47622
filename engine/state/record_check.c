/* engine/state/record_check.c: checks that a checkpoint belongs to this run: the same problems, settings, data and
 * traced callbacks. */
#include "engine/state/record_inside.h"

#include "engine/output/json.h"
#include "engine/traced/traced.h"
#include <string.h>

bt_status bt_record_malformed(const char *what)
{
    return bt_fail(BT_ERROR_FILE, "the checkpoint's record is not in the form that this version writes: %s", what);
}

static bt_status check_problems(bt_context *context, json_t *problems)
{
    bool same = json_array_size(problems) == (size_t)context->problem_count;
    bt_text was = {0}, now = {0};
    for (size_t i = 0; i < json_array_size(problems); i++)
        bt_text_add(&was, i ? ", %s" : "%s", bt_json_read_text(json_array_get(problems, i), "name"));
    bt_problem_list(context, &now);
    same = same && strcmp(bt_text_get(&was), bt_text_get(&now)) == 0;
    bt_status status = BT_OK;
    if (!same)
        status = bt_fail(BT_ERROR_CONFIG, "the checkpoint is of the problems %s, but this run has %s",
                         bt_text_get(&was), bt_text_get(&now));
    bt_text_free(&was);
    bt_text_free(&now);
    return status;
}

/* Whether a resumed run must have the same value. "SECTION.KEY"; the section of a group contains a dot itself. */
static bool matters(json_t *config, const char *setting)
{
    const char *key = strrchr(setting, '.') + 1;
    int length = (int)(key - setting - 1);
    bool group = memchr(setting, '.', (size_t)length) != NULL;
    bt_section_kind kind = strncmp(setting, "engine.", 7) == 0          ? BT_SECTION_ENGINE
                           : strncmp(setting, "dependencies.", 13) == 0 ? BT_SECTION_DEPENDENCIES
                           : group                                      ? BT_SECTION_GROUP
                                                                        : BT_SECTION_PROBLEM;
    const bt_key *row = bt_key_find(kind, key);
    if (row && row->resumable)
        return false;
    if (strcmp(key, "scheduler_t_max") != 0) /* it follows train_iters by default, and only a cosine uses it */
        return true;
    char *scheduler = bt_string("%.*s.scheduler", length, setting);
    bool cosine = !scheduler || strcmp(bt_json_read_text(config, scheduler), "cosine") == 0;
    bt_free(scheduler);
    return cosine;
}

enum { TOLD = 8 }; /* differences listed in a message */

typedef struct differences {
    bt_text text;
    int count;
} differences;

static void differ(differences *d, const char *setting, const char *was, const char *now)
{
    if (d->count++ < TOLD)
        bt_text_add(&d->text, "%s%s was %s, is %s", d->text.size ? "; " : "", setting, was ? was : "not set",
                    now ? now : "not set");
}

static bt_status check_settings(const bt_context *context, json_t *was)
{
    json_t *now = bt_record_config(context), *value;
    const char *setting;
    differences d = {0};
    if (!now)
        return bt_fail(BT_ERROR_MEMORY, "out of memory");
    json_object_foreach(now, setting, value)
    {
        const char *before = json_string_value(json_object_get(was, setting));
        if (matters(now, setting) && (!before || strcmp(before, json_string_value(value)) != 0))
            differ(&d, setting, before, json_string_value(value));
    }
    json_object_foreach(was, setting, value)
    {
        if (strchr(setting, '.') && !json_object_get(now, setting) && matters(now, setting))
            differ(&d, setting, json_string_value(value), NULL);
    }
    if (d.count > TOLD)
        bt_text_add(&d.text, "; and %d more", d.count - TOLD);
    bt_status status = BT_OK;
    if (d.count)
        status = bt_fail(BT_ERROR_CONFIG, "the checkpoint is of a run with other settings: %s", bt_text_get(&d.text));
    bt_text_free(&d.text);
    json_decref(now);
    return status;
}

/* The fields that are missing on one side or have different values. */
static void compare_fields(json_t *was, json_t *now, bt_text *text)
{
    const char *field;
    json_t *hash;
    json_object_foreach(now, field, hash)
    {
        json_t *before = json_object_get(was, field);
        if (!json_equal(before, hash))
            bt_text_add(text, "%s%s %s", text->size ? ", " : "", field, before ? "holds other values" : "is new");
    }
    json_object_foreach(was, field, hash)
    {
        if (!json_object_get(now, field))
            bt_text_add(text, "%s%s is gone", text->size ? ", " : "", field);
    }
}

static bt_status check_data(const bt_problem *problem, json_t *record)
{
    json_int_t batches;
    json_t *was;
    if (json_unpack(record, "{s:I, s:o}", "batches_per_epoch", &batches, "data", &was) != 0 || !json_is_object(was))
        return bt_record_malformed("its record of the training data");
    if (batches != bt_record_batches(problem))
        return bt_fail(
            BT_ERROR_CONFIG,
            "%s: the checkpoint is of a run with other training data: an epoch was %lld batches long, and is now %lld",
            problem->name, (long long)batches, (long long)bt_record_batches(problem));
    bt_text text = {0};
    json_t *now = bt_record_data(problem);
    bt_status status = now ? BT_OK : bt_fail(BT_ERROR_MEMORY, "out of memory");
    compare_fields(was, now, &text);
    if (status == BT_OK && text.size)
        status = bt_fail(BT_ERROR_CONFIG, "%s: the checkpoint is of a run with other training data: the field %s",
                         problem->name, bt_text_get(&text));
    json_decref(now);
    bt_text_free(&text);
    return status;
}

bt_status bt_record_check(bt_context *context, json_t *record)
{
    json_t *config, *problems;
    if (json_unpack(record, "{s:o, s:o}", "config", &config, "problems", &problems) != 0 || !json_is_object(config) ||
        !json_is_array(problems))
        return bt_record_malformed("config and problems");
    BT_TRY(check_problems(context, problems));
    BT_TRY(check_settings(context, config));
    for (int p = 0; p < context->problem_count; p++)
        BT_TRY(check_data(context->problems[p], json_array_get(problems, (size_t)p)));
    return BT_OK;
}

bt_status bt_record_check_graphs(bt_context *context, json_t *record)
{
    for (int p = 0; p < context->problem_count; p++) {
        json_t *problem = json_array_get(json_object_get(record, "problems"), (size_t)p);
        for (int kind = 0; kind < BT_PURE_KINDS; kind++) {
            const char *was = json_string_value(json_array_get(json_object_get(problem, "graphs"), (size_t)kind));
            char now[17];
            bt_record_graph(context->problems[p], kind, now);
            if (!was || strcmp(was, now) != 0)
                return bt_fail(BT_ERROR_CONFIG,
                               "%s: the checkpoint belongs to another problem: %s records other operations than "
                               "before, or uses C data that bt_state does not keep",
                               context->problems[p]->name, bt_pure_name(context->problems[p], kind));
        }
    }
    return BT_OK;
}
