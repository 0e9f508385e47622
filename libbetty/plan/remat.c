/* plan/remat.c: what follows from dropping values: which steps run again, what that costs, and the peak of live bytes.
 * Two passes: forwards over the steps, to find the launches; backwards over the launches, to find the last reader of
 * each value. */
#include "plan/remat_inside.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 500, TOGETHER = 20 }; /* fractions of `most`: 1/SMALL, 1/TOGETHER */

/* ---- gaps ---- */

static void count_readers(const bt_order *given, int64_t *gaps)
{
    for (int64_t v = 0; v < given->value_count; v++)
        gaps[v + 1] = 1;
    for (int64_t s = 0; s < given->step_count; s++)
        for (int64_t i = 0; i < given->steps[s].inputs; i++)
            gaps[given->steps[s].in[i] + 1]++;
    for (int64_t v = 0; v < given->value_count; v++)
        gaps[v + 1] += gaps[v];
}

static bt_status list_readers(bt_remat *remat)
{
    const bt_order *given = remat->given;
    int64_t *next = bt_region_copy(remat->region, remat->gaps, (size_t)(given->value_count + 1) * sizeof *next);
    if (!next)
        return BT_ERROR_MEMORY;
    for (int64_t s = 0; s < given->step_count; s++)
        for (int64_t i = 0; i < given->steps[s].inputs; i++)
            remat->readers[next[given->steps[s].in[i]]++] = s;
    for (int64_t v = 0; v < given->value_count; v++)
        remat->readers[next[v]] = -1;
    return BT_OK;
}

static void fix_values(bt_remat *remat)
{
    const bt_order *given = remat->given;
    for (int64_t v = 0; v < given->value_count; v++)
        remat->maker[v] = -1;
    for (int64_t s = 0; s < given->step_count; s++) {
        remat->total += remat->cost[s] > 0 ? remat->cost[s] : 0;
        for (int64_t k = 0; k < given->steps[s].outputs; k++)
            remat->maker[given->steps[s].out[k]] = s;
    }
    for (int64_t v = 0; v < given->value_count; v++)
        remat->fixed[v] =
            remat->maker[v] < 0 || remat->cost[remat->maker[v]] < 0 || given->values[v].there || given->values[v].kept;
}

static bt_status arrange(bt_remat *remat)
{
    size_t values = (size_t)remat->given->value_count;
    remat->region = bt_region_new();
    if (!remat->region)
        return BT_ERROR_MEMORY;
    remat->gaps = bt_region_alloc(remat->region, (2 * values + 1) * sizeof *remat->gaps);
    remat->fixed = bt_region_alloc(remat->region, values + 1);
    if (!remat->gaps || !remat->fixed)
        return BT_ERROR_MEMORY;
    remat->maker = remat->gaps + values + 1;
    count_readers(remat->given, remat->gaps);
    remat->gap_count = remat->gaps[values];
    remat->readers = bt_region_alloc(remat->region, (size_t)(remat->gap_count + 1) * sizeof *remat->readers);
    if (!remat->readers)
        return BT_ERROR_MEMORY;
    BT_TRY(list_readers(remat));
    fix_values(remat);
    return BT_OK;
}

