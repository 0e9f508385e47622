/* engine/solve/trajectory.c: the records of an inner loop's steps. */
#include "engine/solve/trajectory.h"
#include "engine/level/offload.h"

#include "plan/revolve.h"
#include "runtime/store.h"
#include "transform/rebind.h"
#include <string.h>

enum { FROM, ENTRIES, TICK = 0, POSITION, TASK, ENTRY }; /* the index: one number, then three for each step */
enum { BEFORE, AFTER, APPLIED };                         /* values of a step: its update count before and after */

static const bt_instance *instance_of(const bt_trajectory *t) { return t->problem->context->instance; }

static size_t place_of(const bt_trajectory *t, int64_t step, int what)
{
    return (size_t)(ENTRIES + ENTRY * (step % t->room) + what) * sizeof(int64_t);
}

static int64_t first_of(const bt_trajectory *t)
{
    int64_t first = 0;
    bt_store_read(instance_of(t), t->index, FROM * sizeof first, &first, sizeof first);
    return first;
}

static int64_t get(const bt_trajectory *t, int64_t step, int what)
{
    int64_t value = 0;
    bt_store_read(instance_of(t), t->index, place_of(t, step, what), &value, sizeof value);
    return value;
}

static void set(const bt_trajectory *t, int64_t step, int what, int64_t value)
{
    bt_store_write(instance_of(t), t->index, place_of(t, step, what), &value, sizeof value);
}

/* ---- the rows for states in between, with `states`: those of each loop, and at the end two working slots ---- */

enum { AT_WORK = 2, NOBODY = -1 };

static int64_t slot_count(const bt_trajectory *t) { return t->states ? t->loops * (t->states - 1) + AT_WORK : 0; }

static size_t place_of_slot(const bt_trajectory *t, int64_t slot)
{
    return (size_t)(ENTRIES + ENTRY * t->room + slot) * sizeof(int64_t);
}

static int64_t in_slot(const bt_trajectory *t, int64_t slot)
{
    int64_t step = NOBODY;
    bt_store_read(instance_of(t), t->index, place_of_slot(t, slot), &step, sizeof step);
    return step;
}

static void fill_slot(const bt_trajectory *t, int64_t slot, int64_t step)
{
    bt_store_write(instance_of(t), t->index, place_of_slot(t, slot), &step, sizeof step);
}

/* ---- how many steps lie between two steps of a problem above ---- */

enum { TOO_MANY = 1 << 30 }; /* a number of steps that cannot be recorded */

static int64_t times(int64_t a, int64_t b) { return b && a > TOO_MANY / b ? TOO_MANY : a * b; }

int64_t bt_between_calls(const bt_problem *problem, bool *exact)
{
    int64_t most = problem->child_count ? 0 : 1;
    *exact = true;
    for (int c = 0; c < problem->child_count; c++) {
        const bt_problem_settings *s = problem->children[c]->settings;
        bool sure;
        int64_t calls = bt_between_calls(problem->children[c], &sure),
                loop = times(times(calls, s->meta_batch), s->unroll_steps);
        *exact = *exact && sure && (c == 0 || loop == most);
        most = loop > most ? loop : most;
    }
    return most;
}

static bool is_lower(const bt_problem *upper, const bt_problem *problem, bt_problem **room)
{
    int count = upper->settings->active && upper->child_count ? bt_lowers(upper, room) : 0;
    for (int i = 0; i < count; i++)
        if (room[i] == problem)
            return true;
    return false;
}

