/* plan/condense.c: most steps of a program compute statistics and other small values, which are never dropped. Without
 * them a simulation is several times as fast, and almost exact. */
#include "plan/condense.h"

#include <string.h>

typedef struct condensing {
    bt_condensed *to;
    const bt_remat *remat;
    bt_region *region;
    int64_t *number; /* by given value: its number in the smaller graph; -1: none */
    int64_t *step;   /* by step of the smaller graph: the given step */
    bt_order_step *steps;
    bool failed;
} condensing;

static bool touches(const condensing *c, const int64_t *list, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (c->number[list[i]] >= 0)
            return true;
    return false;
}

static int64_t *renumber(condensing *c, const int64_t *list, int64_t count, int64_t *left)
{
    int64_t *to = bt_region_alloc(c->region, (size_t)count * sizeof *to + 1);
    c->failed |= !to;
    for (int64_t i = 0; to && i < count; i++)
        if (c->number[list[i]] >= 0)
            to[(*left)++] = c->number[list[i]];
    return to;
}

static int64_t find(const int64_t *list, int64_t count, int64_t value)
{
    int64_t i = 0;
    while (i < count && list[i] != value)
        i++;
    return i;
}

static void copy_step(condensing *c, const bt_order_step *from, bt_order_step *to)
{
    *to = (bt_order_step){.scratch = bt_align_up(from->scratch)};
    to->in = renumber(c, from->in, from->inputs, &to->inputs);
    to->out = renumber(c, from->out, from->outputs, &to->outputs);
    bt_order_over *over = bt_region_alloc(c->region, (size_t)from->overs * sizeof *over + 1);
    c->failed |= !over;
    if (c->failed)
        return;
    for (int64_t i = 0; i < from->overs; i++) {
        int64_t output = c->number[from->out[from->over[i].output]], value = c->number[from->over[i].value];
        if (output >= 0 && value >= 0)
            over[to->overs++] = (bt_order_over){(int)find(to->out, to->outputs, output), value};
    }
    to->over = over;
}

static bt_status copy_graph(condensing *c, const bool *stays)
{
    const bt_order *given = c->remat->given;
    bt_condensed *to = c->to;
    size_t values = (size_t)given->value_count, steps = (size_t)given->step_count;
    bt_order_value *kinds = bt_region_alloc(c->region, values * sizeof *kinds + 1);
    to->value = bt_region_alloc(c->region, (2 * values + steps) * sizeof *to->value + 1);
    to->cost = bt_region_alloc(c->region, steps * sizeof *to->cost + 1);
    c->steps = bt_region_alloc(c->region, steps * sizeof *c->steps + 1);
    if (!kinds || !to->value || !to->cost || !c->steps)
        return BT_ERROR_MEMORY;
    c->number = to->value + values;
    c->step = c->number + values;
    to->order = (bt_order){.steps = c->steps, .values = kinds};
    for (int64_t v = 0; v < given->value_count; v++) {
        c->number[v] = stays[v] ? to->order.value_count : -1;
        if (!stays[v])
            continue;
        kinds[to->order.value_count] = given->values[v];
        to->value[to->order.value_count++] = v;
    }
    for (int64_t s = 0; s < given->step_count; s++) {
        const bt_order_step *step = &given->steps[s];
        if (!touches(c, step->in, step->inputs) && !touches(c, step->out, step->outputs))
            continue;
        copy_step(c, step, &c->steps[to->order.step_count]);
        to->cost[to->order.step_count] = c->remat->cost[s];
        c->step[to->order.step_count++] = s;
    }
    return c->failed ? BT_ERROR_MEMORY : BT_OK;
}

/* used[s]: bytes while step s runs, with nothing dropped. */
static bt_status profile(const bt_remat *remat, bt_region *region, int64_t **used)
{
    static const bt_walk_limit none = {1e300, INT64_MAX, INT64_MAX};
    bt_remat_choice nothing;
    bt_walk walk;
    BT_TRY(bt_remat_choice_new(remat, region, &nothing));
    *used = bt_region_alloc(region, (size_t)remat->given->step_count * sizeof **used + 1);
    if (!*used)
        return BT_ERROR_MEMORY;
    BT_TRY(bt_walk_new(&walk, remat, region));
    walk.used = *used;
    bt_walk_run(&walk, nothing.dropped, nothing.brief, &none);
    bt_walk_free(&walk);
    return walk.failed ? BT_ERROR_MEMORY : BT_OK;
}

/* Adds scratch to each step until as many bytes are used then as in the given graph. */
static bt_status pad(condensing *c)
{
    int64_t *whole, *part;
    BT_TRY(profile(c->remat, c->region, &whole));
    BT_TRY(profile(&c->to->remat, c->region, &part));
    for (int64_t s = 0; s < c->to->order.step_count; s++)
        if (whole[c->step[s]] > part[s])
            c->steps[s].scratch += (size_t)(whole[c->step[s]] - part[s]);
    return BT_OK;
}

bt_status bt_condense(bt_condensed *condensed, const bt_remat *remat, const bool *stays, bt_region *region)
{
    condensing c = {.to = condensed, .remat = remat, .region = region};
    *condensed = (bt_condensed){0};
    BT_TRY(copy_graph(&c, stays));
    BT_TRY(bt_remat_new(&condensed->remat, &condensed->order, condensed->cost));
    bt_status status = pad(&c);
    bt_remat_free(&condensed->remat);
    return status == BT_OK ? bt_remat_new(&condensed->remat, &condensed->order, condensed->cost) : status;
}

static size_t gaps_of(const bt_remat *remat, int64_t value)
{
    return (size_t)(remat->gaps[value + 1] - remat->gaps[value]);
}

void bt_condensed_from(const bt_condensed *condensed, const bt_remat *remat, const bt_remat_choice *given,
                       bt_remat_choice *choice)
{
    for (int64_t v = 0; v < condensed->order.value_count; v++) {
        int64_t from = condensed->value[v];
        choice->brief[v] = given->brief[from];
        memcpy(choice->dropped + condensed->remat.gaps[v], given->dropped + remat->gaps[from], gaps_of(remat, from));
    }
}

void bt_condensed_to(const bt_condensed *condensed, const bt_remat *remat, const bt_remat_choice *choice,
                     bt_remat_choice *given)
{
    for (int64_t v = 0; v < condensed->order.value_count; v++) {
        int64_t to = condensed->value[v];
        given->brief[to] = choice->brief[v];
        memcpy(given->dropped + remat->gaps[to], choice->dropped + condensed->remat.gaps[v], gaps_of(remat, to));
    }
}
