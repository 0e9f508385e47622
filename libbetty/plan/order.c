/* plan/order.c: in which order steps run. The written order is a sensible one, except that results come last. If
 * another order has a lower peak, that one is taken. The order never changes what a step computes. */
#include "plan/order_inside.h"

#include <string.h>

static const char *const names[BT_ORDERS] = {
#define BT_ORDER_ITEM(name, text) text,
    BT_ORDER_LIST(BT_ORDER_ITEM)
#undef BT_ORDER_ITEM
};

const char *bt_order_name(bt_order_rule rule) { return (int)rule >= 0 && rule < BT_ORDERS ? names[rule] : "unknown"; }

/* ---- who waits for whom ---- */

static bt_status wait_for(bt_ordering *o, int64_t step, int64_t before)
{
    bt_order_edge *edges = bt_grow(o->edges, &o->edge_capacity, o->edge_count + 1, sizeof *edges);
    if (!edges)
        return BT_ERROR_MEMORY;
    o->edges = edges;
    edges[o->edge_count] = (bt_order_edge){before, step, o->afters[before], o->befores[step]};
    o->afters[before] = o->befores[step] = o->edge_count++;
    return BT_OK;
}

static bt_status connect(bt_ordering *o)
{
    const bt_order *given = o->given;
    for (int64_t v = 0; v < given->value_count; v++)
        o->maker[v] = -1;
    for (int64_t s = 0; s < given->step_count; s++) {
        const bt_order_step *step = &given->steps[s];
        o->afters[s] = o->befores[s] = -1;
        for (int64_t i = 0; i < step->inputs; i++)
            o->reads[step->in[i]]++;
        for (int64_t k = 0; k < step->outputs; k++)
            o->maker[step->out[k]] = s;
    }
    for (int64_t v = 0; v < given->value_count; v++)
        if (given->values[v].kept)
            o->reads[v] = -1;
    for (int64_t s = 0; s < given->step_count; s++)
        for (int64_t i = 0; i < given->steps[s].inputs; i++)
            if (o->maker[given->steps[s].in[i]] >= 0)
                BT_TRY(wait_for(o, s, o->maker[given->steps[s].in[i]]));
    for (int64_t w = 0; w < given->wait_count; w++)
        BT_TRY(wait_for(o, given->waits[w].step, given->waits[w].before));
    return BT_OK;
}

/* ---- what is alive ---- */

static void begin(bt_ordering *o)
{
    memcpy(o->left, o->reads, (size_t)o->given->value_count * sizeof *o->left);
    memset(o->who, 0, (size_t)o->given->value_count * sizeof *o->who);
    for (int64_t s = 0; s < o->given->step_count; s++)
        for (int64_t i = 0; i < o->given->steps[s].inputs; i++)
            o->who[o->given->steps[s].in[i]] += s;
}

static void take(bt_ordering *o, int64_t s)
{
    const bt_order_step *step = &o->given->steps[s];
    for (int64_t i = 0; i < step->inputs; i++)
        if (o->left[step->in[i]] > 0) {
            o->left[step->in[i]]--;
            o->who[step->in[i]] -= s;
        }
}

/* The bytes that a step adds, and those that it frees as their last reader. */
static void change_by(const bt_ordering *o, const bt_order_step *step, size_t *made, size_t *freed)
{
    *made = *freed = 0;
    for (int64_t i = 0; i < step->inputs; i++)
        if (o->left[step->in[i]] == 1)
            *freed += o->given->values[step->in[i]].bytes;
    for (int64_t k = 0; k < step->outputs; k++)
        if (o->left[step->out[k]])
            *made += o->given->values[step->out[k]].bytes;
}

/* Whether output k may overwrite an input that dies with the step. */
static bool over_an_input(const bt_ordering *o, const bt_order_step *step, int64_t k)
{
    for (int64_t i = 0; i < step->overs; i++)
        if (step->over[i].output == k && o->left[step->over[i].value] == 1 && o->maker[step->over[i].value] >= 0)
            return true;
    return false;
}

/* Bytes that the step needs while it runs, besides those alive before it. */
static size_t during(const bt_ordering *o, const bt_order_step *step)
{
    size_t bytes = bt_align_up(step->scratch);
    for (int64_t k = 0; k < step->outputs; k++)
        if (!over_an_input(o, step, k))
            bytes += o->given->values[step->out[k]].bytes;
    return bytes;
}

/* The most bytes alive at once; order[i]: the i-th step. */
static size_t most_alive(bt_ordering *o, const int64_t *order)
{
    const bt_order *given = o->given;
    size_t alive = 0, most = 0, made, freed;
    begin(o);
    for (int64_t v = 0; v < given->value_count; v++)
        if (given->values[v].there && o->reads[v])
            alive += given->values[v].bytes;
    for (int64_t i = 0; i < given->step_count; i++) {
        const bt_order_step *step = &given->steps[order[i]];
        size_t now = alive + during(o, step);
        change_by(o, step, &made, &freed);
        most = now > most ? now : most;
        alive = alive + made - freed;
        take(o, order[i]);
    }
    return most;
}

