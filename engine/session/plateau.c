/* engine/session/plateau.c: after a validation, lowers learning rates if the watched metric has not improved. */
#include "engine/session/run.h"

#include <string.h>

static bool has_plateau(const bt_problem *problem)
{
    return problem->settings->active && problem->settings->scheduler.kind == BT_SCHEDULER_PLATEAU;
}

/* The problem's own metric of that name takes precedence. */
static const bt_metric_row *watched(const bt_engine *engine, const bt_problem *problem)
{
    const char *name = problem->settings->scheduler_metric;
    for (int i = 0; i < engine->context.metric_count; i++) {
        const bt_metric_row *row = engine->context.metrics[i];
        if (row->valid && row->problem == problem && strcmp(row->name, name) == 0)
            return row;
    }
    return bt_run_watched(engine, name);
}

static bt_status no_such_metric(const bt_engine *engine, const bt_problem *problem)
{
    bt_text list = {0};
    bt_run_list_metrics(engine, &list);
    bt_status status = bt_fail(BT_ERROR_CONFIG,
                               "[%s] scheduler = plateau: scheduler_metric = %s: the validation has "
                               "no such value%s",
                               problem->name, problem->settings->scheduler_metric, bt_text_get(&list));
    bt_text_free(&list);
    return status;
}

bt_status bt_run_check_plateaus(const bt_engine *engine)
{
    bool open, validates = bt_run_validates(engine, &open);
    for (int p = 0; p < engine->context.problem_count; p++) {
        const bt_problem *problem = engine->context.problems[p];
        if (!has_plateau(problem))
            continue;
        if (!validates || engine->context.settings->valid_step == 0)
            return bt_fail(BT_ERROR_CONFIG, "[%s] scheduler = plateau needs a validation: %s", problem->name,
                           validates ? "set valid_step" : "add a problem with validation_step and validation data");
        if (!open && !watched(engine, problem))
            return no_such_metric(engine, problem);
    }
    return BT_OK;
}

bt_status bt_run_see_plateaus(bt_run *r)
{
    bt_context *context = r->context;
    for (int p = 0; p < context->problem_count; p++) {
        bt_problem *problem = context->problems[p];
        bool reduced;
        if (!has_plateau(problem))
            continue;
        const bt_metric_row *row = watched(r->engine, problem);
        if (!row)
            return no_such_metric(r->engine, problem);
        if (!bt_plateau_see(&problem->settings->scheduler, &problem->plateau, row->last))
            continue;
        BT_TRY(bt_optimizer_reduce(problem->optimizer, &reduced));
        if (reduced)
            bt_say(context, BT_LINE_INFO, "step %lld: %s: %s has not improved on %g; lr decays by %g",
                   (long long)context->step, problem->name, row->full, problem->plateau.best,
                   problem->settings->scheduler.gamma);
    }
    return BT_OK;
}
