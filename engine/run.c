/* engine/run.c: steps, in the order that the hierarchy asks for. */
#include "engine/problem.h"

#include <math.h>
#include <string.h>

bt_status bt_update_scalars(bt_engine *engine)
{
    for (int p = 0; p < engine->problem_count; p++) {
        bt_problem *problem = engine->problems[p];
        for (int i = 0; i < problem->scalar_count; i++) {
            bt_scalar *scalar = &problem->scalars[i];
            if (scalar->number) {
                double value = scalar->number(problem);
                memcpy(scalar->var->data, &value, sizeof value);
            } else if (scalar->integer && scalar->integer(problem) != scalar->value) {
                scalar->value = scalar->integer(problem);
                for (int q = 0; q < engine->problem_count; q++)
                    bt_problem_uncompile(engine->problems[q]);
                for (int q = 0; q < engine->problem_count; q++)
                    if (engine->problems[q]->settings->active)
                        BT_TRY(bt_problem_compile(engine->problems[q]));
            }
        }
    }
    return bt_error_status();
}

static void set_number(bt_var *var, double value) { memcpy(var->data, &value, sizeof value); }

/* The next micro-batches, at fixed state of every level. */
static bt_status run_gradients(bt_problem *problem)
{
    bt_step_phase *step = &problem->step;
    int64_t micros = problem->settings->gradient_accumulation, total = 0;
    int64_t epoch = problem->train->loader ? bt_loader_epoch(problem->train->loader) : 0;
    BT_TRY(bt_stream_draw(problem->train, micros));
    for (int64_t m = 0; m < micros; m++) {
        const bt_batch *batch = problem->train->kept[m];
        int shape = bt_stream_shape(problem->train, batch);
        if (shape < 0)
            return bt_error_status();
        bt_micro_bind(&step->micros[shape], batch);
        total += batch->count;
        BT_TRY(bt_phase_run(step->phase, step->gradient[shape]));
    }
    set_number(step->total, (double)total);
    if (step->average >= 0)
        BT_TRY(bt_phase_run(step->phase, step->average));
    if (problem->def->epoch_callback && problem->train->loader && bt_loader_epoch(problem->train->loader) > epoch) {
        problem->def->epoch_callback(problem);
        return bt_error_status();
    }
    return BT_OK;
}

bt_status bt_step_gradient(bt_problem *problem)
{
    bt_step_phase *step = &problem->step;
    set_number(problem->step_count, (double)problem->steps);
    bt_phase_begin(step->phase);
    BT_TRY(run_gradients(problem));
    for (int q = 0; q < step->solve_count; q++)
        BT_TRY(bt_solve_run(step, &step->solves[q]));
    return BT_OK;
}

bt_status bt_step_direct(bt_problem *problem)
{
    set_number(problem->step_count, (double)problem->steps);
    bt_phase_begin(problem->step.phase);
    return run_gradients(problem);
}

bt_status bt_step_again(bt_problem *problem)
{
    bt_step_phase *step = &problem->step;
    bt_phase_begin(step->phase);
    for (int64_t m = 0; m < problem->train->kept_count; m++) {
        int shape = bt_stream_shape(problem->train, problem->train->kept[m]);
        bt_micro_bind(&step->micros[shape], problem->train->kept[m]);
        BT_TRY(bt_phase_run(step->phase, step->gradient[shape]));
    }
    return step->average >= 0 ? bt_phase_run(step->phase, step->average) : BT_OK;
}

bt_status bt_step_alone(bt_problem *problem)
{
    BT_TRY(bt_step_gradient(problem));
    BT_TRY(bt_phase_run(problem->step.phase, problem->step.update));
    bt_phase_end(problem->step.phase);
    return BT_OK;
}

/* One call: the gradient, and the update once the meta-batch is full. */
static bt_status step_once(bt_problem *problem, bool *updated)
{
    bt_step_phase *step = &problem->step;
    *updated = false;
    BT_TRY(bt_update_scalars(problem->engine));
    BT_TRY(bt_step_gradient(problem));
    if (step->collect >= 0)
        BT_TRY(bt_phase_run(step->phase, step->collect));
    if (++problem->calls >= problem->settings->meta_batch) {
        BT_TRY(bt_phase_run(step->phase, step->update));
        if (step->sums.flat)
            memset(step->sums.flat->data, 0, step->sums.flat->bytes);
        problem->calls = 0;
        problem->steps++;
        *updated = true;
    }
    bt_phase_end(step->phase);
    return bt_check_purity(problem);
}

/* ---- roll_back: the lower problem returns to where its inner loop began, and takes one step with the new upper level
 * ---- */

enum { SNAPSHOT_ROOM = BT_MAX_ITEMS * 3 + 8 };

static int run_variables(bt_problem *problem, bt_var **vars)
{
    int count = 0;
    vars[count++] = problem->module->param_block.flat;
    if (problem->module->buffer_block.flat)
        vars[count++] = problem->module->buffer_block.flat;
    for (int k = 0; k < BT_MAX_ITEMS && problem->slots[k].flat; k++)
        vars[count++] = problem->slots[k].flat;
    vars[count++] = problem->optimizer->applied;
    vars[count++] = problem->optimizer->skipped;
    return count;
}

