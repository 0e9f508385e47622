/* engine/solve/unrolled_trace.c: graphs that go back through one update, and through `start`. */
#include "engine/solve/unrolled_inside.h"

#include "engine/solve/trajectory.h"
#include "ops/ops.h"
#include "transform/grad.h"
#include <string.h>

typedef struct tracer {
    bt_solve_site *site;
    bt_problem *lower;
    bt_solve *solve;
    const bt_micro *micro; /* the current one */
    bt_trace trace;
    bt_tracing tracing;
    bt_graph *graph;
    bt_problem **others; /* those whose parameters the lower problem may read */
    bt_vector *vectors;  /* their adjoints; the gradient of the upper problem */
    int other_count;
    int64_t other_params;
    bt_transition transition;
} tracer;

static bt_unrolled *state_of(const tracer *t) { return t->solve->state; }

static void tracer_free(tracer *t)
{
    bt_free(t->others);
    bt_free(t->vectors);
}

static bt_status tracer_new(tracer *t, bt_solve_site *site, bt_solve *solve, const bt_micro *micro)
{
    size_t problems = (size_t)site->upper->context->problem_count;
    *t = (tracer){.site = site, .lower = solve->problem, .solve = solve, .micro = micro};
    t->others = bt_alloc_array(problems, sizeof(bt_problem *));
    t->vectors = bt_alloc_array(problems, sizeof *t->vectors);
    t->graph = bt_graph_new();
    if (!t->others || !t->vectors || !t->graph) {
        tracer_free(t);
        bt_graph_free(t->graph);
        return BT_ERROR_MEMORY;
    }
    t->other_count = bt_solve_targets(site, solve, t->others, t->vectors);
    for (int k = 0; k < t->other_count; k++)
        t->other_params += t->others[k]->module->param_count;
    bt_problem_begin(&t->trace, &t->tracing, t->lower, t->graph, BT_TRACE_PRODUCT, NULL);
    return BT_OK;
}

/* Ends the trace; returns its graph, bound to the variables of a record. NULL after an error. */
static bt_graph *tracer_end(tracer *t, const char *part, bt_var *buffers)
{
    bt_graph *graph = NULL;
    bt_trace_end(&t->trace);
    if (bt_graph_take_error(t->graph, t->lower, part) == BT_OK)
        graph = bt_trajectory_rebind(t->lower->trajectory, t->site, t->graph, buffers);
    bt_graph_free(t->graph);
    tracer_free(t);
    return graph;
}

/* As for the gradient field: one setting applies to the whole step. */
static bool through(const tracer *t) { return t->lower->settings->detach == BT_DETACH_FIELD; }

static int64_t params(const tracer *t) { return t->lower->module->param_count; }
static int slots(const tracer *t) { return bt_optimizer_slot_count(t->lower->optimizer); }

static void read_parts(tracer *t, bt_var *const *windows, bt_tensor **items)
{
    for (int64_t i = 0; i < params(t); i++)
        items[i] = windows[i] ? bt_wide(bt_graph_read(t->graph, windows[i])) : NULL;
}

/* The loss at the recorded step, including its writes to buffers. */
static bt_tensor *loss_of(const tracer *t)
{
    return bt_traced_here(t->lower, BT_PURE_STEP, t->micro,
                          &(bt_recording){.assigns = true, .wide = t->lower->low == BT_F16});
}

static void gradient_of(tracer *t, bt_tensor **wrt, bt_tensor **gradient)
{
    bt_tensor *loss = loss_of(t);
    if (bt_poisoned(loss) || t->graph->status != BT_OK)
        return;
    bt_tensor *share = bt_shared(t->graph, &t->solve->micros, bt_number(1, loss->dtype));
    bt_vjp(t->graph, &loss, &share, 1, wrt, (int)params(t), gradient, false);
}

/* The gradient of the step. If the level has lower levels, this is the recorded one, which includes their
 * contribution. */
static void fill_gradient(tracer *t)
{
    if (t->lower->child_count)
        read_parts(t, t->lower->gradients.windows, t->transition.grad);
    else if (bt_unrolled_adds_up(t->solve))
        read_parts(t, state_of(t)->gradient.windows, t->transition.grad);
    else
        gradient_of(t, t->transition.param, t->transition.grad);
    for (int64_t i = 0; i < params(t); i++) /* in the precision in which the step kept it */
        if (t->transition.grad[i] && t->lower->gradients.flat->dtype == BT_BF16)
            t->transition.grad[i] = bt_wide(bt_as(t->transition.grad[i], BT_BF16));
}

