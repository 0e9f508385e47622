/* engine/step/run.c: steps, in the order that the hierarchy asks for. */
#include "engine/solve/unrolled.h"
#include "engine/solve/trajectory.h"
#include "runtime/profile.h"
#include <math.h>
#include <string.h>

static void set_number(bt_var *var, double value) { memcpy(var->data, &value, sizeof value); }

/* Whether a static int has changed; host scalars get their values. */
static bool scalars_changed(bt_problem *problem)
{
    bool changed = false;
    for (int i = 0; i < problem->scalar_count; i++) {
        bt_scalar *scalar = &problem->scalars[i];
        bt_guest before = bt_problem_enter(problem, scalar->name);
        double number = scalar->number ? scalar->number(problem) : 0;
        int64_t integer = scalar->integer ? scalar->integer(problem) : 0;
        scalar = &problem->scalars[i]; /* the function may have evaluated something that brought others */
        if (scalar->number)
            set_number(scalar->var, number);
        changed |= scalar->integer && integer != scalar->value;
        scalar->value = integer;
        bt_guest_leave(before);
    }
    return changed;
}

bt_status bt_engine_recompile(bt_engine *engine)
{
    for (int p = 0; p < engine->problem_count; p++)
        bt_problem_uncompile(engine->problems[p]);
    return bt_engine_compile(engine);
}

bt_status bt_update_scalars(bt_engine *engine)
{
    bool changed = false;
    if (engine->busy) /* asked for from a host callback within a step, whose numbers stay as they are */
        return BT_OK;
    engine->busy = true;
    for (int p = 0; p < engine->problem_count; p++)
        changed |= scalars_changed(engine->problems[p]);
    bt_status status = bt_error_status();
    if (changed && status == BT_OK)
        status = bt_engine_recompile(engine);
    engine->busy = false;
    return status;
}

void bt_steps_show(bt_engine *engine, bool now)
{
    for (int p = 0; p < engine->problem_count; p++) {
        const bt_problem *problem = engine->problems[p];
        set_number(problem->step_count, (double)(now ? problem->steps : problem->seen));
    }
}

/* ---- one step ---- */

bt_status bt_part_run(bt_phase *phase, int entry)
{
    bt_status status = bt_phase_run(phase, entry);
    if (status != BT_OK)
        bt_error_context("%s, %s, %s", phase->owner, phase->name, phase->entries[entry].part);
    return status;
}

/* The next micro-batches; programs see the steps so far. */
static bt_status draw(bt_problem *problem)
{
    bt_profile *profile = problem->engine->instance->profile;
    double begin = profile ? bt_seconds() : 0;
    problem->seen = problem->steps;
    bt_steps_show(problem->engine, true);
    BT_TRY(bt_stream_take(problem->train, problem->settings->gradient_accumulation));
    return bt_profile_add(profile, problem->name, "batches", begin);
}

/* The gradient on the micro-batches at hand, at fixed state of every level. */
static bt_status run_gradients(bt_problem *problem)
{
    bt_step_phase *step = &problem->step;
    int64_t total = 0;
    for (int64_t m = 0; m < problem->train->kept_count; m++) {
        const bt_batch *batch = bt_stream_kept(problem->train, m);
        int shape = batch ? bt_stream_shape(problem->train, batch) : -1;
        if (shape < 0)
            return bt_error_status();
        bt_micro_bind(&step->micros[shape], batch);
        total += batch->count;
        BT_TRY(bt_part_run(step->phase, step->gradient[shape]));
    }
    set_number(step->total, (double)total);
    return step->average >= 0 ? bt_part_run(step->phase, step->average) : BT_OK;
}

/* The gradient and the first product in one: nothing between them may have read what bt_steps_show changes there. */
static bt_status run_joined(bt_problem *problem)
{
    bt_step_phase *step = &problem->step;
    const bt_batch *batch = bt_stream_kept(problem->train, 0);
    int shape = batch ? bt_stream_shape(problem->train, batch) : -1, variant = bt_solve_bind(&step->solves[0], problem);
    if (shape < 0 || variant < 0)
        return bt_error_status();
    bt_micro_bind(&step->micros[shape], batch);
    set_number(step->total, (double)batch->count);
    return bt_part_run(step->phase, step->joined[shape][variant]);
}

