/* engine/traced/product.c: D(x) = (g_w^T x, g_lambda^T x), where g is the gradient field of the lower loss C: all that
 * a method needs. There are several ways, which agree wherever each of them is correct (docs/hypergradients.md):
 *
 *   jvp     d/de grad C(w + e x, lambda): Pearlmutter (1994), forward over reverse
 *   vjp     grad <g, x>: reverse over reverse
 *   finite  (grad C(w + e x) - grad C(w - e x)) / 2e, e = darts_alpha / |x|, with both points in scratch
 *   secant  -p (grad C(w - x / p) - grad C(w)), for a method with a penalty p
 *
 * Unless product_precision says otherwise, repeated products and differences are in f32, because rounding to 16 bits is
 * as large as the differences are. So are products of fp16, except with product_precision = fp16, which computes them
 * as
 *
 *   |x| D_S(x / |x|) / S      D_S: of the loss times S, a scale that adapts to the results (level/scale.h) */
#include "engine/level/scale.h"
#include "engine/traced/batch.h"

#include "ops/ops.h"
#include "transform/grad.h"
#include <string.h>

typedef struct terms {       /* tensors of one evaluation of the lower loss */
    bt_tensor **w;           /* its parameters */
    bt_tensor **tangent;     /* x, in the parameters' shapes */
    bt_tensor **y;           /* the inputs to differentiate by: w first if it is wanted, then the others' */
    bt_tensor **sum, **part; /* [y]: results for all losses, and for one */
    int ws, ys, most;        /* their numbers; ys is `most` if everything is wanted */
    bt_product_request *request;
    bt_problem *lower;
    bt_graph *graph;
    const bt_problem_settings *settings;
    bool wide;                         /* losses are computed in f32 */
    bt_tensor *scale, *length, *sound; /* S, |x|, and whether |x| is finite; NULL: 1 */
} terms;

static bool wants(const terms *t, int parameter) { return t->lower->meta_trainable[parameter]; }

static void fill_targets(terms *t)
{
    t->ys = 0;
    if (t->request->wants_self)
        for (int i = 0; i < t->ws; i++)
            t->y[t->ys++] = t->w[i];
    for (int k = 0; k < t->request->other_count; k++) {
        bt_problem_params(t->request->others[k], t->y + t->ys);
        t->ys += (int)t->request->others[k]->module->param_count;
    }
}

static void by_jvp(terms *t, bt_tensor *loss, bt_tensor **result)
{
    bt_tensor **gradient = bt_graph_list(t->graph, t->ys), *one = t->scale ? t->scale : bt_number(1, loss->dtype);
    if (!gradient)
        return;
    bt_vjp(t->graph, &loss, &one, 1, t->y, t->ys, gradient, false);
    bt_jvp(t->graph, t->w, t->tangent, t->ws, gradient, t->ys, result, t->settings->detach != BT_DETACH_FROZEN);
}

/* g_y^T x of a field g shaped like w. */
static void of_field(terms *t, bt_tensor **field, bt_tensor **result)
{
    bt_vjp(t->graph, field, t->tangent, t->ws, t->y, t->ys, result, t->settings->detach == BT_DETACH_FIELD);
}

static void by_vjp(terms *t, bt_tensor *loss, bt_tensor **result)
{
    bt_tensor **gradient = bt_graph_list(t->graph, t->ws), *one = t->scale ? t->scale : bt_number(1, loss->dtype);
    if (!gradient)
        return;
    bt_vjp(t->graph, &loss, &one, 1, t->w, t->ws, gradient, false);
    of_field(t, gradient, result);
}

/* Whether the declared derivative may differ from the true one, so that the second derivative need not be symmetric:
 * the graph has a user's op with its own rule, possibly in the body of another op. */
static bool may_be_asymmetric(const bt_graph *graph)
{
    for (int64_t n = 0; n < graph->node_count; n++)
        if (bt_node_any(graph->nodes[n], BT_OP_OWN_VJP))
            return true;
    return false;
}