/* The update, as a function of a gradient that its derivatives treat as given. */
static bool trace_update(tracer *t)
{
    if (!bt_transition_begin(t->lower, &t->transition))
        return false;
    const bt_trajectory *trajectory = t->lower->trajectory;
    bt_tensor *before = bt_graph_read(t->graph, trajectory->before),
              *after = bt_graph_read(t->graph, trajectory->after);
    t->transition.made = bt_greater(after, before);
    fill_gradient(t);
    for (int64_t i = 0; i < params(t); i++)
        if (t->transition.grad[i])
            t->transition.grad[i] = bt_detach(t->transition.grad[i]);
    bt_tensor **given = bt_graph_list(t->graph, params(t));
    if (!given || t->graph->status != BT_OK)
        return false;
    memcpy(given, t->transition.grad, (size_t)params(t) * sizeof *given);
    bt_transition_trace(t->lower, &t->transition);
    t->transition.grad = given; /* as it was before any callback */
    return t->graph->status == BT_OK;
}

/* ---- back through one step ---- */

typedef struct pullback { /* of the update: the outputs, and the inputs to differentiate by */
    bt_tensor **y, **cotangent;
    int ys;
    bt_tensor **x, **result; /* params, gradients, slots by slot, parameters of the others; NULL tensors are left out */
    int *place;              /* where the result for x goes */
    int xs;
} pullback;

static bt_tensor **parts(tracer *t, const bt_vector *vector)
{
    bt_tensor **items = bt_graph_list(t->graph, params(t));
    if (items)
        read_parts(t, vector->windows, items);
    return items;
}

/* The parameters of all others, one after the other; NULL after an error. */
static bt_tensor **their_params(tracer *t)
{
    bt_tensor **theirs = bt_graph_list(t->graph, t->other_params);
    int64_t at = 0;
    for (int k = 0; theirs && k < t->other_count; k++) {
        bt_problem_params(t->others[k], theirs + at);
        at += t->others[k]->module->param_count;
    }
    return theirs;
}

static void add_outputs(tracer *t, pullback *p, bt_tensor **next, bt_tensor **adjoint)
{
    for (int64_t i = 0; adjoint && i < params(t); i++)
        if (t->lower->meta_trainable[i] && next[i]) {
            p->y[p->ys] = next[i];
            p->cotangent[p->ys++] = adjoint[i];
        }
}

static void add_inputs(pullback *p, bt_tensor *const *items, int64_t count, int *place)
{
    for (int64_t i = 0; i < count; i++, (*place)++)
        if (items[i]) {
            p->x[p->xs] = items[i];
            p->place[p->xs++] = *place;
        }
}

/* By position: adjoints of the parameters, the gradient, the slots and the others' parameters. NULL after an error. */
static bt_tensor **pull_update(tracer *t)
{
    int64_t most = params(t) * (2 + slots(t)) + t->other_params;
    pullback p = {.y = bt_graph_list(t->graph, most),
                  .cotangent = bt_graph_list(t->graph, most),
                  .x = bt_graph_list(t->graph, most),
                  .result = bt_graph_list(t->graph, most)};
    p.place = bt_region_alloc(t->graph->region, (size_t)(most + 1) * sizeof *p.place);
    bt_tensor **by_place = bt_graph_list(t->graph, most), **theirs = their_params(t);
    if (!p.y || !p.cotangent || !p.x || !p.result || !p.place || !by_place || !theirs)
        return NULL;
    int place = 0;
    add_outputs(t, &p, t->transition.next_param, parts(t, &t->solve->adjoint));
    for (int k = 0; k < slots(t); k++)
        add_outputs(t, &p, t->transition.next_slot[k], parts(t, &state_of(t)->slots[k]));
    add_inputs(&p, t->transition.param, params(t), &place);
    add_inputs(&p, t->transition.grad, params(t), &place);
    for (int k = 0; k < slots(t); k++)
        add_inputs(&p, t->transition.slot[k], params(t), &place);
    add_inputs(&p, theirs, t->other_params, &place);
    bt_vjp(t->graph, p.y, p.cotangent, p.ys, p.x, p.xs, p.result, through(t));
    for (int i = 0; i < p.xs; i++)
        by_place[p.place[i]] = p.result[i];
    return t->graph->status == BT_OK ? by_place : NULL;
}

/* The adjoint of the gradient as a vector, with zeros for missing parts; NULL if it is zero by construction or is to be
 * taken as zero. */
