/* engine/schedule/inner_loop.c: the beginning of an inner loop: its task, its initial parameters, and the state that
 * roll_back returns to. */
#include "engine/schedule/schedule.h"

#include "engine/level/keep.h"

/* ---- roll_back: after a step of an upper problem, the lower one returns to the start of its inner loop, and takes one
 * step on the last batch with the new upper parameters ---- */

static bool rolls_back(const bt_problem *problem)
{
    return problem->context->settings->roll_back && problem->parent_count && !problem->child_count;
}

/* The copy exists before an inner loop begins, because a run may start within one. */
static bt_status open_loop_start(bt_problem *problem)
{
    if (rolls_back(problem) == (problem->loop_start != NULL))
        return BT_OK;
    bt_kept_free(problem->loop_start); /* it no longer rolls back */
    problem->loop_start = NULL;
    if (!rolls_back(problem))
        return BT_OK;
    problem->loop_start = bt_kept_new(problem->context, BT_KEEP_LOOP, problem);
    return problem->loop_start ? BT_OK : bt_fail(BT_ERROR_MEMORY, "%s: out of memory", problem->name);
}

bt_status bt_loop_starts_open(bt_context *context)
{
    for (int p = 0; p < context->problem_count; p++)
        if (context->problems[p]->settings->active)
            BT_TRY(open_loop_start(context->problems[p]));
    return BT_OK;
}

void bt_loop_starts_close(bt_context *context)
{
    for (int p = 0; p < context->problem_count; p++) {
        bt_kept_free(context->problems[p]->loop_start);
        context->problems[p]->loop_start = NULL;
    }
}

static bt_status roll_back(bt_problem *problem)
{
    BT_TRY(bt_kept_restore(problem->loop_start));
    BT_TRY(bt_step_again(problem, false));
    return bt_step_update(problem);
}

bt_status bt_roll_back_all(bt_context *context)
{
    for (int p = 0; p < context->problem_count; p++) {
        bt_problem *problem = context->problems[p];
        if (problem->return_due && problem->loop_start)
            BT_TRY(roll_back(problem));
        problem->return_due = false;
    }
    return BT_OK;
}

/* ---- the beginning of an inner loop ---- */

/* A callback that adapts its own problem is not called again by that. */
bt_status bt_inner_loop_count(bt_problem *problem)
{
    problem->inner = 0;
    if (problem->def->on_inner_loop_start && !problem->starting) {
        problem->starting = true;
        bt_guest before = bt_problem_enter(problem, "on_inner_loop_start");
        problem->def->on_inner_loop_start(problem);
        bt_problem_leave(problem, "on_inner_loop_start", before);
        problem->starting = false;
    }
    return bt_error_status();
}

bt_status bt_inner_loop_begin(bt_problem *problem)
{
    if (!problem->inner_loop_start)
        return BT_OK;
    problem->inner_loop_start = false;
    BT_TRY(bt_inner_loop_count(problem));
    BT_TRY(bt_stream_next_task(problem->train));
    if (problem->def->start) {
        BT_TRY(bt_update_scalars(problem->context));
        BT_TRY(bt_start_run(problem));
    }
    return problem->loop_start ? bt_kept_renew(problem->loop_start) : BT_OK;
}
