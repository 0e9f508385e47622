/* plan/frontier.c: searches for what to drop. It sets several goals (peak bytes), each a little below the last one, and
 * keeps a choice for each, which it anneals. It accepts a flip of gaps or of brief values if the plan that follows is
 * better, or no worse than chance allows (Kirkpatrick and others 1983). It goes down and up the goals, cooler each
 * time; at a goal it switches to a neighbour's choice if that is better there. The price of a byte above the goal rises
 * while the goal is missed and falls while it is met. The random numbers are the same in every run. */
#include "plan/condense.h"
#include "plan/points.h"

#include <math.h>
#include <string.h>

enum {
    GOALS = 40,
    PASSES = 50, /* at most, each with at least TRIALS trials at a goal */
    TRIALS = 30,
    SEEDS = 6,
    POLISH = 10, /* one part in POLISH of the simulations goes to polishing */
    FLIPS = 2
};
static const double next_goal = .93;
static const double hot = .004, warm = .001, cold = .0001; /* heat: as a fraction of the cost of all steps */

typedef struct state { /* at one goal */
    int64_t goal;      /* bytes */
    bt_remat_choice choice;
    double price; /* of bytes above the goal, as a fraction of the goal */
    double score; /* of the choice that it starts from */
} state;

typedef struct candidate { /* a gap that may be flipped */
    int64_t gap, value;
    double weight; /* bytes times steps, cumulative: its own and those of all before it */
} candidate;

typedef struct search {
    const bt_remat *remat; /* condensed */
    bt_walk walk;
    bt_region *region;
    double total;       /* cost of all steps */
    bt_remat_may *kind; /* by value */
    bt_remat_may least; /* values of at least this kind may be dropped now */
    candidate *candidates;
    int64_t candidate_count;
    bt_remat_choice now;
    double score; /* of `now`, whose peak is `most` */
    int64_t most;
    const state *at;
    state states[GOALS];
    int state_count;
    int64_t flips[FLIPS], flip_count; /* gaps; -1 - value: flips whether it is brief */
    uint64_t chance;
    int64_t done, left; /* simulations */
    bt_points best;
} search;

/* ---- chance: Marsaglia's xorshift ---- */

static double draw(search *s) /* 0 to 1 */
{
    s->chance ^= s->chance << 13;
    s->chance ^= s->chance >> 7;
    s->chance ^= s->chance << 17;
    return (double)(s->chance >> 11) * 0x1p-53;
}

static int64_t pick(search *s, int64_t count) { return (int64_t)(draw(s) * (double)count); }

