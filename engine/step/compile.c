/* engine/step/compile.c: compiles and recompiles the programs of all levels. */
#include "engine/step/step.h"

#include "base/doing.h"
#include "engine/solve/trajectory.h"
#include <string.h>

/* Whether all children of the problem are done. */
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
    bt_trajectory_free(problem->trajectory); /* its steps are those of old programs: no way back through them */
    problem->trajectory = NULL;
    bt_step_free(problem);
    bt_validation_free(problem);
    bt_questions_free(problem);
    bt_traced_free(problem);
}

static void uncompile_all(bt_context *context)
{
    for (int p = 0; p < context->problem_count; p++)
        bt_problem_uncompile(context->problems[p]);
}

/* Lower problems first, so that an error in a loss is found and reported where it belongs. */
bt_status bt_levels_plan(bt_context *context)
{
    uncompile_all(context);
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

/* Finds the inner loop that can save most, among those with automatic spacing whose states count in that budget, and
 * spaces its states as far apart as necessary. */
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

/* At first phases are only planned; with a budget, the arena is allocated once they fit. spaces: if they do not fit,
 * however little solves hold and however much programs recompute, states of inner loops may be spaced further apart. */
static bt_status compile_known(bt_context *context, bool spaces)
{
    bt_tight tight;
    bt_status status;
    const bool any = bt_budget_any(context);
    do {
        tight = (bt_tight){0};
        for (int p = 0; p < context->problem_count; p++)
            context->problems[p]->holding = BT_HOLD_ALL;
        if (context->proposal.over)
            bt_error_clear();
        status = any ? bt_compile_within(context, &tight) : bt_levels_plan(context);
        context->proposal.over = tight.over;
    } while (tight.over && spaces && space_out(context, &tight));
    return status;
}

static bt_status compile(bt_context *context, bool spaces)
{
    bt_instance *instance = context->instance;
    const bool dry = instance->dry;
    bt_known *own = instance->known ? NULL : bt_known_new();
    if (!instance->known && !own)
        return BT_ERROR_MEMORY;
    instance->known = own ? own : instance->known;
    instance->dry = dry || bt_budget_any(context);
    context->proposal.over = 0;
    bt_status status = compile_known(context, spaces);
    instance->dry = dry;
    instance->known = own ? NULL : instance->known;
    bt_known_free(own);
    return status == BT_OK ? bt_instance_reserve(instance) : status;
}

bt_status bt_levels_compile(bt_context *context) { return compile(context, true); }

bt_status bt_levels_compile_spaced(bt_context *context) { return compile(context, false); }

bt_status bt_update_scalars(bt_context *context)
{
    if (!context->scalar_count)
        return bt_error_status();
    bt_stage stage = bt_stage_now(context);
    if (stage == BT_STAGE_PROGRAM || stage == BT_STAGE_QUESTION ||
        context->instance->current) /* asked for by a host callback within a step, whose numbers must not change */
        return BT_OK;
    bt_stage_enter(context, BT_STAGE_PROGRAM);
    bool changed = bt_scalars_update(context);
    bt_status status = bt_error_status();
    if (changed)
        status = bt_keep_error(context, status == BT_OK ? bt_levels_compile(context) : status);
    bt_stage_leave(context);
    return status;
}
