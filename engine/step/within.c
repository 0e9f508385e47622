/* engine/step/within.c: compiles the programs of all levels within memory budgets. The solves of a problem may hold
 * less (compile/hold.h) and compute more. Of all holdings, this picks the one with which the problem's step fits and
 * has the least work. */
#include "engine/step/step.h"

#include "runtime/fit.h"

typedef struct choice { /* of what the solves of one problem hold */
    bool open;          /* there is an untried holding that may be better */
    bool any;           /* one was tried, and this is the best one: */
    int holding;        /* bt_holding */
    size_t over;        /* by how many bytes its phase exceeds its budget */
    double work;        /* the work of one run */
} choice;

static const bt_phase *phase_of(const bt_problem *problem) { return problem->step ? problem->step->phase : NULL; }

/* Measured with the current holding and without a budget: work only grows as less is held, so if it is already too
 * much, there is no need to continue. */
static void before_fit(const bt_problem *problem, choice *c)
{
    const bt_phase *phase = phase_of(problem);
    const bool holds = phase && problem->step->site.holds;
    c->open &= c->any ? c->over || bt_phase_count(phase).all < c->work : holds;
}

static void after_fit(bt_problem *problem, choice *c)
{
    const bt_phase *phase = phase_of(problem);
    if (!c->open)
        return;
    const size_t over = bt_budget_over(problem->context, phase);
    const bt_phase_work work = bt_phase_count(phase);
    if (!c->any || over < c->over || (over == c->over && work.all < c->work))
        *c = (choice){true, true, problem->holding, over, work.all};
    c->open = problem->holding < BT_HOLD_NOTHING && (over || work.again > 0);
}

static bt_status try_all(bt_context *context, choice *choices)
{
    bt_status status = bt_levels_plan(context);
    for (int p = 0; status == BT_OK && p < context->problem_count; p++)
        before_fit(context->problems[p], &choices[p]);
    if (status == BT_OK)
        status = bt_budget_fit(context);
    for (int p = 0; status == BT_OK && p < context->problem_count; p++)
        after_fit(context->problems[p], &choices[p]);
    return status;
}

/* *again: there is something else to try. A problem with nothing left to try takes its best holding. */
static void go_on(const bt_context *context, const choice *choices, bool *again)
{
    *again = false;
    for (int p = 0; p < context->problem_count; p++) {
        int *holding = &context->problems[p]->holding;
        if (choices[p].open)
            *holding = *holding < BT_HOLD_FORWARD ? BT_HOLD_FORWARD : *holding + 1;
        else if (choices[p].any)
            *holding = choices[p].holding;
        *again |= choices[p].open;
    }
}

/* Whether problems hold something other than what the current plans assume. */
static bool differs(const bt_context *context, const int *planned)
{
    for (int p = 0; p < context->problem_count; p++)
        if (context->problems[p]->holding != planned[p])
            return true;
    return false;
}

static bt_status choose(bt_context *context, choice *choices, int *planned, bt_tight *tight)
{
    bool again;
    for (int p = 0; p < context->problem_count; p++)
        choices[p].open = true;
    do {
        for (int p = 0; p < context->problem_count; p++)
            planned[p] = context->problems[p]->holding;
        BT_TRY(try_all(context, choices));
        go_on(context, choices, &again);
    } while (again);
    if (differs(context, planned)) {
        BT_TRY(bt_levels_plan(context));
        BT_TRY(bt_budget_fit(context));
    }
    return bt_budget_check(context, tight);
}

bt_status bt_compile_within(bt_context *context, bt_tight *tight)
{
    const size_t count = (size_t)context->problem_count + 1;
    choice *choices = bt_alloc_array(count, sizeof *choices);
    int *planned = bt_alloc_array(count, sizeof *planned);
    bt_status status = choices && planned ? choose(context, choices, planned, tight) : BT_ERROR_MEMORY;
    bt_free(choices);
    bt_free(planned);
    return status;
}
