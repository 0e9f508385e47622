/* runtime/watch.c: running without the plan. Slow on purpose: pointers are set anew before every step. */
#include "runtime/watch.h"

#include <stdlib.h>
#include <string.h>

enum { PATTERN = 0x7f };

static size_t rounded(const bt_phase *phase, int64_t i)
{
    return phase->intervals[i].bytes ? phase->intervals[i].bytes : BT_ALIGN;
}

/* Whether nobody wrote behind the value, up to the end of its red zone. */
static bool intact(const bt_phase *phase, int64_t i)
{
    const bt_phase_value *value = &phase->values[i];
    for (size_t k = value->used; k < rounded(phase, i) + phase->instance->red_zone; k++)
        if (value->memory[k] != PATTERN)
            return false;
    return true;
}

static bt_status release(bt_phase *phase, int64_t i)
{
    bt_phase_value *value = &phase->values[i];
    bt_status status = BT_OK;
    if (phase->instance->red_zone && !value->var && !intact(phase, i))
        status = bt_fail(BT_ERROR_INTERNAL, "%s, %s: a kernel wrote behind the %zu bytes of %s", phase->owner,
                         phase->name, value->used, value->buffer->node->op->name);
    free(value->memory);
    value->memory = NULL;
    if (value->var)
        value->var->data = NULL;
    return status;
}

/* A pattern shows who reads what was never written. */
static bt_status obtain(bt_phase *phase, int64_t i)
{
    bt_phase_value *value = &phase->values[i];
    size_t bytes = rounded(phase, i) + phase->instance->red_zone;
    value->memory = aligned_alloc(BT_ALIGN, bytes);
    if (!value->memory)
        return bt_fail(BT_ERROR_MEMORY, "out of memory: %zu bytes were not to be had", bytes);
    memset(value->memory, PATTERN, bytes);
    if (value->var) {
        value->var->data = value->memory;
        bt_phase_clear(phase, i);
    }
    return BT_OK;
}

static char *own_place(void *user, const bt_buffer *root)
{
    const bt_phase *phase = user;
    return root->place >= 0 ? phase->values[root->place].memory : NULL;
}

/* At this time of the phase: what is over is freed, what begins is allocated. */
static bt_status advance(bt_phase *phase, int64_t time)
{
    for (int64_t i = 0; i < phase->value_count; i++)
        if (phase->values[i].memory && (phase->intervals[i].last < time || phase->intervals[i].first > time))
            BT_TRY(release(phase, i));
    for (int64_t i = 0; i < phase->value_count; i++)
        if (!phase->values[i].memory && phase->intervals[i].first <= time && phase->intervals[i].last >= time)
            BT_TRY(obtain(phase, i));
    return BT_OK;
}

bt_status bt_watch_run(bt_phase *phase, int entry)
{
    bt_program *program = phase->entries[entry].program;
    for (int64_t s = 0; s < program->step_count; s++) {
        BT_TRY(advance(phase, phase->entries[entry].base + s));
        bt_program_bind(program, own_place, phase);
        BT_TRY(bt_program_begin(program));
        BT_TRY(bt_program_step(program, s));
    }
    if (program->step_count) /* without a step, nothing lives */
        bt_program_end(program);
    return BT_OK;
}

void bt_watch_drop(bt_phase *phase)
{
    for (int64_t i = 0; i < phase->value_count; i++)
        if (phase->values[i].memory)
            release(phase, i);
}
