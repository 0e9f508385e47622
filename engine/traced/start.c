/* engine/traced/start.c: the initial parameters of an inner loop. */
#include "engine/traced/traced.h"

bt_tensor *bt_problem_start(bt_problem *problem)
{
    bt_trace *trace = bt_trace_now();
    bt_var *record = trace->record;
    uint64_t seed = trace->seed;
    trace->record = problem->loop;
    trace->seed = bt_hash_text(seed, "start"); /* unlike those of a step with the same counter */
    bt_guest before = bt_problem_enter(problem, "start");
    bt_tensor *start = problem->def->start(problem);
    bt_problem_leave(problem, "start", before);
    trace->record = record;
    trace->seed = seed;
    return bt_problem_vector(problem, start, "start");
}

bt_tensor *bt_start_trace(bt_problem *problem) { return bt_traced_here(problem, BT_PURE_START, NULL, NULL); }
