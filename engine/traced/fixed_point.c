/* engine/traced/fixed_point.c: the condition of a problem whose steps end in a projection or another proximal map P:
 * the projected-gradient fixed point w = P(w - s g(w)), Blondel et al., "Efficient and Modular Implicit
 * Differentiation" (NeurIPS 2022), table 1.
 *
 * Written as w - P(w - s g(w)), its Jacobian I - P'(I - s H) is not symmetric if the constraint holds some parameters
 * and H couples them to others. At the fixed point dw = P' (...). If P' is itself a projection (bounds, soft
 * thresholds, any polyhedron), w in the step can therefore be replaced by an expression with the same value whose
 * derivative is P':
 *
 *   y = w - s g(w),  p = P(y),  q = p + P'(y) (w - p),  condition = w - P(q - s g(q))
 *
 * Its Jacobian is I - P' + s P' H P', which is symmetric, and positive definite if H is, as cg requires. For other P
 * the fixed point and the derivative of its solution are still the same. */
#include "engine/traced/traced.h"

#include "ops/ops.h"
#include "transform/grad.h"
#include <math.h>

typedef struct step {
    bt_problem *problem;
    const bt_batch *batch;
    bt_step_fn *loss;
    double size;
    bt_vector_fn *project;
    bt_tensor **own; /* the parameters in the trace */
} step;

static void overlay(const bt_problem *problem, bt_tensor *const *parts)
{
    for (int64_t i = 0; i < problem->module->param_count; i++)
        bt_trace_overlay(problem->module->params[i]->var, parts[i]);
}

/* The gradient of the loss at those parameters, as a vector; 0 for untrained parameters. */
static bt_tensor *gradient(const step *s, bt_tensor **at)
{
    bt_graph *graph = bt_trace_now()->graph;
    int64_t count = s->problem->module->param_count;
    bt_tensor **parts = bt_graph_list(graph, count);
    overlay(s->problem, at);
    bt_tensor *loss = parts ? s->loss(s->problem, s->batch) : NULL;
    overlay(s->problem, s->own);
    if (bt_poisoned(loss))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_projected_condition: the loss is NULL");
    if (bt_tensor_count(loss) != 1 || !bt_dtype_floats(loss->dtype)) {
        char shape[256];
        return bt_trace_poison(BT_ERROR_SHAPE, "bt_projected_condition: the loss must be a scalar, found %s",
                               bt_shape_text(shape, loss->rank, loss->dims));
    }
    loss = (bt_reshape)(loss, (const int64_t[]){BT_END});
    bt_tensor *one = bt_number(1, loss->dtype);
    bt_vjp(graph, &loss, &one, 1, at, (int)count, parts, false);
    for (int64_t i = 0; i < count; i++)
        if (!parts[i] || !s->problem->trainable[i])
            parts[i] = bt_zeros_like(at[i]);
    return bt_problem_join(s->problem, parts);
}

/* The result of the projected step from there; before: the result before the projection. */
static bt_tensor *projected(const step *s, bt_tensor *from, bt_tensor **at, bt_tensor **before)
{
    *before = bt_sub(from, bt_mul(s->size, gradient(s, at)));
    bt_tensor *after = bt_poisoned(*before) ? *before : s->project(s->problem, *before);
    return bt_problem_vector(s->problem, after, "the projection of bt_projected_condition");
}

/* Zeroes the untrained parameters. */
static bt_tensor *of_trained(bt_problem *problem, bt_tensor *vector)
{
    bt_tensor **parts = bt_graph_list(bt_trace_now()->graph, problem->module->param_count);
    if (!parts || bt_poisoned(vector))
        return vector;
    bt_problem_split(problem, vector, parts);
    for (int64_t i = 0; i < problem->module->param_count; i++)
        if (!problem->trainable[i])
            parts[i] = bt_zeros_like(parts[i]);
    return bt_problem_join(problem, parts);
}

static bt_tensor *condition(const step *s)
{
    bt_graph *graph = bt_trace_now()->graph;
    bt_tensor **at = bt_graph_list(graph, s->problem->module->param_count), *y, *again, *moved;
    if (!at)
        return graph->poison;
    bt_tensor *w = bt_problem_join(s->problem, s->own), *p = projected(s, w, s->own, &y);
    if (bt_poisoned(p) || bt_poisoned(w))
        return graph->poison;
    bt_tensor *rest = of_trained(s->problem, bt_sub(w, p));
    bt_jvp(graph, &y, &rest, 1, &p, 1, &moved, false);
    bt_tensor *q = moved ? bt_add(p, moved) : p;
    if (bt_poisoned(q))
        return graph->poison;
    bt_problem_split(s->problem, q, at);
    for (int64_t i = 0; i < s->problem->module->param_count; i++)
        at[i] = s->problem->trainable[i] ? at[i] : s->own[i];
    return of_trained(s->problem, bt_sub(w, projected(s, bt_problem_join(s->problem, at), at, &again)));
}

bt_tensor *bt_projected_condition(bt_problem *self, const bt_batch *batch, bt_step_fn *loss, double size,
                                  bt_vector_fn *project)
{
    bt_trace *trace = bt_trace_now();
    if (!trace || !bt_usable(self, "bt_projected_condition"))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_projected_condition is for traced callbacks of a problem");
    if (!loss || !project || !(size > 0) || !isfinite(size))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_projected_condition: %s",
                               loss && project ? "the step size must be above 0"
                                               : "the loss and the projection must not be NULL");
    step s = {self, batch, loss, size, project, bt_graph_list(trace->graph, self->module->param_count)};
    if (!s.own)
        return trace->graph->poison;
    bt_problem_params(self, s.own);
    return condition(&s);
}
