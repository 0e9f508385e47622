/* engine/step/step.c: the phase of a level's step: gradient, hypergradient, update. */
#include "engine/level/divide.h"
#include "engine/step/step_inside.h"

#include "ops/ops.h"

bt_graph *bt_problem_retrace(bt_problem *problem, int kind)
{
    if (kind != BT_PURE_UPDATE)
        return bt_traced_again(problem, kind);
    bt_graph *graph = bt_graph_new();
    if (graph && bt_update_trace(problem, graph, false) == BT_OK)
        return graph;
    bt_graph_free(graph);
    return NULL;
}

/* Adds a small program over whole blocks; fn records the assigns. */
int bt_step_add(bt_problem *problem, const char *part, void (*fn)(bt_problem *problem, bt_graph *graph))
{
    bt_trace trace;
    bt_tracing tracing;
    bt_graph *graph = bt_graph_new();
    if (!graph)
        return -1;
    bt_problem_begin(&trace, &tracing, problem, graph, BT_TRACE_PRODUCT, NULL);
    fn(problem, graph);
    bt_trace_end(&trace);
    int entry = -1;
    if (bt_graph_take_error(graph, problem, part) == BT_OK)
        entry = bt_phase_add(problem->step->phase, graph, 0, part);
    bt_graph_free(graph);
    return entry;
}

static void collect(bt_problem *problem, bt_graph *graph)
{
    bt_tensor *sums = bt_graph_read(graph, problem->sums.flat),
              *now = bt_wide(bt_graph_read(graph, problem->gradients.flat));
    bt_graph_assign(graph, problem->sums.flat, (bt_add)(sums, now));
}

/* The entries in the order in which they run. */
static bt_status build_hypergradient(bt_problem *problem, bt_graph **gradients)
{
    bt_step_phase *step = problem->step;
    BT_TRY(bt_gradients_trace(problem, gradients));
    for (int q = 0; q < step->site.solve_count; q++)
        BT_TRY(step->site.solves[q].solver->open(&step->site, &step->site.solves[q]));
    BT_TRY(bt_joined_build(problem, gradients));
    if (!step->joins)
        BT_TRY(bt_gradients_add(problem, gradients));
    for (int q = step->joins; q < step->site.solve_count; q++)
        if (!bt_solve_rests(&step->site, &step->site.solves[q]))
            BT_TRY(step->site.solves[q].solver->build(&step->site, &step->site.solves[q]));
    return BT_OK;
}

static bt_status open_solves(bt_problem *problem)
{
    bt_step_phase *step = problem->step;
    bt_problem **lowers = bt_alloc_array((size_t)problem->context->problem_count + 1, sizeof(bt_problem *));
    if (!lowers)
        return BT_ERROR_MEMORY;
    int count = bt_lowers(problem, lowers);
    step->site.solves = bt_alloc_array((size_t)count, sizeof *step->site.solves);
    bt_status status = step->site.solves ? BT_OK : BT_ERROR_MEMORY;
    for (int q = 0; status == BT_OK && q < count; q++) {
        step->site.solves[q].problem = lowers[q];
        step->site.solves[q].solver = bt_solver_of(lowers[q]);
        bt_vector *adjoint = &step->site.solves[q].adjoint;
        *adjoint = bt_vector_new(step->phase, lowers[q], "adjoint", problem->settings->gradient_accumulation > 1);
        step->site.solve_count = q + 1;
        status = adjoint->flat ? BT_OK : BT_ERROR_MEMORY;
        if (adjoint->flat)
            adjoint->flat->lasting = problem->context->apart;
    }
    bt_free(lowers);
    return status;
}