int bt_product_of(const bt_problem *lower, const bt_graph *graph)
{
    const bt_problem_settings *s = lower->settings;
    if (s->detach == BT_DETACH_FIELD || lower->def->condition)
        return BT_PRODUCT_VJP;
    bool rule = s->product == BT_PRODUCT_JVP && s->detach == BT_DETACH_FROZEN && may_be_asymmetric(graph);
    return rule ? BT_PRODUCT_VJP : s->product;
}

/* The lower problem's own condition takes the place of its gradient. */
static void of_condition(terms *t, const bt_micro *micro, bt_tensor **result)
{
    bt_tensor *vector = bt_traced_here(t->lower, BT_PURE_CONDITION, micro, &(bt_recording){.wide = t->wide}),
              **field = bt_graph_list(t->graph, t->ws);
    if (!field || bt_poisoned(vector) || t->graph->status != BT_OK)
        return;
    bt_problem_split(t->lower, vector, field);
    of_field(t, field, result);
}

/* D is linear in x, so it is computed for a direction of length 1. */
static void scale_down(terms *t)
{
    bt_tensor *length = bt_sqrt(bt_as(bt_norm_square(t->request->x), t->request->x->dtype));
    t->scale = bt_product_scale_read(t->lower);
    t->sound = bt_isfinite(length);
    t->length = bt_where(bt_greater(length, 0), length, 1);
    for (int i = 0; i < t->ws; i++)
        t->tangent[i] = t->tangent[i] ? bt_div(t->tangent[i], t->length) : NULL;
}

static void scale_back(terms *t, bt_tensor **result)
{
    bt_tensor *square = bt_number(0, BT_F64);
    for (int k = 0; k < t->ys && t->graph->status == BT_OK; k++)
        if (result[k]) {
            result[k] = bt_mul(bt_div(bt_as(result[k], t->length->dtype), t->scale), t->length);
            square = bt_add(square, bt_as(bt_norm_square(result[k]), BT_F64));
        }
    bt_product_scale_next(t->lower, t->sound, bt_isfinite(square));
}

static void exact(terms *t, const bt_micro *micro, int product, bt_tensor **result)
{
    bt_problem_params(t->lower, t->w);
    fill_targets(t);
    if (t->lower->def->condition && !t->request->of_steps) {
        of_condition(t, micro, result);
        return;
    }
    bt_tensor *loss = bt_traced_here(t->lower, BT_PURE_STEP, micro, &(bt_recording){.wide = t->wide});
    if (bt_poisoned(loss) || t->graph->status != BT_OK)
        return;
    if (product == BT_PRODUCT_VJP)
        by_vjp(t, loss, result);
    else
        by_jvp(t, loss, result);
}

/* The gradient of a problem's loss at the lower parameters w + step * tangent; step NULL: at w. `detached` holds the
 * detached values of the point where they were recorded; NULL: those of this point. */
static void shifted(terms *t, bt_problem *of, const bt_micro *micro, bt_tensor *step, bt_tensor *const *detached,
                    bt_tensor **gradient)
{
    bt_slate **params = t->lower->module->params;
    bt_tensor **base = bt_graph_list(t->graph, t->ws);
    if (!base)
        return;
    bt_problem_params(t->lower, base);
    for (int i = 0; i < t->ws; i++) {
        t->w[i] = step && t->tangent[i] ? (bt_add)(base[i], (bt_mul)(step, t->tangent[i])) : base[i];
        bt_trace_overlay(params[i]->var, t->w[i]);
    }
    fill_targets(t);
    bt_tensor *loss = bt_traced_here(of, BT_PURE_STEP, micro, &(bt_recording){.detached = detached, .wide = t->wide});
    for (int i = 0; i < t->ws; i++)
        bt_trace_overlay(params[i]->var, base[i]);
    if (bt_poisoned(loss) || t->graph->status != BT_OK)
        return;
    bt_tensor *one = bt_number(1, loss->dtype);
    bt_vjp(t->graph, &loss, &one, 1, t->y, t->ys, gradient, false);
}

