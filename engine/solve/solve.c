/* engine/solve/solve.c: what all solvers share. */
#include "engine/solve/solve.h"

#include "ops/ops.h"

bt_vector bt_vector_new(bt_phase *phase, bt_problem *problem, const char *name, bool clear)
{
    bt_vector vector = {0};
    int64_t count = problem->module->param_count;
    bt_array shape_of_all = {.dtype = problem->dtype, .rank = 1, .dims = {bt_params_elements(problem)}};
    bt_var *flat = bt_var_new(BT_PHASE, BT_VECTORS, problem->name, name, shape_of_all);
    if (!bt_phase_own(phase, flat))
        return vector;
    flat->clear = clear;
    vector.windows = bt_alloc_array((size_t)count, sizeof(bt_var *));
    size_t at = 0;
    for (int64_t i = 0; vector.windows && i < count; i++) {
        bt_array shape = problem->module->params[i]->shape;
        shape.dtype = problem->dtype;
        vector.windows[i] = bt_phase_own(phase, bt_var_window(flat, at, problem->module->params[i]->path, shape));
        if (!vector.windows[i])
            return vector;
        at += vector.windows[i]->bytes;
    }
    if (vector.windows) {
        vector.flat = flat;
        vector.count = count;
    }
    return vector;
}

bt_tensor *bt_shared(bt_graph *graph, const bt_micro_set *set, bt_tensor *value)
{
    return set->share ? bt_mul(bt_as(bt_graph_read(graph, set->share), value->dtype), value) : value;
}

const bt_solver_def *bt_solver_of(const bt_problem *lower)
{
    return lower->settings->method->unrolls ? &bt_solver_unrolled : &bt_solver_implicit;
}

bool bt_solve_rests(const bt_solve_site *site, const bt_solve *solve)
{
    bool any = site->upper->context->apart; /* a check gives adjoints of its own */
    return !solve->reached && !any && solve->solver->needs && !solve->solver->needs(solve);
}

/* How many solves from `first` on, before `to`, run as one. */
static int neighbours(const bt_solve_site *site, int first, int to)
{
    const bt_solver_def *solver = site->solves[first].solver;
    int count = 1;
    while (solver->together && first + count < to && site->solves[first + count].solver == solver)
        count++;
    return count;
}

bt_status bt_solves_run(bt_solve_site *site, int from, int to)
{
    for (int q = from, count; q < to; q += count) {
        count = neighbours(site, q, to);
        if (!bt_solve_rests(site, &site->solves[q]))
            BT_TRY(site->solves[q].solver->run(site, &site->solves[q], count));
    }
    return BT_OK;
}

void bt_solve_free(bt_solve *solve)
{
    bt_micro_set_free(&solve->micros);
    if (solve->state)
        solve->solver->free(solve);
    bt_free(solve->adjoint.windows);
}
