/* runtime/layout.c: presents a phase's programs and variables to plan/lives.h, and places them in both memories. */
#include "runtime/phase.h"

#include "base/map.h"
#include "plan/lives.h"

typedef struct layout {
    bt_phase *phase;
    bt_lives lives;
    bt_region *region;
    bt_lives_entry *entries;
    bt_lives_var *vars;
    bt_var **list; /* the variables, by index in `vars` */
    int64_t var_count, var_capacity, list_capacity;
    bt_map numbers; /* the index of each variable */
} layout;

/* The index of a phase's variable; -1: out of memory. */
static int64_t number_of(layout *l, bt_var *var)
{
    int64_t number = bt_map_get(&l->numbers, var);
    if (number >= 0)
        return number;
    bt_lives_var *vars = bt_grow(l->vars, &l->var_capacity, l->var_count + 1, sizeof *vars);
    if (vars)
        l->vars = vars;
    bt_var **list = bt_grow(l->list, &l->list_capacity, l->var_count + 1, sizeof(bt_var *));
    if (list)
        l->list = list;
    if (!vars || !list || bt_map_put(&l->numbers, var, l->var_count) != BT_OK)
        return -1;
    vars[l->var_count] = (bt_lives_var){var->bytes, var->clear, var->lasting};
    list[l->var_count] = var;
    return l->var_count++;
}

static bool counts(const bt_buffer *buffer)
{
    return buffer->first >= 0 &&
           (buffer->home == BT_HOME_ARENA || (buffer->home == BT_HOME_VAR && buffer->var->lifetime == BT_PHASE));
}

/* Lists the touches of the entry's program: the buffers that count, in order. */
static bt_status describe(layout *l, int64_t e)
{
    const bt_phase_entry *entry = &l->phase->entries[e];
    const bt_program *program = entry->program;
    bt_touch *touches = bt_region_alloc(l->region, (size_t)(program->buffer_count + 1) * sizeof *touches);
    if (!touches)
        return BT_ERROR_MEMORY;
    int64_t count = 0;
    for (int64_t b = 0; b < program->buffer_count; b++) {
        const bt_buffer *buffer = &program->buffers[b];
        if (!counts(buffer))
            continue;
        int64_t var = buffer->home == BT_HOME_VAR ? number_of(l, buffer->var) : -1;
        if (buffer->home == BT_HOME_VAR && var < 0)
            return BT_ERROR_MEMORY;
        touches[count++] = (bt_touch){var, buffer->start, buffer->bytes, buffer->first, buffer->last, -1};
    }
    l->entries[e] = (bt_lives_entry){touches, count, program->step_count, entry->loop};
    return BT_OK;
}

static bt_status describe_all(layout *l)
{
    l->entries = bt_region_alloc(l->region, (size_t)(l->phase->entry_count + 1) * sizeof *l->entries);
    if (!l->entries)
        return BT_ERROR_MEMORY;
    for (int64_t e = 0; e < l->phase->entry_count; e++)
        BT_TRY(describe(l, e));
    for (int64_t v = 0; v < l->phase->var_count; v++)
        if (l->phase->vars[v]->lasting && number_of(l, l->phase->vars[v]) < 0)
            return BT_ERROR_MEMORY;
    l->lives = (bt_lives){
        .entries = l->entries, .vars = l->vars, .entry_count = (int)l->phase->entry_count, .var_count = l->var_count};
    return BT_OK;
}

/* Makes the rows the phase's values and notes in which one each buffer begins. */
static bt_status give_values(layout *l)
{
    bt_phase *phase = l->phase;
    bt_phase_value *values = bt_alloc_array((size_t)l->lives.count, sizeof *values);
    if (!values)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < l->lives.count; i++) {
        const bt_row *row = &l->lives.rows[i];
        bt_var *var = row->var < 0 ? NULL : l->list[row->var];
        values[i] = (bt_phase_value){.var = var, .start = row->start, .entry = row->entry, .used = row->used};
        values[i].category = var ? var->category : BT_WORKSPACE;
    }
    for (int64_t e = 0; e < phase->entry_count; e++) {
        const bt_program *program = phase->entries[e].program;
        const bt_touch *touch = l->entries[e].touches;
        for (int64_t b = 0; b < program->buffer_count; b++) {
            if (!counts(&program->buffers[b]))
                continue;
            phase->entries[e].bound->values[b] = touch->row;
            if (touch->var < 0) {
                values[touch->row].buffer = &program->buffers[b];
                values[touch->row].category = program->buffers[b].category;
                values[touch->row].space = program->buffers[b].space;
            }
            touch++;
        }
    }
    bt_free(phase->values);
    bt_free(phase->intervals);
    phase->values = values;
    phase->intervals = l->lives.intervals;
    phase->value_count = l->lives.count;
    l->lives.intervals = NULL;
    return BT_OK;
}

bt_status bt_phase_list(bt_phase *phase)
{
    layout l = {.phase = phase, .region = bt_region_new()};
    bt_status status = l.region ? describe_all(&l) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = bt_lives_list(&l.lives);
    if (status == BT_OK)
        status = give_values(&l);
    bt_free(l.lives.intervals);
    bt_free(l.lives.rows);
    bt_map_free(&l.numbers);
    bt_free(l.vars);
    bt_free(l.list);
    bt_region_free(l.region);
    return status;
}

/* Places the values of one space; those of the other count as 0 bytes. bound NULL: not wanted. */
static bt_status place(bt_phase *phase, bt_space space, size_t *arena, size_t *bound, int64_t *peak)
{
    const size_t count = (size_t)phase->value_count;
    size_t values = 0;
    bt_interval *own = bt_alloc_array(count, sizeof *own);
    if (!own)
        return BT_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        own[i] = phase->intervals[i];
        values += phase->values[i].space == space;
        if (phase->values[i].space != space)
            own[i].bytes = 0;
    }
    if (!values && !bound) {
        bt_free(own);
        *arena = 0;
        return BT_OK;
    }
    bt_status status = bt_place(own, phase->value_count, arena);
    if (status == BT_OK)
        status = bt_place_verify(own, phase->value_count, *arena);
    if (status == BT_OK && bound)
        status = bt_place_bound(own, phase->value_count, bound, peak);
    for (size_t i = 0; i < count; i++)
        if (phase->values[i].space == space)
            phase->intervals[i].offset = own[i].offset;
    bt_free(own);
    return status;
}

bt_status bt_phase_place(bt_phase *phase)
{
    BT_TRY(place(phase, BT_SPACE_DEVICE, &phase->arena, &phase->bound, &phase->peak));
    return place(phase, BT_SPACE_HOST, &phase->host, NULL, NULL);
}