/* Records the lower loss at the current point, before it is evaluated at several points that use its detached values.
 * NULL: each point has its own. */
static bt_tensor *const *frozen(terms *t, const bt_micro *micro)
{
    bt_tensor **map = NULL;
    if (t->settings->detach != BT_DETACH_FROZEN)
        return NULL;
    bt_problem_params(t->lower, t->w);
    bt_traced_here(t->lower, BT_PURE_STEP, micro, &(bt_recording){.map = &map, .wide = t->wide});
    return map;
}

static bt_tensor *difference(bt_tensor *scale, bt_tensor *plus, bt_tensor *minus)
{
    bt_tensor *sum = plus && minus ? (bt_sub)(plus, minus) : plus ? plus : minus ? bt_neg(minus) : NULL;
    return sum ? (bt_mul)(scale, sum) : NULL;
}

static void finite(terms *t, const bt_micro *micro, bt_tensor **result)
{
    bt_tensor **plus = bt_graph_list(t->graph, t->most), **minus = bt_graph_list(t->graph, t->most);
    bt_tensor *norm = bt_as(bt_norm_square(t->request->x), t->request->x->dtype);
    if (!plus || !minus || bt_poisoned(norm))
        return;
    norm = bt_sqrt(norm);
    bt_tensor *positive = bt_greater(norm, 0); /* x = 0 gives 0 */
    bt_tensor *step = bt_div(t->settings->darts_alpha, bt_where(positive, norm, 1));
    bt_tensor *const *detached = frozen(t, micro);
    shifted(t, t->lower, micro, step, detached, plus);
    shifted(t, t->lower, micro, bt_neg(step), detached, minus);
    bt_tensor *scale = bt_div(0.5, step);
    for (int k = 0; k < t->ys && t->graph->status == BT_OK; k++)
        result[k] = difference(scale, plus[k], minus[k]);
}

/* -p (grad C(w - x / p) - grad C(w)), which equals D(x) up to second order in x / p. */
static void secant(terms *t, bt_problem *of, const bt_micro *micro, double scale, bt_tensor **result)
{
    bt_tensor **moved = bt_graph_list(t->graph, t->most), **still = bt_graph_list(t->graph, t->most);
    bt_dtype dtype = t->request->x->dtype;
    t->wide = t->settings->product_precision != BT_PRODUCTS_AS_LEVEL;
    if (!moved || !still)
        return;
    bt_tensor *const *detached = of == t->lower ? frozen(t, micro) : NULL;
    shifted(t, of, micro, bt_number(-1 / t->request->penalty, dtype), detached, moved);
    shifted(t, of, micro, NULL, NULL, still);
    for (int k = 0; k < t->ys && t->graph->status == BT_OK; k++)
        result[k] = difference(bt_number(scale, dtype), moved[k], still[k]);
}

/* Adds the results for one loss to the sums. */
static void accumulate(terms *t)
{
    for (int k = 0; k < t->ys; k++)
        if (t->part[k])
            t->sum[k] = bt_accumulate(t->sum[k], t->part[k]);
    memset(t->part, 0, (size_t)t->most * sizeof *t->part);
}

/* The sums as one vector, with zeros for what is not differentiated. */
static bt_tensor *joined(terms *t, bt_tensor **sum)
{
    bt_problem_params(t->lower, t->w);
    for (int i = 0; i < t->ws; i++)
        sum[i] = wants(t, i) && sum[i] ? bt_pruned(t->lower, i, sum[i]) : bt_zeros_like(t->w[i]);
    return bt_problem_join(t->lower, sum);
}

static void deliver(terms *t, bt_tensor **sum)
{
    bt_product_request *request = t->request;
    int at = 0;
    if (request->wants_self) {
        request->self = joined(t, sum);
        at = t->ws;
    }
    for (int k = 0; k < request->other_count; k++) {
        request->other[k] = sum + at;
        at += (int)request->others[k]->module->param_count;
    }
}

