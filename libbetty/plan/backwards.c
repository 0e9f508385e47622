/* plan/backwards.c: builds an order from its end, each time choosing the step that leaves the least alive before it. A
 * value that a derivative reads is then computed late, and derivatives of the same value run next to each other. */
#include "plan/order_inside.h"

typedef struct backwards {
    bt_ordering *o;
    bool *alive;      /* by value: a chosen step reads it, or it is kept to the end */
    int64_t *begin;   /* by value: the index of its first reader in `readers` */
    int64_t *readers; /* steps */
} backwards;

static bt_status list_readers(backwards *b)
{
    const bt_order *given = b->o->given;
    int64_t total = 0;
    for (int64_t s = 0; s < given->step_count; s++)
        for (int64_t i = 0; i < given->steps[s].inputs; i++, total++)
            b->begin[given->steps[s].in[i] + 1]++;
    for (int64_t v = 0; v < given->value_count; v++)
        b->begin[v + 1] += b->begin[v];
    b->begin[given->value_count + 1] = total;
    b->readers = bt_region_alloc(b->o->region, ((size_t)total + 1) * sizeof *b->readers);
    if (!b->readers)
        return BT_ERROR_MEMORY;
    for (int64_t s = given->step_count - 1; s >= 0; s--) /* fills each value's places from the last to the first */
        for (int64_t i = 0; i < given->steps[s].inputs; i++)
            b->readers[--b->begin[given->steps[s].in[i] + 1]] = s;
    return BT_OK;
}

static bt_status backwards_new(backwards *b, bt_ordering *o)
{
    size_t values = (size_t)o->given->value_count;
    *b = (backwards){.o = o};
    b->alive = bt_region_alloc(o->region, values + 1);
    b->begin = bt_region_alloc(o->region, (values + 2) * sizeof *b->begin);
    if (!b->alive || !b->begin)
        return BT_ERROR_MEMORY;
    for (size_t v = 0; v < values; v++)
        b->alive[v] = o->given->values[v].kept;
    return list_readers(b);
}

/* How many more bytes are alive before the step than after it. */
static int64_t before_less_after(const backwards *b, const bt_order_step *step)
{
    const bt_order_value *values = b->o->given->values;
    int64_t more = 0;
    for (int64_t i = 0; i < step->inputs; i++)
        if (!b->alive[step->in[i]])
            more += (int64_t)values[step->in[i]].bytes;
    for (int64_t k = 0; k < step->outputs; k++)
        if (b->alive[step->out[k]])
            more -= (int64_t)(values[step->out[k]].bytes + values[step->out[k]].place);
    return more;
}

/* Of steps that leave the same, the latest one written goes first. */
static void enter(backwards *b, int64_t step)
{
    bt_ready_enter(&b->o->ready, step, (bt_rank){before_less_after(b, &b->o->given->steps[step]), -step});
}

/* The value is now alive, so it costs its other readers nothing. */
static void wake(backwards *b, int64_t value)
{
    if (b->alive[value])
        return;
    b->alive[value] = true;
    for (int64_t r = b->begin[value + 1]; r < b->begin[value + 2]; r++)
        bt_ready_less(&b->o->ready, b->readers[r], b->o->given->values[value].bytes);
}

bt_status bt_order_backwards(bt_ordering *o, int64_t *order)
{
    backwards b;
    const bt_order *given = o->given;
    BT_TRY(backwards_new(&b, o));
    bt_ready_clear(&o->ready, given->step_count);
    for (int64_t s = 0; s < given->step_count; s++) {
        o->waits[s] = 0;
        for (int64_t e = o->afters[s]; e >= 0; e = o->edges[e].next_after)
            o->waits[s]++;
        if (!o->waits[s])
            enter(&b, s);
    }
    for (int64_t place = given->step_count; o->ready.count > 0;) {
        int64_t s = order[--place] = bt_ready_leave(&o->ready);
        for (int64_t i = 0; i < given->steps[s].inputs; i++)
            wake(&b, given->steps[s].in[i]);
        for (int64_t e = o->befores[s]; e >= 0; e = o->edges[e].next_before)
            if (--o->waits[o->edges[e].before] == 0)
                enter(&b, o->edges[e].before);
    }
    return BT_OK;
}