/* ---- choosing ---- */

/* Whether the value is computed just before the step, so that it is not alive when the step is chosen. */
static bool runs_with(const bt_ordering *o, int64_t value, int64_t step)
{
    return o->maker[value] >= 0 && o->with[o->maker[value]] == step;
}

static void enter(bt_ordering *o, int64_t step, int64_t then)
{
    size_t made, freed;
    change_by(o, &o->given->steps[step], &made, &freed);
    for (int64_t i = 0; i < o->given->steps[step].inputs; i++)
        if (runs_with(o, o->given->steps[step].in[i], step))
            freed -= o->given->values[o->given->steps[step].in[i]].bytes;
    bt_ready_enter(&o->ready, step, (bt_rank){(int64_t)made - (int64_t)freed, then});
}

/* If an operand of the step has one reader left, that reader will free it. */
static void promote(bt_ordering *o, const bt_order_step *step)
{
    for (int64_t i = 0; i < step->inputs; i++)
        if (o->left[step->in[i]] == 1)
            bt_ready_less(&o->ready, o->who[step->in[i]], o->given->values[step->in[i]].bytes);
}

/* The rule's preference among steps that add the same. EARLIEST: the first one written. LONGEST: the one ready for
 * longest, which keeps a forward derivative close to the step it differentiates. LATEST: the last one written, which
 * finishes one piece of work before it begins another. */
static int64_t prefer(bt_order_rule rule, int64_t step, int64_t done)
{
    if (rule == BT_ORDER_LONGEST)
        return done;
    return rule == BT_ORDER_LATEST ? -step : step;
}

/* Whether no other step reads its outputs, as when a gradient is added to a sum. */
static bool is_last(const bt_ordering *o, int64_t s)
{
    const bt_order_step *step = &o->given->steps[s];
    bool last = true;
    for (int64_t k = 0; k < step->outputs; k++)
        last = last && o->reads[step->out[k]] <= 0;
    return last;
}

/* Enters a step that waits for nothing more. As written, only results may be chosen early. */
static void enter_free(bt_ordering *o, bt_order_rule rule, int64_t s, int64_t done)
{
    if (rule != BT_ORDER_WRITTEN || is_last(o, s))
        enter(o, s, prefer(rule, s, done));
}

/* The step just before which this one should run; -1: none. It could run at any time, as it reads only what is always
 * there, but its result, which has one reader, would only wait (a 16-bit parameter for a product). */
static int64_t goes_with(const bt_ordering *o, int64_t s)
{
    const bt_order_step *step = &o->given->steps[s];
    bool any_time = o->befores[s] < 0 && step->outputs == 1 && o->reads[step->out[0]] == 1;
    const int64_t reader = any_time ? o->who[step->out[0]] : -1;
    for (int64_t i = 0; i < step->inputs; i++)
        any_time = any_time && (o->reads[step->in[i]] < 0 || !o->given->values[step->in[i]].bytes);
    for (int64_t e = o->afters[s]; e >= 0; e = o->edges[e].next_after)
        any_time = any_time && o->edges[e].after == reader;
    return any_time ? reader : -1;
}

static void begin_choosing(bt_ordering *o, bt_order_rule rule)
{
    const int64_t steps = o->given->step_count;
    begin(o);
    for (int64_t s = 0; s < steps; s++)
        o->with[s] = rule == BT_ORDER_WRITTEN ? -1 : goes_with(o, s);
    bt_ready_clear(&o->ready, steps);
    memset(o->waits, 0, (size_t)steps * sizeof *o->waits);
    for (int64_t e = 0; e < o->edge_count; e++)
        o->waits[o->edges[e].after] += o->with[o->edges[e].before] != o->edges[e].after;
    for (int64_t s = 0; s < steps; s++)
        if (!o->waits[s] && o->with[s] < 0)
            enter_free(o, rule, s, 0);
}

static void run(bt_ordering *o, bt_order_rule rule, int64_t s, int64_t *order, int64_t *done)
{
    order[(*done)++] = s;
    take(o, s);
    promote(o, &o->given->steps[s]);
    for (int64_t e = o->afters[s]; e >= 0; e = o->edges[e].next_after)
        if (o->with[s] != o->edges[e].after && --o->waits[o->edges[e].after] == 0)
            enter_free(o, rule, o->edges[e].after, *done);
}