static int ascending(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static bt_status find_large(bt_remat *remat)
{
    const bt_order *given = remat->given;
    size_t *sizes = bt_alloc_array((size_t)given->value_count + 1, sizeof *sizes), sum = 0;
    int64_t count = 0, small = 0;
    if (!sizes)
        return BT_ERROR_MEMORY;
    for (int64_t v = 0; v < given->value_count; v++)
        if (!remat->fixed[v])
            sizes[count++] = given->values[v].bytes;
    qsort(sizes, (size_t)count, sizeof *sizes, ascending);
    while (small < count && sizes[small] < remat->most / SMALL && sum + sizes[small] <= remat->most / TOGETHER)
        sum += sizes[small++];
    remat->large = small < count && sizes[small] ? sizes[small] : 1;
    bt_free(sizes);
    return BT_OK;
}

bt_status bt_remat_choice_new(const bt_remat *remat, bt_region *region, bt_remat_choice *choice)
{
    choice->dropped = bt_region_alloc(region, (size_t)remat->gap_count + 1);
    choice->brief = bt_region_alloc(region, (size_t)remat->given->value_count + 1);
    return choice->dropped && choice->brief ? BT_OK : BT_ERROR_MEMORY;
}

bt_status bt_remat_new(bt_remat *remat, const bt_order *given, const double *cost)
{
    bt_remat_choice nothing;
    bt_remat_plan plan;
    *remat = (bt_remat){.given = given, .cost = cost};
    bt_status status = arrange(remat);
    if (status == BT_OK)
        status = bt_remat_choice_new(remat, remat->region, &nothing);
    if (status == BT_OK)
        status = bt_remat_follow(remat, &nothing, NULL, &plan);
    if (status == BT_OK) {
        remat->most = plan.most;
        status = find_large(remat);
    }
    if (status != BT_OK)
        bt_remat_free(remat);
    return status;
}

void bt_remat_free(bt_remat *remat)
{
    bt_region_free(remat->region);
    *remat = (bt_remat){0};
}

/* ---- the graph in flat arrays ---- */

static bool can_write_over(const bt_walk *w, const bt_order_step *step, int64_t i, int64_t k)
{
    const bt_order_value *values = w->remat->given->values;
    int64_t v = step->over[i].value;
    return step->over[i].output == k && w->maker[v] >= 0 && !values[v].kept;
}

static void flatten_step(bt_walk *w, int64_t s, int32_t *in, int32_t *out, int32_t *over)
{
    const bt_order_step *step = &w->remat->given->steps[s];
    w->in_at[s] = *in;
    w->out_at[s] = *out;
    w->over_at[s] = *over;
    w->scratch[s] = (int64_t)bt_align_up(step->scratch);
    for (int64_t i = 0; i < step->inputs; i++)
        w->in[(*in)++] = (int32_t)step->in[i];
    for (int64_t k = 0; k < step->outputs; k++) {
        w->out[(*out)++] = (int32_t)step->out[k];
        for (int64_t i = 0; i < step->overs; i++)
            if (can_write_over(w, step, i, k))
                w->over[(*over)++] = (bt_walk_over){(int32_t)step->out[k], (int32_t)step->over[i].value};
    }
}

static void flatten(bt_walk *w)
{
    const bt_remat *remat = w->remat;
    int32_t in = 0, out = 0, over = 0;
    for (int64_t v = 0; v < w->values; v++) {
        const bt_order_value *value = &remat->given->values[v];
        w->maker[v] = (int32_t)remat->maker[v];
        w->first[v] = (int32_t)remat->gaps[v];
        w->bytes[v] = (int64_t)value->bytes;
        w->begin[v] = value->kept ? 2 : 0;
        if (value->kept)
            w->kept += w->bytes[v];
    }
    for (int64_t s = 0; s < w->steps; s++)
        flatten_step(w, s, &in, &out, &over);
    w->in_at[w->steps] = in;
    w->out_at[w->steps] = out;
    w->over_at[w->steps] = over;
}

static bool room(bt_walk *w, bt_region *region)
{
    const bt_order *given = w->remat->given;
    size_t steps = (size_t)w->steps, values = (size_t)w->values, in = 0, out = 0, over = 0;
    for (size_t s = 0; s < steps; s++) {
        in += (size_t)given->steps[s].inputs;
        out += (size_t)given->steps[s].outputs;
        over += (size_t)given->steps[s].overs;
    }
    int32_t *numbers = bt_region_alloc(region, (4 * (steps + 1) + in + 2 * out + 4 * (values + 1)) * sizeof *numbers);
    uint8_t *flags = bt_region_alloc(region, 3 * (values + 1));
    w->bytes = bt_region_alloc(region, (values + steps + 1) * sizeof *w->bytes);
    w->over = bt_region_alloc(region, (over + 1) * sizeof *w->over);
    w->marks = bt_region_alloc(region, (steps / 64 + 1) * sizeof *w->marks);
    if (!numbers || !flags || !w->bytes || !w->over || !w->marks)
        return false;
    w->in_at = numbers;
    w->out_at = w->in_at + steps + 1;
    w->over_at = w->out_at + steps + 1;
    w->stack = w->over_at + steps + 1;
    w->in = w->stack + steps + 1;
    w->out = w->in + in;
    w->passing = w->out + out;
    w->maker = w->passing + out;
    w->first = w->maker + values + 1;
    w->gap = w->first + values + 1;
    w->scratch = w->bytes + values;
    w->there = flags;
    w->wanted = w->there + values + 1;
    w->begin = w->wanted + values + 1;
    return true;
}

bt_status bt_walk_new(bt_walk *walk, const bt_remat *remat, bt_region *region)
{
    *walk = (bt_walk){.remat = remat, .steps = remat->given->step_count, .values = remat->given->value_count};
    if (walk->steps > INT32_MAX - 1 || remat->gap_count > INT32_MAX)
        return bt_fail(BT_ERROR_UNSUPPORTED, "a program of %lld steps is too long to plan", (long long)walk->steps);
    if (!room(walk, region))
        return BT_ERROR_MEMORY;
    flatten(walk);
    return BT_OK;
}

void bt_walk_free(bt_walk *walk) { bt_free(walk->launches); }

/* ---- forwards: the launches ---- */

static bool launch(bt_walk *w, int32_t what)
{
    if (w->count == w->capacity) {
        int32_t *launches = bt_grow(w->launches, &w->capacity, w->count + 1, sizeof *launches);
        w->failed = !launches;
        if (!launches)
            return false;
        w->launches = launches;
    }
    w->launches[w->count++] = what;
    return !w->longest || w->count <= w->longest;
}

/* Marks the steps that must run again before the value can be read. */
static void mark(bt_walk *w, int32_t value)
{
    int64_t depth = 0;
    for (int32_t v = value;;) {
        int32_t maker = w->maker[v];
        uint64_t bit = (uint64_t)1 << (maker & 63);
        int64_t word = maker >> 6;
        if (!(w->marks[word] & bit)) {
            w->marks[word] |= bit;
            w->low = word < w->low ? word : w->low;
            w->high = word > w->high ? word : w->high;
            w->stack[depth++] = maker;
        }
        /* the next missing operand of a marked step */
        v = -1;
        while (v < 0 && depth > 0) {
            int32_t s = w->stack[--depth];
            for (int32_t i = w->in_at[s]; i < w->in_at[s + 1]; i++) {
                int32_t m = w->there[w->in[i]] ? -1 : w->maker[w->in[i]];
                if (m >= 0 && !(w->marks[m >> 6] >> (m & 63) & 1)) {
                    w->stack[depth++] = s; /* push it again, for its other operands */
                    v = w->in[i];
                    break;
                }
            }
        }
        if (v < 0)
            return;
    }
}

/* Launches a step again, so its outputs are there. Lists brief ones in `passing`. */
static bool run_again(bt_walk *w, int32_t s, const bool *brief, int64_t *passing)
{
    w->extra += w->remat->cost[s];
    for (int32_t k = w->out_at[s]; k < w->out_at[s + 1]; k++) {
        int32_t v = w->out[k];
        if (!w->there[v] && brief[v])
            w->passing[(*passing)++] = v;
        w->there[v] = 1;
    }
    return launch(w, -1 - s);
}

/* Launches the marked steps, in order. */
static bool run_marked(bt_walk *w, const bool *brief, double limit)
{
    int64_t passing = 0;
    bool fits = true;
    for (int64_t word = w->low; word <= w->high; word++)
        for (uint64_t bits = w->marks[word]; bits; bits &= bits - 1)
            fits = fits && run_again(w, (int32_t)(word * 64 + __builtin_ctzll(bits)), brief, &passing);
    for (int64_t word = w->low; word <= w->high; word++)
        w->marks[word] = 0;
    w->low = INT64_MAX;
    w->high = -1;
    for (int64_t i = 0; i < passing; i++)
        w->there[w->passing[i]] = 0;
    return fits && w->extra <= limit;
}

static bool forwards(bt_walk *w, const bool *dropped, const bool *brief, double limit)
{
    w->count = 0;
    w->extra = 0;
    w->low = INT64_MAX;
    w->high = -1;
    memcpy(w->gap, w->first, (size_t)w->values * sizeof *w->gap);
    memset(w->there, 1, (size_t)w->values);
    for (int32_t s = 0; s < w->steps; s++) {
        for (int32_t i = w->in_at[s]; i < w->in_at[s + 1]; i++)
            if (!w->there[w->in[i]])
                mark(w, w->in[i]);
        if (w->high >= 0 && !run_marked(w, brief, limit))
            return false;
        if (!launch(w, s))
            return false;
        for (int32_t k = w->out_at[s]; k < w->out_at[s + 1]; k++)
            w->there[w->out[k]] = !dropped[w->gap[w->out[k]]];
        for (int32_t i = w->in_at[s]; i < w->in_at[s + 1]; i++)
            w->there[w->in[i]] = !dropped[++w->gap[w->in[i]]];
    }
    return true;
}

/* ---- backwards: what is alive ---- */

/* Bytes of outputs that overwrite operands which nobody reads later. */
static int64_t written_over(const bt_walk *w, int32_t s)
{
    int64_t bytes = 0;
    int32_t last = -1;
    for (int32_t i = w->over_at[s]; i < w->over_at[s + 1]; i++)
        if (w->over[i].output != last && !w->wanted[w->over[i].value]) {
            last = w->over[i].output;
            bytes += w->bytes[last];
        }
    return bytes;
}

static bool backwards(bt_walk *w, int64_t limit, int64_t goal)
{
    int64_t alive = w->kept;
    w->most = w->at = w->above = 0;
    memcpy(w->wanted, w->begin, (size_t)w->values);
    for (int64_t l = w->count - 1; l >= 0; l--) {
        bool again = w->launches[l] < 0;
        int32_t s = again ? -1 - w->launches[l] : w->launches[l];
        int64_t now = w->scratch[s];
        for (int32_t k = w->out_at[s]; k < w->out_at[s + 1]; k++) {
            int32_t v = w->out[k];
            now += w->bytes[v];
            if (w->wanted[v] == 1 || (w->wanted[v] == 2 && !again)) {
                alive -= w->bytes[v];
                w->wanted[v] &= 2;
            }
        }
        now -= written_over(w, s);
        for (int32_t i = w->in_at[s]; i < w->in_at[s + 1]; i++) {
            int32_t v = w->in[i];
            if (!w->wanted[v]) {
                alive += w->bytes[v];
                w->wanted[v] = 1;
            }
        }
        now += alive;
        if (w->used)
            w->used[l] = now;
        if (now >= w->most) {
            w->most = now;
            w->at = l;
            if (now > limit)
                return false;
        }
        w->above += now > goal ? now - goal : 0;
    }
    return true;
}

bool bt_walk_run(bt_walk *walk, const bool *dropped, const bool *brief, const bt_walk_limit *limit)
{
    return forwards(walk, dropped, brief, limit->extra) && backwards(walk, limit->most, limit->goal);
}

/* ---- one choice ---- */

static bt_status follow(bt_walk *w, const bt_remat_choice *choice, bt_region *region, bt_remat_plan *plan)
{
    static const bt_walk_limit none = {1e300, INT64_MAX, INT64_MAX};
    *plan = (bt_remat_plan){0};
    bt_walk_run(w, choice->dropped, choice->brief, &none);
    if (w->failed)
        return BT_ERROR_MEMORY;
    plan->count = w->count;
    plan->most = (size_t)w->most;
    plan->at = w->at;
    plan->extra = w->extra;
    if (!region)
        return BT_OK;
    plan->launches = bt_region_alloc(region, (size_t)w->count * sizeof *plan->launches + 1);
    for (int64_t l = 0; plan->launches && l < w->count; l++)
        plan->launches[l] = w->launches[l] < 0 ? -1 - w->launches[l] : w->launches[l];
    return plan->launches ? BT_OK : BT_ERROR_MEMORY;
}

bt_status bt_remat_follow(const bt_remat *remat, const bt_remat_choice *choice, bt_region *region, bt_remat_plan *plan)
{
    bt_walk walk = {0};
    bt_region *own = bt_region_new();
    bt_status status = own ? bt_walk_new(&walk, remat, own) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = follow(&walk, choice, region, plan);
    bt_walk_free(&walk);
    bt_region_free(own);
    return status;
}
