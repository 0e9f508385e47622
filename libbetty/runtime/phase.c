/* runtime/phase.c: plans a list of programs together, and runs them. */
#include "runtime/phase.h"

#include "base/footprint.h"
#include "runtime/copies.h"
#include "runtime/lockstep.h"
#include "runtime/profile.h"
#include "runtime/settle.h"
#include "runtime/watch.h"
#include <string.h>

int bt_phase_others(const bt_phase *phase) { return phase->others ? bt_instance_others(phase->instance) : 0; }

static bt_status add_others(bt_phase *phase)
{
    bt_instance *instance = phase->instance;
    const int others = bt_instance_others(instance);
    if (others && !(phase->others = bt_alloc_array((size_t)others, sizeof(bt_phase *))))
        return BT_ERROR_MEMORY;
    for (int r = 0; r < others; r++)
        if (!(phase->others[r] = bt_phase_new(instance->others[r], phase->owner, phase->name)))
            return bt_error_status();
    return BT_OK;
}

bt_phase *bt_phase_new(bt_instance *instance, const char *owner, const char *name)
{
    bt_phase *phase = bt_alloc(sizeof *phase);
    if (!phase)
        return NULL;
    phase->instance = instance;
    phase->options = instance->options;
    phase->runs = 1;
    phase->name = bt_strdup(name);
    phase->owner = bt_strdup(owner);
    bt_phase **phases = bt_grow(instance->phases, &instance->phase_capacity, instance->phase_count + 1, sizeof *phases);
    if (phases) {
        instance->phases = phases;
        instance->phases[instance->phase_count++] = phase;
    }
    if (phases && phase->name && phase->owner && add_others(phase) == BT_OK)
        return phase;
    bt_phase_free(phase);
    return NULL;
}

static void leave(const bt_phase *phase)
{
    if (phase->instance->current == phase)
        phase->instance->current = NULL;
}

static void forget(const bt_phase *phase, const bt_phase_entry *entry)
{
    const int64_t outputs = entry->program->graph->output_count;
    bt_profile_forget(phase->instance->profile, entry->program);
    bt_bound_free(entry->bound);
    for (int64_t i = 0; entry->shown && i < outputs; i++)
        bt_free(entry->shown[i]);
    bt_free(entry->shown);
    bt_program_free(entry->program);
}

void bt_phase_free(bt_phase *phase)
{
    if (!phase)
        return;
    bt_instance *instance = phase->instance;
    for (int r = 0; r < bt_phase_others(phase); r++)
        bt_phase_free(phase->others[r]);
    bt_free(phase->others);
    int64_t kept = 0;
    for (int64_t i = 0; i < instance->phase_count; i++)
        if (instance->phases[i] != phase)
            instance->phases[kept++] = instance->phases[i];
    instance->phase_count = kept;
    leave(phase);
    bt_watch_free(phase);
    for (int64_t i = 0; i < phase->entry_count; i++) {
        forget(phase, &phase->entries[i]);
        bt_free((char *)(uintptr_t)phase->entries[i].part);
        bt_free(phase->entries[i].place);
    }
    for (int64_t i = phase->var_count - 1; i >= 0; i--) /* windows come after their base */
        bt_var_free(phase->vars[i]);
    bt_free(phase->entries);
    bt_free(phase->vars);
    bt_free(phase->intervals);
    bt_free(phase->values);
    bt_free(phase->cleared);
    bt_free(phase->name);
    bt_free(phase->owner);
    bt_free(phase);
}

bt_var *bt_phase_own(bt_phase *phase, bt_var *var)
{
    if (!var)
        return NULL;
    bt_var **vars = bt_grow(phase->vars, &phase->var_capacity, phase->var_count + 1, sizeof(bt_var *));
    if (!vars) {
        bt_var_free(var);
        return NULL;
    }
    phase->vars = vars;
    return phase->vars[phase->var_count++] = var;
}

