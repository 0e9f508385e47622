/* plan/known.c */
#include "plan/known.h"

#include <string.h>

typedef struct text { /* all that a search depends on, in bytes; it grows */
    char *bytes;
    int64_t size, capacity;
    bool failed;
} text;

typedef struct entry {
    uint64_t print[2]; /* of what was asked: two hashes, 128 bits, in the place of megabytes */
    bt_region *region; /* holds what was found */
    bt_known_frontier found;
} entry;

struct bt_known {
    entry *entries;
    int64_t count, capacity;
};

bt_known *bt_known_new(void) { return bt_alloc(sizeof(bt_known)); }

void bt_known_free(bt_known *known)
{
    for (int64_t i = 0; known && i < known->count; i++)
        bt_region_free(known->entries[i].region);
    if (known)
        bt_free(known->entries);
    bt_free(known);
}

/* ---- what is asked ---- */

static void put(text *t, const void *data, size_t size)
{
    char *bytes = t->failed ? NULL : bt_grow(t->bytes, &t->capacity, t->size + (int64_t)size, 1);
    t->failed = !bytes;
    if (t->failed)
        return;
    t->bytes = bytes;
    if (size)
        memcpy(t->bytes + t->size, data, size);
    t->size += (int64_t)size;
}

static void put_number(text *t, int64_t number) { put(t, &number, sizeof number); }

static void put_step(text *t, const bt_order_step *step, double cost)
{
    put_number(t, step->inputs);
    put(t, step->in, (size_t)step->inputs * sizeof *step->in);
    put_number(t, step->outputs);
    put(t, step->out, (size_t)step->outputs * sizeof *step->out);
    put_number(t, step->overs);
    for (int64_t i = 0; i < step->overs; i++) {
        put_number(t, step->over[i].output);
        put_number(t, step->over[i].value);
    }
    put_number(t, (int64_t)step->scratch);
    put(t, &cost, sizeof cost);
}

static text describe(const bt_remat *remat, const bt_remat_choice *start, const bool *may, int64_t simulations)
{
    const bt_order *given = remat->given;
    text t = {0};
    put_number(&t, simulations);
    put_number(&t, given->step_count);
    put_number(&t, given->value_count);
    for (int64_t s = 0; s < given->step_count; s++)
        put_step(&t, &given->steps[s], remat->cost[s]);
    for (int64_t v = 0; v < given->value_count; v++) {
        const bt_order_value *value = &given->values[v];
        put_number(&t, (int64_t)value->bytes);
        put_number(&t, value->there | value->kept << 1 | may[v] << 2 | start->brief[v] << 3);
    }
    put(&t, start->dropped, (size_t)remat->gap_count);
    return t;
}

/* ---- what is found ---- */

static bt_status keep_point(entry *e, const bt_remat *remat, const bt_remat_point *from, bt_known_point *to)
{
    int64_t count = 0, values = remat->given->value_count;
    for (int64_t g = 0; g < remat->gap_count; g++)
        count += from->choice.dropped[g];
    for (int64_t v = 0; v < values; v++)
        count += from->choice.brief[v];
    int64_t *what = bt_region_alloc(e->region, (size_t)(count + 1) * sizeof *what);
    if (!what)
        return BT_ERROR_MEMORY;
    *to = (bt_known_point){from->most, from->extra, what, count};
    for (int64_t g = 0; g < remat->gap_count; g++)
        if (from->choice.dropped[g])
            *what++ = g;
    for (int64_t v = 0; v < values; v++)
        if (from->choice.brief[v])
            *what++ = -1 - v;
    return BT_OK;
}

static bt_status search(entry *e, const bt_remat *remat, const bt_remat_choice *start, const bool *may,
                        int64_t simulations)
{
    bt_frontier frontier;
    BT_TRY(bt_frontier_new(&frontier, remat, start, may, simulations));
    e->region = bt_region_new();
    bt_known_point *points =
        e->region ? bt_region_alloc(e->region, (size_t)(frontier.count + 1) * sizeof *points) : NULL;
    bt_status status = points ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t i = 0; status == BT_OK && i < frontier.count; i++)
        status = keep_point(e, remat, &frontier.points[i], &points[i]);
    e->found = (bt_known_frontier){points, frontier.count};
    bt_frontier_free(&frontier);
    return status;
}

static const entry *find(const bt_known *known, const entry *like)
{
    for (int64_t i = 0; i < known->count; i++)
        if (memcmp(known->entries[i].print, like->print, sizeof like->print) == 0)
            return &known->entries[i];
    return NULL;
}

/* Takes what the entry holds, also after an error. */
static bt_status add(bt_known *known, const entry *e, bt_status status)
{
    entry *entries =
        status == BT_OK ? bt_grow(known->entries, &known->capacity, known->count + 1, sizeof *entries) : NULL;
    if (!entries) {
        bt_region_free(e->region);
        return status == BT_OK ? BT_ERROR_MEMORY : status;
    }
    known->entries = entries;
    entries[known->count++] = *e;
    return BT_OK;
}

static bt_status fingerprint(entry *e, const bt_remat *remat, const bt_remat_choice *start, const bool *may,
                             int64_t simulations)
{
    text t = describe(remat, start, may, simulations);
    for (int i = 0; i < BT_COUNT_OF(e->print) && !t.failed; i++)
        e->print[i] = bt_hash((uint64_t)i, t.bytes, (size_t)t.size);
    bt_free(t.bytes);
    return t.failed ? BT_ERROR_MEMORY : BT_OK;
}

bt_status bt_known_search(bt_known *known, const bt_remat *remat, const bt_remat_choice *start, const bool *may,
                          int64_t simulations, bt_known_frontier *found)
{
    entry e = {.region = NULL};
    BT_TRY(fingerprint(&e, remat, start, may, simulations));
    const entry *before = find(known, &e);
    if (!before)
        BT_TRY(add(known, &e, search(&e, remat, start, may, simulations)));
    *found = before ? before->found : e.found;
    return BT_OK;
}

/* ---- the points ---- */

const bt_known_point *bt_known_within(const bt_known_frontier *frontier, size_t bytes)
{
    for (int64_t i = 0; i < frontier->count; i++)
        if (frontier->points[i].most <= bytes)
            return &frontier->points[i];
    return NULL;
}

const bt_known_point *bt_known_for(const bt_known_frontier *frontier, double extra)
{
    const bt_known_point *found = NULL;
    for (int64_t i = 0; i < frontier->count && frontier->points[i].extra <= extra; i++)
        found = &frontier->points[i];
    return found;
}

void bt_known_choice(const bt_known_point *point, const bt_remat *remat, bt_remat_choice *choice)
{
    memset(choice->dropped, 0, (size_t)remat->gap_count);
    memset(choice->brief, 0, (size_t)remat->given->value_count);
    for (int64_t i = 0; i < point->count; i++) {
        if (point->what[i] >= 0)
            choice->dropped[point->what[i]] = true;
        else
            choice->brief[-1 - point->what[i]] = true;
    }
}
