/* plan/frontier.c: the search of what to drop. It walks from goal to goal, each a little below the last one, and
 * anneals at each: a flip of a gap or of a brief value is taken if the plan that follows is better, or not much worse
 * than chance allows (Kirkpatrick and others 1983). The numbers of chance are the same on every run. */
#include "plan/condense.h"
#include "plan/points.h"

#include <math.h>
#include <string.h>

enum { SMALL = 500, GOALS = 64, FLIPS = 4 }; /* values below the 500th part of the most are held */

typedef struct search {
    const bt_remat *remat; /* condensed */
    bt_walk walk;
    bt_region *region;
    int64_t *gaps, *owners, *values; /* what may be flipped: gaps, and of each its value; values, for being brief */
    int64_t gap_count, value_count;
    bt_remat_choice now;
    double score; /* of `now` */
    int64_t goal, most;
    uint64_t chance;
    int64_t done, left; /* simulations */
    bt_points best;
    int64_t flips[FLIPS], flip_count; /* gaps; -1 - value */
} search;

/* ---- chance ---- */

static double draw(search *s) /* 0 to 1 */
{
    s->chance ^= s->chance << 13;
    s->chance ^= s->chance >> 7;
    s->chance ^= s->chance << 17;
    return (double)(s->chance >> 11) * 0x1p-53;
}

static int64_t pick(search *s, int64_t count) { return (int64_t)(draw(s) * (double)count); }

/* ---- one trial ---- */

static void flip(search *s)
{
    for (int64_t i = 0; i < s->flip_count; i++)
        if (s->flips[i] >= 0)
            s->now.dropped[s->flips[i]] ^= 1;
        else
            s->now.brief[-1 - s->flips[i]] ^= 1;
}

/* What a plan is worth: its extra cost as part of all, and what it is above the goal. */
static double score(const search *s)
{
    const bt_walk *w = &s->walk;
    double over = w->most > s->goal ? (double)(w->most - s->goal) : 0;
    return w->extra / s->remat->total + (over + .5 * (double)w->above / (double)w->count) / (double)s->goal;
}

/* Follows `now`; whether its score is at most so much. */
static bt_status simulate(search *s, double most, bool *better)
{
    bt_walk_limit limit = {most * s->remat->total, INT64_MAX, s->goal};
    if (most < 1e3)
        limit.most = s->goal + (int64_t)(most * (double)s->goal);
    s->left--;
    s->done++;
    *better = false;
    if (!bt_walk_run(&s->walk, s->now.dropped, s->now.brief, &limit))
        return s->walk.failed ? BT_ERROR_MEMORY : BT_OK;
    double now = score(s);
    *better = now <= most;
    if (*better) {
        s->score = now;
        s->most = s->walk.most;
    }
    bt_remat_point point = {s->now, (size_t)s->walk.most, s->walk.extra};
    return bt_points_offer(&s->best, s->remat, &point);
}

static void choose_flips(search *s)
{
    int64_t kind = pick(s, 10), gap = pick(s, s->gap_count);
    s->flip_count = 0;
    if (kind < 6 || kind > 7)
        s->flips[s->flip_count++] = s->gaps[gap];
    if (kind == 6 || kind == 7)
        s->flips[s->flip_count++] = -1 - s->values[pick(s, s->value_count)];
    if (kind == 8)
        s->flips[s->flip_count++] = s->gaps[pick(s, s->gap_count)];
    if (kind == 9)
        s->flips[s->flip_count++] = -1 - s->owners[gap];
}

/* ---- annealing at one goal ---- */

static bt_status anneal(search *s, int64_t trials, double hot, double cold)
{
    bool better;
    BT_TRY(simulate(s, 1e300, &better));
    for (int64_t i = 0; i < trials && s->left > 0; i++) {
        double heat = hot * pow(cold / hot, (double)i / (double)trials);
        choose_flips(s);
        flip(s);
        BT_TRY(simulate(s, s->score - heat * log(1 - draw(s)), &better));
        if (!better)
            flip(s);
    }
    return BT_OK;
}

static void begin_at(search *s, const bt_remat_point *point)
{
    memcpy(s->now.dropped, point->choice.dropped, (size_t)s->remat->gap_count);
    memcpy(s->now.brief, point->choice.brief, (size_t)s->remat->given->value_count);
}

static const double hot_start = .01, cold_end = .0001;

static bt_status walk_down(search *s)
{
    int64_t part = s->left / 40, missed = 0;
    double goal = (double)s->remat->most;
    for (int k = 1; k < GOALS && missed < 3 && s->left > 0; k++) {
        goal *= .93;
        s->goal = (int64_t)goal;
        BT_TRY(anneal(s, part, hot_start, cold_end));
        int64_t at = bt_points_place(s->best.list, s->best.count, (size_t)s->goal);
        missed = at < s->best.count ? 0 : missed + 1;
        if (at < s->best.count)
            begin_at(s, &s->best.list[at]);
    }
    return BT_OK;
}

/* ---- what may be flipped ---- */