static void find_bases(bt_phase *phase)
{
    int64_t base = 0;
    for (int64_t e = 0; e < phase->entry_count; e++) {
        phase->entries[e].base = base;
        base += phase->entries[e].program->step_count;
    }
}

/* The phase's spent variable, or the rank's counterpart of it. */
static const bt_var *spent_of(const bt_phase *phase)
{
    if (!phase->spent || phase->instance->world.ranks == 1)
        return phase->spent;
    return bt_instance_own(phase->instance, (bt_var *)(uintptr_t)phase->spent);
}

static bt_program *compile(const bt_phase *phase, const bt_graph *graph, bool loop, const bt_var *spent, bool regather)
{
    bt_compile_options options = phase->options;
    options.loop = loop;
    options.known = phase->instance->first->known;
    options.world = phase->instance->world.ranks > 1 ? &phase->instance->world : NULL;
    options.spent = spent;
    options.regather = regather;
    return bt_compile_graph(graph, &options);
}

/* Whether values divided among ranks may be gathered again. */
static bool may_regather(const bt_phase *phase)
{
    return phase->instance->world.ranks > 1 && phase->instance->world.window > 0;
}

static int add(bt_phase *phase, const bt_graph *graph, int loop, const char *part)
{
    bt_phase_entry *entries = bt_grow(phase->entries, &phase->entry_capacity, phase->entry_count + 1, sizeof *entries);
    if (!entries)
        return -1;
    phase->entries = entries;
    char *name = bt_strdup(part), *place = bt_string("%s, %s, %s", phase->owner, phase->name, part);
    const bt_var *spent = spent_of(phase);
    bt_program *program = name && place ? compile(phase, graph, loop != 0, spent, may_regather(phase)) : NULL;
    bt_bound *bound = program ? bt_bound_new(program) : NULL;
    if (!bound) {
        bt_program_free(program);
        bt_free(name);
        bt_free(place);
        return -1;
    }
    entries[phase->entry_count++] = (bt_phase_entry){.program = program,
                                                     .bound = bound,
                                                     .part = name,
                                                     .place = place,
                                                     .loop = loop,
                                                     .meets = bt_program_meetings(program),
                                                     .runs = phase->runs,
                                                     .spent = spent};
    phase->settled = false;
    find_bases(phase);
    return (int)phase->entry_count - 1;
}

/* Each rank chooses by itself which steps run again. *same: the ranks still meet at the same collectives. */
static bt_status compare(const bt_phase *phase, int entry, bool *same)
{
    const uint64_t own = phase->entries[entry].meets;
    int64_t which = -1;
    int rank;
    for (int r = 0; r < bt_phase_others(phase); r++)
        if (phase->others[r]->entries[entry].meets != own)
            which = 0;
    if (phase->instance->joint)
        BT_TRY(bt_joint_compare(phase->instance->joint, phase->name, &own, 1, &which, &rank));
    *same = which < 0;
    return BT_OK;
}

static bt_status gather_once(bt_phase *phase, const bt_graph *graph, int entry)
{
    bt_phase_entry *e = &phase->entries[entry];
    bt_program *program = compile(phase, graph, e->loop != 0, e->spent, false);
    return program ? bt_phase_replace(phase, e, program) : bt_error_status();
}

/* Unless all ranks gather at the same places, compiles again so that each gathers only once. */
static bt_status agree(bt_phase *phase, const bt_graph *graph, int entry)
{
    bool same = true;
    if (may_regather(phase))
        BT_TRY(compare(phase, entry, &same));
    if (same)
        return BT_OK;
    for (int r = 0; r < bt_phase_others(phase); r++)
        BT_TRY(gather_once(phase->others[r], graph, entry));
    return gather_once(phase, graph, entry);
}

