/* engine/step/gradient.c: traces, differentiates and keeps the gradient of a step. */
#include "engine/level/scale.h"
#include "engine/step/step_inside.h"

#include "engine/traced/batch.h"
#include "ops/ops.h"
#include "runtime/store.h"
#include "transform/grad.h"
#include <string.h>

/* Writes a gradient into its window, or adds it if there are several micro-batches. */
static void keep_gradient(bt_graph *graph, const bt_micro_set *micros, bt_var *window, bt_tensor *gradient)
{
    if (!micros->share)
        bt_graph_assign_as(graph, window, gradient ? gradient : bt_zeros_like(bt_graph_read(graph, window)));
    else if (gradient)
        bt_graph_assign(graph, window, (bt_add)(bt_graph_read(graph, window), gradient));
}

/* A batch whose gradient is not finite does not change the buffers either. */
static void guard_buffers(bt_problem *problem, bt_graph *graph, bt_tensor *const *gradient, const bool *skip, int count)
{
    bt_tensor *sum = NULL, *ok = NULL;
    for (int64_t i = 0; i < graph->assign_count; i++) {
        bt_assign *assign = &graph->assigns[i];
        if (!bt_owns_buffer(problem, assign->var))
            continue;
        for (int k = 0; !ok && k < count; k++)
            if (!skip[k] && gradient[k]) {
                bt_tensor *square = bt_as(bt_norm_square(gradient[k]), BT_F64);
                sum = sum ? bt_add(sum, square) : square;
            }
        if (!ok && sum)
            ok = bt_isfinite(sum);
        if (ok)
            assign->value = bt_where(ok, assign->value, bt_graph_read(graph, assign->var));
    }
}

/* Everything to differentiate the loss by: the problem's own parameters, then those of the levels to solve. */
static int gather(bt_problem *problem, bt_tensor **wrt, bt_var **windows, bool *skip)
{
    bt_step_phase *step = problem->step;
    int count = 0;
    bt_problem_params(problem, wrt);
    for (int64_t i = 0; i < problem->module->param_count; i++, count++) {
        windows[count] = problem->gradients.windows[i];
        skip[count] = !problem->trainable[i];
    }
    for (int q = 0; q < step->site.solve_count; q++) {
        bt_problem *lower = step->site.solves[q].problem;
        bt_problem_params(lower, wrt + count);
        for (int64_t i = 0; i < lower->module->param_count; i++, count++) {
            windows[count] = step->site.solves[q].adjoint.windows[i];
            skip[count] = !lower->meta_trainable[i];
        }
    }
    return count;
}

/* Records that the loss depends on entry k of what `gather` collects. */
static void mark(bt_problem *problem, int64_t k)
{
    bt_step_phase *step = problem->step;
    if (k < problem->module->param_count) {
        problem->used[k] = true;
        return;
    }
    k -= problem->module->param_count;
    for (int q = 0; q < step->site.solve_count; q++) {
        int64_t count = step->site.solves[q].problem->module->param_count;
        if (k >= 0 && k < count)
            step->site.solves[q].reached = true;
        k -= count;
    }
}

/* Weights that a lower problem has pruned are not part of its solution. */
static void prune_adjoints(bt_problem *problem, bt_tensor **adjoint)
{
    const bt_step_phase *step = problem->step;
    for (int q = 0; q < step->site.solve_count; q++) {
        const bt_problem *lower = step->site.solves[q].problem;
        for (int64_t i = 0; i < lower->module->param_count; i++, adjoint++)
            *adjoint = *adjoint ? bt_pruned(lower, i, *adjoint) : NULL;
    }
}

static void differentiate(bt_problem *problem, bt_graph *graph, bt_tensor *loss)
{
    bt_step_phase *step = problem->step;
    int64_t most = problem->module->param_count;
    for (int q = 0; q < step->site.solve_count; q++)
        most += step->site.solves[q].problem->module->param_count;
    bt_tensor **wrt = bt_region_alloc(graph->region, (size_t)most * 2 * sizeof *wrt), **gradient = wrt + most;
    bt_var **windows = bt_region_alloc(graph->region, (size_t)most * sizeof *windows);
    bool *skip = bt_region_alloc(graph->region, (size_t)most * sizeof *skip);
    if (!wrt || !windows || !skip) {
        bt_graph_fail(graph, BT_ERROR_MEMORY, "out of memory");
        return;
    }
    int wrts = gather(problem, wrt, windows, skip);
    /* The micro-batch's share comes first, so that each gradient is added as it is: a product in place, in one call. */
    bt_tensor *cotangent = bt_shared(graph, &step->micros, bt_scale_cotangent(problem, loss));
    bt_vjp(graph, &loss, &cotangent, 1, wrt, wrts, gradient, false);
    for (int k = 0; k < wrts && graph->status == BT_OK; k++)
        gradient[k] = bt_scale_away(problem, gradient[k]);
    guard_buffers(problem, graph, gradient, skip, wrts);
    prune_adjoints(problem, gradient + problem->module->param_count);
    for (int k = 0; k < wrts && graph->status == BT_OK; k++) {
        if (gradient[k])
            mark(problem, k);
        keep_gradient(graph, &step->micros, windows[k], skip[k] ? NULL : gradient[k]);
    }
}

bt_status bt_gradients_trace(bt_problem *problem, bt_graph **gradients)
{
    bt_step_phase *step = problem->step;
    BT_TRY(bt_micro_set_open(&step->micros, problem, problem, problem->settings->gradient_accumulation));
    for (int s = 0; s < problem->train->shape_count; s++) {
        gradients[s] = bt_loss_trace(problem, &step->micros.shapes[s], BT_TRACE_STEP, differentiate);
        if (!gradients[s])
            return bt_error_status();
    }
    return BT_OK;
}

bt_status bt_gradients_add(bt_problem *problem, bt_graph *const *gradients)
{
    bt_step_phase *step = problem->step;
    const int loop = problem->settings->gradient_accumulation > 1;
    int *entries = step->gradient.each;
    BT_TRY(bt_counts_add(problem, &step->micros, step->phase, loop, &step->gradient));
    for (int s = 0; s < problem->train->shape_count; s++) {
        step->phase->runs = s ? 0 : (double)problem->settings->gradient_accumulation;
        entries[s] = bt_phase_add(step->phase, gradients[s], loop, s ? "gradient, short batch" : "gradient");
        step->phase->runs = 1;
        if (entries[s] < 0)
            return bt_error_status();
    }
    return BT_OK;
}

bt_status bt_gradient_read(const bt_problem *problem, bt_array to)
{
    size_t size = bt_dtype_size(to.dtype);
    char *at = to.data;
    memset(at, 0, bt_array_bytes(to));
    for (int64_t i = 0; i < problem->gradients.count; i++) {
        const bt_var *window = problem->gradients.windows[i];
        bt_array part = {.dtype = to.dtype, .rank = 1, .dims = {bt_array_count(bt_var_array(window))}, .data = at};
        if (bt_is_updated(problem, i))
            BT_TRY(bt_store_to_array(problem->context->instance, window, part));
        at += (size_t)part.dims[0] * size;
    }
    return BT_OK;
}
