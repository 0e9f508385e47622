/* engine/hypergradient/product.c: D(x) = (g_w^T x, g_lambda^T x), g the gradient field of the lower loss C: all that a
 * method needs. Three ways that agree where each is right (docs/hypergradients.md): jvp     d/de grad C(w + e x,
 * lambda)                         Pearlmutter (1994), forward over reverse vjp     grad <g, x> reverse over reverse
 *   finite  (grad C(w + e x) - grad C(w - e x)) / 2e, e = darts_alpha / |x|, with both points in scratch */
#include "engine/problem.h"

#include "ops/ops.h"
#include "transform/grad.h"
#include <string.h>

typedef struct terms {   /* tensors of one evaluation of the lower loss */
    bt_tensor **w;       /* its parameters */
    bt_tensor **tangent; /* x, in parts like them */
    bt_tensor **y;       /* what is differentiated with respect to: w first if it is wanted, then the others' */
    int ws, ys;
    bt_product_request *request;
    bt_graph *graph;
    const bt_problem_settings *settings;
} terms;

static bt_tensor **room(terms *t, int64_t count)
{
    bt_tensor **list = bt_region_alloc(t->graph->region, (size_t)(count + 1) * sizeof *list);
    if (!list)
        bt_graph_fail(t->graph, BT_ERROR_MEMORY, "out of memory");
    return list;
}

bt_tensor *bt_product_loss(bt_problem *lower, const bt_micro *micro)
{
    bt_trace *trace = bt_trace_now();
    bt_tracing *outer = trace->context, tracing = *outer;
    bt_trace before = *trace;
    tracing.problem = lower;
    tracing.kind = BT_TRACE_PRODUCT;
    tracing.count = micro->batch->count;
    trace->context = &tracing;
    trace->tag = (bt_tag){.owner = lower->name, .path = ""};
    trace->seed = bt_hash_text((uint64_t)lower->engine->settings->seed, lower->name);
    trace->record = micro->record;
    for (int64_t i = 0; i < trace->site_count; i++) /* the same random streams as in the lower step */
        trace->sites[i].next = 0;
    bt_tensor *loss = bt_problem_loss(lower, micro->batch, BT_TRAIN);
    trace->context = before.context;
    trace->tag = before.tag;
    trace->seed = before.seed;
    trace->record = before.record;
    return loss;
}

static bool wants(const terms *t, int parameter) { return t->request->lower->meta_trainable[parameter]; }

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
    bt_tensor **gradient = room(t, t->ys), *one = bt_number(1, loss->dtype);
    if (!gradient)
        return;
    bt_vjp(t->graph, &loss, &one, 1, t->y, t->ys, gradient, false);
    bt_jvp(t->graph, t->w, t->tangent, t->ws, gradient, t->ys, result, t->settings->detach != BT_DETACH_FROZEN);
}

static void by_vjp(terms *t, bt_tensor *loss, bt_tensor **result)
{
    bt_tensor **gradient = room(t, t->ws), *one = bt_number(1, loss->dtype);
    if (!gradient)
        return;
    bt_vjp(t->graph, &loss, &one, 1, t->w, t->ws, gradient, false);
    bt_vjp(t->graph, gradient, t->tangent, t->ws, t->y, t->ys, result, t->settings->detach == BT_DETACH_FIELD);
}

/* Whether the declared derivative may be another than the true one, so that the second derivative need not be
 * symmetric: an op of the user's with a rule of its own. */
static bool may_be_asymmetric(const bt_graph *graph)
{
    for (int64_t n = 0; n < graph->node_count; n++)
        if (!graph->nodes[n]->op->info && graph->nodes[n]->op->vjp)
            return true;
    return false;
}

static void exact(terms *t, const bt_micro *micro, bt_tensor **result)
{
    bt_problem_params(t->request->lower, t->w);
    fill_targets(t);
    bt_tensor *loss = bt_product_loss(t->request->lower, micro);
    if (bt_poisoned(loss) || t->graph->status != BT_OK)
        return;
    if (t->settings->product == BT_PRODUCT_VJP || t->settings->detach == BT_DETACH_FIELD ||
        (t->settings->detach == BT_DETACH_FROZEN && may_be_asymmetric(t->graph)))
        by_vjp(t, loss, result);
    else
        by_jvp(t, loss, result);
}

/* grad C at w + step x. */
static void shifted(terms *t, const bt_micro *micro, bt_tensor *step, bt_tensor **gradient)
{
    bt_problem *lower = t->request->lower;
    bt_tensor **base = room(t, t->ws);
    if (!base)
        return;
    bt_problem_params(lower, base);
    for (int i = 0; i < t->ws; i++) {
        t->w[i] = t->tangent[i] ? (bt_add)(base[i], (bt_mul)(step, t->tangent[i])) : base[i];
        bt_trace_overlay(lower->module->params[i]->var, t->w[i]);
    }
    fill_targets(t);
    bt_tensor *loss = bt_product_loss(t->request->lower, micro);
    for (int i = 0; i < t->ws; i++)
        bt_trace_overlay(lower->module->params[i]->var, base[i]);
    if (bt_poisoned(loss) || t->graph->status != BT_OK)
        return;
    bt_tensor *one = bt_number(1, loss->dtype);
    bt_vjp(t->graph, &loss, &one, 1, t->y, t->ys, gradient, false);
}