/* Allocates lists for everything to differentiate by, and splits the vector x (NULL: none). */
static bool open_terms(terms *t, bt_product_request *request, bt_problem *lower, bt_tensor *x)
{
    *t = (terms){.request = request, .lower = lower, .graph = bt_trace_now()->graph, .settings = lower->settings};
    t->ws = (int)lower->module->param_count;
    t->most = t->ws;
    for (int k = 0; k < request->other_count; k++)
        t->most += (int)request->others[k]->module->param_count;
    t->w = bt_graph_list(t->graph, t->ws);
    t->tangent = bt_graph_list(t->graph, t->ws);
    t->y = bt_graph_list(t->graph, t->most);
    t->sum = bt_graph_list(t->graph, t->most);
    t->part = bt_graph_list(t->graph, t->most);
    if (!t->w || !t->tangent || !t->y || !t->sum || !t->part || (x && bt_poisoned(x)))
        return false;
    if (x)
        bt_problem_split(lower, x, t->tangent);
    for (int i = 0; i < t->ws; i++)
        if (!wants(t, i) || (request->of_steps && !lower->trainable[i])) /* steps do not follow that gradient */
            t->tangent[i] = NULL;
        else if (t->tangent[i])
            t->tangent[i] = bt_pruned(lower, i, t->tangent[i]);
    return true;
}

static void one_product(terms *t, const bt_micro *micro)
{
    const bt_traced *loss = bt_traced_of(t->lower, BT_PURE_STEP, micro);
    int product = loss ? bt_product_of(t->lower, loss->graph) : 0, precision = t->settings->product_precision;
    bool scaled =
        precision == BT_PRODUCTS_FP16 && !t->request->repeated; /* in a loop only the last scale would count */
    bool many = t->request->repeated || product == BT_PRODUCT_FINITE || t->lower->low == BT_F16; /* without a scale */
    t->wide = precision == BT_PRODUCTS_FP32 || (precision != BT_PRODUCTS_AS_LEVEL && many && !scaled);
    if (!loss)
        bt_graph_fail(t->graph, bt_error_status(), "%s", bt_error());
    else if (t->request->penalty > 0)
        secant(t, t->lower, micro, -t->request->penalty, t->part);
    else if (product == BT_PRODUCT_FINITE)
        finite(t, micro, t->part);
    else {
        if (scaled)
            scale_down(t);
        exact(t, micro, product, t->part);
        if (scaled && t->graph->status == BT_OK)
            scale_back(t, t->part);
    }
}

void bt_product_trace(bt_product_request *request)
{
    bt_graph *graph = bt_trace_now()->graph;
    terms t;
    request->other = bt_region_alloc(graph->region, (size_t)(request->other_count + 1) * sizeof *request->other);
    if (!request->other || !open_terms(&t, request, request->lower.problem, request->x))
        return;
    if (request->lower.micro) {
        one_product(&t, request->lower.micro);
        accumulate(&t);
    }
    if (request->penalty > 0 && request->upper.micro && graph->status == BT_OK) {
        secant(&t, request->upper.problem, request->upper.micro, -1, t.part);
        accumulate(&t);
    }
    deliver(&t, t.sum);
}

bt_tensor *bt_gradient_trace(bt_problem *lower, const bt_loss *loss, bt_tensor *shift)
{
    bt_trace *trace = bt_trace_now();
    bt_product_request request = {.lower = {.problem = lower}, .x = shift, .wants_self = true};
    terms t;
    if (!open_terms(&t, &request, lower, shift))
        return trace->graph->poison;
    bt_tensor *whole = shift ? bt_number(1, shift->dtype) : NULL;
    t.wide = lower->settings->product_precision != BT_PRODUCTS_AS_LEVEL;
    bt_tensor *const *detached = loss->problem == lower && shift ? frozen(&t, loss->micro) : NULL;
    shifted(&t, loss->problem, loss->micro, whole, detached, t.sum);
    return joined(&t, t.sum);
}