static bt_status run_solves(bt_problem *problem)
{
    bt_step_phase *step = &problem->step;
    for (int q = step->joins, count; q < step->solve_count; q += count) {
        for (count = 0; q + count < step->solve_count && step->solves[q + count].unroll; count++)
            ;
        BT_TRY(count ? bt_unroll_run(problem, &step->solves[q], count) : bt_solve_run(problem, &step->solves[q]));
        count = count ? count : 1;
    }
    return BT_OK;
}

bt_status bt_step_direct(bt_problem *problem)
{
    bt_phase_begin(problem->step.phase);
    bt_status status = draw(problem);
    if (status == BT_OK)
        status = run_gradients(problem);
    bt_steps_show(problem->engine, false);
    return status;
}

bt_status bt_step_gradient(bt_problem *problem)
{
    if (!problem->step.joins) {
        BT_TRY(bt_step_direct(problem));
        return run_solves(problem);
    }
    bt_status status = draw(problem);
    bt_steps_show(problem->engine, false);
    return status == BT_OK ? bt_step_again(problem, true) : status;
}

bt_status bt_step_again(bt_problem *problem, bool whole)
{
    bt_phase_begin(problem->step.phase);
    BT_TRY(whole && problem->step.joins ? run_joined(problem) : run_gradients(problem));
    return whole ? run_solves(problem) : BT_OK;
}

/* The gradient of a step that will be made, and may be gone back through. */
static bt_status gradient_to_step(bt_problem *problem)
{
    if (problem->trajectory)
        bt_steps_show(problem->engine, true);
    bt_trajectory_record(problem->trajectory);
    BT_TRY(bt_step_gradient(problem));
    bt_trajectory_record_gradient(problem->trajectory);
    return BT_OK;
}

static bt_status update(bt_problem *problem)
{
    BT_TRY(bt_part_run(problem->step.phase, problem->step.update));
    bt_trajectory_record_update(problem->trajectory);
    return BT_OK;
}

bt_status bt_step_alone(bt_problem *problem)
{
    BT_TRY(gradient_to_step(problem));
    BT_TRY(update(problem));
    bt_phase_end(problem->step.phase);
    problem->steps++;
    problem->since = bt_tick(problem->engine);
    return BT_OK;
}

/* One call: the gradient, and the update once the meta-batch is full. */
static bt_status call(bt_problem *problem, bool *updated)
{
    bt_step_phase *step = &problem->step;
    BT_TRY(gradient_to_step(problem));
    if (step->collect >= 0)
        BT_TRY(bt_part_run(step->phase, step->collect));
    if (++problem->calls >= problem->settings->meta_batch) {
        BT_TRY(update(problem));
        if (step->sums.flat)
            memset(step->sums.flat->data, 0, step->sums.flat->bytes);
        problem->calls = 0;
        problem->steps++;
        *updated = true;
    }
    problem->since = bt_tick(problem->engine);
    bt_phase_end(step->phase);
    return BT_OK;
}

static int64_t epoch_of(const bt_problem *problem)
{
    return problem->train->loader ? bt_loader_epoch(problem->train->loader) : 0;
}

static bt_status step_once(bt_problem *problem, bool *updated)
{
    int64_t epoch = epoch_of(problem);
    *updated = false;
    BT_TRY(bt_check_restored(problem->engine));
    BT_TRY(bt_update_scalars(problem->engine));
    problem->engine->busy = true;
    bt_status status = call(problem, updated);
    problem->engine->busy = false;
    BT_TRY(status);
    for (; problem->def->epoch_callback && epoch < epoch_of(problem); epoch++) {
        bt_guest before = bt_problem_enter(problem, "epoch_callback");
        problem->def->epoch_callback(problem);
        bt_guest_leave(before);
        BT_TRY(bt_error_status());
    }
    return bt_check_purity(problem);
}

/* ---- the hierarchy ---- */

static bt_status call_parents(bt_problem *problem);

/* All children have come to the end of their inner loops; and what else is differentiated has made a step, so that
 * there is a batch to do it on. */
static bool all_ready(const bt_problem *problem)
{
    for (int i = 0; i < problem->child_count; i++)
        if (!problem->ready[i])
            return false;
    for (int q = 0; q < problem->step.solve_count; q++)
        if (!problem->step.solves[q].problem->steps)
            return false;
    return true;
}