/* The most steps of the problem per call of a problem above it; 0: out of memory. aligned: always whole inner loops. */
static int64_t longest(const bt_problem *problem, bool *aligned)
{
    const bt_context *context = problem->context;
    bt_problem **room = bt_alloc_array((size_t)context->problem_count + 1, sizeof(bt_problem *));
    bool exact;
    int64_t each = times(bt_between_calls(problem, &exact), problem->settings->meta_batch), most = 1;
    each = exact ? each : 1;
    *aligned = true;
    for (int i = 0; room && i < context->problem_count; i++)
        if (is_lower(context->problems[i], problem, room)) {
            int64_t steps = (bt_between_calls(context->problems[i], &exact) + each - 1) / each;
            *aligned = *aligned && exact && steps % problem->settings->unroll_steps == 0;
            most = steps > most ? steps : most;
        }
    bt_free(room);
    return room ? most : 0;
}

/* ---- which variables ---- */

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
    bool scalar = bt_shows_steps(problem, root);
    for (int i = 0; i < problem->scalar_count; i++)
        scalar |= root == problem->scalars[i].var;
    return scalar;
}

/* A plateau may change it in the middle of an inner loop. */
static bool is_lr_scale(const bt_problem *problem, const bt_var *root)
{
    for (int g = 0; g < problem->optimizer->group_count; g++)
        if (root == problem->optimizer->groups[g].scale)
            return true;
    return false;
}

/* Whether the variable may have changed when the upper problem goes back. The upper problem itself has not moved.
 * Everything else that is read is constant, or set for each program: hyperparameters, and the records of batches. */
static bool must_keep(const bt_problem *problem, const bt_problem *upper, const bt_var *root)
{
    if (root == problem->gradients.flat || own_state(problem, root) || is_lr_scale(problem, root))
        return true;
    for (int q = 0; q < problem->context->problem_count; q++) {
        const bt_problem *other = problem->context->problems[q];
        if (is_scalar(other, root) || (owns(other, root) && other != upper))
            return true;
    }
    return false;
}

/* ---- storage ---- */

static int64_t rows_of(const bt_trajectory *t, bool own)
{
    int64_t between = t->states ? slot_count(t) : t->spacing - 1;
    return own && t->spacing > 1 ? t->loops * t->each + between : t->room;
}

static bt_status track_fill(bt_trajectory *t, bt_track *track)
{
    const bt_var *source = track->source;
    bt_array shape = bt_var_array(source), rows = {.dtype = source->dtype, .rank = 2};
    rows.dims[0] = rows_of(t, track->own);
    rows.dims[1] = bt_array_count(shape);
    bool others = strcmp(source->owner, t->problem->name) != 0; /* levels use many of the same names */
    char *name =
        bt_string("%s%s%s over the inner loop", source->name, others ? " of " : "", others ? source->owner : "");
    if (name) {
        track->store = bt_ledger_var(t->problem->context, t->problem, BT_ROLE_TRAJECTORY, BT_TRAJECTORY, name, rows);
        track->at = bt_var_new(BT_EXTERNAL, BT_TRAJECTORY, t->problem->name, source->name, shape);
        track->next = bt_var_new(BT_EXTERNAL, BT_TRAJECTORY, t->problem->name, source->name, shape);
    }
    bt_free(name);
    if (!track->store || !track->at || !track->next)
        return BT_ERROR_MEMORY;
    if (bt_offloads(t->problem, BT_OFFLOAD_TRAJECTORY)) {
        bt_var_offload(track->store);
        track->at->space = track->next->space = BT_SPACE_HOST;
    }
    return BT_OK;
}

static void track_free(bt_context *context, bt_track *track)
{
    bt_ledger_var_free(context, track->store);
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
    *track = (bt_track){.source = root, .own = own_state(t->problem, root), .late = root == t->problem->gradients.flat};
    if (track_fill(t, track) != BT_OK) {
        track_free(t->problem->context, track);
        return NULL;
    }
    t->track_count++;
    return track;
}

/* Steps from one kept state to the next: `wanted`, or the root of the loop's steps, which needs the fewest rows. */
static int64_t spacing_of(const bt_problem *problem, int64_t wanted)
{
    const int64_t loop = problem->settings->unroll_steps;
    int64_t root = 1;
    wanted = wanted == BT_SPACING_AUTO ? problem->spacing : wanted;
    if (wanted != BT_SPACING_ROOT)
        return wanted < loop ? wanted : loop;
    while (root * root < loop)
        root++;
    return root;
}