static bt_tensor *join_x(tracer *t, bt_tensor **x)
{
    bool any = false;
    for (int64_t i = 0; i < params(t); i++) {
        any |= x[i] != NULL;
        if (!x[i])
            x[i] = bt_zeros_like(t->transition.param[i]);
    }
    return any && bt_unrolled_multiplies(t->lower) ? bt_problem_join(t->lower, x) : NULL;
}

/* Copies between the problem's buffers and those that one micro-batch passes on to the next, if there are any. */
static void copy_buffers(tracer *t, bt_var *to, bt_var *from)
{
    if (state_of(t)->buffers)
        bt_graph_assign(t->graph, to, bt_graph_read(t->graph, from));
}

/* D(x), and the part of it for the level's own parameters, in their shapes; NULL after an error. */
static bt_tensor **trace_product(tracer *t, bt_tensor *x, bt_product_request *request)
{
    bt_tensor **self = bt_graph_list(t->graph, params(t));
    *request = (bt_product_request){.lower = {t->lower, t->micro},
                                    .x = x,
                                    .wants_self = true,
                                    .of_steps = true,
                                    .others = t->others,
                                    .other_count = t->other_count};
    bt_product_trace(request);
    if (!self || t->graph->status != BT_OK || bt_poisoned(request->self))
        return NULL;
    bt_problem_split(t->lower, request->self, self);
    return self;
}

/* Adds to the adjoint of parameter i of others[k]. */
static void add_other(tracer *t, int k, int64_t i, bt_tensor *value)
{
    bt_var *var = t->vectors[k].windows[i];
    if (!value)
        return;
    bt_graph_assign(t->graph, var, (bt_add)(bt_graph_read(t->graph, var), value));
    bt_solve_mark(t->site, t->others[k], i);
}

/* Sets the adjoint of the parameters or of a slot; zero where hypergradients are blocked. */
static void set_adjoint(tracer *t, const bt_vector *vector, bt_tensor **values)
{
    for (int64_t i = 0; i < params(t); i++) {
        bt_var *var = vector->windows[i];
        bool zero = !values[i] || !t->lower->meta_trainable[i];
        if (var)
            bt_graph_assign(t->graph, var, zero ? bt_zeros_like(bt_graph_read(t->graph, var)) : values[i]);
    }
}

static void trace_back(tracer *t)
{
    bt_product_request request = {0};
    if (!trace_update(t))
        return;
    bt_tensor **adjoint = pull_update(t);
    if (!adjoint)
        return;
    bt_tensor **x = adjoint + params(t), **slot = x + params(t), **theirs = slot + slots(t) * params(t);
    bt_tensor *whole = join_x(t, x);
    if (whole && !bt_unrolled_adds_up(t->solve)) {
        bt_tensor **self = trace_product(t, whole, &request);
        for (int64_t i = 0; self && i < params(t); i++)
            adjoint[i] = bt_accumulate(adjoint[i], self[i]);
        if (!self)
            return;
    }
    bt_keep_effects(t->graph, t->lower, BT_TRACE_PRODUCT);
    copy_buffers(t, state_of(t)->buffers, t->lower->module->buffer_block.flat);
    if (bt_unrolled_adds_up(t->solve))
        bt_graph_assign(t->graph, state_of(t)->x.flat,
                        whole ? whole : bt_zeros_like(bt_graph_read(t->graph, t->solve->adjoint.flat)));
    for (int k = 0; k < t->other_count; k++)
        for (int64_t i = 0; i < t->others[k]->module->param_count; i++)
            add_other(t, k, i, bt_accumulate(*theirs++, request.other ? request.other[k][i] : NULL));
    set_adjoint(t, &t->solve->adjoint, adjoint);
    for (int k = 0; k < slots(t); k++)
        set_adjoint(t, &state_of(t)->slots[k], slot + k * params(t));
}

/* ---- forward through one step, and back through `start` ---- */

/* Removes all assigns except those to the problem's own buffers. */
static void keep_buffers(tracer *t)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < t->graph->assign_count; i++)
        if (bt_owns_buffer(t->lower, t->graph->assigns[i].var))
            t->graph->assigns[kept++] = t->graph->assigns[i];
    t->graph->assign_count = kept;
}

