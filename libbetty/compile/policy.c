/* compile/policy.c: chooses the values to drop: those that a policy names, after their last reader in the forward pass;
 * or those that a search finds. */
#include "compile/recompute.h"

#include <math.h>
#include <string.h>

enum { CAPS = 24 };                               /* how many caps sqrt tries, in each of two rounds */
#define WIDE 1.2                                  /* the ratio of successive caps in the first round */
enum { BYTES_EACH = 8, BYTES = 48 * BYTES_EACH }; /* sizes sampled by area_under, per doubling and in all */

static const bt_tag *tag_of(const bt_recompute *r, int64_t step) { return &r->step[step]->node->tag; }

static bool forward(const bt_recompute *r, int64_t step) { return tag_of(r, step)->order == 0; }

static bool large(const bt_recompute *r, int64_t value)
{
    return !r->remat->fixed[value] && r->given->values[value].bytes >= r->remat->large;
}

/* A forward value that is large enough to drop and may be dropped. */
static bool droppable(const bt_recompute *r, int64_t value)
{
    return large(r, value) && forward(r, r->remat->maker[value]);
}

/* Whether the value is gathered from other ranks. */
static bool gathered(const bt_recompute *r, int64_t value) { return bt_step_joins(r->step[r->remat->maker[value]]); }

static bool of_level(const bt_recompute *r, int64_t value, int level)
{
    return droppable(r, value) && r->level[r->remat->maker[value]] == level;
}

/* Drops the value from its last reader in the forward pass until the next reader. */
static void drop(const bt_recompute *r, bt_remat_choice *choice, int64_t value)
{
    const bt_remat *m = r->remat;
    for (int64_t g = m->gaps[value]; g < m->gaps[value + 1]; g++) {
        bool before = g == m->gaps[value] || forward(r, m->readers[g - 1]);
        bool behind = m->readers[g] < 0 || !forward(r, m->readers[g]);
        choice->dropped[g] |= before && behind;
    }
}

static void copy(const bt_recompute *r, bt_remat_choice *to, const bt_remat_choice *from)
{
    memcpy(to->dropped, from->dropped, (size_t)r->remat->gap_count);
    memcpy(to->brief, from->brief, (size_t)r->given->value_count);
}

/* ---- what is named ---- */

/* Whether two steps belong to the same region or the same module. */
typedef bool same_fn(const bt_recompute *r, const void *what, int64_t a, int64_t b);

/* Whether the value is read by a step of no higher derivative order that does not belong together with its maker. */
static bool leaves(const bt_recompute *r, int64_t value, same_fn *same, const void *what)
{
    const bt_remat *m = r->remat;
    const int order = tag_of(r, m->maker[value])->order;
    for (int64_t g = m->gaps[value]; m->readers[g] >= 0; g++)
        if (tag_of(r, m->readers[g])->order <= order && !same(r, what, m->maker[value], m->readers[g]))
            return true;
    return false;
}

static bool same_region(const bt_recompute *r, const void *what, int64_t a, int64_t b)
{
    (void)what;
    return tag_of(r, a)->region == tag_of(r, b)->region && strcmp(tag_of(r, a)->owner, tag_of(r, b)->owner) == 0;
}

static bool in_region(const bt_recompute *r, int64_t value)
{
    return large(r, value) && tag_of(r, r->remat->maker[value])->region && !leaves(r, value, same_region, NULL);
}

/* Drops the value between derivatives of different regions too: each recomputes it. Returns whether there are such
 * regions. */
static bool drop_between_regions(const bt_recompute *r, bt_remat_choice *choice, int64_t value)
{
    const bt_remat *m = r->remat;
    bool several = false;
    if (forward(r, m->maker[value]))
        drop(r, choice, value);
    for (int64_t g = m->gaps[value]; m->readers[g] >= 0; g++)
        if (!choice->dropped[g] &&
            !same_region(r, NULL, g == m->gaps[value] ? m->maker[value] : m->readers[g - 1], m->readers[g]))
            several = choice->dropped[g] = true;
    return several;
}

