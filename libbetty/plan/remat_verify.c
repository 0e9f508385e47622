/* plan/remat_verify.c: checks a recomputation plan, counting afresh from its launches alone: whenever a step computes a
 * value, a life begins, which lasts until its last reader has run. */
#include "plan/remat.h"

#include <math.h>

typedef struct life {
    int64_t value, begin, end; /* launches */
} life;

typedef struct check {
    const bt_remat *remat;
    const bt_remat_plan *plan;
    life *lives;
    int64_t life_count;
    int64_t *now;    /* by value: its life that readers see now; -1: none */
    int64_t *ran;    /* by step: how often */
    int64_t *change; /* by launch: bytes whose use begins, minus those whose use ended */
    int64_t next;    /* the next step to run for the first time */
    double extra;
} check;

static void begin_life(check *c, int64_t value, int64_t launch)
{
    bool kept = c->remat->given->values[value].kept;
    life *l = &c->lives[c->life_count];
    *l = (life){value, launch, kept ? c->plan->count - 1 : launch};
    if (kept && c->now[value] >= 0)
        l->end = launch; /* readers see the first one */
    else
        c->now[value] = c->life_count;
    c->life_count++;
}

static bt_status count_run(check *c, int64_t s)
{
    if (s < 0 || s >= c->remat->given->step_count)
        return bt_fail(BT_ERROR_INTERNAL, "there is no step %lld", (long long)s);
    if (c->ran[s]++ == 0)
        return s == c->next++
                   ? BT_OK
                   : bt_fail(BT_ERROR_INTERNAL, "step %lld runs before those that come before it", (long long)s);
    if (c->remat->cost[s] < 0)
        return bt_fail(BT_ERROR_INTERNAL, "step %lld runs again, which it must not", (long long)s);
    c->extra += c->remat->cost[s];
    return BT_OK;
}

static bt_status follow_launch(check *c, int64_t l)
{
    int64_t s = c->plan->launches[l];
    BT_TRY(count_run(c, s));
    const bt_order_step *step = &c->remat->given->steps[s];
    for (int64_t i = 0; i < step->inputs; i++) {
        int64_t made = c->now[step->in[i]];
        if (made < 0)
            return bt_fail(BT_ERROR_INTERNAL, "launch %lld, of step %lld, reads value %lld, which is not there",
                           (long long)l, (long long)s, (long long)step->in[i]);
        if (c->lives[made].end < l)
            c->lives[made].end = l;
    }
    for (int64_t k = 0; k < step->outputs; k++)
        begin_life(c, step->out[k], l);
    return BT_OK;
}

static bt_status follow_all(check *c)
{
    const bt_order *given = c->remat->given;
    for (int64_t v = 0; v < given->value_count; v++) {
        c->now[v] = -1;
        if (c->remat->maker[v] < 0) /* there from the beginning, or it takes no part */
            begin_life(c, v, -1);
    }
    for (int64_t l = 0; l < c->plan->count; l++)
        BT_TRY(follow_launch(c, l));
    if (c->next != given->step_count)
        return bt_fail(BT_ERROR_INTERNAL, "step %lld never runs", (long long)c->next);
    return BT_OK;
}

/* Bytes of launch l's outputs that replace an operand whose life ends there. */
static size_t placed_over(const check *c, int64_t l, const int64_t *now)
{
    const bt_order *given = c->remat->given;
    const bt_order_step *step = &given->steps[c->plan->launches[l]];
    size_t bytes = 0;
    for (int64_t k = 0; k < step->outputs; k++)
        for (int64_t i = 0; i < step->overs; i++) {
            int64_t v = step->over[i].value;
            if (step->over[i].output != k || given->values[v].kept || c->remat->maker[v] < 0 ||
                c->lives[now[v]].end != l)
                continue;
            bytes += given->values[step->out[k]].bytes;
            break;
        }
    return bytes;
}

/* The peak in bytes: sums up the changes, and adds what each launch needs itself. */
static size_t most_used(const check *c)
{
    const bt_order *given = c->remat->given;
    size_t used = 0, most = 0;
    int64_t n = 0;
    for (; n < c->life_count; n++) {
        const life *one = &c->lives[n];
        int64_t bytes = (int64_t)given->values[one->value].bytes, begin = one->begin < 0 ? 0 : one->begin;
        c->change[begin] += one->end < 0 ? 0 : bytes;
        c->change[one->end + 1] -= one->end < 0 ? 0 : bytes;
    }
    for (n = 0; n < c->life_count && c->lives[n].begin < 0; n++)
        c->now[c->lives[n].value] = n;
    for (int64_t l = 0; l < c->plan->count; l++) {
        const bt_order_step *step = &given->steps[c->plan->launches[l]];
        used += (size_t)c->change[l];
        size_t here = used + bt_align_up(step->scratch) - placed_over(c, l, c->now);
        most = here > most ? here : most;
        for (; n < c->life_count && c->lives[n].begin == l; n++)
            c->now[c->lives[n].value] = n;
    }
    return most;
}

static bt_status compare(const check *c)
{
    size_t most = most_used(c);
    if (most != c->plan->most)
        return bt_fail(BT_ERROR_INTERNAL, "%zu bytes are used at once, not %zu", most, c->plan->most);
    if (!(fabs(c->extra - c->plan->extra) <= 1e-9 * fabs(c->extra)))
        return bt_fail(BT_ERROR_INTERNAL, "what runs again costs %.9g, not %.9g", c->extra, c->plan->extra);
    return BT_OK;
}

static bt_status make_room(check *c, bt_region *region)
{
    const bt_order *given = c->remat->given;
    int64_t lives = given->value_count;
    for (int64_t l = 0; l < c->plan->count; l++) {
        int64_t s = c->plan->launches[l];
        lives += s >= 0 && s < given->step_count ? given->steps[s].outputs : 0;
    }
    c->lives = bt_region_alloc(region, (size_t)lives * sizeof *c->lives + 1);
    c->now = bt_region_alloc(region, (size_t)given->value_count * sizeof *c->now + 1);
    c->ran = bt_region_alloc(region, (size_t)given->step_count * sizeof *c->ran + 1);
    c->change = bt_region_alloc(region, (size_t)(c->plan->count + 1) * sizeof *c->change);
    return c->lives && c->now && c->ran && c->change ? BT_OK : BT_ERROR_MEMORY;
}

bt_status bt_remat_verify(const bt_remat *remat, const bt_remat_plan *plan)
{
    check c = {.remat = remat, .plan = plan};
    bt_region *region = bt_region_new();
    bt_status status = region ? make_room(&c, region) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = follow_all(&c);
    if (status == BT_OK)
        status = compare(&c);
    bt_region_free(region);
    return status;
}
