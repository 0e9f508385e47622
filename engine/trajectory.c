/* engine/trajectory.c: the records of an inner loop's steps. */
#include "engine/trajectory.h"

#include "engine/hypergradient/methods.h"
#include "graph/variable.h"
#include "transform/rebind.h"
#include <string.h>

enum { STEPS, LOST, ENTRIES, TICK = 0, POSITION, ENTRY }; /* the index: two numbers, then two for each step in room */

static int64_t *index_of(const bt_trajectory *t) { return (int64_t *)(void *)t->index->data; }

static int64_t *entry(const bt_trajectory *t, int64_t step) { return index_of(t) + ENTRIES + ENTRY * (step % t->room); }

/* ---- which variables ---- */

static bool above(const bt_problem *upper, const bt_problem *lower) /* it steps only when lower's loop has ended */
{
    for (int c = 0; c < upper->child_count; c++)
        if (upper->children[c] == lower || above(upper->children[c], lower))
            return true;
    return false;
}

/* So many leaf steps make one step; 0: they are not always as many. */
static int64_t period(const bt_problem *problem)
{
    int64_t all = problem->child_count ? 0 : 1;
    for (int c = 0; c < problem->child_count; c++) {
        int64_t one = period(problem->children[c]) * problem->children[c]->settings->unroll_steps;
        if (!one || (all && one != all))
            return 0;
        all = one;
    }
    return all * problem->settings->meta_batch;
}

/* Whether the other problem may have stepped between the beginning of an inner loop and its end. */
static bool moves_within(const bt_problem *other, const bt_problem *problem)
{
    int64_t loop = period(problem) * problem->settings->unroll_steps, theirs = period(other);
    return !(above(other, problem) && loop && theirs && theirs % loop == 0);
}

static bool owns(const bt_problem *problem, const bt_var *root)
{
    if (!problem->module)
        return false;
    return root == problem->module->param_block.flat || root == problem->module->buffer_block.flat;
}

static bool own_state(const bt_problem *problem, const bt_var *root)
{
    bool own = owns(problem, root) || root == problem->optimizer->applied;
    for (int k = 0; k < BT_MAX_ITEMS; k++)
        own |= root == problem->slots[k].flat;
    return own;
}

static bool is_scalar(const bt_problem *problem, const bt_var *root)
{
    bool scalar = root == problem->step_count;
    for (int i = 0; i < problem->scalar_count; i++)
        scalar |= root == problem->scalars[i].var;
    return scalar;
}

/* Whether the variable may be another by the end of the loop. What is read besides is fixed, or set for each program:
 * hyperparameters, and the records of batches. */
static bool must_keep(const bt_problem *problem, const bt_var *root)
{
    if (root == problem->step.gradients.flat || own_state(problem, root))
        return true;
    for (int q = 0; q < problem->engine->problem_count; q++) {
        const bt_problem *other = problem->engine->problems[q];
        if (is_scalar(other, root) || (owns(other, root) && moves_within(other, problem)))
            return true;
    }
    return false;
}

/* ---- storage ---- */

static int64_t rows_of(const bt_trajectory *t, bool own) { return own ? t->rows + t->spacing - 1 : t->room; }

static bt_status track_fill(bt_trajectory *t, bt_track *track)
{
    const bt_var *source = track->source;
    bt_array shape = bt_var_array(source), rows = {.dtype = source->dtype, .rank = 2};
    rows.dims[0] = rows_of(t, track->own);
    rows.dims[1] = bt_array_count(shape);
    bt_text name = {0};
    bt_text_add(&name, "%s over the inner loop", source->name);
    if (!name.failed) {
        track->store = bt_var_new(BT_RUN, BT_TRAJECTORY, t->problem->name, name.data, rows);
        track->at = bt_var_new(BT_EXTERNAL, BT_TRAJECTORY, t->problem->name, source->name, shape);
        track->next = bt_var_new(BT_EXTERNAL, BT_TRAJECTORY, t->problem->name, source->name, shape);
    }
    bt_text_free(&name);
    return track->store && track->at && track->next ? BT_OK : BT_ERROR_MEMORY;
}

static void track_free(bt_track *track)
{
    bt_var_free(track->store);
    bt_var_free(track->at);
    bt_var_free(track->next);
}

/* NULL: out of memory. */
static bt_track *track_of(bt_trajectory *t, bt_var *root)
{
    for (int64_t i = 0; i < t->track_count; i++)
        if (t->tracks[i].source == root)
            return &t->tracks[i];
    bt_track *tracks = bt_grow(t->tracks, &t->track_capacity, t->track_count + 1, sizeof *tracks);
    if (!tracks)
        return NULL;
    t->tracks = tracks;
    bt_track *track = &tracks[t->track_count];
    *track = (bt_track){
        .source = root, .own = own_state(t->problem, root), .late = root == t->problem->step.gradients.flat};
    if (track_fill(t, track) != BT_OK) {
        track_free(track);
        return NULL;
    }
    t->track_count++;
    return track;
}

/* Steps from one kept state to the next: `wanted`, or the root of the steps that are reached, where both are fewest. */
static int64_t spacing_of(int64_t reach, int64_t wanted)
{
    if (wanted > 0)
        return wanted < reach ? wanted : reach;
    int64_t root = 1;
    while (root * root < reach)
        root++;
    return root;
}

