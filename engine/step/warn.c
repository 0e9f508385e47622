/* engine/step/warn.c: levels that are linked but learn nothing: warnings and errors at set-up. */
#include "engine/step/step_inside.h"

enum { NAMED = 8 }; /* levels named in one warning */

/* Warns once about levels that are linked, but not by their losses. */
static void warn_unreached(bt_problem *problem)
{
    const bt_step_phase *step = problem->step;
    if (!bt_stage_within(problem->context, BT_STAGE_SETUP) || !step->site.solve_count)
        return;
    bt_text names = {0};
    int count = 0;
    for (int q = 0; q < step->site.solve_count; q++)
        if (!step->site.solves[q].reached && count++ < NAMED)
            bt_text_add(&names, "%s%s", count > 1 ? ", " : "", step->site.solves[q].problem->name);
    if (count > NAMED)
        bt_text_add(&names, " and %d more", count - NAMED);
    if (count)
        bt_warn(problem->context,
                "%s: its loss does not use the parameters of %s, so no part of its hypergradient comes through them",
                problem->name, bt_text_get(&names));
    bt_text_free(&names);
    if (!step->site.reached && count < step->site.solve_count)
        bt_warn(problem->context,
                "%s: no lower problem's gradient uses its parameters: its hypergradient is only the direct gradient of "
                "its own loss",
                problem->name);
}

/* Warns once about a level that is trained but does not change. */
static void warn_still(bt_problem *problem)
{
    const bt_optimizer *optimizer = problem->optimizer;
    int lr = bt_hyper_index(optimizer->kind.def->hypers, "lr");
    bool still = lr >= 0 && !problem->def->schedule && bt_stage_within(problem->context, BT_STAGE_SETUP);
    for (int g = 0; still && g < optimizer->group_count; g++)
        still = optimizer->groups[g].values[lr] == 0;
    if (still)
        bt_warn(problem->context, "%s: lr = 0: its parameters do not change", problem->name);
}

/* Refuses a level that cannot learn: its own loss uses none of its parameters, and no hypergradient reaches them. */
static bt_status check_taught(const bt_problem *problem)
{
    const bt_step_phase *step = problem->step;
    bool any = false;
    for (int64_t i = 0; i < problem->module->param_count; i++) {
        any = any || problem->trainable[i];
        if (step->site.reached || (problem->trainable[i] && problem->used[i]))
            return BT_OK;
    }
    if (!any)
        return BT_OK;
    for (int q = 0; q < step->site.solve_count; q++) {
        const bt_problem *lower = step->site.solves[q].problem;
        if (lower->def->start && !lower->settings->method->unrolls)
            return bt_fail(BT_ERROR_CONFIG,
                           "%s: its gradient is zero: type = %s of %s includes only what the loss of %s uses, not what "
                           "its start does: use type = itd, or add the distance from the start to the loss",
                           problem->name, lower->settings->method->name, lower->name, lower->name);
    }
    for (int i = 0; i < problem->context->problem_count; i++) {
        const bt_problem *lower = problem->context->problems[i];
        if (!lower->settings->active || !bt_u2l(problem, lower))
            continue;
        const bt_solver_def *solver = bt_solver_of(lower);
        if (solver->multiplies && !solver->multiplies(lower))
            return bt_fail(BT_ERROR_CONFIG,
                           "%s: its gradient is zero: its loss does not use its parameters, and [%s] %s_second_order = "
                           "false treats the gradients of %s, which may use them, as constants: use true, the default",
                           problem->name, lower->name, lower->settings->method->name, lower->name);
        if (bt_is_constant(lower))
            return bt_fail(
                BT_ERROR_CONFIG,
                "%s: its gradient is zero: its loss does not use its parameters, and [%s] type = none treats the "
                "solution of %s, which uses them, as a constant: use another type, such as darts",
                problem->name, lower->name, lower->name);
    }
    return bt_fail(BT_ERROR_CONFIG,
                   "%s: its gradient is zero: its loss does not use its parameters, and no lower problem that its loss "
                   "depends on (l2u) uses them either; use %s in that problem's training_step, with bt_peer",
                   problem->name, problem->name);
}

/* Warns about parameters that neither the loss nor a lower problem's loss uses. */
bt_status bt_check_used(bt_problem *problem)
{
    if (problem->context->apart) /* a check has seen the training programs, and now needs only products */
        return BT_OK;
    BT_TRY(check_taught(problem));
    for (int q = 0; q < problem->step->site.solve_count; q++)
        bt_unseen_warn(problem->step->site.solves[q].problem);
    warn_unreached(problem);
    warn_still(problem);
    const bt_module *module = problem->module;
    for (int64_t i = 0; i < module->param_count && !problem->settings->allow_unused; i++)
        if (problem->trainable[i] && !problem->used[i])
            return bt_fail(BT_ERROR_CONFIG,
                           "%s: the loss does not use the parameter %s, and allow_unused = false: use the parameter, "
                           "freeze it (trainable), or set allow_unused = true",
                           problem->name, module->params[i]->path);
    return BT_OK;
}