static void trace_forward(tracer *t)
{
    if (!trace_update(t))
        return;
    keep_buffers(t);
    copy_buffers(t, t->lower->module->buffer_block.flat, state_of(t)->buffers);
    for (int64_t i = 0; i < params(t); i++) {
        bt_graph_assign_as(t->graph, t->lower->module->params[i]->var, t->transition.next_param[i]);
        for (int k = 0; k < slots(t); k++)
            if (t->transition.next_slot[k][i])
                bt_graph_assign_as(t->graph, t->lower->slots[k].windows[i], t->transition.next_slot[k][i]);
    }
    bt_graph_assign(t->graph, t->lower->optimizer->applied, t->transition.next_applied);
}

/* ---- what one of several micro-batches adds ---- */

static void trace_clear(tracer *t)
{
    bt_var *gradient = state_of(t)->gradient.flat;
    bt_graph_assign(t->graph, gradient, bt_zeros_like(bt_graph_read(t->graph, gradient)));
    copy_buffers(t, state_of(t)->buffers, t->lower->module->buffer_block.flat);
}

static void add_to(tracer *t, bt_var *var, bt_tensor *part)
{
    if (part)
        bt_graph_assign(t->graph, var, (bt_add)(bt_graph_read(t->graph, var), part));
}

/* Adds the micro-batch's share of the step's gradient. */
static void trace_gradient(tracer *t)
{
    bt_tensor **wrt = bt_graph_list(t->graph, params(t)), **part = bt_graph_list(t->graph, params(t));
    if (!wrt || !part)
        return;
    bt_problem_params(t->lower, wrt);
    gradient_of(t, wrt, part);
    keep_buffers(t);
    for (int64_t i = 0; i < params(t) && t->graph->status == BT_OK; i++)
        add_to(t, state_of(t)->gradient.windows[i], part[i]);
}

/* Adds to the adjoints. */
static void trace_products(tracer *t)
{
    bt_product_request request = {0};
    bt_tensor **self = trace_product(t, bt_graph_read(t->graph, state_of(t)->x.flat), &request);
    if (state_of(t)->buffers) /* the product only has the value of the loss, and maybe at other points */
        loss_of(t);
    keep_buffers(t);
    if (!self)
        return;
    for (int64_t i = 0; i < params(t); i++)
        if (t->lower->meta_trainable[i])
            add_to(t, t->solve->adjoint.windows[i], bt_shared(t->graph, &t->solve->micros, self[i]));
    for (int k = 0; k < t->other_count; k++)
        for (int64_t i = 0; i < t->others[k]->module->param_count; i++)
            if (request.other[k][i]) {
                add_to(t, t->vectors[k].windows[i], bt_shared(t->graph, &t->solve->micros, request.other[k][i]));
                bt_solve_mark(t->site, t->others[k], i);
            }
}

static void trace_start(tracer *t)
{
    bt_tensor *start = bt_start_trace(t->lower), *adjoint = bt_graph_read(t->graph, t->solve->adjoint.flat);
    bt_tensor **theirs = their_params(t), **result = bt_graph_list(t->graph, t->other_params);
    if (bt_poisoned(start) || !theirs || !result)
        return;
    bt_vjp(t->graph, &start, &adjoint, 1, theirs, (int)t->other_params, result, through(t));
    for (int k = 0; k < t->other_count && t->graph->status == BT_OK; k++)
        for (int64_t i = 0; i < t->others[k]->module->param_count; i++)
            add_other(t, k, i, *result++);
    bt_graph_assign(t->graph, t->solve->adjoint.flat, bt_zeros_like(adjoint)); /* nothing depends on the time before */
    for (int k = 0; k < slots(t); k++)
        bt_graph_assign(t->graph, state_of(t)->slots[k].flat,
                        bt_zeros_like(bt_graph_read(t->graph, state_of(t)->slots[k].flat)));
}

/* ---- the list ---- */

const char *const bt_unrolled_names[BT_UNROLLED_PARTS] = {"gradient, again", "gradient, again", "step, again",
                                                          "step, backwards", "product",         "start, backwards"};

bt_graph *bt_unrolled_trace(bt_solve_site *site, bt_solve *solve, bt_unrolled_part part, int shape)
{
    static void (*const traces[BT_UNROLLED_PARTS])(tracer * t) = {trace_clear, trace_gradient, trace_forward,
                                                                  trace_back,  trace_products, trace_start};
    tracer t;
    if (tracer_new(&t, site, solve, &solve->micros.shapes[shape]) != BT_OK)
        return NULL;
    traces[part](&t);
    bool adds = part == BT_UNROLLED_GRADIENT || part == BT_UNROLLED_PRODUCT;
    return tracer_end(&t, bt_unrolled_names[part], adds ? state_of(&t)->buffers : NULL);
}
