/* engine/session/stopping.c: finds the best validation, and ends a run that has not improved for long enough. */
#include "engine/session/run.h"

#include "engine/state/checkpoint.h"
#include <math.h>
#include <string.h>

/* METRIC is that of a validation of any problem; PROBLEM.METRIC is that of one problem. */
const bt_metric_row *bt_run_watched(const bt_engine *engine, const char *name)
{
    for (int i = 0; i < engine->context.metric_count; i++) {
        const bt_metric_row *row = engine->context.metrics[i];
        size_t length = strlen(row->problem->name);
        if (!row->valid)
            continue;
        if (strcmp(row->full, name) == 0 || strcmp(row->name, name) == 0)
            return row;
        if (strncmp(name, row->problem->name, length) == 0 && name[length] == '.' &&
            strcmp(row->name, name + length + 1) == 0)
            return row;
    }
    return NULL;
}

void bt_run_list_metrics(const bt_engine *engine, bt_text *list)
{
    for (int i = 0; i < engine->context.metric_count; i++)
        if (engine->context.metrics[i]->valid)
            bt_text_add(list, "%s%s.%s", list->size ? ", " : "; it has ", engine->context.metrics[i]->problem->name,
                        engine->context.metrics[i]->name);
}

bool bt_run_validates(const bt_engine *engine, bool *open)
{
    bool validates = false;
    *open = false;
    for (int p = 0; p < engine->context.problem_count; p++) {
        const bt_problem *problem = engine->context.problems[p];
        *open |= problem->settings->active && problem->def->validation_end;
        validates |= problem->settings->active && problem->validation;
    }
    return validates || *open;
}

static bt_status no_such_metric(const bt_engine *engine)
{
    bt_text list = {0};
    bt_run_list_metrics(engine, &list);
    bt_status status =
        bt_fail(BT_ERROR_CONFIG, "[engine] early_stopping_metric = %s: the validation has no such value%s",
                engine->context.settings->early_stopping_metric, bt_text_get(&list));
    bt_text_free(&list);
    return status;
}

static bool is_wanted(const bt_engine *engine)
{
    return engine->context.settings->early_stopping || engine->context.settings->checkpoint_best;
}

/* NaN counts as no improvement. */
bt_status bt_run_judge(bt_run *r)
{
    bt_engine *engine = r->engine;
    const bt_engine_settings *s = engine->context.settings;
    if (!is_wanted(engine))
        return BT_OK;
    const bt_metric_row *row = bt_run_watched(engine, s->early_stopping_metric);
    if (!row)
        return no_such_metric(engine);
    double value = row->last, best = engine->best;
    bool better = s->early_stopping_mode == BT_STOP_MIN ? value < best : value > best;
    if (isnan(best))
        better = !isnan(value);
    engine->best = better ? value : best;
    engine->best_step = better ? engine->context.step : engine->best_step;
    engine->patience = better ? 0 : engine->patience + 1;
    r->best_due |= better;
    return BT_OK;
}

bt_status bt_run_check_metric(const bt_engine *engine)
{
    bool open, validates = bt_run_validates(engine, &open);
    if (!is_wanted(engine))
        return BT_OK;
    if (validates && engine->context.settings->valid_step > 0)
        return open || bt_run_watched(engine, engine->context.settings->early_stopping_metric) ? BT_OK
                                                                                               : no_such_metric(engine);
    return bt_fail(BT_ERROR_CONFIG, "[engine] %s = true needs a validation: %s",
                   engine->context.settings->early_stopping ? "early_stopping" : "checkpoint_best",
                   validates ? "set valid_step" : "add a problem with validation_step and validation data");
}

/* ---- messages ---- */

bool bt_run_best(const bt_engine *engine, bt_metric_value *best)
{
    const bt_metric_row *row =
        is_wanted(engine) ? bt_run_watched(engine, engine->context.settings->early_stopping_metric) : NULL;
    if (!row || isnan(engine->best))
        return false;
    *best = (bt_metric_value){row->full, engine->best, NAN};
    return true;
}

void bt_run_say_best(bt_run *r)
{
    const bt_engine *engine = r->engine;
    const bt_engine_settings *s = engine->context.settings;
    bt_metric_value best;
    const bool judged = bt_run_best(engine, &best);
    if (strcmp(r->stopped, "early_stopping") == 0)
        bt_say(r->context, BT_LINE_INFO,
               "stopped early, after step %lld of %lld: %s has not improved in %lld validation%s",
               (long long)engine->context.step, (long long)s->train_iters,
               judged ? best.name : s->early_stopping_metric, (long long)engine->patience,
               engine->patience == 1 ? "" : "s");
    if (!judged && is_wanted(engine) && engine->patience)
        bt_say(r->context, BT_LINE_INFO, "no validation was the best one: %s was never a number",
               s->early_stopping_metric);
    if (!judged)
        return;
    bool kept = engine->output && s->checkpoint_best &&
                bt_checkpoint_step(engine->output->path, BT_CHECKPOINT_BEST) == engine->best_step;
    bt_say(r->context, BT_LINE_INFO, "the best %s was %.6g, at step %lld%s%s%s", best.name, best.value,
           (long long)engine->best_step, kept ? ": " : "", kept ? engine->output->path : "",
           kept ? "/checkpoints/" BT_CHECKPOINT_BEST ".safetensors" : "");
}
