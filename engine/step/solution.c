/* engine/step/solution.c: x and the adjoint of a lower problem, as a question. */
#include "engine/step/step.h"

#include "engine/level/keep.h"

typedef struct wanted {
    const bt_problem *lower;
    bool adjoint;
    bt_array result;
} wanted;

static bt_solve *find(const bt_problem *upper, const bt_problem *lower)
{
    for (int q = 0; upper->settings->active && q < upper->step->site.solve_count; q++)
        if (upper->step->site.solves[q].problem == lower)
            return &upper->step->site.solves[q];
    return NULL;
}

/* A step of the upper problem, up to where what is wanted is there. */
static bt_status answer(bt_problem *upper, void *user)
{
    const wanted *w = user;
    bt_solve_site *site = &upper->step->site;
    bt_solve *solve = find(upper, w->lower);
    BT_TRY(bt_step_direct(upper));
    BT_TRY(bt_solves_run(site, 0, (int)(solve - site->solves)));
    if (w->adjoint)
        return bt_array_convert(w->result, bt_var_array(solve->adjoint.flat));
    BT_TRY(solve->solver->iterate(site, solve));
    return bt_array_convert(w->result, bt_var_array(solve->solver->x(solve)));
}

static bt_status check(const bt_problem *upper, const wanted *w)
{
    const bt_solve *found = find(upper, w->lower);
    if (!found)
        return bt_fail(BT_ERROR_ARGUMENT, "no hypergradient of %s goes through %s, so that there is no x", upper->name,
                       w->lower->name);
    if (!found->solver->x && !w->adjoint)
        return bt_fail(BT_ERROR_ARGUMENT,
                       "%s: type = %s goes back through the steps of %s, and has no x: ask for its adjoint",
                       upper->name, w->lower->settings->method->name, w->lower->name);
    int64_t room = bt_array_count(w->result), due = bt_array_count(bt_var_array(found->adjoint.flat));
    if (w->result.data && room == due)
        return BT_OK;
    return bt_fail(BT_ERROR_SHAPE, "%s has %lld parameters, the result has room for %lld", w->lower->name,
                   (long long)due, (long long)(w->result.data ? room : 0));
}

/* Where the gradient and the first product are one program, they are apart meanwhile. */
bt_status bt_solution(bt_problem *upper, const bt_problem *lower, bool adjoint, bt_array result)
{
    bt_context *context = upper->context;
    wanted w = {lower, adjoint, result};
    BT_TRY(bt_ask_between(upper, "bt_engine_read"));
    BT_TRY(check(upper, &w));
    bool joins = upper->step->joins;
    context->apart = joins;
    bt_status status = joins ? bt_keep_error(context, bt_levels_recompile(context)) : BT_OK;
    if (status == BT_OK)
        status = bt_question(upper, answer, &w);
    context->apart = false;
    bt_failure failure = bt_failure_take();
    bt_status back = joins ? bt_keep_error(context, bt_levels_recompile(context)) : BT_OK;
    bt_failure_give(&failure);
    return back == BT_OK ? status : back;
}