static bt_status build_update(bt_problem *problem)
{
    bt_step_phase *step = problem->step;
    bt_graph *graph = bt_problem_retrace(problem, BT_PURE_UPDATE);
    if (!graph)
        return bt_error_status();
    BT_TRY(bt_traced_keep(problem, BT_PURE_UPDATE, graph));
    bt_graph *pieces = NULL;
    bt_status status = bt_pieces_make(problem);
    if (status == BT_OK && step->piece_count)
        status = (pieces = bt_graph_new()) ? bt_update_trace(problem, pieces, true) : BT_ERROR_MEMORY;
    step->phase->spent = problem->gradients.flat; /* the update is the last that reads it */
    step->update = status == BT_OK ? bt_phase_add(step->phase, pieces ? pieces : graph, 0, "update") : -1;
    step->phase->spent = NULL;
    bt_graph_free(pieces);
    return step->update < 0 ? bt_error_status() : BT_OK;
}

static bt_status make_gradients(bt_problem *problem)
{
    /* A sum of several parts is not kept in 16 bits. */
    const bool adds = problem->settings->gradient_accumulation > 1 || problem->child_count > 0;
    const bt_dtype dtype = adds ? problem->dtype : problem->module->param_block.flat->dtype;
    BT_TRY(bt_block_like_params(&problem->gradients, problem, BT_PHASE, BT_GRADIENTS, "gradients", dtype));
    BT_TRY(bt_divide_gradients(problem, problem->gradients.flat));
    if (problem->settings->meta_batch > 1 && !problem->sums.flat) {
        BT_TRY(bt_block_like_params(&problem->sums, problem, BT_RUN, BT_GRADIENTS, "gradient sums", problem->dtype));
        BT_TRY(bt_divide_from(problem, 2, problem->sums.flat));
        BT_TRY(bt_ledger_enter_block(problem->context, problem, BT_ROLE_SUM, &problem->sums));
    }
    problem->gradients.flat->clear = problem->settings->gradient_accumulation > 1;
    problem->gradients.flat->lasting = problem->context->apart;
    return BT_OK;
}

bt_status bt_step_build(bt_problem *problem)
{
    bt_step_phase *step = problem->step = bt_alloc(sizeof *step);
    if (!step)
        return BT_ERROR_MEMORY;
    step->collect = step->start = step->update = -1;
    for (int s = 0; s < BT_MAX_SHAPES; s++)
        step->gradient.each[s] = -1;
    step->phase = bt_phase_new(problem->context->instance, problem->name,
                               problem->child_count ? "hypergradient step" : "train step");
    step->site = (bt_solve_site){.upper = problem, .phase = step->phase};
    if (!step->phase)
        return BT_ERROR_MEMORY;
    problem->used = bt_alloc_array((size_t)problem->module->param_count, sizeof *problem->used);
    if (!problem->used)
        return BT_ERROR_MEMORY;
    BT_TRY(make_gradients(problem));
    BT_TRY(open_solves(problem));
    bt_graph *gradients[BT_MAX_SHAPES] = {NULL};
    bt_status status = build_hypergradient(problem, gradients);
    for (int s = 0; s < BT_MAX_SHAPES; s++)
        bt_graph_free(gradients[s]);
    BT_TRY(status);
    BT_TRY(bt_check_used(problem));
    if (problem->sums.flat && (step->collect = bt_step_add(problem, "collect", collect)) < 0)
        return bt_error_status();
    BT_TRY(bt_start_build(problem));
    if (problem->def->condition && problem->parent_count && /* an error in it is reported here, where it belongs */
        !bt_traced_of(problem, BT_PURE_CONDITION, &step->micros.shapes[0]))
        return bt_error_status();
    BT_TRY(build_update(problem));
    return bt_phase_plan(step->phase);
}

void bt_step_free(bt_problem *problem)
{
    bt_step_phase *step = problem->step;
    if (!step)
        return;
    bt_phase_free(step->phase);
    bt_micro_set_free(&step->micros);
    for (int q = 0; q < step->site.solve_count; q++)
        bt_solve_free(&step->site.solves[q]);
    bt_free(step->site.solves);
    bt_free(step->stretches);
    bt_free(step->pieces);
    bt_free(step);
    bt_free(problem->used);
    bt_block_free(&problem->gradients); /* the sums of a meta-batch survive a retrace */
    bt_ledger_var_free(problem->context, problem->loop);
    problem->step = NULL;
    problem->used = NULL;
    problem->loop = NULL;
}
