/* plan/known.c: finished searches, found again by a hash of their arguments. */
#include "plan/known.h"

#include "base/hash.h"
#include <string.h>

typedef struct print { /* 128 bits of hash stand for the megabytes that a search depends on */
    uint64_t hash[2];
} print;

typedef struct entry {
    print asked;
    bt_frontier found;
} entry;

struct bt_known {
    entry *entries;
    int64_t count, capacity;
};

bt_known *bt_known_new(void) { return bt_alloc(sizeof(bt_known)); }

void bt_known_free(bt_known *known)
{
    for (int64_t i = 0; known && i < known->count; i++)
        bt_frontier_free(&known->entries[i].found);
    if (known)
        bt_free(known->entries);
    bt_free(known);
}

/* ---- the arguments ---- */

static void put(print *p, const void *data, size_t size)
{
    for (int i = 0; size && i < BT_COUNT_OF(p->hash); i++)
        p->hash[i] = bt_hash_end(bt_hash_words(p->hash[i], data, size), (const char *)data + size / 8 * 8, size % 8);
}

static void put_number(print *p, int64_t number) { put(p, &number, sizeof number); }

static void put_step(print *p, const bt_order_step *step, double cost)
{
    put_number(p, step->inputs);
    put(p, step->in, (size_t)step->inputs * sizeof *step->in);
    put_number(p, step->outputs);
    put(p, step->out, (size_t)step->outputs * sizeof *step->out);
    put_number(p, step->overs);
    for (int64_t i = 0; i < step->overs; i++) {
        put_number(p, step->over[i].output);
        put_number(p, step->over[i].value);
    }
    put_number(p, (int64_t)step->scratch);
    put(p, &cost, sizeof cost);
}

static print print_of(const bt_remat *remat, const bt_remat_choice *start, const bt_remat_may *may, int64_t simulations)
{
    const bt_order *given = remat->given;
    print p = {{bt_hash_begin(0, 0), bt_hash_begin(1, 0)}};
    put_number(&p, simulations);
    put_number(&p, given->step_count);
    put_number(&p, given->value_count);
    for (int64_t s = 0; s < given->step_count; s++)
        put_step(&p, &given->steps[s], remat->cost[s]);
    for (int64_t v = 0; v < given->value_count; v++) {
        const bt_order_value *value = &given->values[v];
        put_number(&p, (int64_t)value->bytes);
        put_number(&p, value->there | value->kept << 1 | start->brief[v] << 2 | (int)may[v] << 3);
    }
    put(&p, start->dropped, (size_t)remat->gap_count);
    return p;
}

/* ---- the results ---- */

static const entry *find(const bt_known *known, const print *asked)
{
    for (int64_t i = 0; i < known->count; i++)
        if (memcmp(&known->entries[i].asked, asked, sizeof *asked) == 0)
            return &known->entries[i];
    return NULL;
}

bt_status bt_known_search(bt_known *known, const bt_remat *remat, const bt_remat_choice *start, const bt_remat_may *may,
                          int64_t simulations, bt_frontier *found)
{
    const print asked = print_of(remat, start, may, simulations);
    const entry *before = find(known, &asked);
    if (before) {
        *found = before->found;
        return BT_OK;
    }
    entry *entries = bt_grow(known->entries, &known->capacity, known->count + 1, sizeof *entries);
    if (!entries)
        return BT_ERROR_MEMORY;
    known->entries = entries;
    BT_TRY(bt_frontier_new(found, remat, start, may, simulations));
    entries[known->count++] = (entry){asked, *found};
    return BT_OK;
}
