/* engine/step/compile.c: the programs of all levels, compiled and compiled again. */
#include "engine/step/step.h"

#include "base/doing.h"
#include "engine/solve/trajectory.h"

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

static void uncompile_all(bt_context *context)
{
    for (int p = 0; p < context->problem_count; p++)
        bt_problem_uncompile(context->problems[p]);
}

/* Lower problems first: a mistake in a loss is then found, and told, where it belongs. */
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

bt_status bt_levels_compile(bt_context *context)
{
    bt_instance *instance = context->instance;
    const bool dry = instance->dry;
    bt_known *own = instance->known ? NULL : bt_known_new();
    if (!instance->known && !own)
        return BT_ERROR_MEMORY;
    instance->known = own ? own : instance->known;
    for (int p = 0; p < context->problem_count; p++)
        context->problems[p]->holding = BT_HOLD_ALL;
    instance->dry = dry || bt_budget_any(context); /* the arena comes when all phases are known to fit */
    bt_status status = bt_budget_any(context) ? bt_compile_within(context) : bt_levels_plan(context);
    instance->dry = dry;
    instance->known = own ? NULL : instance->known;
    bt_known_free(own);
    return status == BT_OK ? bt_instance_reserve(instance) : status;
}

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