/* If a region is recomputed several times, nothing is kept from one time to the next. */
static void drop_regions(bt_recompute *r)
{
    bool several = false;
    for (int64_t v = 0; v < r->given->value_count; v++)
        several |= in_region(r, v) && drop_between_regions(r, &r->choice, v);
    for (int64_t v = 0; several && v < r->given->value_count; v++)
        r->choice.brief[v] |= in_region(r, v);
}

/* Returns the length of the path of the outermost module that a pattern matches; 0: none does. The path begins with the
 * level's name; the patterns do not. */
static size_t outermost(const char *patterns, const bt_tag *tag)
{
    size_t root = strlen(tag->level);
    char name[1024];
    const char *path = tag->path;
    if (strncmp(path, tag->level, root) != 0 || path[root] != '.')
        return 0;
    for (const char *end = path + root + 1; *end;) {
        end += strcspn(end, ".");
        size_t length = (size_t)(end - path) - root - 1;
        if (length >= sizeof name)
            return 0;
        memcpy(name, path + root + 1, length);
        name[length] = 0;
        if (bt_pattern_match(patterns, name))
            return (size_t)(end - path);
        end += *end == '.';
    }
    return 0;
}

static bool same_module(const bt_recompute *r, const void *patterns, int64_t a, int64_t b)
{
    size_t length = outermost(patterns, tag_of(r, a));
    return outermost(patterns, tag_of(r, b)) == length && strncmp(tag_of(r, a)->path, tag_of(r, b)->path, length) == 0;
}

static bool named(const bt_recompute *r, const bt_checkpointing *how, int64_t value)
{
    int64_t maker = r->remat->maker[value];
    if (how->kind == BT_CHECKPOINTING_OPS)
        return bt_pattern_match(how->patterns, tag_of(r, maker)->call) ||
               bt_pattern_match(how->patterns, r->step[maker]->call.op->name);
    return outermost(how->patterns, tag_of(r, maker)) > 0 && !leaves(r, value, same_module, how->patterns);
}

static void drop_named(bt_recompute *r, int level)
{
    bt_level_checkpointing *of = &r->c->options->levels[level];
    for (int64_t v = 0; v < r->given->value_count; v++)
        if (of_level(r, v, level) && named(r, &of->how, v)) {
            drop(r, &r->choice, v);
            of->named++;
        }
}

/* ---- cuts: what later steps of the level's forward pass read is one large value, and perhaps some small ones ---- */

enum { SMALL = 16 }; /* small: at most 1/SMALL of the large one, such as statistics on their way to a buffer */

typedef struct cuts {
    int64_t *first;  /* by cut, and one more: where its values begin in `values` */
    int64_t *values; /* of each cut the large one first */
    size_t *saved;   /* by cut: the level's saved bytes since the previous cut; at the end, those after the last one */
    int64_t count, value_count, value_capacity;
    bool *held;   /* by value */
    int64_t last; /* the step that makes the last held cut */
} cuts;

typedef struct passing { /* values that are still to be read after a step */
    int64_t *values;
    int64_t count;
} passing;

/* The last step of the level's forward pass that reads the value. */
static int64_t goes_to(const bt_recompute *r, int64_t value, int level)
{
    const bt_remat *m = r->remat;
    int64_t last = -1;
    for (int64_t g = m->gaps[value]; m->readers[g] >= 0; g++)
        if (forward(r, m->readers[g]) && r->level[m->readers[g]] == level)
            last = m->readers[g];
    return last;
}

/* Adds the values that the step makes and removes those that no later forward step reads. Returns the bytes of the new
 * ones that a derivative reads. */
static size_t pass_step(const bt_recompute *r, int level, int64_t s, passing *p)
{
    const bt_order *given = r->given;
    const bt_remat *m = r->remat;
    size_t saved = 0;
    int64_t left = 0;
    for (int64_t k = 0; k < given->steps[s].outputs; k++) {
        int64_t v = given->steps[s].out[k], readers = m->gaps[v + 1] - m->gaps[v] - 1;
        if (!of_level(r, v, level) || !readers || gathered(r, v))
            continue;
        saved += forward(r, m->readers[m->gaps[v + 1] - 2]) ? 0 : given->values[v].bytes;
        p->values[p->count++] = v;
    }
    for (int64_t i = 0; i < p->count; i++)
        if (goes_to(r, p->values[i], level) > s)
            p->values[left++] = p->values[i];
    p->count = left;
    return saved;
}