/* Sets how many steps and how many states are recorded. */
static void lay_out(bt_trajectory *t, int64_t spacing)
{
    const int64_t loop = t->problem->settings->unroll_steps, reach = t->reach + spacing - 1;
    t->spacing = spacing;
    t->room = t->reach && reach < t->all ? reach : t->all;
    if (!t->aligned && t->room == t->all)
        t->room += spacing - 1; /* to recompute a step in the middle of a loop */
    t->loops = (t->room + loop - 1) / loop + !t->aligned;
    t->each = (loop + spacing - 1) / spacing;
}

/* Bytes of the records, without the index and the counters: those take 40 bytes per step, which is negligible. */
static size_t bytes_of(const bt_trajectory *t)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < t->track_count; i++)
        bytes += (size_t)rows_of(t, t->tracks[i].own) * t->tracks[i].source->bytes;
    return bytes;
}

int64_t bt_trajectory_wider(const bt_trajectory *t, size_t less, size_t *saved)
{
    const size_t now = bytes_of(t);
    bt_trajectory other = *t;
    int64_t best = t->spacing, rows = rows_of(t, true);
    *saved = 0;
    for (int64_t n = t->spacing + 1; n <= t->problem->settings->unroll_steps && n <= rows && *saved < less; n++) {
        lay_out(&other, n);
        const size_t bytes = bytes_of(&other);
        if (bytes >= now || now - bytes <= *saved)
            continue;
        best = n;
        rows = rows_of(&other, true);
        *saved = now - bytes;
    }
    return best;
}

/* Update counts before and after each step: programs count them, so they are stored where programs run. */
static bt_status open_applied(bt_trajectory *t)
{
    bt_array number = {.dtype = BT_I64}, rows = {.dtype = BT_I64, .rank = 2, .dims = {t->room, APPLIED}};
    t->applied = bt_ledger_var(t->problem->context, t->problem, BT_ROLE_TRAJECTORY, BT_TRAJECTORY,
                               "updates made over the inner loop", rows);
    t->before = bt_var_new(BT_EXTERNAL, BT_TRAJECTORY, t->problem->name, "updates before", number);
    t->after = bt_var_new(BT_EXTERNAL, BT_TRAJECTORY, t->problem->name, "updates after", number);
    return t->applied && t->before && t->after ? BT_OK : BT_ERROR_MEMORY;
}

bt_status bt_trajectory_open(bt_problem *problem, int64_t reach, int64_t spacing, int64_t states)
{
    if (problem->trajectory)
        return BT_OK;
    bool aligned;
    const int64_t loop = problem->settings->unroll_steps, all = longest(problem, &aligned);
    bt_trajectory *t = all ? bt_alloc(sizeof *t) : NULL;
    if (!t)
        return BT_ERROR_MEMORY;
    *t = (bt_trajectory){.problem = problem,
                         .reach = reach,
                         .all = all,
                         .aligned = aligned,
                         .automatic = spacing == BT_SPACING_AUTO,
                         .states = states < loop ? states : 0}; /* 0: all states are kept */
    lay_out(t, states ? (t->states ? loop : 1) : spacing_of(problem, spacing));
    problem->trajectory = t;
    if (t->room >= TOO_MANY)
        return bt_fail(BT_ERROR_CONFIG,
                       "[%s] type = %s would record every step since the last one of the problem above, more than %d: "
                       "set %s_steps, the number of last steps to differentiate through",
                       problem->name, problem->settings->method->name, TOO_MANY, problem->settings->method->name);
    t->index = bt_ledger_var(
        problem->context, problem, BT_ROLE_TRAJECTORY, BT_BUFFERS, "steps of the inner loop", /* on the host */
        (bt_array){.dtype = BT_I64, .rank = 1, .dims = {ENTRIES + ENTRY * t->room + slot_count(t)}});
    BT_TRY(open_applied(t));
    if (!t->index)
        return BT_ERROR_MEMORY;
    for (int64_t slot = 0; slot < slot_count(t); slot++)
        fill_slot(t, slot, NOBODY);
    return bt_store_write(instance_of(t), t->index, FROM * sizeof problem->steps, &problem->steps,
                          sizeof problem->steps);
}