static bt_status step(bt_problem *problem)
{
    bool updated;
    bt_engine *engine = problem->engine;
    if (engine->until && !engine->inner[problem->place]) {
        engine->arrived = engine->arrived || problem == engine->until;
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

/* After every unroll_steps steps: the parents learn that this solution is ready, and step when all of theirs are. */
static bt_status call_parents(bt_problem *problem)
{
    const bt_problem_settings *s = problem->settings;
    if (!problem->parent_count || problem->steps % s->unroll_steps != 0)
        return BT_OK;
    problem->inner_loop_start = true;
    bool warm = problem->steps > s->warmup_steps || problem->engine->until;
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
    leaf->engine->stepping = true;
    bt_status status = step(leaf);
    if (status == BT_OK)
        status = bt_roll_back_all(leaf->engine);
    leaf->engine->stepping = false;
    return status;
}

bt_status bt_step_leaves(bt_engine *engine)
{
    for (int i = 0; i < engine->leaf_count; i++)
        BT_TRY(bt_leaf_step(engine->leaves[i]));
    return bt_rewire_due(engine);
}

static bt_status run_until(bt_engine *engine)
{
    while (!engine->arrived)
        for (int i = 0; i < engine->leaf_count && !engine->arrived; i++) {
            if (!engine->inner[engine->leaves[i]->place])
                continue;
            BT_TRY(step(engine->leaves[i]));
            if (!engine->arrived) /* else what it sees comes first */
                BT_TRY(bt_roll_back_all(engine));
        }
    return BT_OK;
}

/* Marks the levels whose steps come before one of `upper`: its children and all that it differentiates, with theirs. */
static bt_status mark_inner(const bt_problem *upper, bool *inner)
{
    int count = upper->engine->problem_count;
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
    bt_engine *engine = upper->engine;
    engine->inner = bt_alloc_array((size_t)engine->problem_count, sizeof *engine->inner);
    bt_status status = engine->inner ? mark_inner(upper, engine->inner) : BT_ERROR_MEMORY;
    engine->until = upper;
    engine->arrived = !upper->child_count;
    if (status == BT_OK)
        status = run_until(engine);
    engine->until = NULL;
    bt_free(engine->inner);
    engine->inner = NULL;
    return status;
}

/* ---- validation ---- */

/* The same batches each time, so that validations can be compared. */
static bt_status validate(bt_problem *problem)
{
    bt_valid_phase *validation = &problem->validation;
    bt_stream *stream = problem->valid;
    int64_t batches = bt_stream_validation(stream);
    BT_TRY(bt_stream_rewind(stream, 0, 0));
    bt_phase_begin(validation->phase);
    for (int64_t i = 0; i < batches; i++) {
        BT_TRY(bt_stream_draw(stream, 1));
        int shape = bt_stream_shape(stream, stream->kept[0]);
        if (shape < 0)
            return bt_error_status();
        bt_micro_bind(&validation->micros[shape], stream->kept[0]);
        BT_TRY(bt_part_run(validation->phase, validation->entries[shape]));
    }
    bt_phase_end(validation->phase);
    return BT_OK;
}

static bt_status validate_problem(bt_problem *problem, bool *any)
{
    bt_engine *engine = problem->engine;
    if (problem->valid && problem->validation.phase) {
        BT_TRY(bt_update_scalars(engine));
        engine->busy = true;
        bt_steps_show(engine, true);
        bt_status status = validate(problem);
        bt_steps_show(engine, false);
        engine->busy = false;
        BT_TRY(status);
        *any = true;
    }
    if (!problem->def->validation_end)
        return BT_OK;
    bt_guest before = bt_problem_enter(problem, "validation_end");
    problem->def->validation_end(problem);
    bt_guest_leave(before);
    *any = true;
    return bt_error_status();
}

bt_status bt_validate(bt_engine *engine, bool *any)
{
    bt_status status = BT_OK;
    *any = false;
    engine->validating = true;
    for (int p = 0; p < engine->problem_count && status == BT_OK; p++)
        if (engine->problems[p]->settings->active)
            status = validate_problem(engine->problems[p], any);
    engine->validating = false;
    return status;
}
