/* engine/session/train.c: a run from the first step to the last: validation, early stopping, and its results. */
#include "engine/session/run.h"

#include "engine/state/checkpoint.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bt_status validate(bt_run *r)
{
    bool any;
    BT_TRY(bt_keep_error(&r->engine->context, bt_validate(&r->engine->context, &any)));
    if (!any)
        return BT_OK;
    BT_TRY(bt_run_report(r, true, false));
    return bt_run_judge(r);
}

/* Dependencies that callbacks have changed apply from the next step on. */
static bt_status rewire(bt_run *r)
{
    if (r->engine->rewire_due)
        bt_run_say_trouble(r); /* the counts of the methods are lost with the dependencies */
    BT_TRY(bt_rewire_due(r->engine));
    if (!r->engine->rewired)
        return BT_OK;
    bt_say(r->context, BT_LINE_INFO, "step %lld: the dependencies change here", (long long)r->engine->context.step);
    return bt_run_say_equation(r);
}

/* ---- checkpoints ---- */

/* Rank 0 owns the folder; all ranks that are processes help write to it. */
static bool leaves_files(const bt_run *r)
{
    const bt_engine *engine = r->engine;
    return engine->output ||
           (engine->context.instance->joint && (engine->front.files || engine->context.settings->output));
}

static bt_status save(bt_run *r, bool best)
{
    bt_engine *engine = r->engine;
    if (!best)
        r->saved = engine->context.step;
    if (!engine->output)
        return bt_checkpoint_attend(&engine->context);
    BT_TRY(bt_sinks_sync(r->sinks, &engine->lengths));
    engine->seconds = bt_seconds() - r->start;
    bt_engine_note_touched(engine);
    return bt_checkpoint_save(&engine->context, engine->output->path, best, &engine->lengths);
}

/* Saves the checkpoint of the best validation, at the step after which it was made. */
static bt_status save_best(bt_run *r)
{
    if (!r->best_due)
        return BT_OK;
    r->best_due = false;
    return leaves_files(r) && r->engine->context.settings->checkpoint_best ? save(r, true) : BT_OK;
}

/* By the clock of rank 0. */
static bool is_late(const bt_run *r)
{
    const double minutes = r->engine->context.settings->checkpoint_minutes;
    return r->engine->output && minutes > 0 && bt_seconds() - r->saved_at >= 60 * minutes;
}

static bt_status save_due(bt_run *r, bool late)
{
    if (!leaves_files(r) ||
        (!late && !bt_run_is_due(r->engine->context.step, r->engine->context.settings->checkpoint_step)))
        return BT_OK;
    BT_TRY(save(r, false));
    r->saved_at = bt_seconds(); /* measured after saving, so that slow saves are not all that a run does */
    return BT_OK;
}

/* ---- the loop ---- */

/* Why there is no further step; NULL: there is one. */
static const char *ended(const bt_engine *engine)
{
    const bt_engine_settings *s = engine->context.settings;
    if (engine->context.step >= s->train_iters) /* comes first: the final validation may also exhaust the patience */
        return "train_iters";
    return s->early_stopping && engine->patience >= s->early_stopping_tolerance ? "early_stopping" : NULL;
}

/* The caller may look at the results of the last step, so that one waits for the work. */
static bt_status step(bt_engine *engine, int64_t until)
{
    BT_TRY(bt_session_step(engine));
    const int64_t end = engine->context.settings->train_iters;
    const bool last = engine->context.step + 1 >= (until < end ? until : end);
    return last ? bt_instance_wait(engine->context.instance) : BT_OK;
}

static bt_status loop(bt_run *r)
{
    bt_engine *engine = r->engine;
    const bt_engine_settings *s = engine->context.settings;
    while (!(r->stopped = ended(engine))) {
        if (engine->context.step >= r->until)
            return BT_OK;
        double start = bt_seconds();
        BT_TRY(bt_keep_error(&engine->context, step(engine, r->until)));
        engine->context.step++;
        bt_timing_add(&r->timing, bt_seconds() - start);
        bt_progress_step(r->progress, engine->context.step);
        BT_TRY(bt_run_report(r, false, false));
        if (bt_run_is_due(engine->context.step, s->valid_step)) {
            BT_TRY(validate(r));
            BT_TRY(bt_run_see_plateaus(r)); /* not for the validation that is made only because the run ends */
        }
        BT_TRY(bt_check_restored(&engine->context)); /* before dependencies and checkpoints are derived from it */
        BT_TRY(rewire(r));
        BT_TRY(save_best(r));
        bool said[] = {engine->front.stop && *engine->front.stop, is_late(r)};
        BT_TRY(bt_keep_error(&engine->context, bt_instance_any(engine->context.instance, said, 2)));
        if (said[0])
            return BT_ERROR_INTERRUPTED;
        BT_TRY(save_due(r, said[1]));
    }
    return BT_OK;
}