int bt_phase_add(bt_phase *phase, const bt_graph *graph, int loop, const char *part)
{
    const int entry = add(phase, graph, loop, part);
    for (int r = 0; entry >= 0 && r < bt_phase_others(phase); r++) {
        bt_phase *other = phase->others[r];
        other->options = phase->options;
        other->runs = phase->runs;
        other->spent = phase->spent;
        if (add(other, graph, loop, part) != entry)
            return -1;
    }
    return entry >= 0 && agree(phase, graph, entry) == BT_OK ? entry : -1;
}

bt_status bt_phase_replace(bt_phase *phase, bt_phase_entry *entry, bt_program *program)
{
    bt_bound *bound = bt_bound_new(program);
    if (!bound) {
        bt_program_free(program);
        return BT_ERROR_MEMORY;
    }
    forget(phase, entry);
    entry->program = program;
    entry->bound = bound;
    entry->shown = NULL;
    entry->meets = bt_program_meetings(program);
    phase->settled = false;
    find_bases(phase);
    return BT_OK;
}

/* ---- planning ---- */

char *bt_phase_address(void *user, int64_t value, size_t start)
{
    const bt_phase *phase = user;
    const bool host = phase->values[value].space == BT_SPACE_HOST;
    char *arena = host ? phase->instance->host : phase->instance->arena;
    char *memory = arena ? arena + phase->intervals[value].offset : NULL;
    if (!phase->instance->planned)
        memory = bt_watch_address(phase, value);
    return memory ? memory + (start - phase->values[value].start) : NULL;
}

/* Variables of a phase that is only planned stay where they are: there may be many plans before the one that runs. */
static bt_status settle(bt_phase *phase)
{
    if (phase->settled || phase->instance->first->dry)
        return BT_OK;
    for (int64_t e = 0; e < phase->entry_count; e++)
        BT_TRY(bt_bound_settle(phase->entries[e].bound, phase->instance->queue));
    phase->settled = true;
    return BT_OK;
}

static bt_status bind(bt_phase *phase)
{
    char *arena = phase->instance->arena;
    BT_TRY(settle(phase));
    for (int64_t i = 0; i < phase->value_count; i++)
        if (phase->values[i].var && !phase->intervals[i].joined) {
            phase->values[i].var->data = arena ? arena + phase->intervals[i].offset : NULL;
            phase->values[i].var->queue = phase->instance->queue;
        }
    for (int64_t e = 0; e < phase->entry_count; e++)
        bt_bound_set(phase->entries[e].bound, bt_phase_address, phase);
    phase->bound_to = arena;
    phase->bound_host = phase->instance->host;
    return BT_OK;
}

/* The arena may have grown since, and moved. Only the phase that needs its addresses sets them again, since the arena
 * grows with many of the phases that are planned. */
static bt_status bind_anew(bt_phase *phase)
{
    const bt_instance *instance = phase->instance;
    const bool moved = instance->planned && (phase->bound_to != instance->arena || phase->bound_host != instance->host);
    return moved || !phase->settled ? bind(phase) : BT_OK;
}

bt_status bt_instance_bind(bt_instance *instance)
{
    for (int64_t i = 0; i < instance->phase_count; i++)
        BT_TRY(bind(instance->phases[i]));
    return BT_OK;
}

static bt_status grow_arena(bt_instance *instance, size_t size, size_t host)
{
    const bool enough = size <= instance->arena_size && instance->arena;
    if (instance->first->dry)
        return BT_OK;
    if (instance->current && (!enough || host > instance->host_size))
        return bt_fail(BT_ERROR_INTERNAL, "the arena cannot grow while %s, %s is running in it",
                       instance->current->owner, instance->current->name);
    if (host > instance->host_size)
        BT_TRY(bt_instance_take_host(instance, host));
    return enough ? BT_OK : bt_instance_take_arena(instance, size);
}

bt_status bt_instance_reserve(bt_instance *instance)
{
    size_t most = 0, host = 0;
    for (int r = 0; r < bt_instance_others(instance); r++)
        BT_TRY(bt_instance_reserve(instance->others[r]));
    for (int64_t i = 0; i < instance->phase_count; i++) {
        most = instance->phases[i]->arena > most ? instance->phases[i]->arena : most;
        host = instance->phases[i]->host > host ? instance->phases[i]->host : host;
    }
    return most && instance->planned ? grow_arena(instance, most, host) : BT_OK;
}

