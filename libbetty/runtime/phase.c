/* runtime/phase.c: planning a list of programs together, and running them. */
#include "runtime/phase.h"

#include "base/footprint.h"
#include "compile/work.h"
#include "runtime/profile.h"
#include "runtime/settle.h"
#include "runtime/watch.h"
#include <string.h>

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
    if (phases && phase->name && phase->owner)
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
        bt_free_aligned(entry->shown[i]);
    bt_free(entry->shown);
    bt_program_free(entry->program);
}

/* The program, where the phase runs; NULL after an error. What is only planned needs no device. */
static bt_bound *bound_of(const bt_phase *phase, const bt_program *program)
{
    return bt_bound_new(program, phase->instance->dry ? NULL : phase->instance->queue);
}

void bt_phase_free(bt_phase *phase)
{
    if (!phase)
        return;
    bt_instance *instance = phase->instance;
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

static double work_of(const bt_program *program)
{
    double sum = 0;
    for (int64_t s = 0; s < program->step_count; s++)
        sum += bt_call_work(&program->steps[s].call);
    return sum;
}

static void find_bases(bt_phase *phase)
{
    int64_t base = 0;
    for (int64_t e = 0; e < phase->entry_count; e++) {
        phase->entries[e].base = base;
        base += phase->entries[e].program->step_count;
    }
}

int bt_phase_add(bt_phase *phase, const bt_graph *graph, int loop, const char *part)
{
    bt_phase_entry *entries = bt_grow(phase->entries, &phase->entry_capacity, phase->entry_count + 1, sizeof *entries);
    if (!entries)
        return -1;
    phase->entries = entries;
    char *name = bt_strdup(part), *place = bt_string("%s, %s, %s", phase->owner, phase->name, part);
    bt_compile_options options = phase->options;
    options.loop = loop != 0;
    options.known = phase->instance->known;
    options.spent = phase->spent;
    bt_program *program = name && place ? bt_compile_graph(graph, &options) : NULL;
    bt_bound *bound = program ? bound_of(phase, program) : NULL;
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
                                                     .work = work_of(program),
                                                     .runs = phase->runs,
                                                     .spent = phase->spent};
    find_bases(phase);
    return (int)phase->entry_count - 1;
}

bt_status bt_phase_replace(bt_phase *phase, bt_phase_entry *entry, bt_program *program)
{
    bt_bound *bound = bound_of(phase, program);
    if (!bound) {
        bt_program_free(program);
        return BT_ERROR_MEMORY;
    }
    forget(phase, entry);
    entry->program = program;
    entry->bound = bound;
    entry->shown = NULL;
    entry->work = work_of(program);
    find_bases(phase);
    return BT_OK;
}

/* ---- planning ---- */

char *bt_phase_address(void *user, int64_t value, size_t start)
{
    const bt_phase *phase = user;
    char *arena = phase->instance->arena, *memory = arena ? arena + phase->intervals[value].offset : NULL;
    if (!phase->instance->planned)
        memory = bt_watch_address(phase, value);
    return memory ? memory + (start - phase->values[value].start) : NULL;
}

static void bind(bt_phase *phase)
{
    char *arena = phase->instance->arena;
    for (int64_t i = 0; i < phase->value_count; i++)
        if (phase->values[i].var && !phase->intervals[i].joined) {
            phase->values[i].var->data = arena ? arena + phase->intervals[i].offset : NULL;
            phase->values[i].var->queue = phase->instance->queue;
        }
    for (int64_t e = 0; e < phase->entry_count; e++)
        bt_bound_set(phase->entries[e].bound, bt_phase_address, phase);
    phase->bound_to = arena;
}

/* The arena may have grown since, and so have moved. Only whoever needs its addresses has them set anew: the arena
 * grows with many of the phases that are planned. */
static void bind_anew(bt_phase *phase)
{
    if (phase->instance->planned && phase->bound_to != phase->instance->arena)
        bind(phase);
}

void bt_instance_bind(bt_instance *instance)
{
    for (int64_t i = 0; i < instance->phase_count; i++)
        bind(instance->phases[i]);
}

static bt_status grow_arena(bt_instance *instance, size_t size)
{
    if (instance->dry || (size <= instance->arena_size && instance->arena))
        return BT_OK;
    if (instance->current)
        return bt_fail(BT_ERROR_INTERNAL, "the arena cannot grow while %s, %s is in progress in it",
                       instance->current->owner, instance->current->name);
    bt_instance_drop_arena(instance); /* first: the two need not be there at the same time */
    instance->arena = bt_queue_alloc(instance->queue, size);
    instance->arena_size = instance->arena ? size : 0;
    if (instance->queue)
        bt_live_far((int64_t)instance->arena_size);
    if (instance->filled)
        bt_instance_fill(instance);
    return instance->arena ? BT_OK : BT_ERROR_MEMORY;
}

bt_status bt_instance_reserve(bt_instance *instance)
{
    size_t most = 0;
    for (int64_t i = 0; i < instance->phase_count; i++)
        most = instance->phases[i]->arena > most ? instance->phases[i]->arena : most;
    return most && instance->planned ? grow_arena(instance, most) : BT_OK;
}