bt_status bt_trajectory_open(bt_problem *problem)
{
    if (problem->trajectory)
        return BT_OK;
    const bt_problem_settings *s = problem->settings;
    int64_t loop = s->unroll_steps, reach = bt_itd_setting(problem, "steps");
    bt_trajectory *t = bt_alloc(sizeof *t);
    if (!t)
        return BT_ERROR_MEMORY;
    *t = (bt_trajectory){.problem = problem, .reach = reach && reach < loop ? reach : loop};
    t->spacing = spacing_of(t->reach, bt_itd_setting(problem, "spacing"));
    t->room = t->reach < loop ? t->reach + t->spacing - 1 : loop;
    t->room = t->room < loop ? t->room : loop;
    t->rows = (t->room + t->spacing - 1) / t->spacing + (t->room < loop && t->spacing > 1);
    t->index = bt_var_new(BT_RUN, BT_TRAJECTORY, problem->name, "steps of the inner loop",
                          (bt_array){.dtype = BT_I64, .rank = 1, .dims = {ENTRIES + ENTRY * t->room}});
    problem->trajectory = t;
    return t->index ? BT_OK : BT_ERROR_MEMORY;
}

void bt_trajectory_free(bt_trajectory *t)
{
    if (!t)
        return;
    for (int64_t i = 0; i < t->track_count; i++)
        track_free(&t->tracks[i]);
    bt_free(t->tracks);
    bt_var_free(t->index);
    bt_free(t);
}

void bt_trajectory_visit(const bt_trajectory *t, void (*visit)(void *user, const bt_var *var), void *user)
{
    if (!t)
        return;
    if (t->index)
        visit(user, t->index);
    for (int64_t i = 0; i < t->track_count; i++)
        visit(user, t->tracks[i].store);
}

/* ---- recording ---- */

/* Where the track's value before the step lies; a step between two that are kept has a row behind theirs. */
static char *row(const bt_trajectory *t, const bt_track *track, int64_t step)
{
    int64_t at = step % t->room, between = step % t->spacing;
    if (track->own)
        at = between ? t->rows + between - 1 : step / t->spacing % t->rows;
    return track->store->data + (size_t)at * track->source->bytes;
}

static void keep(const bt_trajectory *t, int64_t step, bool late)
{
    for (int64_t i = 0; i < t->track_count; i++) {
        const bt_track *track = &t->tracks[i];
        if (track->late == late && (!track->own || step % t->spacing == 0))
            memcpy(row(t, track, step), track->source->data, track->source->bytes);
    }
}

void bt_trajectory_begin(bt_trajectory *t, bool lost)
{
    if (!t)
        return;
    index_of(t)[STEPS] = 0;
    index_of(t)[LOST] = lost;
}

static int64_t now(const bt_engine *engine)
{
    int64_t sum = 0;
    for (int i = 0; i < engine->problem_count; i++)
        sum += engine->problems[i]->steps;
    return sum;
}

void bt_trajectory_record(bt_trajectory *t)
{
    if (!t)
        return;
    const bt_problem *problem = t->problem;
    int64_t step = index_of(t)[STEPS]++, draws = problem->settings->gradient_accumulation;
    entry(t, step)[TICK] = now(problem->engine);
    entry(t, step)[POSITION] = bt_stream_position(problem->train) + (problem->train->ahead ? 0 : draws);
    keep(t, step, false);
}

void bt_trajectory_record_gradient(bt_trajectory *t)
{
    if (t)
        keep(t, index_of(t)[STEPS] - 1, true);
}

/* ---- looking back ---- */

int64_t bt_trajectory_steps(const bt_trajectory *t) { return index_of(t)[STEPS]; }

int64_t bt_trajectory_first(const bt_trajectory *t)
{
    int64_t steps = bt_trajectory_steps(t);
    return steps > t->reach ? steps - t->reach : 0;
}

bool bt_trajectory_whole(const bt_trajectory *t) { return !index_of(t)[LOST] && bt_trajectory_first(t) == 0; }

int64_t bt_trajectory_tick(const bt_trajectory *t, int64_t step) { return entry(t, step)[TICK]; }

int64_t bt_trajectory_position(const bt_trajectory *t, int64_t step) { return entry(t, step)[POSITION]; }

int64_t bt_trajectory_kept(const bt_trajectory *t, int64_t step) { return step - step % t->spacing; }

void bt_trajectory_look(const bt_trajectory *t, int64_t step)
{
    for (int64_t i = 0; i < t->track_count; i++) {
        const bt_track *track = &t->tracks[i];
        track->at->data = row(t, track, step);
        if (track->own && (step + 1) % t->spacing)
            track->next->data = row(t, track, step + 1);
    }
}

void bt_trajectory_copy(const bt_trajectory *t, int64_t step)
{
    for (int64_t i = 0; i < t->track_count; i++)
        if (t->tracks[i].own && (step + 1) % t->spacing)
            memcpy(row(t, &t->tracks[i], step + 1), row(t, &t->tracks[i], step), t->tracks[i].source->bytes);
}

/* ---- programs on it ---- */

typedef struct binding {
    bt_trajectory *trajectory;
    bt_phase *phase;
} binding;

static bt_var *stand_in(void *user, bt_var *var, bool assigned)
{
    const binding *b = user;
    bt_var *root = bt_var_root(var);
    bool state = assigned ? own_state(b->trajectory->problem, root) : must_keep(b->trajectory->problem, root);
    if (!state)
        return var;
    const bt_track *track = track_of(b->trajectory, root);
    if (!track)
        return NULL;
    bt_var *whole = assigned ? track->next : track->at;
    if (var == root)
        return whole;
    return bt_phase_own(b->phase, bt_var_window(whole, bt_var_start(var), var->name, bt_var_array(var)));
}

bt_graph *bt_trajectory_rebind(bt_trajectory *t, bt_phase *phase, const bt_graph *graph)
{
    binding b = {t, phase};
    return bt_rebind(graph, stand_in, &b);
}
