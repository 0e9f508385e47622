/* plan/order.c: in which order steps run. The order as it was written is one that a person would write; where another
 * one holds fewer bytes at its worst moment, that is taken. It never changes what a step computes. */
#include "plan/order.h"

#include <string.h>

typedef struct edge { /* in a list of all steps that wait for one */
    int64_t to, next;
} edge;

typedef struct rank { /* of a step that is ready: the least goes first */
    int64_t adds;     /* bytes that are alive after it besides those before */
    int64_t since;    /* how many steps were done when it became ready; 0 where that does not matter */
} rank;

typedef struct order {
    const bt_order *given;
    int64_t *reads;  /* by value: steps that read it; -1: kept to the end */
    int64_t *left;   /* of these, who are still to come, */
    int64_t *who;    /* and the sum of their numbers: the last one's own */
    int64_t *maker;  /* by value: the step that computes it; -1: none */
    int64_t *awaits; /* by step: for how many it has to wait, */
    int64_t *waits;  /* and for how many still; */
    int64_t *first;  /* its first edge; -1: nobody waits for it */
    rank *ranks;     /* of those that are ready, */
    int64_t *heap;   /* who stand here, the least on top, */
    int64_t *at;     /* at this place; -1: not ready */
    int64_t ready;
    int64_t *chosen, *other; /* new orders */
    edge *edges;
    int64_t edge_count, edge_capacity;
} order;

/* ---- who waits for whom ---- */

static bt_status wait_for(order *o, int64_t step, int64_t before)
{
    edge *edges = bt_grow(o->edges, &o->edge_capacity, o->edge_count + 1, sizeof *edges);
    if (!edges)
        return BT_ERROR_MEMORY;
    o->edges = edges;
    edges[o->edge_count] = (edge){step, o->first[before]};
    o->first[before] = o->edge_count++;
    o->awaits[step]++;
    return BT_OK;
}

