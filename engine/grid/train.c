/* engine/grid/train.c: one run in a separate process: started or continued, as by the command. */
#include "engine/grid/grid_inside.h"
#include "engine/process/process.h"
#include "engine/session/session.h"

#include <stdio.h>
#include <string.h>

static bt_status set(bt_engine *engine, const char *key, const char *value)
{
    char *origin = bt_string("--set %s", key);
    bt_status status = origin ? bt_engine_set_from(engine, key, value, origin) : BT_ERROR_MEMORY;
    bt_free(origin);
    return status;
}

static bt_status set_all(bt_engine *engine, json_t *settings)
{
    const char *key;
    json_t *value;
    json_object_foreach(settings, key, value) { BT_TRY(set(engine, key, json_string_value(value))); }
    return BT_OK;
}

static bt_status set_number(bt_engine *engine, const char *key, int64_t value, const char *origin)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return bt_engine_set_from(engine, key, text, origin);
}

static bt_status configure(const bt_grid_job *job, bt_engine *engine)
{
    const json_t *seed = json_object_get(job->run, "seed");
    if (job->file)
        BT_TRY(bt_engine_load(engine, job->file));
    if (job->grid->load)
        BT_TRY(job->grid->load(job->grid->user, engine));
    BT_TRY(set_all(engine, json_object_get(job->all, "settings")));
    if (job->threads)
        BT_TRY(set_number(engine, "engine.threads", job->threads, "--jobs"));
    BT_TRY(set_all(engine, json_object_get(job->run, "settings")));
    if (seed)
        BT_TRY(set_number(engine, "engine.seed", json_integer_value(seed), "--seeds"));
    return bt_engine_set_from(engine, "engine.output", job->folder ? job->folder : "", "--output");
}

static bt_status tell_plan(bt_engine *engine, FILE *tell)
{
    const bt_memory_sizes sizes = bt_engine_planned(engine);
    return bt_process_tell(tell, json_pack("{s:{s:I, s:I}}", "planned_bytes", "arena", (json_int_t)sizes.arena,
                                           "persistent", (json_int_t)sizes.persistent));
}

/* A run that ended before its first checkpoint starts again. */
static bt_status set_up(const bt_grid_job *job, bt_engine *engine)
{
    const bt_output_content content = job->folder ? bt_output_holds(job->folder) : BT_OUTPUT_NOTHING;
    if (content == BT_OUTPUT_RUN)
        return bt_engine_resume(engine, job->folder);
    if (content == BT_OUTPUT_REMAINS)
        bt_output_clear(job->folder);
    return bt_engine_setup(engine);
}

static bt_status train(const bt_grid_job *job, bt_engine *engine, FILE *tell)
{
    const bool plan = job->grid->plan;
    bt_front front = {.progress = plan ? NULL : stdout, .files = !plan, .reports = plan, .dry = plan};
    front.stop = bt_process_asked();
    BT_TRY(bt_engine_attach(engine, &front));
    BT_TRY(configure(job, engine));
    BT_TRY(set_up(job, engine));
    if (plan)
        return tell_plan(engine, tell);
    BT_TRY(bt_process_tell(tell, json_pack("{s:b}", "ready", 1)));
    bt_process_can_finish();
    return bt_engine_run(engine);
}

bt_status bt_grid_train(const bt_grid_job *job, FILE *tell)
{
    bt_engine *engine = bt_engine_new();
    if (!engine)
        return BT_ERROR_MEMORY;
    bt_status status = train(job, engine, tell);
    bt_engine_free(engine);
    return status;
}
