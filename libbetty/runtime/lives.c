/* runtime/lives.c: what lives when in a phase: the transients of its programs, and the variables between them.
 *
 * A variable is one block in memory, but its windows need not live at the same time: gradients are written one by one.
 * It is cut where windows begin and end, and each part lives from the first step that touches it to the last. What is
 * not yet, or no longer, alive leaves its bytes to others. */
#include "runtime/phase.h"

#include <stdlib.h>

static bt_phase_value *value_add(bt_phase *phase, bt_interval interval)
{
    int64_t capacity = phase->value_capacity;
    bt_interval *intervals = bt_grow(phase->intervals, &capacity, phase->value_count + 1, sizeof *intervals);
    if (intervals)
        phase->intervals = intervals;
    capacity = phase->value_capacity;
    bt_phase_value *values = bt_grow(phase->values, &capacity, phase->value_count + 1, sizeof *values);
    if (values)
        phase->values = values;
    if (!intervals || !values)
        return NULL;
    phase->value_capacity = capacity;
    phase->intervals[phase->value_count] = interval;
    phase->values[phase->value_count] = (bt_phase_value){0};
    return &phase->values[phase->value_count++];
}

static bt_status add_transients(bt_phase *phase, int e)
{
    bt_phase_entry *entry = &phase->entries[e];
    bt_program *program = entry->program;
    for (int64_t b = 0; b < program->buffer_count; b++) {
        bt_buffer *buffer = &program->buffers[b];
        if (buffer->home != BT_HOME_ARENA || buffer->first < 0)
            continue;
        buffer->place = phase->value_count;
        bt_phase_value *value = value_add(phase, (bt_interval){.bytes = bt_align_up(buffer->bytes),
                                                               .first = entry->base + buffer->first,
                                                               .last = entry->base + buffer->last});
        if (!value)
            return BT_ERROR_MEMORY;
        value->category = buffer->category;
        value->buffer = buffer;
        value->entry = e;
        value->used = buffer->bytes;
    }
    return BT_OK;
}

/* ---- variables ---- */

static bool touches(const bt_buffer *buffer, const bt_var *var)
{
    return buffer->home == BT_HOME_VAR && buffer->first >= 0 && buffer->var == var;
}

/* Whole lines that the buffer lies on. */
static size_t begin_of(const bt_buffer *buffer) { return buffer->start / BT_ALIGN * BT_ALIGN; }
static size_t end_of(const bt_buffer *buffer) { return bt_align_up(buffer->start + buffer->bytes); }

/* The entries that repeat together with entry e: *from and *to are the first and last steps of all of them. */
static void loop_span(const bt_phase *phase, int e, int64_t *from, int64_t *to)
{
    int loop = phase->entries[e].loop;
    for (int64_t i = 0; loop && i < phase->entry_count; i++)
        if (phase->entries[i].loop == loop) {
            int64_t base = phase->entries[i].base, end = base + phase->entries[i].program->step_count - 1;
            *from = base < *from ? base : *from;
            *to = end > *to ? end : *to;
        }
}

/* From the first program step that touches these bytes to the last; through the whole of a loop. What is cleared is
 * touched before its first program. *entry: the first. */
static bt_interval life_of(const bt_phase *phase, const bt_var *var, size_t from, size_t to, int *entry)
{
    bt_interval life = {.bytes = to - from, .first = 0, .last = -1, .joined = from > 0};
    for (int e = 0; e < phase->entry_count; e++) {
        const bt_phase_entry *each = &phase->entries[e];
        for (int64_t b = 0; b < each->program->buffer_count; b++) {
            const bt_buffer *buffer = &each->program->buffers[b];
            if (!touches(buffer, var) || begin_of(buffer) >= to || end_of(buffer) <= from)
                continue;
            int64_t first = each->base + (var->clear ? 0 : buffer->first), last = each->base + buffer->last;
            loop_span(phase, e, &first, &last);
            *entry = life.last < 0 ? e : *entry;
            life.first = life.last < 0 || first < life.first ? first : life.first;
            life.last = last > life.last ? last : life.last;
        }
    }
    return life;
}

