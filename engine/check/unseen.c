/* engine/check/unseen.c: an implicit method assumes that the gradient of a level's loss is 0 at its solution. If it is
 * not 0 where the inner loop ends, there are two causes to look for. Steps may do more than follow the gradient
 * (callbacks, clipping). Or they jump back and forth over a kink of the loss, where it has no gradient. */
#include "engine/check/check.h"

#include "runtime/evaluate.h"
#include "runtime/store.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* ---- callbacks ---- */

static void length_and_largest(const double *x, int64_t count, double *length, double *largest)
{
    *length = *largest = 0;
    for (int64_t i = 0; i < count; i++)
        *largest = fmax(*largest, fabs(x[i]));
    *length = sqrt(bt_check_dot(x, x, count));
}

static bt_status trace_callback(bt_problem *problem, bt_vector_fn *callback, const char *name, bt_graph *graph,
                                const double *from)
{
    bt_trace trace;
    bt_tracing tracing;
    int64_t count = problem->module->param_count;
    bt_problem_begin(&trace, &tracing, problem, graph, BT_TRACE_PRODUCT, NULL);
    bt_tensor **parts = bt_graph_list(graph, count);
    if (parts) {
        bt_tensor *vector = bt_constant(BT_ARRAY(from, bt_params_elements(problem)));
        bt_problem_split(problem, bt_as(vector, problem->dtype), parts);
        bt_vector_callback(problem, callback, name, parts);
        bt_keep_effects(graph, problem, BT_TRACE_EVAL);
        if (graph->status == BT_OK)
            bt_graph_output(graph, bt_problem_join(problem, parts));
    }
    bt_trace_end(&trace);
    return bt_graph_take_error(graph, problem, name);
}

/* Applies a whole-vector callback to `from`. */
static bt_status call(bt_problem *problem, bt_vector_fn *callback, const char *name, const double *from, double *to)
{
    bt_array result = BT_ARRAY(to, bt_params_elements(problem));
    bt_graph *graph = bt_graph_new();
    bt_status status = graph ? trace_callback(problem, callback, name, graph, from) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = bt_evaluate(graph, &result);
    bt_graph_free(graph);
    return status;
}

/* The distance within the parameters that steps update. */
static double distance(const bt_problem *problem, const double *a, const double *b)
{
    double sum = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < problem->module->param_count; i++)
        for (int64_t k = 0, n = bt_array_count(problem->module->params[i]->shape); k < n; k++, at++)
            sum += bt_is_updated(problem, i) ? pow(a[at] - b[at], 2) : 0;
    return sqrt(sum);
}

static double usual_step(const bt_problem *problem)
{
    int lr = bt_hyper_index(problem->optimizer->kind.def->hypers, "lr");
    double size = lr < 0 ? 0 : problem->optimizer->groups[0].values[lr];
    return size > 0 ? size : 1e-3;
}

static bt_status read_params(const bt_problem *problem, double *to)
{
    for (int64_t i = 0; i < problem->module->param_count; i++) {
        const bt_var *window = problem->module->params[i]->var;
        const int64_t count = bt_array_count(bt_var_array(window));
        BT_TRY(bt_store_to_array(problem->context->instance, window, BT_ARRAY(to, count)));
        to += count;
    }
    return BT_OK;
}

/* *acts: whether the decay matters compared with the gradient, of which it is a part at the end of sgd's steps. room: a
 * vector. */
static bt_status find_decay(const bt_lower *lower, double *room, bool *acts)
{
    const bt_optimizer *optimizer = lower->problem->optimizer;
    int decay = bt_hyper_index(optimizer->kind.def->hypers, "weight_decay");
    int64_t at = 0;
    BT_TRY(read_params(lower->problem, room));
    for (int64_t i = 0; i < lower->problem->module->param_count; i++) {
        double factor =
            bt_is_updated(lower->problem, i) ? optimizer->groups[lower->problem->group[i]].values[decay] : 0;
        for (int64_t k = 0, n = bt_array_count(lower->problem->module->params[i]->shape); k < n; k++)
            room[at++] *= factor;
    }
    *acts = sqrt(bt_check_dot(room, room, lower->count)) > 0.1 * lower->gradient_length;
    return BT_OK;
}