static bt_status connect(order *o)
{
    const bt_order *given = o->given;
    for (int64_t v = 0; v < given->value_count; v++)
        o->maker[v] = -1;
    for (int64_t s = 0; s < given->step_count; s++) {
        const bt_order_step *step = &given->steps[s];
        o->first[s] = -1;
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

static void begin(order *o)
{
    memcpy(o->left, o->reads, (size_t)o->given->value_count * sizeof *o->left);
    memset(o->who, 0, (size_t)o->given->value_count * sizeof *o->who);
    for (int64_t s = 0; s < o->given->step_count; s++)
        for (int64_t i = 0; i < o->given->steps[s].inputs; i++)
            o->who[o->given->steps[s].in[i]] += s;
}

static void take(order *o, int64_t s)
{
    const bt_order_step *step = &o->given->steps[s];
    for (int64_t i = 0; i < step->inputs; i++)
        if (o->left[step->in[i]] > 0) {
            o->left[step->in[i]]--;
            o->who[step->in[i]] -= s;
        }
}

/* Bytes that a step leaves, and those of values that it reads as the last one. */
static void change_by(const order *o, const bt_order_step *step, size_t *made, size_t *freed)
{
    *made = *freed = 0;
    for (int64_t i = 0; i < step->inputs; i++)
        if (o->left[step->in[i]] == 1)
            *freed += o->given->values[step->in[i]].bytes;
    for (int64_t k = 0; k < step->outputs; k++)
        if (o->left[step->out[k]])
            *made += o->given->values[step->out[k]].bytes;
}

/* Whether output k may be written over an input that dies with the step. */
static bool over_an_input(const order *o, const bt_order_step *step, int64_t k)
{
    for (int64_t i = 0; i < step->overs; i++)
        if (step->over[i].output == k && o->left[step->over[i].value] == 1 && o->maker[step->over[i].value] >= 0)
            return true;
    return false;
}

/* Bytes that the step needs while it runs, besides those alive before it. */
static size_t during(const order *o, const bt_order_step *step)
{
    size_t bytes = bt_align_up(step->scratch);
    for (int64_t k = 0; k < step->outputs; k++)
        if (!over_an_input(o, step, k))
            bytes += o->given->values[step->out[k]].bytes;
    return bytes;
}

/* The most bytes alive at once; by[s]: the s-th step, NULL: as they stand. */
static size_t most_alive(order *o, const int64_t *by)
{
    const bt_order *given = o->given;
    size_t alive = 0, most = 0, made, freed;
    begin(o);
    for (int64_t v = 0; v < given->value_count; v++)
        if (given->values[v].there && o->reads[v])
            alive += given->values[v].bytes;
    for (int64_t s = 0; s < given->step_count; s++) {
        int64_t number = by ? by[s] : s;
        const bt_order_step *step = &given->steps[number];
        size_t now = alive + during(o, step);
        change_by(o, step, &made, &freed);
        most = now > most ? now : most;
        alive = alive + made - freed;
        take(o, number);
    }
    return most;
}

/* ---- the steps that are ready ---- */

static bool before(const order *o, int64_t one, int64_t two)
{
    const rank *a = &o->ranks[one], *b = &o->ranks[two];
    if (a->adds != b->adds)
        return a->adds < b->adds;
    return a->since != b->since ? a->since < b->since : one < two;
}

static void put(order *o, int64_t place, int64_t step)
{
    o->heap[place] = step;
    o->at[step] = place;
}

static void rise(order *o, int64_t step)
{
    int64_t place = o->at[step];
    for (; place > 0 && before(o, step, o->heap[(place - 1) / 2]); place = (place - 1) / 2)
        put(o, place, o->heap[(place - 1) / 2]);
    put(o, place, step);
}

static void sink(order *o, int64_t step)
{
    int64_t place = o->at[step];
    for (int64_t child; (child = 2 * place + 1) < o->ready; place = child) {
        if (child + 1 < o->ready && before(o, o->heap[child + 1], o->heap[child]))
            child++;
        if (!before(o, o->heap[child], step))
            break;
        put(o, place, o->heap[child]);
    }
    put(o, place, step);
}

static void enter(order *o, int64_t step, int64_t since)
{
    size_t made, freed;
    change_by(o, &o->given->steps[step], &made, &freed);
    o->ranks[step] = (rank){(int64_t)made - (int64_t)freed, since};
    put(o, o->ready++, step);
    rise(o, step);
}

static int64_t leave(order *o)
{
    int64_t step = o->heap[0], last = o->heap[--o->ready];
    if (o->ready) {
        put(o, 0, last);
        sink(o, last);
    }
    o->at[step] = -1;
    return step;
}

/* Who is now the last to read what the step has read, frees it. */
static void promote(order *o, const bt_order_step *step)
{
    for (int64_t i = 0; i < step->inputs; i++) {
        int64_t value = step->in[i], last = o->who[value];
        if (o->left[value] == 1 && o->at[last] >= 0) {
            o->ranks[last].adds -= (int64_t)o->given->values[value].bytes;
            rise(o, last);
        }
    }
}

/* ---- choosing ---- */

/* Each time the step that adds least to what is alive; of several, the earliest of those written, or the one that has
 * been ready for longest. The latter keeps a derivative forward close to what it is the derivative of. */
static void choose(order *o, bool longest, int64_t *chosen)
{
    const bt_order *given = o->given;
    begin(o);
    memcpy(o->waits, o->awaits, (size_t)given->step_count * sizeof *o->waits);
    for (int64_t s = 0; s < given->step_count; s++)
        o->at[s] = -1;
    for (int64_t s = 0; s < given->step_count; s++)
        if (!o->waits[s])
            enter(o, s, 0);
    for (int64_t done = 0; o->ready > 0; done++) {
        int64_t s = chosen[done] = leave(o);
        take(o, s);
        promote(o, &given->steps[s]);
        for (int64_t e = o->first[s]; e >= 0; e = o->edges[e].next)
            if (--o->waits[o->edges[e].to] == 0)
                enter(o, o->edges[e].to, longest ? done + 1 : 0);
    }
}

static bt_status order_new(order *o, const bt_order *given)
{
    size_t values = (size_t)given->value_count, steps = (size_t)given->step_count;
    *o = (order){.given = given};
    o->ranks = bt_alloc_array(steps, sizeof *o->ranks);
    o->reads = bt_alloc_array(4 * values + 7 * steps, sizeof *o->reads);
    if (!o->ranks || !o->reads)
        return BT_ERROR_MEMORY;
    o->left = o->reads + values;
    o->who = o->left + values;
    o->maker = o->who + values;
    o->awaits = o->maker + values;
    o->waits = o->awaits + steps;
    o->first = o->waits + steps;
    o->heap = o->first + steps;
    o->at = o->heap + steps;
    o->chosen = o->at + steps;
    o->other = o->chosen + steps;
    return BT_OK;
}

bt_status bt_order_steps(const bt_order *given, int64_t *by)
{
    order o;
    bt_status status = order_new(&o, given);
    if (status == BT_OK)
        status = connect(&o);
    if (status == BT_OK) {
        size_t written = most_alive(&o, NULL), most, other;
        choose(&o, false, o.chosen);
        choose(&o, true, o.other);
        most = most_alive(&o, o.chosen);
        other = most_alive(&o, o.other);
        for (int64_t s = 0; s < given->step_count; s++)
            by[s] = most >= written && other >= written ? s : (other < most ? o.other[s] : o.chosen[s]);
    }
    bt_free(o.edges);
    bt_free(o.ranks);
    bt_free(o.reads);
    return status;
}