static bt_status add_part(bt_phase *phase, bt_var *var, size_t from, size_t to)
{
    int entry = 0;
    bt_interval life = life_of(phase, var, from, to, &entry);
    bt_interval *before = life.joined ? &phase->intervals[phase->value_count - 1] : NULL;
    if (before && before->first == life.first && before->last == life.last) {
        before->bytes += life.bytes;
    } else {
        bt_phase_value *value = value_add(phase, life);
        if (!value)
            return BT_ERROR_MEMORY;
        *value = (bt_phase_value){.category = var->category, .var = var, .start = from, .entry = entry};
    }
    bt_phase_value *value = &phase->values[phase->value_count - 1];
    value->used = (to < var->bytes ? to : var->bytes) - value->start;
    return BT_OK;
}

static int ascending(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

/* Where the variable is cut: ends of what any program touches of it. One that is cleared as a whole is not cut. */
static int64_t cuts_of(const bt_phase *phase, const bt_var *var, size_t *cuts)
{
    int64_t count = 0;
    cuts[count++] = 0;
    cuts[count++] = bt_align_up(var->bytes);
    for (int64_t e = 0; !var->clear && e < phase->entry_count; e++) {
        const bt_program *program = phase->entries[e].program;
        for (int64_t b = 0; b < program->buffer_count; b++)
            if (touches(&program->buffers[b], var)) {
                cuts[count++] = begin_of(&program->buffers[b]);
                cuts[count++] = end_of(&program->buffers[b]);
            }
    }
    qsort(cuts, (size_t)count, sizeof *cuts, ascending);
    return count;
}

/* The variable's rows, and the row that each buffer begins in. */
static bt_status add_var(bt_phase *phase, bt_var *var)
{
    size_t most = 2;
    for (int64_t e = 0; e < phase->entry_count; e++)
        most += 2 * (size_t)phase->entries[e].program->buffer_count;
    size_t *cuts = bt_alloc_array(most, sizeof *cuts);
    int64_t count = cuts ? cuts_of(phase, var, cuts) : 0, begin = phase->value_count;
    bt_status status = cuts ? BT_OK : BT_ERROR_MEMORY;
    if (status == BT_OK && !var->bytes)
        status = add_part(phase, var, 0, 0);
    for (int64_t i = 1; status == BT_OK && i < count; i++)
        if (cuts[i] > cuts[i - 1])
            status = add_part(phase, var, cuts[i - 1], cuts[i]);
    bt_free(cuts);
    for (int64_t e = 0; status == BT_OK && e < phase->entry_count; e++) {
        const bt_program *program = phase->entries[e].program;
        for (int64_t b = 0; b < program->buffer_count; b++)
            for (int64_t i = begin; touches(&program->buffers[b], var) && i < phase->value_count; i++)
                if (phase->values[i].start <= program->buffers[b].start)
                    program->buffers[b].place = i;
    }
    return status;
}

static bool listed(const bt_phase *phase, const bt_var *var)
{
    for (int64_t i = 0; i < phase->value_count; i++)
        if (phase->values[i].var == var)
            return true;
    return false;
}

bt_status bt_phase_list(bt_phase *phase)
{
    phase->value_count = 0;
    for (int e = 0; e < phase->entry_count; e++)
        BT_TRY(add_transients(phase, e));
    for (int e = 0; e < phase->entry_count; e++) {
        const bt_program *program = phase->entries[e].program;
        for (int64_t b = 0; b < program->buffer_count; b++) {
            bt_var *var = program->buffers[b].var;
            if (var && var->lifetime == BT_PHASE && touches(&program->buffers[b], var) && !listed(phase, var))
                BT_TRY(add_var(phase, var));
        }
    }
    return BT_OK;
}