/* Moves the largest value to the front. Returns whether all others are small beside it. */
static bool is_cut(const bt_recompute *r, passing *p)
{
    const bt_order_value *values = r->given->values;
    size_t second = 0;
    for (int64_t i = 1; i < p->count; i++) {
        int64_t value = p->values[i];
        if (values[value].bytes > values[p->values[0]].bytes) {
            p->values[i] = p->values[0];
            p->values[0] = value;
        }
        size_t other = values[p->values[i]].bytes;
        second = other > second ? other : second;
    }
    return p->count && second <= values[p->values[0]].bytes / SMALL;
}

static bt_status add_cut(const bt_recompute *r, cuts *c, const passing *p)
{
    size_t bytes = (size_t)p->count * sizeof *p->values;
    if (c->value_count + p->count > c->value_capacity) {
        int64_t capacity = 2 * (c->value_count + p->count);
        int64_t *values = bt_region_alloc(r->region, (size_t)capacity * sizeof *values);
        if (!values)
            return BT_ERROR_MEMORY;
        memcpy(values, c->values, (size_t)c->value_count * sizeof *values);
        c->values = values;
        c->value_capacity = capacity;
    }
    memcpy(c->values + c->value_count, p->values, bytes);
    c->value_count += p->count;
    c->first[++c->count] = c->value_count;
    return BT_OK;
}

static bt_status find_cuts(const bt_recompute *r, int level, cuts *c)
{
    size_t steps = (size_t)r->given->step_count, values = (size_t)r->given->value_count, saved = 0;
    passing p = {.values = bt_region_alloc(r->region, (values + 1) * sizeof *p.values)};
    c->first = bt_region_alloc(r->region, (steps + 2) * sizeof *c->first);
    c->values = bt_region_alloc(r->region, (steps + 1) * sizeof *c->values);
    c->saved = bt_region_alloc(r->region, (steps + 1) * sizeof *c->saved);
    c->held = bt_region_alloc(r->region, values + 1);
    if (!p.values || !c->first || !c->values || !c->saved || !c->held)
        return BT_ERROR_MEMORY;
    c->value_capacity = (int64_t)steps;
    for (int64_t s = 0; s < r->given->step_count; s++) {
        saved += pass_step(r, level, s, &p);
        if (!forward(r, s) || !is_cut(r, &p) || (c->count && c->values[c->first[c->count - 1]] == p.values[0]))
            continue;
        c->saved[c->count] = saved;
        saved = 0;
        BT_TRY(add_cut(r, c, &p));
    }
    c->saved[c->count] = saved;
    return BT_OK;
}

static size_t hold_cut(const bt_recompute *r, cuts *c, int64_t cut)
{
    size_t bytes = 0;
    for (int64_t i = c->first[cut]; i < c->first[cut + 1]; i++) {
        bytes += r->given->values[c->values[i]].bytes;
        c->held[c->values[i]] = true;
    }
    c->last = r->remat->maker[c->values[c->first[cut]]];
    return bytes;
}

/* Drops the level's other forward values, besides those already dropped. If `spare`, keeps the values after the last
 * held cut, since the backward pass would begin by recomputing them. */
static void drop_others(const bt_recompute *r, int level, const cuts *c, bool spare, bt_remat_choice *choice)
{
    copy(r, choice, &r->choice);
    for (int64_t v = 0; v < r->given->value_count; v++)
        if (of_level(r, v, level) && !c->held[v] && !(spare && r->remat->maker[v] > c->last))
            drop(r, choice, v);
}

static void hold_none(const bt_recompute *r, cuts *c)
{
    memset(c->held, 0, (size_t)r->given->value_count);
    c->last = -1;
}

static void hold_every(const bt_recompute *r, cuts *c, int64_t n)
{
    hold_none(r, c);
    for (int64_t i = n - 1; i < c->count; i += n)
        hold_cut(r, c, i);
}

/* Holds a cut if the held bytes, plus the bytes saved since the last held cut up to the next one, would exceed the cap:
 * in the backward pass they are alive together. */
