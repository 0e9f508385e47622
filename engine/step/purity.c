/* engine/step/purity.c: a traced callback must record the same each time, so it is occasionally traced again and
 * compared. */
#include "engine/step/step.h"

bt_status bt_check_purity(bt_problem *problem)
{
    if (!bt_look_again(problem->steps) || problem->calls)
        return BT_OK;
    for (int kind = 0; kind < BT_PURE_KINDS; kind++) {
        const bt_graph *first = bt_traced_graph(problem, kind);
        if (first)
            BT_TRY(bt_check_same(problem, bt_pure_name(problem, kind), first, bt_problem_retrace(problem, kind), "step",
                                 problem->steps));
    }
    bt_solve_site *site = &problem->step->site;
    for (int q = 0; q < site->solve_count; q++)
        if (site->solves[q].solver->check_purity)
            BT_TRY(site->solves[q].solver->check_purity(site, &site->solves[q]));
    return BT_OK;
}