static void finite(terms *t, const bt_micro *micro, bt_tensor **result)
{
    bt_trace *trace = bt_trace_now();
    bt_tensor **plus = room(t, t->ys + t->ws), **minus = room(t, t->ys + t->ws);
    bt_tensor *norm = bt_as(bt_norm_square(t->request->x), t->request->x->dtype);
    if (!plus || !minus || bt_poisoned(norm))
        return;
    norm = bt_sqrt(norm);
    bt_tensor *positive = bt_greater(norm, 0); /* x = 0 gives 0 */
    bt_tensor *step = bt_div(t->settings->darts_alpha, bt_where(positive, norm, 1));
    trace->detached.mode = BT_DETACHED_NONE;
    if (t->settings->detach == BT_DETACH_FROZEN) { /* detached values stay those of the base point */
        bt_trace_detached(trace, BT_DETACHED_COLLECT);
        bt_problem_params(t->request->lower, t->w);
        bt_product_loss(t->request->lower, micro);
    }
    enum bt_detached_mode replay = t->settings->detach == BT_DETACH_FROZEN ? BT_DETACHED_REPLAY : BT_DETACHED_NONE;
    bt_trace_detached(trace, replay);
    shifted(t, micro, step, plus);
    bt_trace_detached(trace, replay);
    shifted(t, micro, bt_neg(step), minus);
    bt_trace_detached(trace, BT_DETACHED_NONE);
    bt_tensor *scale = bt_div(0.5, step);
    for (int k = 0; k < t->ys && t->graph->status == BT_OK; k++) {
        bt_tensor *difference = plus[k] && minus[k] ? (bt_sub)(plus[k], minus[k])
                                : plus[k]           ? plus[k]
                                : minus[k]          ? bt_neg(minus[k])
                                                    : NULL;
        result[k] = difference ? (bt_mul)(scale, difference) : NULL;
    }
}

/* Adds the micro-batch's share to the sums. */
static void accumulate(terms *t, bt_tensor **sum, bt_tensor **part, double share)
{
    for (int k = 0; k < t->ys; k++)
        if (part[k])
            sum[k] = bt_accumulate(sum[k], share < 1 ? bt_mul(share, part[k]) : part[k]);
}

static void deliver(terms *t, bt_tensor **sum)
{
    bt_product_request *request = t->request;
    int at = 0;
    if (request->wants_self) {
        for (int i = 0; i < t->ws; i++)
            if (!wants(t, i) || !sum[i])
                sum[i] = bt_zeros_like(t->w[i]);
        request->self = bt_problem_join(request->lower, sum);
        at = t->ws;
    }
    for (int k = 0; k < request->other_count; k++) {
        request->other[k] = sum + at;
        at += (int)request->others[k]->module->param_count;
    }
}

void bt_product_trace(bt_product_request *request)
{
    bt_graph *graph = bt_trace_now()->graph;
    terms t = {.request = request, .graph = graph, .settings = request->lower->settings};
    t.ws = (int)request->lower->module->param_count;
    int64_t all = t.ws, total = 0;
    for (int k = 0; k < request->other_count; k++)
        all += request->others[k]->module->param_count;
    t.w = room(&t, t.ws);
    t.tangent = room(&t, t.ws);
    t.y = room(&t, all);
    bt_tensor **sum = room(&t, all), **part = room(&t, all);
    request->other = bt_region_alloc(graph->region, (size_t)(request->other_count + 1) * sizeof *request->other);
    if (!t.w || !t.tangent || !t.y || !sum || !part || !request->other || bt_poisoned(request->x))
        return;
    bt_problem_split(request->lower, request->x, t.tangent);
    for (int i = 0; i < t.ws; i++)
        if (!wants(&t, i))
            t.tangent[i] = NULL;
    for (int64_t m = 0; m < request->micro_count; m++)
        total += request->micros[m].batch->count;
    for (int64_t m = 0; m < request->micro_count && graph->status == BT_OK; m++) {
        memset(part, 0, (size_t)(all + 1) * sizeof *part);
        if (t.settings->product == BT_PRODUCT_FINITE && t.settings->detach != BT_DETACH_FIELD)
            finite(&t, &request->micros[m], part);
        else
            exact(&t, &request->micros[m], part);
        accumulate(&t, sum, part, (double)request->micros[m].batch->count / (double)total);
    }
    bt_problem_params(request->lower, t.w);
    deliver(&t, sum);
}