static void run_next(bt_ordering *o, bt_order_rule rule, int64_t s, int64_t *order, int64_t *done)
{
    const bt_order_step *step = &o->given->steps[s];
    for (int64_t i = 0; i < step->inputs; i++)
        if (runs_with(o, step->in[i], s))
            run(o, rule, o->maker[step->in[i]], order, done);
    run(o, rule, s, order, done);
}

/* Always runs the step that adds the least to what is alive. */
static void choose(bt_ordering *o, bt_order_rule rule, int64_t *order)
{
    int64_t done = 0;
    begin_choosing(o, rule);
    while (o->ready.count > 0)
        run_next(o, rule, bt_ready_leave(&o->ready), order, &done);
}

/* ---- as written ---- */

/* Keeps the written order, except for results, which are traced last: those that free their operands run at once. Small
 * ones stay in place, next to others with which they may become one call. */
static void results_early(bt_ordering *o, int64_t *order)
{
    enum { SMALL = 4096, DONE = -1 }; /* bytes; in `waits` */
    int64_t done = 0;
    begin_choosing(o, BT_ORDER_WRITTEN);
    for (int64_t s = 0; s < o->given->step_count; s++) {
        if (o->waits[s] == DONE)
            continue;
        bt_ready_remove(&o->ready, s);
        run_next(o, BT_ORDER_WRITTEN, s, order, &done);
        while (o->ready.count && o->ready.ranks[o->ready.heap[0]].adds < -SMALL) {
            int64_t early = bt_ready_leave(&o->ready);
            run_next(o, BT_ORDER_WRITTEN, early, order, &done);
            o->waits[early] = DONE;
        }
    }
}

/* Moves results early only if that does not need more bytes. */
static bt_status as_written(bt_ordering *o, int64_t *order)
{
    const int64_t steps = o->given->step_count;
    int64_t *exact = bt_region_alloc(o->region, (size_t)(steps + 1) * sizeof *exact);
    if (!exact)
        return BT_ERROR_MEMORY;
    for (int64_t s = 0; s < steps; s++)
        exact[s] = s;
    results_early(o, order);
    size_t early = most_alive(o, order);
    if (most_alive(o, exact) < early)
        memcpy(order, exact, (size_t)steps * sizeof *order);
    return BT_OK;
}

static bt_status order_by(bt_ordering *o, bt_order_rule rule, int64_t *order)
{
    if (rule == BT_ORDER_WRITTEN)
        return as_written(o, order);
    if (rule == BT_ORDER_BACKWARDS)
        return bt_order_backwards(o, order);
    choose(o, rule, order);
    return BT_OK;
}

static bt_status ordering_new(bt_ordering *o, const bt_order *given)
{
    size_t values = (size_t)given->value_count, steps = (size_t)given->step_count;
    *o = (bt_ordering){.given = given, .region = bt_region_new()};
    if (!o->region)
        return BT_ERROR_MEMORY;
    o->reads = bt_region_alloc(o->region, (4 * values + 4 * steps + 1) * sizeof *o->reads);
    if (!o->reads)
        return BT_ERROR_MEMORY;
    o->left = o->reads + values;
    o->who = o->left + values;
    o->maker = o->who + values;
    o->afters = o->maker + values;
    o->befores = o->afters + steps;
    o->waits = o->befores + steps;
    o->with = o->waits + steps;
    BT_TRY(bt_ready_new(&o->ready, o->region, given->step_count));
    return connect(o);
}

static void ordering_free(bt_ordering *o)
{
    bt_free(o->edges);
    bt_region_free(o->region);
}

bt_status bt_order_by(const bt_order *given, bt_order_rule rule, int64_t *order, size_t *most)
{
    bt_ordering o;
    bt_status status = ordering_new(&o, given);
    if (status == BT_OK)
        status = order_by(&o, rule, order);
    if (status == BT_OK)
        *most = most_alive(&o, order);
    ordering_free(&o);
    return status;
}

static bt_status order_least(bt_ordering *o, int64_t *order, bt_order_choice *best)
{
    size_t bytes = (size_t)o->given->step_count * sizeof *order;
    int64_t *tried = bt_region_alloc(o->region, bytes + 1);
    if (!tried)
        return BT_ERROR_MEMORY;
    for (int rule = 0; rule < BT_ORDERS; rule++) {
        BT_TRY(order_by(o, (bt_order_rule)rule, tried));
        size_t most = most_alive(o, tried);
        if (rule && most >= best->most)
            continue;
        *best = (bt_order_choice){(bt_order_rule)rule, most};
        memcpy(order, tried, bytes);
    }
    return BT_OK;
}

bt_status bt_order_steps(const bt_order *given, int64_t *order, bt_order_choice *choice)
{
    bt_ordering o;
    bt_status status = ordering_new(&o, given);
    if (status == BT_OK)
        status = order_least(&o, order, choice);
    ordering_free(&o);
    return status;
}