/* Picks a candidate: mostly by weight, sometimes uniformly. */
static const candidate *pick_candidate(search *s)
{
    if (draw(s) < .15)
        return &s->candidates[pick(s, s->candidate_count)];
    int64_t low = 0, high = s->candidate_count - 1;
    double at = draw(s) * s->candidates[high].weight;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (s->candidates[middle].weight <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return &s->candidates[low];
}

/* ---- one trial ---- */

/* The number of steps from the one that begins the gap to the one that ends it. */
static int64_t length_of(const bt_remat *remat, int64_t value, int64_t gap)
{
    int64_t begin = gap == remat->gaps[value] ? remat->maker[value] : remat->readers[gap - 1];
    return (remat->readers[gap] < 0 ? remat->given->step_count : remat->readers[gap]) - begin;
}

/* The longest gap that ends at a reader, of a value next to this one: an operand of its step, or an output of one of
 * its readers; -1: none. */
static int64_t neighbour_of(search *s, int64_t value)
{
    const bt_remat *remat = s->remat;
    int64_t readers = remat->gaps[value + 1] - remat->gaps[value] - 1, best = -1;
    bool before = readers == 0 || draw(s) < .5;
    const bt_order_step *step =
        &remat->given->steps[before ? remat->maker[value] : remat->readers[remat->gaps[value] + pick(s, readers)]];
    int64_t count = before ? step->inputs : step->outputs;
    if (count == 0)
        return -1;
    int64_t other = (before ? step->in : step->out)[pick(s, count)];
    for (int64_t g = remat->gaps[other]; s->kind[other] >= s->least && remat->readers[g] >= 0; g++)
        if (best < 0 || length_of(remat, other, g) > length_of(remat, other, best))
            best = g;
    return best;
}

static void choose_flips(search *s)
{
    const candidate *one = pick_candidate(s);
    double kind = draw(s);
    s->flip_count = 1;
    s->flips[0] = kind < .3 ? -1 - one->value : one->gap;
    if (kind < .6)
        return;
    int64_t other = -1 - one->value;
    if (kind < .9)
        other = draw(s) < .6 ? neighbour_of(s, one->value) : pick_candidate(s)->gap;
    if (other != one->gap && (other >= 0 || kind >= .9))
        s->flips[s->flip_count++] = other;
}

static void flip(search *s)
{
    for (int64_t i = 0; i < s->flip_count; i++) {
        bool *bit = s->flips[i] >= 0 ? &s->now.dropped[s->flips[i]] : &s->now.brief[-1 - s->flips[i]];
        *bit = !*bit;
    }
}

/* The score of a plan; lower is better: its extra cost as a fraction of the total, plus the price of the bytes above
 * the goal at the peak and, with less weight, at all other moments. */
static double score(const search *s)
{
    const bt_walk *w = &s->walk;
    double goal = (double)s->at->goal, over = w->most > s->at->goal ? (double)w->most - goal : 0;
    return w->extra / s->total + s->at->price * (over + .1 * (double)w->above / (double)w->count) / goal;
}

/* Simulates `now`. *fits: whether its score is at most `most`. */
static bt_status simulate(search *s, double most, bool *fits)
{
    double goal = (double)s->at->goal;
    bt_walk_limit limit = {most * s->total, (int64_t)fmin(goal * (1 + most / s->at->price), 9e18), s->at->goal};
    s->left--;
    s->done++;
    *fits = false;
    if (!bt_walk_run(&s->walk, s->now.dropped, s->now.brief, &limit))
        return s->walk.failed ? BT_ERROR_MEMORY : BT_OK;
    double now = score(s);
    *fits = now <= most;
    if (*fits) {
        s->score = now;
        s->most = s->walk.most;
    }
    return bt_points_offer(&s->best, s->remat, &(bt_remat_point){s->now, (size_t)s->walk.most, s->walk.extra});
}

/* ---- goals ---- */

static void copy_choice(const search *s, const bt_remat_choice *from, bt_remat_choice *to)
{
    memcpy(to->dropped, from->dropped, (size_t)s->remat->gap_count);
    memcpy(to->brief, from->brief, (size_t)s->remat->given->value_count);
}

/* Sets `now` to whichever choice scores best at this goal: its own or a neighbouring goal's. */
static bt_status begin_at(search *s, int goal)
{
    bool fits;
    int from = goal;
    s->at = &s->states[goal];
    copy_choice(s, &s->at->choice, &s->now);
    BT_TRY(simulate(s, 1e300, &fits));
    for (int k = goal > 0 ? goal - 1 : 1; k <= goal + 1 && k < s->state_count; k += 2) {
        copy_choice(s, &s->states[k].choice, &s->now);
        BT_TRY(simulate(s, s->score * (1 - 1e-9), &fits));
        from = fits ? k : from;
    }
    copy_choice(s, &s->states[from].choice, &s->now);
    return BT_OK;
}

static bt_status anneal(search *s, int goal, int64_t trials, double heat)
{
    bool fits;
    BT_TRY(begin_at(s, goal));
    for (int64_t i = 0; i < trials && s->left > 0; i++) {
        choose_flips(s);
        flip(s);
        BT_TRY(simulate(s, s->score - heat * log(1 - draw(s)), &fits));
        if (!fits)
            flip(s);
    }
    copy_choice(s, &s->now, &s->states[goal].choice);
    s->states[goal].price *= s->most <= s->at->goal ? .8 : 1.25;
    return BT_OK;
}

/* A lower bound on the bytes of any choice: a step's inputs and outputs must be there at once. */
static int64_t least_of(const search *s)
{
    const bt_walk *w = &s->walk;
    int64_t least = 1;
    for (int64_t step = 0; step < w->steps; step++) {
        int64_t bytes = w->scratch[step];
        for (int32_t i = w->in_at[step]; i < w->in_at[step + 1]; i++)
            bytes += w->bytes[w->in[i]];
        for (int32_t k = w->out_at[step]; k < w->out_at[step + 1]; k++)
            bytes += w->over_at[step] == w->over_at[step + 1] ? w->bytes[w->out[k]] : 0;
        least = bytes > least ? bytes : least;
    }
    return least;
}

static bt_status set_goals(search *s)
{
    int64_t least = least_of(s);
    double goal = (double)s->best.list[0].most;
    s->state_count = 0;
    while (s->state_count < GOALS && goal > (double)least) {
        goal = fmax(goal * next_goal, (double)least);
        state *one = &s->states[s->state_count++];
        *one = (state){.goal = (int64_t)goal, .price = 1, .score = 1e300};
        BT_TRY(bt_remat_choice_new(s->remat, s->region, &one->choice));
    }
    return BT_OK;
}

/* Lets the goal start from `now` if that scores better there than what it has. */
static bt_status propose_to(search *s, int goal)
{
    bool fits;
    s->at = &s->states[goal];
    BT_TRY(simulate(s, 1e300, &fits));
    if (fits && s->score < s->at->score) {
        s->states[goal].score = s->score;
        copy_choice(s, &s->now, &s->states[goal].choice);
    }
    return BT_OK;
}

static bt_status propose(search *s)
{
    for (int k = 0; k < s->state_count; k++)
        BT_TRY(propose_to(s, k));
    return BT_OK;
}

/* Proposes to each goal the cheapest choice found for it. */
static bt_status propose_found(search *s)
{
    for (int k = 0; k < s->state_count; k++) {
        int64_t at = bt_points_place(s->best.list, s->best.count, (size_t)s->states[k].goal);
        if (at == s->best.count)
            break;
        copy_choice(s, &s->best.list[at].choice, &s->now);
        BT_TRY(propose_to(s, k));
    }
    return BT_OK;
}

/* Starting points: the given choice, those found so far, and choices that drop everything but every N-th value, with
 * all candidates brief or none. */
static bt_status begin_goals(search *s)
{
    BT_TRY(propose(s));
    BT_TRY(propose_found(s));
    for (int k = 0; k < 2 * SEEDS; k++) {
        int64_t number = 0, every = k / 2 + 1;
        for (int64_t i = 0; i < s->candidate_count; i++) {
            const candidate *one = &s->candidates[i];
            number += i > 0 && one->value != one[-1].value;
            s->now.dropped[one->gap] = every == 1 || number % every;
            s->now.brief[one->value] = k % 2;
        }
        BT_TRY(propose(s));
    }
    return BT_OK;
}

/* Gives up unreached goals except the first two of them; but gives up all if even the first goal is out of reach. */
static void give_up_goals(search *s)
{
    int64_t least = (int64_t)s->best.list[s->best.count - 1].most;
    while (s->state_count > 2 && s->states[s->state_count - 3].goal < least)
        s->state_count--;
    if (s->states[0].goal < least)
        s->state_count = 0;
}

static bt_status search_goals(search *s, double from)
{
    BT_TRY(set_goals(s));
    BT_TRY(begin_goals(s));
    int64_t passes = s->left / (TRIALS * (s->state_count + 1)) + 1;
    passes = passes < PASSES ? passes : PASSES;
    for (int64_t pass = 0; pass < passes && s->state_count > 0 && s->left > 0; pass++) {
        double heat = from * pow(cold / from, (double)(pass + 1) / (double)passes);
        double trials = (double)s->left / (double)(passes - pass), count = s->state_count;
        for (int k = 0; k < s->state_count; k++) {
            int goal = pass % 2 ? s->state_count - 1 - k : k;
            double part = 2 * (goal + 8) / (count + 15) / count; /* lower goals are harder */
            BT_TRY(anneal(s, goal, (int64_t)(trials * part) - 3, heat));
        }
        if (pass >= passes / 4)
            give_up_goals(s);
    }
    return BT_OK;
}

/* ---- polishing ---- */

/* Flips `what` in `now` if that costs less and stays within the goal. */
static bt_status try_flip(search *s, int64_t what, bool *taken)
{
    bool fits;
    s->flip_count = 1;
    s->flips[0] = what;
    flip(s);
    BT_TRY(simulate(s, s->score * (1 - 1e-9), &fits));
    *taken |= fits;
    if (!fits)
        flip(s);
    return BT_OK;
}

/* Undoes what chance has left in a point: drops that do not pay, and values that need not be brief. */
static bt_status polish(search *s, int64_t at)
{
    bool taken = true, fits;
    s->states[0] = (state){.goal = (int64_t)s->best.list[at].most, .price = 1e6};
    s->at = &s->states[0];
    copy_choice(s, &s->best.list[at].choice, &s->now);
    BT_TRY(simulate(s, 1e300, &fits));
    while (taken && s->score > 0) {
        taken = false;
        for (int64_t i = 0; i < s->candidate_count && s->left > 0; i++) {
            const candidate *one = &s->candidates[i];
            if (s->now.dropped[one->gap])
                BT_TRY(try_flip(s, one->gap, &taken));
            if (s->left > 0 && (i == 0 || one->value != one[-1].value))
                BT_TRY(try_flip(s, -1 - one->value, &taken));
        }
    }
    return BT_OK;
}

/* Polishes the points of the goals, then all points, those with the fewest bytes first. */
static bt_status polish_all(search *s)
{
    for (int k = s->state_count - 1; k >= 1 && s->left > 0; k--) {
        int64_t at = bt_points_place(s->best.list, s->best.count, (size_t)s->states[k].goal);
        if (at < s->best.count)
            BT_TRY(polish(s, at));
    }
    for (int64_t at = s->best.count - 1; at >= 0 && s->left > 0;) {
        size_t most = s->best.list[at].most;
        BT_TRY(polish(s, at));
        at = bt_points_place(s->best.list, s->best.count, most) - 1;
    }
    return BT_OK;
}

/* ---- what may be flipped ---- */

/* Whether dropping a gap can help: a step lies in it, or the step that begins it may overwrite the value. */
static bool may_pay(const bt_remat *remat, int64_t value, int64_t gap)
{
    if (length_of(remat, value, gap) > 1 || gap == remat->gaps[value])
        return length_of(remat, value, gap) > 1;
    const bt_order_step *step = &remat->given->steps[remat->readers[gap - 1]];
    for (int64_t i = 0; i < step->overs; i++)
        if (step->over[i].value == value)
            return true;
    return false;
}

static bt_status list_kinds(search *s, const bt_condensed *c, const bt_remat_may *may)
{
    const bt_remat *remat = s->remat;
    s->candidates = bt_region_alloc(s->region, (size_t)remat->gap_count * sizeof *s->candidates + 1);
    s->kind = bt_region_alloc(s->region, (size_t)(c->order.value_count + 1) * sizeof *s->kind);
    if (!s->candidates || !s->kind)
        return BT_ERROR_MEMORY;
    for (int64_t v = 0; v < c->order.value_count; v++)
        s->kind[v] = remat->fixed[v] ? BT_REMAT_HOLD : may ? may[c->value[v]] : BT_REMAT_DROP_FIRST;
    return BT_OK;
}

/* Lists the gaps that may be flipped, of values of at least this kind, and returns how many there are. */
static int64_t list_candidates(search *s, bt_remat_may least)
{
    const bt_remat *remat = s->remat;
    double weight = 0;
    s->least = least;
    s->candidate_count = 0;
    for (int64_t v = 0; v < remat->given->value_count; v++)
        for (int64_t g = remat->gaps[v]; s->kind[v] >= least && g < remat->gaps[v + 1]; g++)
            if (may_pay(remat, v, g)) {
                weight += (double)length_of(remat, v, g) * (double)remat->given->values[v].bytes;
                s->candidates[s->candidate_count++] = (candidate){g, v, weight};
            }
    return s->candidate_count;
}

/* ---- from the given graph, and back ---- */

/* By value: it stays in the condensed graph, because it is large or `start` drops it. */
static bool *who_stays(const bt_remat *remat, const bt_remat_choice *start, bt_region *region)
{
    bool *stays = bt_region_alloc(region, (size_t)remat->given->value_count + 1);
    for (int64_t v = 0; stays && v < remat->given->value_count; v++) {
        stays[v] = remat->given->values[v].bytes >= remat->large;
        for (int64_t g = remat->gaps[v]; start && g < remat->gaps[v + 1]; g++)
            stays[v] |= start->dropped[g];
    }
    return stays;
}

/* Follows each point in the given graph and keeps the best ones there. */
static bt_status follow_all(const bt_remat *remat, const bt_condensed *c, const bt_points *found, bt_points *points)
{
    bt_remat_choice choice;
    bt_status status = bt_remat_choice_new(remat, points->region, &choice);
    for (int64_t i = 0; status == BT_OK && i < found->count; i++) {
        bt_remat_plan plan;
        bt_condensed_to(c, remat, &found->list[i].choice, &choice);
        status = bt_remat_follow(remat, &choice, NULL, &plan);
        if (status == BT_OK)
            status = bt_points_offer(points, remat, &(bt_remat_point){choice, plan.most, plan.extra});
    }
    return status;
}

/* Stores a choice as a list of numbers, since few gaps and values are chosen. */
static bt_status list_choice(const bt_remat *remat, const bt_remat_point *from, bt_region *region,
                             bt_frontier_point *to)
{
    int64_t count = 0, values = remat->given->value_count;
    for (int64_t g = 0; g < remat->gap_count; g++)
        count += from->choice.dropped[g];
    for (int64_t v = 0; v < values; v++)
        count += from->choice.brief[v];
    int64_t *what = bt_region_alloc(region, (size_t)(count + 1) * sizeof *what);
    if (!what)
        return BT_ERROR_MEMORY;
    *to = (bt_frontier_point){from->most, from->extra, what, count};
    for (int64_t g = 0; g < remat->gap_count; g++)
        if (from->choice.dropped[g])
            *what++ = g;
    for (int64_t v = 0; v < values; v++)
        if (from->choice.brief[v])
            *what++ = -1 - v;
    return BT_OK;
}

/* Temporary memory comes from the search's region. */
static bt_status publish(bt_frontier *f, const bt_remat *remat, const bt_condensed *c, const search *s)
{
    bt_points points = {.region = s->region};
    bt_status status = follow_all(remat, c, &s->best, &points);
    bt_frontier_point *list = bt_region_alloc(f->region, (size_t)(points.count + 1) * sizeof *list);
    status = status == BT_OK && !list ? BT_ERROR_MEMORY : status;
    for (int64_t i = 0; status == BT_OK && i < points.count; i++)
        status = list_choice(remat, &points.list[i], f->region, &list[i]);
    f->points = list;
    f->count = points.count;
    bt_free(points.list);
    return status;
}

/* Simulates the choice that all goals start from. */
static bt_status begin(search *s)
{
    bool fits;
    s->states[0] = (state){.goal = (int64_t)s->remat->most + 1, .price = 1};
    s->at = &s->states[0];
    return simulate(s, 1e300, &fits);
}

/* Searches the values that come first, and then all values, starting from the result; half the simulations each. */
static bt_status search_kinds(search *s)
{
    const int64_t first = list_candidates(s, BT_REMAT_DROP_FIRST), all = list_candidates(s, BT_REMAT_DROP);
    const int64_t last = s->left / POLISH, later = first > 0 && first < all ? (s->left - last) / 2 : 0;
    if (all == 0)
        return BT_OK;
    s->left -= last + later;
    list_candidates(s, first > 0 ? BT_REMAT_DROP_FIRST : BT_REMAT_DROP);
    BT_TRY(search_goals(s, hot));
    s->left += later;
    if (later > 0) {
        list_candidates(s, BT_REMAT_DROP);
        BT_TRY(search_goals(s, warm));
    }
    s->left += last;
    return polish_all(s);
}

static bt_status search_all(bt_frontier *f, const bt_remat *remat, const bt_remat_choice *start,
                            const bt_remat_may *may, search *s, bt_condensed *c)
{
    bool *stays = who_stays(remat, start, s->region);
    if (!stays)
        return BT_ERROR_MEMORY;
    BT_TRY(bt_condense(c, remat, stays, s->region));
    s->remat = &c->remat;
    s->total = s->remat->total > 0 ? s->remat->total : 1;
    BT_TRY(bt_walk_new(&s->walk, s->remat, s->region));
    s->walk.longest = 32 * s->walk.steps + 64;
    BT_TRY(bt_remat_choice_new(s->remat, s->region, &s->now));
    BT_TRY(list_kinds(s, c, may));
    if (start)
        bt_condensed_from(c, remat, start, &s->now);
    BT_TRY(begin(s));
    BT_TRY(search_kinds(s));
    f->simulations = s->done;
    return publish(f, remat, c, s);
}

bt_status bt_frontier_new(bt_frontier *frontier, const bt_remat *remat, const bt_remat_choice *start,
                          const bt_remat_may *may, int64_t simulations)
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
    bt_region_free(frontier->region);
    *frontier = (bt_frontier){0};
}

const bt_frontier_point *bt_frontier_within(const bt_frontier *frontier, size_t bytes)
{
    for (int64_t i = 0; i < frontier->count; i++)
        if (frontier->points[i].most <= bytes)
            return &frontier->points[i];
    return NULL;
}

const bt_frontier_point *bt_frontier_for(const bt_frontier *frontier, double extra)
{
    const bt_frontier_point *found = NULL;
    for (int64_t i = 0; i < frontier->count && frontier->points[i].extra <= extra; i++)
        found = &frontier->points[i];
    return found;
}

void bt_frontier_choice(const bt_frontier_point *point, const bt_remat *remat, bt_remat_choice *choice)
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
