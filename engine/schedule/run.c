/* engine/schedule/run.c: takes steps, in the order that the hierarchy requires. */
#include "engine/schedule/schedule.h"

#include <string.h>

static bt_status end_epochs(bt_problem *problem, const bt_loader *loader, int64_t epoch)
{
    for (; epoch < bt_loader_epoch(loader); epoch++) {
        bt_guest before = bt_problem_enter(problem, "epoch_callback");
        problem->def->epoch_callback(problem);
        bt_problem_leave(problem, "epoch_callback", before);
        BT_TRY(bt_error_status());
    }
    return BT_OK;
}

static bt_status step_once(bt_problem *problem, bool *updated)
{
    const bt_loader *loader = problem->def->epoch_callback ? problem->train->loader : NULL;
    int64_t epoch = loader ? bt_loader_epoch(loader) : 0;
    *updated = false;
    BT_TRY(bt_check_restored(problem->context));
    BT_TRY(bt_update_scalars(problem->context));
    BT_TRY(bt_kept_error(problem->context)); /* of a question in a callback, which may have left programs half made */
    bt_stage_enter(problem->context, BT_STAGE_PROGRAM);
    bt_status status = bt_step_call(problem, updated);
    bt_stage_leave(problem->context);
    BT_TRY(status);
    if (loader)
        BT_TRY(end_epochs(problem, loader, epoch));
    return bt_check_purity(problem);
}

static bt_status call_parents(bt_problem *problem);

/* Whether all children have completed their inner loops, and all other differentiated problems have taken a step, so
 * that they have a batch. */
static bool all_ready(const bt_problem *problem)
{
    for (int i = 0; i < problem->child_count; i++)
        if (!problem->ready[i])
            return false;
    for (int q = 0; q < problem->step->site.solve_count; q++)
        if (!problem->step->site.solves[q].problem->steps)
            return false;
    return true;
}

static bt_status step(bt_problem *problem)
{
    bool updated;
    bt_until *until = problem->context->until;
    if (until && !until->inner[problem->place]) {
        until->arrived = until->arrived || problem == until->level;
        return BT_OK;
    }
    BT_TRY(bt_inner_loop_begin(problem));
    BT_TRY(step_once(problem, &updated));
    if (!updated)
        return BT_OK;
    for (int c = 0; c < problem->child_count; c++)
        problem->children[c]->return_due = true;
    return call_parents(problem);
}

/* After every unroll_steps steps, tells the parents that this solution is ready; a parent steps once all of its are. */
static bt_status call_parents(bt_problem *problem)
{
    const bt_problem_settings *s = problem->settings;
    if (!problem->parent_count || problem->steps % s->unroll_steps != 0)
        return BT_OK;
    problem->inner_loop_start = true;
    bool warm = problem->steps > s->warmup_steps || problem->context->until;
    for (int p = 0; p < problem->parent_count && warm; p++) {
        bt_problem *parent = problem->parents[p];
        for (int c = 0; c < parent->child_count; c++)
            if (parent->children[c] == problem)
                parent->ready[c] = true;
        if (!all_ready(parent))
            continue;
        memset(parent->ready, 0, (size_t)parent->child_count * sizeof *parent->ready);
        BT_TRY(step(parent));
    }
    return BT_OK;
}

bt_status bt_leaf_step(bt_problem *leaf)
{
    bt_stage_enter(leaf->context, BT_STAGE_STEP);
    bt_status status = step(leaf);
    if (status == BT_OK)
        status = bt_roll_back_all(leaf->context);
    bt_stage_leave(leaf->context);
    return status;
}

bt_status bt_step_leaves(bt_context *context)
{
    for (int i = 0; i < context->leaf_count; i++)
        BT_TRY(bt_leaf_step(context->leaves[i]));
    return BT_OK;
}

/* ---- up to a step of one level ---- */

static bt_status run_until(bt_context *context, const bt_until *until)
{
    while (!until->arrived)
        for (int i = 0; i < context->leaf_count && !until->arrived; i++) {
            if (!until->inner[context->leaves[i]->place])
                continue;
            BT_TRY(step(context->leaves[i]));
            if (!until->arrived) /* otherwise the caller looks first */
                BT_TRY(bt_roll_back_all(context));
        }
    return BT_OK;
}

/* Marks the levels that step before `upper` does: its children and all that it differentiates, with theirs. */
static bt_status mark_inner(const bt_problem *upper, bool *inner)
{
    int count = upper->context->problem_count;
    bt_problem **lowers = bt_alloc_array((size_t)count, sizeof(bt_problem *));
    bt_status status = lowers ? BT_OK : BT_ERROR_MEMORY;
    int found = lowers ? bt_lowers(upper, lowers) : 0;
    for (int c = 0; c < upper->child_count + found && status == BT_OK; c++) {
        const bt_problem *lower = c < upper->child_count ? upper->children[c] : lowers[c - upper->child_count];
        if (!inner[lower->place]) {
            inner[lower->place] = true;
            status = mark_inner(lower, inner);
        }
    }
    bt_free(lowers);
    return status;
}

bt_status bt_run_until(bt_problem *upper)
{
    bt_context *context = upper->context;
    bt_until until = {.level = upper, .arrived = !upper->child_count};
    until.inner = bt_alloc_array((size_t)context->problem_count, sizeof *until.inner);
    bt_status status = until.inner ? mark_inner(upper, until.inner) : BT_ERROR_MEMORY;
    context->until = &until;
    bt_stage_enter(context, BT_STAGE_STEP);
    if (status == BT_OK)
        status = run_until(context, &until);
    bt_stage_leave(context);
    context->until = NULL;
    bt_free(until.inner);
    return status;
}
