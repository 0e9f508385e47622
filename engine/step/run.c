/* engine/step/run.c: one step of a level: batches, gradient, solves, update. */
#include "engine/step/step.h"

#include "engine/solve/trajectory.h"
#include "runtime/profile.h"
#include <string.h>

/* The next micro-batches; programs see the steps so far. */
static bt_status draw(bt_problem *problem)
{
    bt_profile *profile = problem->context->instance->profile;
    double begin = profile ? bt_seconds() : 0;
    problem->seen = problem->steps;
    bt_steps_show(problem->context, true);
    BT_TRY(bt_stream_take(problem->train, problem->settings->gradient_accumulation));
    return bt_profile_add(profile, problem->name, "batches", begin);
}

/* Programs read this micro-batch; returns its shape, -1 after an error. batch NULL: after an error. */
static int bind(bt_problem *problem, const bt_batch *batch)
{
    int shape = batch ? bt_stream_shape(problem->train, batch) : -1;
    if (shape >= 0)
        bt_micro_bind(&problem->step->micros[shape], batch);
    return shape;
}

static bt_status add_gradient(bt_problem *problem, const bt_batch *batch)
{
    int shape = bind(problem, batch);
    return shape < 0 ? bt_error_status() : bt_part_run(problem->step->phase, problem->step->gradient[shape]);
}

/* By the examples of all micro-batches. */
static bt_status average(bt_problem *problem, int64_t total)
{
    bt_number_set(problem->step->total, (double)total);
    return problem->step->average >= 0 ? bt_part_run(problem->step->phase, problem->step->average) : BT_OK;
}

/* The gradient on the micro-batches at hand, at fixed state of every level. */
static bt_status run_gradients(bt_problem *problem)
{
    int64_t total = 0;
    for (int64_t m = 0; m < problem->train->kept_count; m++) {
        const bt_batch *batch = bt_stream_kept(problem->train, m);
        BT_TRY(add_gradient(problem, batch));
        total += batch->count;
    }
    return average(problem, total);
}

/* The gradient and the first product in one: nothing between them may have read what bt_steps_show changes there. */
static bt_status run_joined(bt_problem *problem)
{
    bt_step_phase *step = problem->step;
    const bt_batch *batch = bt_stream_kept(problem->train, 0);
    const bt_solve *first = &step->site.solves[0];
    int shape = bind(problem, batch), variant = first->solver->bind(&step->site, first);
    if (shape < 0 || variant < 0)
        return bt_error_status();
    bt_number_set(step->total, (double)batch->count);
    return bt_part_run(step->phase, step->joined[shape][variant]);
}

static bt_status run_solves(bt_problem *problem)
{
    bt_step_phase *step = problem->step;
    return bt_solves_run(&step->site, step->joins, step->site.solve_count);
}

bt_status bt_step_direct(bt_problem *problem)
{
    bt_phase_begin(problem->step->phase);
    bt_status status = draw(problem);
    if (status == BT_OK)
        status = run_gradients(problem);
    bt_steps_show(problem->context, false);
    return status;
}

bt_status bt_step_gradient(bt_problem *problem)
{
    if (!problem->step->joins) {
        BT_TRY(bt_step_direct(problem));
        return run_solves(problem);
    }
    bt_status status = draw(problem);
    bt_steps_show(problem->context, false);
    return status == BT_OK ? bt_step_again(problem, true) : status;
}

bt_status bt_step_again(bt_problem *problem, bool whole)
{
    bt_phase_begin(problem->step->phase);
    BT_TRY(whole && problem->step->joins ? run_joined(problem) : run_gradients(problem));
    return whole ? run_solves(problem) : BT_OK;
}

/* The gradient of a step that will be made, and may be gone back through. */
static bt_status gradient_to_step(bt_problem *problem)
{
    if (problem->trajectory)
        bt_steps_show(problem->context, true);
    bt_trajectory_record(problem->trajectory);
    BT_TRY(bt_step_gradient(problem));
    const bt_step_phase *step = problem->step;
    bt_trajectory_record_gradient(problem->trajectory, step->phase, step->collect < 0 ? step->update : step->collect);
    return BT_OK;
}

static bt_status update(bt_problem *problem)
{
    BT_TRY(bt_part_run(problem->step->phase, problem->step->update));
    bt_trajectory_record_update(problem->trajectory);
    return BT_OK;
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
    problem->steps++;
    problem->since = bt_tick(problem->context);
    return BT_OK;
}

bt_status bt_step_on(bt_problem *problem, const bt_batch *batch, int64_t number)
{
    bt_batch numbered = *batch;
    numbered.number = number;
    problem->seen = problem->steps;
    bt_steps_show(problem->context, true);
    bt_phase_begin(problem->step->phase);
    bt_status status = add_gradient(problem, &numbered);
    if (status == BT_OK)
        status = average(problem, batch->count);
    if (status == BT_OK)
        status = bt_part_run(problem->step->phase, problem->step->update);
    bt_phase_end(problem->step->phase);
    bt_steps_show(problem->context, false);
    problem->steps++;
    return status;
}

/* One call: the gradient, and the update once the meta-batch is full. */
bt_status bt_step_call(bt_problem *problem, bool *updated)
{
    bt_step_phase *step = problem->step;
    BT_TRY(gradient_to_step(problem));
    if (step->collect >= 0)
        BT_TRY(bt_part_run(step->phase, step->collect));
    if (++problem->calls >= problem->settings->meta_batch) {
        BT_TRY(update(problem));
        if (problem->sums.flat)
            memset(problem->sums.flat->data, 0, problem->sums.flat->bytes);
        problem->calls = 0;
        problem->steps++;
        *updated = true;
    }
    problem->since = bt_tick(problem->context);
    bt_phase_end(step->phase);
    return BT_OK;
}
