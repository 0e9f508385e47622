/* engine/solve/targets.c: the problems that a solve adds its product to, and what they reach. */
#include "engine/solve/solve.h"

int bt_solve_targets(bt_solve_site *site, const bt_solve *solve, bt_problem **others, bt_vector *vectors)
{
    bt_problem *upper = site->upper;
    int count = 0;
    if (bt_u2l(upper, solve->problem)) {
        vectors[count] = (bt_vector){upper->gradients.flat, upper->gradients.windows, upper->gradients.count};
        others[count++] = upper;
    }
    for (int q = 0; q < site->solve_count; q++)
        if (&site->solves[q] > solve && bt_u2l(site->solves[q].problem, solve->problem)) {
            vectors[count] = site->solves[q].adjoint;
            others[count++] = site->solves[q].problem;
        }
    return count;
}

void bt_solve_mark(bt_solve_site *site, const bt_problem *other, int64_t parameter)
{
    if (other == site->upper) {
        site->upper->used[parameter] = true;
        site->reached = true;
    }
    for (int q = 0; q < site->solve_count; q++)
        if (site->solves[q].problem == other)
            site->solves[q].reached = true;
}

bt_status bt_check_direct(bt_solve_site *site, const bt_solve *solve)
{
    bt_problem *lower = solve->problem;
    if (lower->def->condition && !lower->def->schedule) /* it covers what the callbacks use */
        return BT_OK;
    if (!lower->def->schedule && !lower->def->grad_callback && !lower->def->param_callback)
        return BT_OK;
    size_t problems = (size_t)site->upper->context->problem_count;
    bt_problem **others = bt_alloc_array(problems, sizeof(bt_problem *));
    bt_vector *vectors = bt_alloc_array(problems, sizeof *vectors);
    bt_graph *graph = bt_graph_new();
    bt_status status = others && vectors && graph ? BT_OK : BT_ERROR_MEMORY;
    if (status == BT_OK) {
        bt_trace trace;
        bt_tracing tracing;
        int count = bt_solve_targets(site, solve, others, vectors);
        bt_problem_begin(&trace, &tracing, lower, graph, BT_TRACE_PRODUCT, NULL);
        status = bt_check_dependence(lower, others, count);
        bt_trace_end(&trace);
        if (status == BT_OK)
            status = bt_graph_take_error(graph, lower, "update");
    }
    bt_graph_free(graph);
    bt_free(others);
    bt_free(vectors);
    return status;
}
