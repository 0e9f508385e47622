/* engine/step/start.c: the program that begins an inner loop with the result of `start`. */
#include "engine/step/step.h"

#include "runtime/store.h"


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
        bt_graph_assign_as(graph, problem->module->params[i]->var, parts[i]);
}

bt_status bt_start_build(bt_problem *problem)
{
    if (!problem->def->start)
        return BT_OK;
    problem->loop =
        bt_ledger_var(problem->context, problem, BT_ROLE_INPUT, BT_BATCH, "inner loop", (bt_array){.dtype = BT_I64});
    if (!problem->loop)
        return BT_ERROR_MEMORY;
    problem->step->start = bt_step_add(problem, "start", assign_start);
    return problem->step->start < 0 ? bt_error_status() : BT_OK;
}

bt_status bt_start_run(bt_problem *problem)
{
    bt_phase *phase = problem->step->phase;
    if (!problem->def->start)
        return BT_OK;
    bt_count_set(problem->context, problem->loop, problem->steps);
    bt_steps_show(problem->context, true);
    bt_phase_begin(phase);
    bt_status status = bt_part_run(phase, problem->step->start);
    bt_phase_end(phase);
    bt_steps_show(problem->context, false);
    for (int k = 0; k < BT_MAX_ITEMS && problem->slots[k].flat; k++)
        BT_TRY(bt_store_clear(problem->context->instance, problem->slots[k].flat));
    bt_count_set(problem->context, problem->optimizer->applied, 0);
    return status;
}