bt_status bt_phase_plan(bt_phase *phase)
{
    for (int r = 0; r < bt_phase_others(phase); r++)
        BT_TRY(bt_phase_plan(phase->others[r]));
    leave(phase);
    bt_watch_free(phase);
    BT_TRY(bt_phase_list(phase));
    BT_TRY(bt_phase_place(phase));
    phase->used = 0;
    for (int64_t i = 0; i < phase->value_count; i++) {
        if (phase->values[i].space == BT_SPACE_HOST)
            continue;
        size_t end = phase->intervals[i].offset + phase->values[i].used;
        phase->used = end > phase->used ? end : phase->used;
    }
    bt_free(phase->cleared);
    phase->cleared = bt_alloc_array((size_t)phase->value_count, sizeof *phase->cleared);
    if (!phase->cleared)
        return BT_ERROR_MEMORY;
    BT_TRY(phase->instance->planned ? grow_arena(phase->instance, phase->arena, phase->host) : bt_watch_plan(phase));
    return bind(phase);
}

/* ---- running ---- */

void bt_phase_begin(bt_phase *phase)
{
    for (int r = 0; r < bt_phase_others(phase); r++)
        bt_phase_begin(phase->others[r]);
    leave(phase);           /* the previous run may have failed */
    (void)bind_anew(phase); /* an error comes again when it runs */
    if (phase->value_count)
        memset(phase->cleared, 0, (size_t)phase->value_count * sizeof *phase->cleared);
}

void bt_phase_clear(bt_phase *phase, int64_t value)
{
    bt_var *var = phase->values[value].var;
    if (var && var->clear && !phase->cleared[value]) {
        bt_queue_fill(phase->instance->queue, var->data, 0, var->bytes);
        phase->cleared[value] = true;
    }
}

bool bt_instance_lends(const bt_instance *instance) { return instance->planned && !instance->queue; }

char *bt_phase_lend(bt_phase *phase, bt_var *var)
{
    return bind_anew(phase) == BT_OK && var->data ? memset(var->data, 0, var->bytes) : NULL;
}

/* Two phases share one arena, so one would overwrite what the other still needs. */
static bt_status enter(bt_phase *phase)
{
    bt_instance *instance = phase->instance;
    const bt_phase *current = instance->current;
    if (current && current != phase)
        return bt_fail(BT_ERROR_INTERNAL, "%s, %s: it cannot run while %s, %s is running in the same arena",
                       phase->owner, phase->name, current->owner, current->name);
    instance->current = phase;
    return BT_OK;
}

/* Prepares everything up to the first kernel call. */
static bt_status make_ready(bt_phase *phase, int entry)
{
    if (phase->instance->dry)
        return bt_fail(BT_ERROR_INTERNAL, "%s, %s: it is only planned, and cannot run", phase->owner, phase->name);
    BT_TRY(enter(phase));
    phase->instance->work += phase->entries[entry].program->work;
    BT_TRY(bind_anew(phase));
    if (!phase->instance->planned)
        return BT_OK;
    if (phase->arena > phase->instance->arena_size || phase->host > phase->instance->host_size)
        return bt_fail(BT_ERROR_MEMORY, "%s: there is no memory for the arena of %zu bytes", phase->name, phase->arena);
    for (int64_t i = 0; i < phase->value_count; i++)
        if (phase->values[i].var && phase->values[i].var->clear && phase->values[i].entry <= entry)
            bt_phase_clear(phase, i);
    return BT_OK;
}

/* If each rank has a device, the devices would wait forever if the ranks ran different programs, or one were gone. So
 * the hosts meet first; only they wait for each other here. */