static void hold_by_cap(const bt_recompute *r, cuts *c, double cap)
{
    size_t held = 0, since = 0;
    hold_none(r, c);
    for (int64_t i = 0; i < c->count; i++) {
        since += c->saved[i];
        if ((double)(held + since + c->saved[i + 1]) > cap) {
            held += hold_cut(r, c, i);
            since = 0;
        }
    }
}

typedef struct least {
    bt_remat_choice trial, choice;
    bt_remat_plan plan;
    double cap;
} least;

/* Tries the cuts that are held now, with and without `spare`. */
static bt_status try_cuts(bt_recompute *r, int level, cuts *c, double cap, least *l)
{
    for (int spare = 0; spare <= 1; spare++) {
        bt_remat_plan plan;
        drop_others(r, level, c, spare, &l->trial);
        BT_TRY(bt_remat_follow(r->remat, &l->trial, NULL, &plan));
        if (plan.most > l->plan.most || (plan.most == l->plan.most && plan.extra >= l->plan.extra))
            continue;
        l->plan = plan;
        l->cap = cap;
        copy(r, &l->choice, &l->trial);
    }
    return BT_OK;
}

static bt_status try_cap(bt_recompute *r, int level, cuts *c, double cap, least *l)
{
    hold_by_cap(r, c, cap);
    return try_cuts(r, level, c, cap, l);
}

/* Tries caps in large steps, then in small steps around the best one. */
static bt_status drop_sqrt(bt_recompute *r, int level, cuts *c, least *l)
{
    double total = 0, cap = 1;
    for (int64_t i = 0; i <= c->count; i++) {
        total += (double)c->saved[i];
        cap = (double)c->saved[i] > cap ? (double)c->saved[i] : cap;
    }
    for (int i = 0; i < CAPS && cap < total; i++, cap *= WIDE)
        BT_TRY(try_cap(r, level, c, cap, l));
    double from = l->cap / WIDE, step = (l->cap * WIDE - from) / CAPS;
    for (int i = 0; i < CAPS && l->cap > 0; i++)
        BT_TRY(try_cap(r, level, c, from + i * step, l));
    return BT_OK;
}

static bt_status drop_between_cuts(bt_recompute *r, int level)
{
    cuts c = {0};
    least l = {0};
    bt_level_checkpointing *of = &r->c->options->levels[level];
    BT_TRY(find_cuts(r, level, &c));
    of->named += c.count;
    BT_TRY(bt_remat_choice_new(r->remat, r->region, &l.trial));
    BT_TRY(bt_remat_choice_new(r->remat, r->region, &l.choice));
    copy(r, &l.choice, &r->choice);
    BT_TRY(bt_remat_follow(r->remat, &r->choice, NULL, &l.plan));
    if (of->how.kind == BT_CHECKPOINTING_SQRT) {
        BT_TRY(drop_sqrt(r, level, &c, &l));
    } else {
        hold_every(r, &c, of->how.number);
        BT_TRY(try_cuts(r, level, &c, 0, &l));
    }
    copy(r, &r->choice, &l.choice);
    return BT_OK;
}

/* ---- searches ---- */

typedef struct goal {
    size_t bytes; /* at most; SIZE_MAX: as few as possible */
    double extra; /* at most */
} goal;

/* The extra work summed over a range of budgets; a budget that cannot be met counts as 2. */
static double area_under(const bt_recompute *r, const bt_frontier *found)
{
    double sum = 0;
    for (int i = 0; i < BYTES; i++) {
        const bt_frontier_point *point = bt_frontier_within(found, (size_t)exp2(i / (double)BYTES_EACH));
        const double extra = point && r->remat->total > 0 ? point->extra / r->remat->total : 0;
        sum += point && extra < 2 ? extra : 2;
    }
    return sum;
}

static bt_status search(bt_recompute *r, const bt_remat_may *may, goal goal)
{
    bt_frontier found;
    r->searched = true;
    BT_TRY(bt_known_search(r->known, r->remat, &r->choice, may, r->simulations, &found));
    if (!found.count)
        return BT_OK;
    const bool bytes = goal.bytes < SIZE_MAX;
    const bt_frontier_point *point =
        bytes ? bt_frontier_within(&found, goal.bytes) : bt_frontier_for(&found, goal.extra);
    if (!point) /* none fits: the nearest */
        point = &found.points[bytes ? found.count - 1 : 0];
    r->merit = bytes ? area_under(r, &found) : (double)point->most;
    bt_frontier_choice(point, r->remat, &r->choice);
    return BT_OK;
}