void bt_trajectory_free(bt_trajectory *t)
{
    if (!t)
        return;
    for (int64_t i = 0; i < t->track_count; i++)
        track_free(t->problem->context, &t->tracks[i]);
    bt_free(t->tracks);
    bt_ledger_var_free(t->problem->context, t->index);
    bt_ledger_var_free(t->problem->context, t->applied);
    bt_var_free(t->before);
    bt_var_free(t->after);
    bt_free(t);
}

/* ---- recording ---- */

static int64_t of_loop(const bt_trajectory *t, int64_t step) { return step % t->problem->settings->unroll_steps; }

/* The first recorded step, even in the middle of a loop, is kept in the row of the kept step before it, which does not
 * exist. */
static bool is_kept(const bt_trajectory *t, int64_t step)
{
    return of_loop(t, step) % t->spacing == 0 || step == first_of(t);
}

static int64_t loop_of(const bt_trajectory *t, int64_t step)
{
    return step / t->problem->settings->unroll_steps % t->loops;
}

/* With `states`: the first slot of the step's loop. */
static int64_t first_slot(const bt_trajectory *t, int64_t step) { return loop_of(t, step) * (t->states - 1); }

static bool is_at_work(const bt_trajectory *t, int64_t slot) { return slot >= slot_count(t) - AT_WORK; }

/* The slot that holds the step's state; NOBODY: none. */
static int64_t slot_of(const bt_trajectory *t, int64_t step)
{
    int64_t first = first_slot(t, step);
    for (int64_t slot = first; t->states && slot < first + t->states - 1; slot++)
        if (in_slot(t, slot) == step)
            return slot;
    for (int64_t slot = slot_count(t) - 1; slot >= 0 && is_at_work(t, slot); slot--)
        if (in_slot(t, slot) == step)
            return slot;
    return NOBODY;
}

static bool is_there(const bt_trajectory *t, int64_t step) { return is_kept(t, step) || slot_of(t, step) != NOBODY; }

/* The row of own state: that of a kept step or, after these rows, of a step in between. */
static int64_t own_row(const bt_trajectory *t, int64_t step)
{
    int64_t place = of_loop(t, step);
    if (is_kept(t, step))
        return loop_of(t, step) * t->each + place / t->spacing;
    return t->loops * t->each + (t->states ? slot_of(t, step) : place % t->spacing - 1);
}

/* The byte offset in its storage of the track's value before the step. */
static size_t row(const bt_trajectory *t, const bt_track *track, int64_t step)
{
    int64_t at = track->own && t->spacing > 1 ? own_row(t, step) : step % t->room;
    return (size_t)at * track->source->bytes;
}

/* On the first pass through a loop: the slot that takes the state before the step; NOBODY: none. */
static int64_t slot_due(const bt_trajectory *t, int64_t step)
{
    int64_t steps = t->problem->settings->unroll_steps, place = of_loop(t, step), at = 0;
    for (int64_t k = 1; k < t->states && at < place; k++) {
        at += bt_revolve_split(steps - at, t->states - k + 1);
        if (at == place)
            return first_slot(t, step) + k - 1;
    }
    return t->states && place == steps - 1 ? slot_count(t) - AT_WORK : NOBODY;
}

/* When a loop begins, its slots hold states of another loop, or of this one before it was repeated: they are
 * cleared. */