/* The report that is made only because the last step was the last. A longer run would not make it, so it follows the
 * checkpoint: a run that continues from there has not made it. */
static bt_status last_words(bt_run *r)
{
    const bt_engine *engine = r->engine;
    const bt_engine_settings *s = engine->context.settings;
    if (engine->context.step != s->train_iters || engine->closing == engine->context.step)
        return BT_OK;
    r->engine->closing = engine->context.step;
    BT_TRY(bt_run_report(r, false, true));
    return s->valid_step > 0 && !bt_run_is_due(engine->context.step, s->valid_step) ? validate(r) : BT_OK;
}

/* ---- results ---- */

static double data_seconds(const bt_engine *engine)
{
    double sum = 0;
    for (int i = 0; i < engine->context.problem_count; i++)
        if (engine->context.problems[i]->train)
            sum += bt_loader_wait_seconds(engine->context.problems[i]->train->loader);
    return sum;
}

static bt_status summarize(bt_run *r)
{
    bt_engine *engine = r->engine;
    bt_metric_value *values = bt_run_room(&engine->context);
    int count = 0;
    if (!values)
        return BT_ERROR_MEMORY;
    for (int i = 0; i < engine->context.metric_count; i++)
        if (!isnan(engine->context.metrics[i]->last))
            values[count++] = (bt_metric_value){engine->context.metrics[i]->full, engine->context.metrics[i]->last,
                                                engine->context.metrics[i]->interval};
    char backend[256];
    bt_metric_value best;
    bt_context_backend(&engine->context, backend);
    bt_summary summary = {.steps = engine->context.step,
                          .ms_per_step = bt_timing_mean_ms(&r->timing),
                          .seconds = engine->seconds,
                          .data_seconds = data_seconds(engine),
                          .metrics = values,
                          .metric_count = count,
                          .seed = engine->context.settings->seed,
                          .device = engine->context.instance->backend->name,
                          .backend = backend,
                          .stopped = r->stopped,
                          .best = bt_run_best(engine, &best) ? &best : NULL,
                          .best_step = engine->best_step,
                          .config = engine->context.config};
    summary.planned = bt_engine_planned(engine);
    summary.measured = bt_engine_measured(engine);
    bt_device_bytes device;
    if (bt_engine_device_bytes(engine, &device) == BT_OK && engine->context.instance->queue) {
        summary.device_planned = bt_device_sum(&device);
        summary.device_measured = bt_queue_bytes(engine->context.instance->queue);
        bt_queue_others(engine->context.instance->queue, &summary.device_before, &summary.device_outside);
    }
    const bt_footprint print = bt_engine_footprint(engine);
    summary.data = print.data;
    summary.program = print.program;
    summary.program_peak = print.peak;
    size_t ours = summary.measured.arena + summary.measured.persistent + summary.measured.host + engine->baseline +
                  print.data + print.peak;
    const size_t peak = bt_resident_peak();
    summary.outside = peak > ours ? peak - ours : 0;
    bt_status status = bt_summary_write(engine->output->path, &summary);
    bt_free(values);
    return status;
}

/* Runs the loop, timing its kernel calls if requested. */
static bt_status profiled_loop(bt_run *r)
{
    bt_engine *engine = r->engine;
    double start = bt_seconds();
    int64_t from = engine->context.step;
    if (engine->front.profile && !r->profile && !(r->profile = bt_profile_new()))
        return BT_ERROR_MEMORY;
    engine->context.instance->profile = r->profile;
    bt_status status = loop(r);
    engine->context.instance->profile = NULL;
    r->profiled.steps += engine->context.step - from;
    r->profiled.seconds += bt_seconds() - start;
    if (status == BT_OK && !r->stopped)
        return BT_OK;
    if (!r->profile || !r->profiled.steps || (status != BT_OK && status != BT_ERROR_INTERRUPTED))
        return status;
    bt_status printed = bt_profile_print(r->profile, &r->profiled, engine->front.profile);
    if (printed == BT_OK && engine->output)
        printed = bt_profile_write(r->profile, &r->profiled, engine->output->path);
    return printed == BT_OK ? status : printed;
}

/* The second folder relative to the first; NULL: out of memory, or one of them does not exist. To be freed. */
static char *path_between(const char *from, const char *to)
{
    char a[PATH_MAX], b[PATH_MAX];
    if (!realpath(from, a) || !realpath(to, b))
        return NULL;
    size_t same = 0, i = 0;
    for (; a[i] && a[i] == b[i]; i++)
        if (a[i] == '/')
            same = i;
    if ((!a[i] || a[i] == '/') && (!b[i] || b[i] == '/'))
        same = i;
    bt_text text = {0};
    for (const char *rest = a + same; *rest; rest++)
        if (*rest == '/' && rest[1])
            bt_text_add(&text, "%s..", text.size ? "/" : "");
    const char *rest = b + same + (b[same] == '/');
    if (*rest)
        bt_text_add(&text, "%s%s", text.size ? "/" : "", rest);
    if (!text.size)
        bt_text_add(&text, ".");
    return text.data;
}

