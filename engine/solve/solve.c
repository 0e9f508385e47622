/* engine/solve/solve.c: the code that all solvers share. */
#include "engine/solve/solve.h"

#include "engine/level/divide.h"
#include "ops/ops.h"

/* Creates the variable, without windows yet. */
static bt_vector vector_of(bt_phase *phase, const bt_problem *problem, const char *name, bt_dtype dtype,
                           int64_t elements)
{
    bt_vector vector = {.count = problem->module->param_count};
    bt_array shape = {.dtype = dtype, .rank = 1, .dims = {elements}};
    bt_var *flat = bt_phase_own(phase, bt_var_new(BT_PHASE, BT_VECTORS, problem->name, name, shape));
    vector.windows = bt_alloc_array((size_t)vector.count, sizeof(bt_var *));
    vector.flat = vector.windows && flat && bt_divide_from(problem, 2, flat) == BT_OK ? flat : NULL;
    return vector;
}

/* Creates window i at byte `at`, and advances `at`. */
static void add_window(bt_phase *phase, bt_vector *vector, int64_t i, const char *name, bt_array shape, size_t *at)
{
    if (!vector->flat)
        return;
    vector->windows[i] = bt_phase_own(phase, bt_var_window(vector->flat, *at, name, shape));
    if (!vector->windows[i])
        vector->flat = NULL;
    else
        *at += vector->windows[i]->bytes;
}

bt_vector bt_vector_new(bt_phase *phase, bt_problem *problem, const char *name, bool clear)
{
    bt_vector vector = vector_of(phase, problem, name, problem->dtype, bt_params_elements(problem));
    size_t at = 0;
    for (int64_t i = 0; i < vector.count; i++) {
        bt_array shape = problem->module->params[i]->shape;
        shape.dtype = problem->dtype;
        add_window(phase, &vector, i, problem->module->params[i]->path, shape, &at);
    }
    if (vector.flat)
        vector.flat->clear = clear;
    return vector;
}

bt_vector bt_vector_of_slot(bt_phase *phase, bt_problem *problem, int k)
{
    const bt_block *slots = &problem->slots[k];
    const bt_dtype dtype = bt_dtype_half(slots->flat->dtype) ? BT_F32 : slots->flat->dtype;
    int64_t elements = 0;
    for (int64_t i = 0; i < slots->count; i++)
        elements += slots->windows[i] ? bt_array_count(bt_var_array(slots->windows[i])) : 0;
    bt_vector vector = vector_of(phase, problem, slots->flat->name, dtype, elements);
    size_t at = 0;
    for (int64_t i = 0; i < slots->count; i++)
        if (slots->windows[i]) {
            bt_array shape = bt_var_array(slots->windows[i]);
            shape.dtype = dtype;
            add_window(phase, &vector, i, slots->windows[i]->name, shape, &at);
        }
    if (vector.flat)
        vector.flat->clear = true;
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
    bool any = site->upper->context->apart; /* a check sets adjoints of its own */
    return !solve->reached && !any && solve->solver->needs && !solve->solver->needs(solve);
}

/* How many solves from `first` on, before `to`, run together. */
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