static bt_status meet(const bt_phase *phase, int entry)
{
    const uint64_t meets = phase->entries[entry].meets;
    if (!meets || !phase->instance->joint)
        return BT_OK;
    const uint64_t what = bt_hash_text(bt_hash_text(meets, phase->name), phase->owner) + (uint64_t)entry;
    return bt_joint_meet(phase->instance->joint, what);
}

bt_status bt_phase_run(bt_phase *phase, int entry)
{
    BT_TRY(make_ready(phase, entry));
    for (int r = 0; r < bt_phase_others(phase); r++)
        BT_TRY(make_ready(phase->others[r], entry));
    if (phase->instance->lockstep)
        return bt_lockstep_run(phase, entry);
    BT_TRY(meet(phase, entry));
    if (!phase->instance->planned)
        return bt_watch_run(phase, entry);
    return phase->instance->profile ? bt_profile_run(phase, entry) : bt_bound_run(phase->entries[entry].bound);
}

/* Where this row of the variable lies when the entry reads it; NULL: it belongs to another variable, or nothing will
 * read it any more. */
static const char *row_of(const bt_phase *phase, int entry, const bt_var *var, int64_t value)
{
    if (phase->values[value].var != var || phase->intervals[value].last < phase->entries[entry].base)
        return NULL;
    return phase->instance->planned ? phase->instance->arena + phase->intervals[value].offset
                                    : bt_watch_address(phase, value);
}

bt_status bt_phase_read(const bt_phase *phase, int entry, const bt_var *var, char *to)
{
    BT_TRY(bt_var_check_whole(var));
    memset(to, 0, var->bytes);
    for (int64_t i = 0; i < phase->value_count; i++) {
        const char *from = row_of(phase, entry, var, i);
        if (from)
            BT_TRY(bt_queue_read(phase->instance->queue, to + phase->values[i].start, from, phase->values[i].used));
    }
    return BT_OK;
}

static bt_status keep(const bt_phase *phase, int entry, const bt_var *var, char *target, bt_space space)
{
    bt_queue *queue = phase->instance->queue;
    BT_TRY(bt_queue_fill(queue, target, 0, var->bytes));
    for (int64_t i = 0; i < phase->value_count; i++) {
        const char *from = row_of(phase, entry, var, i);
        char *to = target + phase->values[i].start;
        if (from)
            BT_TRY(queue && space == BT_SPACE_HOST ? bt_queue_shift(queue, to, from, phase->values[i].used, true)
                                                   : bt_queue_copy(queue, to, from, phase->values[i].used));
    }
    return BT_OK;
}

bt_status bt_phase_keep(const bt_phase *phase, int entry, const bt_var *var, bt_var *to, size_t offset)
{
    BT_TRY(bt_var_check_whole(var));
    BT_TRY(bt_var_settle(bt_var_root(to), phase->instance->queue));
    BT_TRY(keep(phase, entry, var, bt_var_data(to) + offset, bt_var_space(to)));
    for (int r = 0; r < bt_phase_others(phase); r++) {
        char *target = bt_var_data_of(to, r + 1);
        bt_var *own = bt_instance_own(phase->others[r]->instance, (bt_var *)(uintptr_t)var);
        if (target)
            BT_TRY(own ? keep(phase->others[r], entry, own, target + offset, bt_var_space(to)) : bt_error_status());
    }
    return BT_OK;
}

void bt_phase_end(bt_phase *phase)
{
    for (int r = 0; r < bt_phase_others(phase); r++)
        bt_phase_end(phase->others[r]);
    leave(phase);
    if (!phase->instance->planned)
        bt_watch_drop(phase);
}

/* Copies the phase's arena; *copy stays NULL if it has none. */
static bt_status copy_arena(const bt_phase *phase, char **copy)
{
    bt_instance *instance = phase->instance;
    if (!instance->planned || !phase->arena)
        return BT_OK;
    *copy = bt_alloc(phase->arena);
    return *copy ? bt_queue_read(instance->queue, *copy, instance->arena, phase->arena) : BT_ERROR_MEMORY;
}