/* With an added `folder_here`, for a project that will be moved. */
static bt_status write_config_text(const bt_engine *engine, const char *text, size_t size)
{
    const char *folder = engine->context.settings->folder, *begin = strstr(text, "\nfolder = ");
    char *here = folder && begin ? path_between(engine->output->path, folder) : NULL;
    if (!here)
        return bt_output_write(engine->output->path, "config.ini", text, size);
    bt_text whole = {0};
    const char *end = begin + 1 + strcspn(begin + 1, "\n");
    bt_text_add(&whole, "%.*s\nfolder_here = %s%s", (int)(end - text), text, here, end);
    bt_free(here);
    bt_status status = whole.failed
                           ? BT_ERROR_MEMORY
                           : bt_output_write(engine->output->path, "config.ini", whole.data, (size_t)whole.size);
    bt_text_free(&whole);
    return status;
}

/* With this file, a run can be continued or repeated even after its own file has changed. */
static bt_status write_config(const bt_engine *engine)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    bt_status status = file ? bt_config_print(engine->context.config, file) : BT_ERROR_MEMORY;
    if (file && (fclose(file) != 0 || !text)) /* if memory for the text is missing, closing does not fail */
        status = BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = write_config_text(engine, text, size);
    free(text);
    return status;
}

/* A run that continues uses the folder that it left. */
static bt_status open_left(bt_engine *engine)
{
    if (engine->output || !engine->left)
        return BT_OK;
    BT_TRY(bt_output_open(engine->left, false, &engine->output));
    engine->lengths = bt_log_lengths_of(engine->left);
    return BT_OK;
}

static bt_status open_new(bt_run *r)
{
    bt_engine *engine = r->engine;
    BT_TRY(bt_output_make(engine->context.settings->output, bt_config_stem(engine->context.config), &engine->output));
    engine->lengths = bt_log_nothing;
    return write_config(engine);
}

static bt_status open_files(bt_run *r)
{
    bt_engine *engine = r->engine;
    const char *wanted = engine->context.settings->output;
    if (bt_instance_home(engine->context.instance) || (!engine->output && !engine->front.files && !wanted))
        return BT_OK;
    const char *origin =
        wanted && !engine->output ? bt_config_origin(engine->context.config, "engine", "output") : NULL;
    bt_status status = engine->output ? bt_output_remove(engine->output->path, "summary.json") /* written at the end */
                                      : open_new(r);
    if (status == BT_OK && !(r->sinks = bt_sinks_open(engine->output->path, engine->context.settings->loggers,
                                                      &engine->lengths, engine->context.step)))
        status = bt_error_status();
    if (status == BT_ERROR_FILE && origin)
        bt_error_context("%s", origin);
    return status == BT_ERROR_FILE ? BT_ERROR_CONFIG : status; /* the place of the output is a setting */
}

static bt_status open_run(bt_run *r)
{
    bt_engine *engine = r->engine;
    BT_TRY(bt_run_agree(engine, "begins")); /* before the folder is created */
    BT_TRY(open_left(engine));
    bool resumed = engine->output != NULL;
    BT_TRY(open_files(r));
    if (engine->output)
        BT_TRY(bt_plan_leave(engine, engine->output->path));
    r->opened = true;
    r->saved_at = bt_seconds();
    bt_timing_start(&r->timing, engine->context.settings->train_iters - engine->context.step);
    if (resumed) {
        r->saved = engine->context.step;
        bt_say(r->context, BT_LINE_INFO, "%s: continuing after step %lld", engine->output->path,
               (long long)engine->context.step);
    }
    if (!engine->context.settings->threads) {
        char threads[256];
        bt_context_threads(&engine->context, threads);
        bt_say(r->context, BT_LINE_INFO, "%s", threads);
    }
    char ranks[256];
    bt_context_say_ranks(&engine->context, ranks);
    if (*ranks)
        bt_say(r->context, BT_LINE_INFO, "%s", ranks);
    return bt_run_say_equation(r);
}

/* Settings may have changed since the last call. */
static bt_status go_on(bt_run *r)
{
    bt_engine *engine = r->engine;
    BT_TRY(bt_run_check_metric(engine));
    BT_TRY(bt_run_check_plateaus(engine));
    if (!r->opened)
        BT_TRY(open_run(r));
    else
        BT_TRY(rewire(r)); /* changes between the calls */
    if (engine->changed && engine->output)
        BT_TRY(write_config(engine));
    engine->changed = false;
    r->train_iters = engine->context.settings->train_iters;
    bt_progress_start(r->progress, engine->context.step, r->train_iters);
    return BT_OK;
}