/* field: in: the gradient; out: what the optimiser receives. room: two vectors. */
static bt_status find_acting(bt_lower *lower, double *room)
{
    bt_problem *problem = lower->problem;
    const bt_problem_settings *s = problem->settings;
    unsigned may = bt_unseen(problem);
    int64_t count = lower->count;
    double *g = lower->field, *from = room, *to = room + count, length, largest;
    bool decays = false;
    if (may >> BT_UNSEEN_DECAY & 1)
        BT_TRY(find_decay(lower, from, &decays));
    lower->acting = decays ? 1u << BT_UNSEEN_DECAY : 0;
    if (may >> BT_UNSEEN_GRAD & 1) {
        BT_TRY(call(problem, problem->def->grad_callback, "grad_callback", g, to));
        length_and_largest(g, count, &length, &largest);
        lower->acting |= distance(problem, to, g) > 1e-3 * length ? 1u << BT_UNSEEN_GRAD : 0;
        memcpy(g, to, (size_t)count * sizeof *g);
    }
    length_and_largest(g, count, &length, &largest);
    lower->acting |= may & 1u << BT_UNSEEN_NORM && length > s->gradient_clipping ? 1u << BT_UNSEEN_NORM : 0;
    lower->acting |= may & 1u << BT_UNSEEN_VALUE && largest > s->gradient_clipping_value ? 1u << BT_UNSEEN_VALUE : 0;
    if (!(may >> BT_UNSEEN_PARAM & 1))
        return BT_OK;
    double step = usual_step(problem), rounding = problem->dtype == BT_F64 ? DBL_EPSILON : FLT_EPSILON, size;
    BT_TRY(read_params(problem, from));
    length_and_largest(from, count, &size, &largest);
    for (int64_t i = 0; i < count; i++)
        from[i] -= step * g[i];
    BT_TRY(call(problem, problem->def->param_callback, "param_callback", from, to));
    lower->acting |=
        distance(problem, to, from) > 1e-3 * step * length + 16 * rounding * size ? 1u << BT_UNSEEN_PARAM : 0;
    return BT_OK;
}

/* ---- a kink ---- */

typedef struct line { /* down the gradient from where the inner loop ends */
    bt_trial *c;
    int q;
    const double *direction;
} line;

/* The slope of the lower loss there. */
static bt_status slope_at(const line *l, double step, double *slope)
{
    bt_lower *lower = &l->c->lowers[l->q];
    BT_TRY(bt_kept_restore(l->c->end));
    BT_TRY(bt_check_move(lower->problem, l->direction, step));
    BT_TRY(bt_check_equation(l->c, l->q));
    *slope = bt_check_dot(lower->field, l->direction, lower->count);
    return BT_OK;
}

/* The loss falls at first. Where does it rise again? If its slope jumps there from well below 0 to well above, at any
 * resolution, that is a kink, and downhill steps never come to rest. */
static bt_status find_kink(const line *l, bool *kink)
{
    const bt_problem *problem = l->c->lowers[l->q].problem;
    double near = 0, far = 0, down, up, first, slope;
    int halvings = problem->dtype == BT_F64 ? 36 : 12;
    BT_TRY(slope_at(l, 0, &first));
    down = up = first;
    for (int k = 0; k < 4 && up < 0; k++) {
        near = far;
        down = up;
        far = usual_step(problem) * (1 << k);
        BT_TRY(slope_at(l, far, &up));
    }
    *kink = false;
    if (!(first < 0 && up > 0))
        return BT_OK;
    for (int k = 0; k < halvings; k++) {
        double middle = (near + far) / 2;
        BT_TRY(slope_at(l, middle, &slope));
        *(slope < 0 ? &near : &far) = middle;
        *(slope < 0 ? &down : &up) = slope;
    }
    double enough = (problem->dtype == BT_F64 ? 1e-4 : 2e-2) * fabs(first);
    *kink = down < -enough && up > enough;
    return BT_OK;
}

/* ---- */

static bt_status look(bt_trial *c, int q, double *room)
{
    bt_lower *lower = &c->lowers[q];
    BT_TRY(bt_kept_restore(c->end));
    BT_TRY(bt_check_equation(c, q));
    BT_TRY(find_acting(lower, room));
    if (lower->problem->def->condition)
        return BT_OK;
    line l = {c, q, room};
    BT_TRY(bt_check_equation(c, q));
    for (int64_t i = 0; i < lower->count; i++)
        room[i] = -lower->field[i];
    return lower->gradient_length > 0 ? find_kink(&l, &lower->at_kink) : BT_OK;
}

bt_status bt_check_unseen(bt_trial *c)
{
    bt_status status = BT_OK;
    if (bt_check_close(c, false) || (c->have_reference && bt_check_close(c, true)))
        return BT_OK;
    for (int q = 0; q < c->lower_count && status == BT_OK; q++) {
        if (c->lowers[q].unrolls)
            continue;
        double *room = bt_alloc_array((size_t)c->lowers[q].count * 2 + 1, sizeof *room);
        status = room ? look(c, q, room) : BT_ERROR_MEMORY;
        bt_free(room);
    }
    return status == BT_OK ? bt_kept_restore(c->end) : status;
}
