/* engine/step/compile.c: the programs of all levels, compiled and compiled again. */
#include "engine/step/step.h"

#include "base/doing.h"
#include "engine/solve/trajectory.h"
#include <string.h>

/* Whether all children of the problem come before the place in the list that has been reached. */
static bool children_compiled(const bt_problem *problem, const bool *done)
{
    for (int c = 0; c < problem->child_count; c++)
        if (!done[problem->children[c]->place])
            return false;
    return true;
}

bt_status bt_level_compile(bt_problem *problem)
{
    bt_status status = bt_step_build(problem);
    if (status == BT_OK)
        status = bt_validation_build(problem);
    if (status != BT_OK)
        bt_fail(status, "%s: out of memory", problem->name);
    return status;
}

void bt_problem_uncompile(bt_problem *problem)
{
    bt_trajectory_free(problem->trajectory); /* steps of other programs: there is no going back through them */
    problem->trajectory = NULL;
    bt_step_free(problem);
    bt_validation_free(problem);
    bt_questions_free(problem);
    bt_traced_free(problem);
}

/* Lower problems first: a mistake in a loss is then found, and told, where it belongs. */
static bt_status compile_once(bt_context *context)
{
    bool *done = bt_alloc_array((size_t)context->problem_count, sizeof *done);
    bt_status status = done ? BT_OK : BT_ERROR_MEMORY;
    for (bool found = true; found && status == BT_OK;) {
        found = false;
        for (int i = 0; i < context->problem_count && status == BT_OK; i++)
            if (context->problems[i]->settings->active && !done[i] && children_compiled(context->problems[i], done)) {
                bt_doing_set("tracing and planning ", context->problems[i]->name);
                status = bt_level_compile(context->problems[i]);
                done[i] = found = true;
            }
    }
    bt_free(done);
    return status;
}

static void uncompile_all(bt_context *context)
{
    for (int p = 0; p < context->problem_count; p++)
        bt_problem_uncompile(context->problems[p]);
}

/* Of several failures, the one that is over its budget by the fewest bytes. */
static void keep_nearest(bt_failure *nearest, size_t *least_over, size_t over)
{
    bt_failure failure = bt_failure_take(), *worse = over < *least_over ? nearest : &failure;
    bt_free(worse->message);
    if (over >= *least_over)
        return;
    *nearest = failure;
    *least_over = over;
}

/* Of the inner loops whose spacing is automatic, and whose states count in that budget, the one that can save most gets
 * its states as far apart as that takes. */
static bool space_out(const bt_context *context, const bt_tight *tight)
{
    const bool whole = tight->section && strcmp(tight->section, "engine") == 0;
    size_t most = 0;
    bt_problem *widest = NULL;
    int64_t spacing = 1;
    for (int p = 0; p < context->problem_count && tight->section; p++) {
        bt_problem *problem = context->problems[p];
        const bt_trajectory *trajectory = problem->trajectory;
        size_t saved;
        if (!trajectory || !trajectory->automatic || (!whole && strcmp(tight->section, problem->name) != 0))
            continue;
        const int64_t wider = bt_trajectory_wider(trajectory, tight->over, &saved);
        if (saved <= most)
            continue;
        most = saved;
        widest = problem;
        spacing = wider;
    }
    if (widest)
        widest->spacing = spacing;
    return widest != NULL;
}

/* What a phase that does not fit can do without: first what its solves hold for a loop, then states of inner loops.
 * False: there is nothing left. */
static bool do_without(const bt_context *context, const bt_tight *tight, bool spaces)
{
    if (!tight->problem)
        return spaces && space_out(context, tight);
    int *holding = &tight->problem->holding;
    *holding = *holding < BT_HOLD_FORWARD ? BT_HOLD_FORWARD : *holding + 1;
    return true;
}

/* With a budget, phases are only planned at first, and the arena comes when they fit. spaces: states of inner loops may
 * lie further apart than they do. */
static bt_status compile(bt_context *context, bool spaces)
{
    const bool dry = context->instance->dry;
    bt_tight tight;
    bt_failure nearest = {.status = BT_OK};
    size_t over = SIZE_MAX;
    bt_status status;
    for (int p = 0; p < context->problem_count; p++)
        context->problems[p]->holding = BT_HOLD_ALL;
    do {
        uncompile_all(context);
        context->instance->dry = dry || bt_budget_any(context);
        status = compile_once(context);
        tight = (bt_tight){.problem = NULL};
        if (status == BT_OK)
            status = bt_budget_fit(context, &tight);
        if (status != BT_OK && tight.over)
            keep_nearest(&nearest, &over, tight.over);
        context->instance->dry = dry;
    } while (status != BT_OK && tight.over && do_without(context, &tight, spaces));
    context->proposal.over = status != BT_OK && over < SIZE_MAX ? over : 0;
    if (status != BT_OK && nearest.status != BT_OK)
        bt_failure_give(&nearest);
    bt_free(nearest.message);
    return status == BT_OK ? bt_instance_reserve(context->instance) : status;
}

bt_status bt_levels_compile(bt_context *context) { return compile(context, true); }

bt_status bt_levels_compile_spaced(bt_context *context) { return compile(context, false); }

bt_status bt_update_scalars(bt_context *context)
{
    if (!context->scalar_count)
        return bt_error_status();
    bt_stage stage = bt_stage_now(context);
    if (stage == BT_STAGE_PROGRAM || stage == BT_STAGE_QUESTION ||
        context->instance->current) /* asked for from a host callback within a step, whose numbers stay as they are */
        return BT_OK;
    bt_stage_enter(context, BT_STAGE_PROGRAM);
    bool changed = bt_scalars_update(context);
    bt_status status = bt_error_status();
    if (changed)
        status = bt_keep_error(context, status == BT_OK ? bt_levels_compile(context) : status);
    bt_stage_leave(context);
    return status;
}
