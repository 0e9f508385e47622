/* engine/step/run.c: one step of a level: batches, gradient, solves, update. */
#include "engine/step/step.h"

#include "engine/level/prune.h"
#include "engine/solve/trajectory.h"
#include "runtime/profile.h"
#include "runtime/store.h"

/* Runs the gradient and the first product as one program. The gradient reads no other level's steps (joined.c), so both
 * can see them as the product does. */
static bt_status run_joined(bt_problem *problem)
{
    bt_step_phase *step = problem->step;
    const bt_solve *first = &step->site.solves[0];
    bt_steps_show(problem->context, false);
    int shape = bt_micro_set_bind(&step->micros, problem), variant = first->solver->bind(&step->site, first);
    if (shape < 0 || variant < 0)
        return bt_error_status();
    return bt_part_run(step->phase, step->joined[shape][variant]);
}

/* Sets what a step sees as bt_step and bt_inner_step. */
static void see(bt_problem *problem)
{
    problem->seen = problem->steps;
    problem->inner_seen = problem->inner;
    bt_steps_show(problem->context, true);
}

static void count(bt_problem *problem)
{
    problem->steps++;
    problem->inner++;
}

bt_status bt_step_direct(bt_problem *problem)
{
    const bt_step_phase *step = problem->step;
    bt_profile *profile = problem->context->instance->profile;
    bt_phase_begin(step->phase);
    see(problem);
    double begin = profile ? bt_seconds() : 0;
    bt_status status = bt_stream_take(problem->train, problem->settings->gradient_accumulation);
    if (status == BT_OK)
        status = bt_profile_add(profile, problem->name, "batches", begin);
    if (status == BT_OK)
        status =
            step->joins ? run_joined(problem) : bt_micro_set_run(&step->micros, problem, step->phase, &step->gradient);
    bt_steps_show(problem->context, false);
    return status;
}

bt_status bt_step_gradient(bt_problem *problem)
{
    bt_step_phase *step = problem->step;
    BT_TRY(bt_step_direct(problem));
    return bt_solves_run(&step->site, step->joins, step->site.solve_count);
}

bt_status bt_step_again(bt_problem *problem, bool whole)
{
    bt_step_phase *step = problem->step;
    bt_phase_begin(step->phase);
    BT_TRY(whole && step->joins ? run_joined(problem)
                                : bt_micro_set_run(&step->micros, problem, step->phase, &step->gradient));
    return whole ? bt_solves_run(&step->site, step->joins, step->site.solve_count) : BT_OK;
}

bt_status bt_step_newest(bt_problem *problem, int64_t count)
{
    const bt_step_phase *step = problem->step;
    bt_phase_begin(step->phase);
    return bt_micro_set_run_newest(&step->micros, problem, count, step->phase, &step->gradient);
}

/* The gradient of a step that will be made, and through which a solver may go back. */
static bt_status gradient_to_step(bt_problem *problem)
{
    const bt_step_phase *step = problem->step;
    if (!problem->trajectory)
        return bt_step_gradient(problem);
    bt_steps_show(problem->context, true);
    BT_TRY(bt_trajectory_record(problem->trajectory));
    BT_TRY(bt_step_gradient(problem));
    return bt_trajectory_record_gradient(problem->trajectory, step->phase,
                                         step->collect < 0 ? step->update : step->collect);
}

static bt_status update(bt_problem *problem)
{
    BT_TRY(bt_part_run(problem->step->phase, problem->step->update));
    return problem->trajectory ? bt_trajectory_record_update(problem->trajectory) : BT_OK;
}

bt_status bt_step_update(bt_problem *problem)
{
    BT_TRY(bt_part_run(problem->step->phase, problem->step->update));
    bt_phase_end(problem->step->phase);
    return BT_OK;
}

bt_status bt_step_alone(bt_problem *problem)
{
    BT_TRY(gradient_to_step(problem));
    BT_TRY(update(problem));
    bt_phase_end(problem->step->phase);
    count(problem);
    problem->since = bt_tick(problem->context);
    return bt_prune_step(problem);
}

bt_status bt_step_on(bt_problem *problem, const bt_batch *batch, int64_t number)
{
    bt_batch numbered = *batch;
    numbered.number = number;
    see(problem);
    const bt_step_phase *step = problem->step;
    bt_phase_begin(step->phase);
    bt_status status = bt_micro_set_run_on(&step->micros, problem, &numbered, 1, step->phase, step->gradient.each);
    if (status == BT_OK)
        status = bt_part_run(step->phase, step->update);
    bt_phase_end(step->phase);
    bt_steps_show(problem->context, false);
    count(problem);
    return status;
}

/* One call: the gradient, and the update once the meta-batch is full. */
bt_status bt_step_call(bt_problem *problem, bool *updated)
{
    bt_step_phase *step = problem->step;
    BT_TRY(gradient_to_step(problem));
    if (problem->context->watch)
        BT_TRY(problem->context->watch(problem->context->watch_user, problem));
    if (step->collect >= 0)
        BT_TRY(bt_part_run(step->phase, step->collect));
    if (++problem->calls >= problem->settings->meta_batch) {
        BT_TRY(update(problem));
        if (problem->sums.flat)
            BT_TRY(bt_store_clear(problem->context->instance, problem->sums.flat));
        problem->calls = 0;
        count(problem);
        BT_TRY(bt_prune_step(problem));
        *updated = true;
    }
    problem->since = bt_tick(problem->context);
    bt_phase_end(step->phase);
    return BT_OK;
}