static bool worth(const bt_remat *remat, int64_t value, int64_t gap)
{
    int64_t begin = gap == remat->gaps[value] ? remat->maker[value] : remat->readers[gap - 1];
    int64_t end = remat->readers[gap] < 0 ? remat->given->step_count : remat->readers[gap];
    return end > begin + 1;
}

static bt_status list_flips(search *s, const bt_condensed *c, const bool *may)
{
    const bt_remat *remat = s->remat;
    size_t gaps = (size_t)remat->gap_count, values = (size_t)c->order.value_count;
    s->gaps = bt_region_alloc(s->region, (2 * gaps + values) * sizeof *s->gaps + 1);
    if (!s->gaps)
        return BT_ERROR_MEMORY;
    s->owners = s->gaps + gaps;
    s->values = s->owners + gaps;
    for (int64_t v = 0; v < c->order.value_count; v++) {
        int64_t before = s->gap_count;
        for (int64_t g = remat->gaps[v]; g < remat->gaps[v + 1]; g++)
            if (!remat->fixed[v] && (!may || may[c->value[v]]) && worth(remat, v, g)) {
                s->owners[s->gap_count] = v;
                s->gaps[s->gap_count++] = g;
            }
        if (s->gap_count > before)
            s->values[s->value_count++] = v;
    }
    return BT_OK;
}

/* ---- from the given graph, and back ---- */

/* Values that stay: large ones, and what `start` drops. */
static bool *who_stays(const bt_remat *remat, const bt_remat_choice *start, bt_region *region)
{
    bool *stays = bt_region_alloc(region, (size_t)remat->given->value_count + 1);
    for (int64_t v = 0; stays && v < remat->given->value_count; v++) {
        stays[v] = remat->given->values[v].bytes > 0 && remat->given->values[v].bytes >= remat->most / SMALL;
        for (int64_t g = remat->gaps[v]; start && g < remat->gaps[v + 1]; g++)
            stays[v] |= start->dropped[g];
    }
    return stays;
}

/* Follows each point in the given graph: the points are what is best there. */
static bt_status publish(bt_frontier *f, const bt_remat *remat, const bt_condensed *c, const bt_points *found)
{
    bt_points points = {.region = f->region};
    bt_remat_choice choice;
    bt_status status = bt_remat_choice_new(remat, f->region, &choice);
    for (int64_t i = 0; status == BT_OK && i < found->count; i++) {
        bt_remat_plan plan;
        bt_condensed_to(c, remat, &found->list[i].choice, &choice);
        status = bt_remat_follow(remat, &choice, NULL, &plan);
        if (status == BT_OK)
            status = bt_points_offer(&points, remat, &(bt_remat_point){choice, plan.most, plan.extra});
    }
    f->points = points.list;
    f->count = points.count;
    f->capacity = points.capacity;
    return status;
}

static bt_status search_all(bt_frontier *f, const bt_remat *remat, const bt_remat_choice *start, const bool *may,
                            search *s, bt_condensed *c)
{
    bool *stays = who_stays(remat, start, s->region);
    if (!stays)
        return BT_ERROR_MEMORY;
    BT_TRY(bt_condense(c, remat, stays, s->region));
    s->remat = &c->remat;
    BT_TRY(bt_walk_new(&s->walk, s->remat, s->region));
    s->walk.longest = 16 * s->walk.steps + 64;
    BT_TRY(bt_remat_choice_new(s->remat, s->region, &s->now));
    BT_TRY(list_flips(s, c, may));
    if (start)
        bt_condensed_from(c, remat, start, &s->now);
    bool better;
    s->goal = (int64_t)s->remat->most + 1;
    BT_TRY(simulate(s, 1e300, &better));
    if (s->gap_count > 0)
        BT_TRY(walk_down(s));
    f->simulations = s->done;
    return publish(f, remat, c, &s->best);
}

bt_status bt_frontier_new(bt_frontier *frontier, const bt_remat *remat, const bt_remat_choice *start, const bool *may,
                          int64_t simulations)
{
    bt_condensed condensed = {0};
    search s = {.left = simulations, .chance = 88172645463325252u};
    *frontier = (bt_frontier){.region = bt_region_new()};
    s.region = s.best.region = bt_region_new();
    bt_status status = frontier->region && s.region ? BT_OK : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = search_all(frontier, remat, start, may, &s, &condensed);
    bt_walk_free(&s.walk);
    bt_free(s.best.list);
    bt_remat_free(&condensed.remat);
    bt_region_free(s.region);
    if (status != BT_OK)
        bt_frontier_free(frontier);
    return status;
}

void bt_frontier_free(bt_frontier *frontier)
{
    bt_free(frontier->points);
    bt_region_free(frontier->region);
    *frontier = (bt_frontier){0};
}

const bt_remat_point *bt_frontier_within(const bt_frontier *frontier, size_t bytes)
{
    int64_t at = bt_points_place(frontier->points, frontier->count, bytes);
    return at < frontier->count ? &frontier->points[at] : NULL;
}

const bt_remat_point *bt_frontier_for(const bt_frontier *frontier, double extra)
{
    const bt_remat_point *found = NULL;
    for (int64_t i = 0; i < frontier->count && frontier->points[i].extra <= extra; i++)
        found = &frontier->points[i];
    return found;
}