static bt_status fill_arena(bt_phase *phase, const char *copy)
{
    bt_instance *instance = phase->instance;
    if (!copy)
        return BT_OK;
    BT_TRY(grow_arena(instance, phase->arena, phase->host));
    BT_TRY(bind_anew(phase));
    return bt_queue_write(instance->queue, instance->arena, copy, phase->arena);
}

static void free_copies(bt_aside *aside, int ranks)
{
    for (int r = 0; r < ranks; r++)
        bt_free(aside->copies[r]);
    bt_free(aside->copies);
    aside->copies = NULL;
}

static bt_phase *of_rank(bt_phase *phase, int rank) { return rank ? phase->others[rank - 1] : phase; }

bt_status bt_instance_set_aside(bt_instance *instance, bt_aside *aside)
{
    *aside = (bt_aside){.phase = instance->current};
    const int ranks = aside->phase ? 1 + bt_phase_others(aside->phase) : 0;
    if (ranks && !(aside->copies = bt_alloc_array((size_t)ranks, sizeof(char *))))
        return BT_ERROR_MEMORY;
    bt_status status = BT_OK;
    for (int r = 0; r < ranks && status == BT_OK; r++)
        status = copy_arena(of_rank(aside->phase, r), &aside->copies[r]);
    for (int r = 0; r < ranks && status == BT_OK; r++)
        of_rank(aside->phase, r)->instance->current = NULL;
    if (status != BT_OK)
        free_copies(aside, ranks);
    return status;
}

bt_status bt_instance_put_back(bt_instance *instance, bt_aside *aside)
{
    const int ranks = aside->copies ? 1 + bt_phase_others(aside->phase) : 0;
    bt_status status = BT_OK;
    (void)instance;
    for (int r = 0; r < ranks; r++) {
        bt_phase *phase = of_rank(aside->phase, r);
        if (status == BT_OK)
            status = fill_arena(phase, aside->copies[r]); /* lost if the arena cannot grow */
        phase->instance->current = phase;
    }
    free_copies(aside, ranks);
    return status;
}

bt_status bt_phase_saved(const bt_phase *phase, int entry, bt_saved *saved)
{
    const bt_program *program = phase->entries[entry].program;
    size_t *begins = bt_alloc_array(2 * (size_t)program->step_count + 2, sizeof *begins), held = 0;
    *saved = (bt_saved){0};
    if (!begins)
        return BT_ERROR_MEMORY;
    size_t *ends = begins + program->step_count + 1;
    for (int64_t b = 0; b < program->buffer_count; b++) {
        const bt_buffer *buffer = &program->buffers[b];
        if (!buffer->saved || program->buffers[buffer->root].home != BT_HOME_ARENA)
            continue;
        begins[buffer->first] += buffer->bytes;
        ends[buffer->saved] += buffer->bytes;
        saved->all += buffer->bytes;
    }
    for (int64_t s = 0; s < program->step_count; s++) { /* between the step and the next */
        held = held + begins[s] - ends[s];
        saved->held = held > saved->held ? held : saved->held;
    }
    bt_free(begins);
    return BT_OK;
}

bool bt_phase_saves(const bt_phase *phase, const char *level)
{
    for (int64_t e = 0; e < phase->entry_count; e++) {
        const bt_program *program = phase->entries[e].program;
        for (int64_t b = 0; b < program->buffer_count; b++)
            if (program->buffers[b].saved && strcmp(program->buffers[b].node->tag.level, level) == 0)
                return true;
    }
    return false;
}

bt_status bt_part_run(bt_phase *phase, int entry)
{
    const bt_phase_entry *e = &phase->entries[entry];
    e->bound->place = e->place; /* for later failures on a device */
    bt_status status = bt_phase_run(phase, entry);
    if (status != BT_OK)
        bt_error_context("%s", e->place);
    return status;
}