bt_status bt_phase_plan(bt_phase *phase)
{
    leave(phase);
    bt_watch_free(phase);
    BT_TRY(bt_phase_list(phase));
    size_t arena;
    BT_TRY(bt_place(phase->intervals, phase->value_count, &arena));
    BT_TRY(bt_place_verify(phase->intervals, phase->value_count, arena));
    BT_TRY(bt_place_bound(phase->intervals, phase->value_count, &phase->bound, &phase->peak));
    phase->arena = arena;
    phase->used = 0;
    for (int64_t i = 0; i < phase->value_count; i++) {
        size_t end = phase->intervals[i].offset + phase->values[i].used;
        phase->used = end > phase->used ? end : phase->used;
    }
    bt_free(phase->cleared);
    phase->cleared = bt_alloc_array((size_t)phase->value_count, sizeof *phase->cleared);
    if (!phase->cleared)
        return BT_ERROR_MEMORY;
    BT_TRY(phase->instance->planned ? grow_arena(phase->instance, arena) : bt_watch_plan(phase));
    bind(phase);
    return BT_OK;
}

/* ---- running ---- */

void bt_phase_begin(bt_phase *phase)
{
    leave(phase); /* the run before may have failed */
    bind_anew(phase);
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
    bind_anew(phase);
    return var->data ? memset(var->data, 0, var->bytes) : NULL;
}

/* Two phases share one arena, so one would write over what the other still needs. */
static bt_status enter(bt_phase *phase)
{
    bt_instance *instance = phase->instance;
    const bt_phase *current = instance->current;
    if (current && current != phase)
        return bt_fail(BT_ERROR_INTERNAL, "%s, %s: it cannot run while %s, %s is in progress in the same arena",
                       phase->owner, phase->name, current->owner, current->name);
    instance->current = phase;
    return BT_OK;
}

bt_status bt_phase_run(bt_phase *phase, int entry)
{
    if (phase->instance->dry)
        return bt_fail(BT_ERROR_INTERNAL, "%s, %s: it is planned only, and cannot run", phase->owner, phase->name);
    BT_TRY(enter(phase));
    phase->instance->work += phase->entries[entry].work;
    if (!phase->instance->planned)
        return bt_watch_run(phase, entry);
    bind_anew(phase);
    if (phase->arena > phase->instance->arena_size)
        return bt_fail(BT_ERROR_MEMORY, "%s: there is no memory for the arena of %zu bytes", phase->name, phase->arena);
    for (int64_t i = 0; i < phase->value_count; i++)
        if (phase->values[i].var && phase->values[i].var->clear && phase->values[i].entry <= entry)
            bt_phase_clear(phase, i);
    return phase->instance->profile ? bt_profile_run(phase, entry) : bt_bound_run(phase->entries[entry].bound);
}

/* Where the row of the variable lies as the entry reads it; NULL: it is another's, or nothing will read it any more. */
static const char *row_of(const bt_phase *phase, int entry, const bt_var *var, int64_t value)
{
    if (phase->values[value].var != var || phase->intervals[value].last < phase->entries[entry].base)
        return NULL;
    return phase->instance->planned ? phase->instance->arena + phase->intervals[value].offset
                                    : bt_watch_address(phase, value);
}

bt_status bt_phase_read(const bt_phase *phase, int entry, const bt_var *var, char *to)
{
    memset(to, 0, var->bytes);
    for (int64_t i = 0; i < phase->value_count; i++) {
        const char *from = row_of(phase, entry, var, i);
        if (from)
            BT_TRY(bt_queue_read(phase->instance->queue, to + phase->values[i].start, from, phase->values[i].used));
    }
    return BT_OK;
}

bt_status bt_phase_keep(const bt_phase *phase, int entry, const bt_var *var, bt_var *to, size_t offset)
{
    bt_queue *queue = phase->instance->queue;
    BT_TRY(bt_var_settle(bt_var_root(to), queue));
    char *target = bt_var_data(to) + offset;
    BT_TRY(bt_queue_fill(queue, target, 0, var->bytes));
    for (int64_t i = 0; i < phase->value_count; i++) {
        const char *from = row_of(phase, entry, var, i);
        if (from)
            BT_TRY(bt_queue_copy(queue, target + phase->values[i].start, from, phase->values[i].used));
    }
    return BT_OK;
}

void bt_phase_end(bt_phase *phase)
{
    leave(phase);
    if (!phase->instance->planned)
        bt_watch_drop(phase);
}

bt_status bt_instance_set_aside(bt_instance *instance, bt_aside *aside)
{
    *aside = (bt_aside){.phase = instance->current};
    if (aside->phase && instance->planned && aside->phase->arena) {
        aside->copy = bt_alloc(aside->phase->arena);
        if (!aside->copy)
            return BT_ERROR_MEMORY;
        BT_TRY(bt_queue_read(instance->queue, aside->copy, instance->arena, aside->phase->arena));
    }
    instance->current = NULL;
    return BT_OK;
}

bt_status bt_instance_put_back(bt_instance *instance, bt_aside *aside)
{
    bt_status status =
        aside->copy ? grow_arena(instance, aside->phase->arena) : BT_OK; /* lost where it could not grow */
    if (aside->copy && status == BT_OK) {
        bind_anew(aside->phase);
        status = bt_queue_write(instance->queue, instance->arena, aside->copy, aside->phase->arena);
    }
    if (aside->phase)
        instance->current = aside->phase;
    bt_free(aside->copy);
    aside->copy = NULL;
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
    e->bound->place = e->place; /* for what fails later, on a device */
    bt_status status = bt_phase_run(phase, entry);
    if (status != BT_OK)
        bt_error_context("%s", e->place);
    return status;
}