static bt_status take_snapshot(bt_problem *problem)
{
    bt_var *vars[SNAPSHOT_ROOM];
    int count = run_variables(problem, vars);
    if (!problem->snapshot) {
        problem->snapshot = bt_alloc_array(SNAPSHOT_ROOM + 1, sizeof(char *));
        for (int i = 0; problem->snapshot && i < count; i++)
            if (!(problem->snapshot[i] = bt_alloc(vars[i]->bytes)))
                return BT_ERROR_MEMORY;
    }
    if (!problem->snapshot)
        return BT_ERROR_MEMORY;
    for (int i = 0; i < count; i++)
        memcpy(problem->snapshot[i], vars[i]->data, vars[i]->bytes);
    return BT_OK;
}

static bt_status roll_back(bt_problem *problem)
{
    bt_var *vars[SNAPSHOT_ROOM];
    bt_step_phase *step = &problem->step;
    int count = run_variables(problem, vars);
    for (int i = 0; i < count; i++)
        memcpy(vars[i]->data, problem->snapshot[i], vars[i]->bytes);
    BT_TRY(bt_step_again(problem));
    BT_TRY(bt_phase_run(step->phase, step->update));
    bt_phase_end(step->phase);
    return BT_OK;
}

static bt_status call_parents(bt_problem *problem);

static bool all_ready(const bt_problem *problem)
{
    for (int i = 0; i < problem->child_count; i++)
        if (!problem->ready[i])
            return false;
    return true;
}

static bt_status inner_loop_start(bt_problem *problem)
{
    if (!problem->inner_loop_start)
        return BT_OK;
    problem->inner_loop_start = false;
    if (problem->def->on_inner_loop_start)
        problem->def->on_inner_loop_start(problem);
    if (problem->engine->settings->roll_back && problem->parent_count && !problem->child_count)
        BT_TRY(take_snapshot(problem));
    return bt_error_status();
}

static bt_status step(bt_problem *problem)
{
    bool updated;
    BT_TRY(inner_loop_start(problem));
    double start = bt_seconds();
    BT_TRY(step_once(problem, &updated));
    problem->seconds += bt_seconds() - start;
    return updated ? call_parents(problem) : BT_OK;
}

/* After every unroll_steps steps: the parents learn that this solution is ready, and step when all of theirs are. */
static bt_status call_parents(bt_problem *problem)
{
    const bt_problem_settings *s = problem->settings;
    if (!problem->parent_count || problem->steps % s->unroll_steps != 0 || problem->steps <= s->warmup_steps)
        return BT_OK;
    for (int p = 0; p < problem->parent_count; p++) {
        bt_problem *parent = problem->parents[p];
        for (int c = 0; c < parent->child_count; c++)
            if (parent->children[c] == problem)
                parent->ready[c] = true;
        if (!all_ready(parent))
            continue;
        memset(parent->ready, 0, (size_t)parent->child_count * sizeof *parent->ready);
        BT_TRY(step(parent));
    }
    problem->inner_loop_start = true;
    if (problem->engine->settings->roll_back && !problem->child_count && problem->snapshot)
        return roll_back(problem);
    return BT_OK;
}

bt_status bt_leaf_step(bt_problem *leaf) { return step(leaf); }

/* ---- validation ---- */

static bt_status validate(bt_problem *problem)
{
    bt_valid_phase *validation = &problem->validation;
    bt_stream *stream = problem->valid;
    int64_t batches = problem->settings->valid_batches, all = stream->loader ? bt_loader_per_epoch(stream->loader) : 1;
    if (batches <= 0)
        batches = all;
    if (stream->loader && batches == all)
        BT_TRY(bt_loader_seek(stream->loader, 0));
    bt_phase_begin(validation->phase);
    for (int64_t i = 0; i < batches; i++) {
        BT_TRY(bt_stream_draw(stream, 1));
        int shape = bt_stream_shape(stream, stream->kept[0]);
        if (shape < 0)
            return bt_error_status();
        bt_micro_bind(&validation->micros[shape], stream->kept[0]);
        BT_TRY(bt_phase_run(validation->phase, validation->entries[shape]));
    }
    bt_phase_end(validation->phase);
    return BT_OK;
}

bt_status bt_validate(bt_engine *engine, bool *any)
{
    *any = false;
    for (int p = 0; p < engine->problem_count; p++) {
        bt_problem *problem = engine->problems[p];
        if (!problem->settings->active)
            continue;
        if (problem->valid) {
            BT_TRY(bt_update_scalars(engine));
            BT_TRY(validate(problem));
            *any = true;
        }
        if (problem->def->validation_end) {
            problem->def->validation_end(problem);
            BT_TRY(bt_error_status());
            *any = true;
        }
    }
    return BT_OK;
}
