/* engine/schedule/inner_loop.c: how an inner loop begins: the task it works on, the parameters it starts from; and what
 * roll_back returns to. */
#include "engine/level/level.h"

#include "ops/ops.h"
#include <string.h>

/* ---- start ---- */

bt_tensor *bt_start_trace(bt_problem *problem)
{
    bt_trace *trace = bt_trace_now();
    bt_var *record = trace->record;
    uint64_t seed = trace->seed;
    trace->record = problem->step.loop;
    trace->seed = bt_hash_text(seed, "start"); /* not the numbers of a step that has the same counter */
    bt_guest before = bt_problem_enter(problem, "start");
    bt_tensor *start = problem->def->start(problem);
    bt_guest_leave(before);
    trace->record = record;
    trace->seed = seed;
    return bt_problem_vector(problem, start, "start");
}

static void assign_start(bt_problem *problem, bt_graph *graph)
{
    int64_t count = problem->module->param_count;
    bt_tensor *start = bt_start_trace(problem);
    bt_tensor **parts = bt_region_alloc(graph->region, (size_t)(count + 1) * sizeof *parts);
    if (!parts)
        bt_graph_fail(graph, BT_ERROR_MEMORY, "out of memory");
    if (!parts || bt_poisoned(start))
        return;
    bt_problem_split(problem, start, parts);
    for (int64_t i = 0; i < count; i++)
        bt_graph_assign(graph, problem->module->params[i]->var, parts[i]);
}

bt_status bt_start_build(bt_problem *problem)
{
    if (!problem->def->start)
        return BT_OK;
    problem->step.loop = bt_var_new(BT_RUN, BT_BATCH, problem->name, "inner loop", (bt_array){.dtype = BT_I64});
    if (!problem->step.loop)
        return BT_ERROR_MEMORY;
    problem->step.start = bt_step_add(problem, "start", assign_start);
    return problem->step.start < 0 ? bt_error_status() : BT_OK;
}

bt_status bt_start_run(bt_problem *problem)
{
    bt_phase *phase = problem->step.phase;
    if (!problem->def->start)
        return BT_OK;
    memcpy(problem->step.loop->data, &problem->steps, sizeof problem->steps);
    bt_steps_show(problem->engine, true);
    bt_phase_begin(phase);
    bt_status status = bt_part_run(phase, problem->step.start);
    bt_phase_end(phase);
    bt_steps_show(problem->engine, false);
    for (int k = 0; k < BT_MAX_ITEMS && problem->slots[k].flat; k++)
        memset(problem->slots[k].flat->data, 0, problem->slots[k].flat->bytes);
    memset(problem->optimizer->applied->data, 0, problem->optimizer->applied->bytes);
    return status;
}

/* ---- roll_back: once an upper problem has stepped, the lower one returns to where its inner loop began, and takes one
 * step, on the last batch, with the new upper parameters ---- */

int bt_run_variables(bt_problem *problem, bt_var **vars)
{
    int count = 0;
    vars[count++] = problem->module->param_block.flat;
    if (problem->module->buffer_block.flat)
        vars[count++] = problem->module->buffer_block.flat;
    for (int k = 0; k < BT_MAX_ITEMS && problem->slots[k].flat; k++)
        vars[count++] = problem->slots[k].flat;
    if (problem->slope.flat)
        vars[count++] = problem->slope.flat;
    vars[count++] = problem->optimizer->applied;
    return count;
}

static bool rolls_back(const bt_problem *problem)
{
    return problem->engine->settings->roll_back && problem->parent_count && !problem->child_count;
}

bt_status bt_snapshot_open(bt_problem *problem)
{
    bt_var *vars[BT_SNAPSHOT];
    int count = rolls_back(problem) ? bt_run_variables(problem, vars) : 0;
    while (problem->snapshot_count > count) /* it does so no longer */
        bt_var_free(problem->snapshot[--problem->snapshot_count]);
    while (problem->snapshot_count < count) {
        const bt_var *var = vars[problem->snapshot_count];
        bt_text name = {0};
        bt_text_add(&name, "%s at the start of the inner loop", var->name);
        bt_var *copy = name.failed ? NULL : bt_var_new(BT_RUN, var->category, var->owner, name.data, bt_var_array(var));
        bt_text_free(&name);
        if (!copy)
            return BT_ERROR_MEMORY;
        memcpy(copy->data, var->data, var->bytes); /* where there is no start of an inner loop before it is read */
        problem->snapshot[problem->snapshot_count++] = copy;
    }
    return BT_OK;
}

static void copy_variables(bt_var *const *from, bt_var *const *to, int count)
{
    for (int i = 0; i < count; i++)
        memcpy(to[i]->data, from[i]->data, to[i]->bytes);
}

static void take_snapshot(bt_problem *problem)
{
    bt_var *vars[BT_SNAPSHOT];
    copy_variables(vars, problem->snapshot, bt_run_variables(problem, vars));
}

static bt_status roll_back(bt_problem *problem)
{
    bt_var *vars[BT_SNAPSHOT];
    bt_step_phase *step = &problem->step;
    copy_variables(problem->snapshot, vars, bt_run_variables(problem, vars));
    BT_TRY(bt_step_again(problem, false));
    BT_TRY(bt_part_run(step->phase, step->update));
    bt_phase_end(step->phase);
    return BT_OK;
}

bt_status bt_roll_back_all(bt_engine *engine)
{
    for (int p = 0; p < engine->problem_count; p++) {
        bt_problem *problem = engine->problems[p];
        if (problem->return_due && problem->snapshot_count)
            BT_TRY(roll_back(problem));
        problem->return_due = false;
    }
    return BT_OK;
}

/* ---- an inner loop begins ---- */

bt_status bt_inner_loop_begin(bt_problem *problem)
{
    if (!problem->inner_loop_start)
        return BT_OK;
    problem->inner_loop_start = false;
    if (problem->def->on_inner_loop_start) {
        bt_guest before = bt_problem_enter(problem, "on_inner_loop_start");
        problem->def->on_inner_loop_start(problem);
        bt_guest_leave(before);
    }
    BT_TRY(bt_error_status());
    BT_TRY(bt_stream_next_task(problem->train));
    if (problem->def->start) {
        BT_TRY(bt_update_scalars(problem->engine));
        BT_TRY(bt_start_run(problem));
    }
    if (rolls_back(problem))
        take_snapshot(problem);
    return BT_OK;
}