static void open_slots(bt_trajectory *t, int64_t step)
{
    int64_t first = first_slot(t, step), due = is_kept(t, step) ? NOBODY : slot_due(t, step);
    for (int64_t slot = 0; is_kept(t, step) && slot < slot_count(t); slot++)
        if (is_at_work(t, slot) || (slot >= first && slot < first + t->states - 1))
            fill_slot(t, slot, NOBODY);
    if (due != NOBODY)
        fill_slot(t, due, step);
}

/* phase: keeps the late tracks, which `entry` of this phase reads; NULL: the others. */
static bt_status keep(const bt_trajectory *t, int64_t step, bt_phase *phase, int entry)
{
    bool late = phase != NULL;
    for (int64_t i = 0; i < t->track_count; i++) {
        const bt_track *track = &t->tracks[i];
        if (track->late != late || (track->own && !is_there(t, step)))
            continue;
        if (late)
            BT_TRY(bt_phase_keep(phase, entry, track->source, track->store, row(t, track, step)));
        else
            BT_TRY(bt_store_move(instance_of(t), track->store, row(t, track, step), track->source, 0,
                                 track->source->bytes));
    }
    return BT_OK;
}

static size_t place_of_applied(const bt_trajectory *t, int64_t step, int when)
{
    return (size_t)(step % t->room * APPLIED + when) * sizeof(int64_t);
}

static bt_status keep_applied(const bt_trajectory *t, int when)
{
    const bt_var *applied = t->problem->optimizer->applied;
    return bt_store_move(instance_of(t), t->applied, place_of_applied(t, t->problem->steps, when), applied, 0,
                         applied->bytes);
}

bt_status bt_trajectory_record(bt_trajectory *t)
{
    const bt_problem *problem = t->problem;
    int64_t step = problem->steps, draws = problem->settings->gradient_accumulation;
    set(t, step, TICK, bt_tick(problem->context));
    set(t, step, POSITION, bt_stream_position(problem->train) + (problem->train->ahead ? 0 : draws));
    set(t, step, TASK, problem->train->of ? bt_stream_position(problem->train->of) : 0);
    if (t->states)
        open_slots(t, step);
    BT_TRY(keep_applied(t, BEFORE));
    return keep(t, step, NULL, 0);
}

bt_status bt_trajectory_record_gradient(bt_trajectory *t, bt_phase *phase, int entry)
{
    return keep(t, t->problem->steps, phase, entry);
}

bt_status bt_trajectory_record_update(bt_trajectory *t) { return keep_applied(t, AFTER); }

/* ---- looking back ---- */

int64_t bt_trajectory_first(const bt_trajectory *t, int64_t since)
{
    int64_t last = t->problem->steps, first = first_of(t);
    first = last - t->room > first ? last - t->room : first;
    while (first < last && !is_kept(t, first)) /* a step between two kept ones needs the kept state before it */
        first++;
    if (t->reach && last - t->reach > first)
        first = last - t->reach;
    while (first < last && bt_trajectory_tick(t, first) < since)
        first++;
    return first;
}

int64_t bt_trajectory_tick(const bt_trajectory *t, int64_t step) { return get(t, step, TICK); }

int64_t bt_trajectory_position(const bt_trajectory *t, int64_t step) { return get(t, step, POSITION); }

int64_t bt_trajectory_task(const bt_trajectory *t, int64_t step) { return get(t, step, TASK); }

bool bt_trajectory_begins(const bt_trajectory *t, int64_t step) { return of_loop(t, step) == 0; }

int64_t bt_trajectory_kept(const bt_trajectory *t, int64_t step)
{
    int64_t kept = step - of_loop(t, step) % t->spacing, from = first_of(t);
    return kept > from ? kept : from;
}

/* ---- Revolve ---- */

int64_t bt_trajectory_nearest(const bt_trajectory *t, int64_t step)
{
    int64_t base = bt_trajectory_kept(t, step), most = base;
    for (int64_t slot = 0; slot < slot_count(t); slot++) {
        int64_t there = in_slot(t, slot);
        if (there <= step && there > most)
            most = there;
    }
    return most;
}