/* At the end of a run, or when it was asked to stop: writes its results and its last messages. */
static bt_status leave(bt_run *r)
{
    bt_engine *engine = r->engine;
    const char *folder = engine->output ? engine->output->path : NULL;
    BT_TRY(bt_run_agree(engine, "ends"));
    if (leaves_files(r) && r->saved != engine->context.step)
        BT_TRY(save(r, false));
    if (strcmp(r->stopped, "train_iters") == 0)
        BT_TRY(last_words(r));
    BT_TRY(save_best(r));
    bt_run_say_best(r);
    engine->seconds = bt_seconds() - r->start;
    if (!folder)
        return BT_OK;
    BT_TRY(summarize(r));
    bt_say(r->context, BT_LINE_INFO, "%s: metrics.jsonl, summary.json, checkpoints/step-%lld.safetensors", folder,
           (long long)engine->context.step);
    return BT_OK;
}

static bt_status train(bt_run *r)
{
    bt_engine *engine = r->engine;
    BT_TRY(go_on(r));
    bt_instance_fill(engine->context.instance);
    bt_status status = profiled_loop(r);
    if (status == BT_ERROR_INTERRUPTED)
        r->stopped = "interrupted";
    engine->seconds = bt_seconds() - r->start;
    bt_engine_note_touched(engine);
    if (r->stopped && (status == BT_OK || status == BT_ERROR_INTERRUPTED)) {
        bt_status left = leave(r);
        status = left == BT_OK ? status : left;
    }
    if (status == BT_ERROR_INTERRUPTED)
        return bt_fail(status, "interrupted after step %lld", (long long)engine->context.step);
    bt_status diverged = r->stopped ? bt_run_say_missing(r) : BT_OK;
    return status == BT_OK ? diverged : status;
}

/* ---- a run is several calls ---- */

bt_status bt_run_close(bt_engine *engine)
{
    bt_run *r = engine->run;
    if (!r)
        return BT_OK;
    bt_status status = bt_sinks_close(r->sinks);
    bt_profile_free(r->profile);
    engine->run = NULL;
    if (engine->output && r->opened) { /* keep the path, in case the run continues */
        bt_free(engine->left);
        engine->left = engine->output->path;
        engine->output->path = NULL;
    }
    bt_output_free(engine->output);
    engine->output = NULL;
    bt_free(r);
    return status;
}

static bt_run *open_call(bt_engine *engine, int64_t until)
{
    bt_run *r = engine->run ? engine->run : bt_alloc(sizeof *r);
    if (!r)
        return NULL;
    if (!engine->run)
        *r = (bt_run){.engine = engine, .context = &engine->context, .progress = engine->progress, .saved = -1};
    engine->run = r;
    r->start = bt_seconds() - engine->seconds;
    r->until = until;
    return r;
}

/* Runs to the end, or to leaf step `until`. */
static bt_status advance(bt_engine *engine, int64_t until)
{
    bt_run *r = open_call(engine, until);
    if (!r)
        return BT_ERROR_MEMORY;
    bt_stage_enter(&engine->context, BT_STAGE_RUN);
    bt_status status = train(r);
    bt_stage_leave(&engine->context);
    bt_progress_end(engine->progress);
    bt_status closed = status != BT_OK || r->stopped ? bt_run_close(engine) : BT_OK;
    return bt_fail(status == BT_OK ? closed : status, "failed");
}

static bt_status may_train(bt_engine *engine, const char *function)
{
    return bt_engine_enter(engine, BT_REQUEST_RUN, function);
}

bt_status bt_engine_run(bt_engine *engine)
{
    BT_TRY(may_train(engine, "bt_engine_run"));
    return advance(engine, INT64_MAX);
}

bt_status bt_engine_run_to(bt_engine *engine, int64_t step)
{
    BT_TRY(may_train(engine, "bt_engine_run_to"));
    if (step >= engine->context.step)
        return advance(engine, step);
    return bt_fail(BT_ERROR_ARGUMENT,
                   "bt_engine_run_to: found step %lld, but the run is already at step %lld and cannot go back",
                   (long long)step, (long long)engine->context.step);
}

bt_status bt_engine_step(bt_engine *engine)
{
    BT_TRY(may_train(engine, "bt_engine_step"));
    return ended(engine) ? BT_DONE : advance(engine, engine->context.step + 1);
}

int64_t bt_engine_steps(const bt_engine *engine) { return engine ? engine->context.step : 0; }