static bt_status search_level(bt_recompute *r, int level)
{
    bt_remat_plan plan;
    bt_level_checkpointing *of = &r->c->options->levels[level];
    bool cheap = of->how.kind == BT_CHECKPOINTING_CHEAP, any = false;
    bt_remat_may *may = bt_region_alloc(r->region, (size_t)(r->given->value_count + 1) * sizeof *may);
    if (!may)
        return BT_ERROR_MEMORY;
    for (int64_t v = 0; v < r->given->value_count; v++) {
        if (!of_level(r, v, level) || (cheap && (bt_op_flags(r->step[r->remat->maker[v]]->call.op) & BT_OP_PRODUCT)))
            continue;
        may[v] = BT_REMAT_DROP_FIRST;
        of->named++;
        any = true;
    }
    BT_TRY(bt_remat_follow(r->remat, &r->choice, NULL, &plan));
    goal goal = {SIZE_MAX, plan.extra + of->how.cost * r->remat->total};
    if (of->how.kind == BT_CHECKPOINTING_BUDGET)
        goal.bytes = r->c->options->budget;
    return any ? search(r, may, goal) : BT_OK;
}

/* Searches the values for which no level has a policy. Forward values come first, as they are cheap to recompute; the
 * others are recomputed from them. */
static bt_status search_budget(bt_recompute *r)
{
    const bt_compile_options *options = r->c->options;
    bt_remat_may *may = bt_region_alloc(r->region, (size_t)(r->given->value_count + 1) * sizeof *may);
    bool any = false;
    if (!may)
        return BT_ERROR_MEMORY;
    for (int64_t v = 0; v < r->given->value_count; v++) {
        int64_t maker = r->remat->maker[v];
        int level = maker < 0 ? -1 : r->level[maker];
        if (!large(r, v) ||
            (level >= 0 && forward(r, maker) && options->levels[level].how.kind != BT_CHECKPOINTING_UNSET))
            continue;
        may[v] = forward(r, maker) ? BT_REMAT_DROP_FIRST : BT_REMAT_DROP;
        any = true;
    }
    return any ? search(r, may, (goal){options->budget, 0}) : BT_OK;
}

/* Drops nothing: extra work that does not lower the peak is pointless. */
static bt_status drop_nothing(bt_recompute *r)
{
    memset(r->choice.dropped, 0, (size_t)r->remat->gap_count);
    return bt_remat_follow(r->remat, &r->choice, r->region, &r->plan);
}

/* Values gathered from other ranks are not kept after the forward pass for steps that run again. */
static void drop_gathered(bt_recompute *r)
{
    for (int64_t v = 0; v < r->given->value_count; v++)
        if (droppable(r, v) && gathered(r, v))
            drop(r, &r->choice, v);
}

bt_status bt_policy_drop(bt_recompute *r)
{
    const bt_compile_options *options = r->c->options;
    drop_regions(r);
    for (int l = 0; l < options->level_count; l++)
        switch (options->levels[l].how.kind) {
        case BT_CHECKPOINTING_EVERY:
        case BT_CHECKPOINTING_SQRT:
            BT_TRY(drop_between_cuts(r, l));
            break;
        case BT_CHECKPOINTING_MODULES:
        case BT_CHECKPOINTING_OPS:
            drop_named(r, l);
            break;
        case BT_CHECKPOINTING_BUDGET:
            if (!options->budget)
                break;
            /* fall through */
        case BT_CHECKPOINTING_CHEAP:
        case BT_CHECKPOINTING_COST:
            BT_TRY(search_level(r, l));
            break;
        default:
            break;
        }
    if (options->budget && options->anything)
        BT_TRY(search_budget(r));
    drop_gathered(r);
    BT_TRY(bt_remat_follow(r->remat, &r->choice, r->region, &r->plan));
    return r->plan.most < r->remat->most ? BT_OK : drop_nothing(r);
}
