/* engine/step/solution.c: x and the adjoint of a lower problem, as a question. */
#include "engine/step/step.h"

#include "engine/level/keep.h"
#include "runtime/store.h"
#include <string.h>

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

/* Runs a step of the upper problem until the wanted vector is there. */
static bt_status answer(bt_problem *upper, void *user)
{
    const wanted *w = user;
    bt_solve_site *site = &upper->step->site;
    bt_solve *solve = find(upper, w->lower);
    BT_TRY(bt_step_direct(upper));
    BT_TRY(bt_solves_run(site, 0, (int)(solve - site->solves)));
    if (w->adjoint)
        return bt_store_to_array(upper->context->instance, solve->adjoint.flat, w->result);
    BT_TRY(solve->solver->iterate(site, solve));
    return bt_store_to_array(upper->context->instance, solve->solver->x(solve), w->result);
}

static bt_status check(const bt_problem *upper, const wanted *w)
{
    const bt_solve *found = find(upper, w->lower);
    if (!found)
        return bt_fail(BT_ERROR_ARGUMENT, "no hypergradient of %s goes through %s, so x does not exist", upper->name,
                       w->lower->name);
    if (!found->solver->x && !w->adjoint)
        return bt_fail(BT_ERROR_ARGUMENT,
                       "%s: type = %s differentiates through the steps of %s, and has no x: ask for its adjoint",
                       upper->name, w->lower->settings->method->name, w->lower->name);
    int64_t room = bt_array_count(w->result), due = bt_array_count(bt_var_array(found->adjoint.flat));
    if (w->result.data && room == due)
        return BT_OK;
    return bt_fail(BT_ERROR_SHAPE, "%s has %lld parameters, but the result has room for %lld", w->lower->name,
                   (long long)due, (long long)(w->result.data ? room : 0));
}

/* Rebuilds the programs, joined or apart, without changing their state. */
static bt_status programs(bt_context *context, bool apart, const bt_kept *before)
{
    context->apart = apart;
    BT_TRY(bt_levels_compile(context));
    return bt_kept_restore(before);
}

/* If the gradient and the first product are one program, they are rebuilt apart for the question. So are all if the
 * adjoint is wanted, because its memory is otherwise reused after its last read. */
static bt_status ask_apart(bt_problem *upper, wanted *w)
{
    bt_context *context = upper->context;
    bt_kept *before = bt_kept_new(context, BT_KEEP_ALL, NULL);
    if (!before)
        return BT_ERROR_MEMORY;
    bt_status status = bt_keep_error(context, programs(context, true, before));
    if (status == BT_OK)
        status = bt_question(upper, answer, w);
    bt_failure failure = bt_failure_take();
    bt_status back = bt_keep_error(context, programs(context, false, before));
    bt_failure_give(&failure);
    bt_kept_free(before);
    return back == BT_OK ? status : back;
}

bt_status bt_solution(bt_problem *upper, const bt_problem *lower, bool adjoint, bt_array result)
{
    wanted w = {lower, adjoint, result};
    BT_TRY(bt_ask_between(upper, "bt_engine_read"));
    BT_TRY(check(upper, &w));
    if (bt_solve_rests(&upper->step->site, find(upper, lower))) {
        memset(result.data, 0, bt_array_bytes(result));
        return BT_OK;
    }
    return upper->step->joins || adjoint ? ask_apart(upper, &w) : bt_question(upper, answer, &w);
}