/* A slot of the loop that is no longer needed on the way back to its beginning; NOBODY: none. */
static int64_t free_slot(const bt_trajectory *t, int64_t step, int64_t *count)
{
    int64_t first = first_slot(t, step), found = NOBODY;
    *count = 0;
    for (int64_t slot = first + t->states - 2; slot >= first; slot--)
        if (in_slot(t, slot) == NOBODY || in_slot(t, slot) > step) {
            found = slot;
            ++*count;
        }
    return found;
}

int64_t bt_trajectory_next(const bt_trajectory *t, int64_t from, int64_t step)
{
    int64_t free;
    free_slot(t, step, &free);
    return from + bt_revolve_split(step - from + 1, free + 1);
}

void bt_trajectory_make_room(bt_trajectory *t, int64_t from, int64_t to, int64_t step)
{
    int64_t free, slot = free_slot(t, step, &free), work = slot_count(t) - AT_WORK;
    if (from + 1 < to || to == step || slot == NOBODY) /* for immediate use only */
        slot = in_slot(t, work) == from ? work + 1 : work;
    fill_slot(t, slot, from + 1);
}

bt_status bt_trajectory_look(const bt_trajectory *t, int64_t step)
{
    BT_TRY(bt_store_lay(instance_of(t), t->before, t->applied, place_of_applied(t, step, BEFORE)));
    BT_TRY(bt_store_lay(instance_of(t), t->after, t->applied, place_of_applied(t, step, AFTER)));
    for (int64_t i = 0; i < t->track_count; i++) {
        const bt_track *track = &t->tracks[i];
        BT_TRY(bt_store_lay(instance_of(t), track->at, track->store, row(t, track, step)));
        if (track->own && !is_kept(t, step + 1) && (!t->states || is_there(t, step + 1)))
            BT_TRY(bt_store_lay(instance_of(t), track->next, track->store, row(t, track, step + 1)));
    }
    return BT_OK;
}

bt_status bt_trajectory_copy(const bt_trajectory *t, int64_t step)
{
    for (int64_t i = 0; i < t->track_count; i++)
        if (t->tracks[i].own && !is_kept(t, step + 1))
            BT_TRY(bt_store_move(instance_of(t), t->tracks[i].store, row(t, &t->tracks[i], step + 1),
                                 t->tracks[i].store, row(t, &t->tracks[i], step), t->tracks[i].source->bytes));
    return BT_OK;
}

/* ---- programs bound to a record ---- */

typedef struct binding {
    bt_trajectory *trajectory;
    const bt_solve_site *site;
    bt_var *buffers;
} binding;

/* The part of `whole` that corresponds to `var` within its root. */
static bt_var *part_of(const binding *b, bt_var *whole, bt_var *var)
{
    if (var == bt_var_root(var))
        return whole;
    return bt_phase_own(b->site->phase, bt_var_window(whole, bt_var_start(var), var->name, bt_var_array(var)));
}

static bt_var *stand_in(void *user, bt_var *var, bool assigned)
{
    const binding *b = user;
    bt_var *root = bt_var_root(var);
    if (b->buffers && bt_owns_buffer(b->trajectory->problem, var))
        return part_of(b, b->buffers, var);
    bool state =
        assigned ? own_state(b->trajectory->problem, root) : must_keep(b->trajectory->problem, b->site->upper, root);
    if (!state)
        return var;
    const bt_track *track = track_of(b->trajectory, root);
    if (!track)
        return NULL;
    return part_of(b, assigned ? track->next : track->at, var);
}

bt_graph *bt_trajectory_rebind(bt_trajectory *t, const bt_solve_site *site, const bt_graph *graph, bt_var *buffers)
{
    binding b = {t, site, buffers};
    return bt_rebind(graph, stand_in, &b);
}
