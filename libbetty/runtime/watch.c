/* runtime/watch.c: running without the plan. Slow on purpose: pointers are set again before every step. */
#include "runtime/watch.h"

#include <stdlib.h>

enum { PATTERN = 0x7f };

typedef struct held { /* a value of the phase */
    char *memory;     /* NULL: not alive */
    bool tied;        /* shares the allocation of the value before it */
    bool wanted;      /* must be alive now */
    bool stays;       /* and was alive before */
} held;

struct bt_watch {
    held *values;
    char *stage; /* holds the largest divided value while its parts are reallocated */
};

typedef struct moment { /* a step of a program */
    bt_phase *phase;
    const bt_program *program;
    int64_t step, time; /* step: in the program; time: in the phase */
} moment;

/* In near memory each value is its own allocation, so a sanitizer knows its end. */
static char *obtain_bytes(bt_queue *queue, size_t bytes, bt_space space)
{
    char *memory = !queue                   ? aligned_alloc(BT_ALIGN, bytes)
                   : space == BT_SPACE_HOST ? bt_queue_pin(queue, bytes)
                                            : bt_queue_alloc(queue, bytes);
    if (!memory)
        bt_fail(BT_ERROR_MEMORY, "out of memory: %zu bytes could not be allocated", bytes);
    return memory;
}

static void return_bytes(bt_queue *queue, char *memory, bt_space space)
{
    if (queue && space == BT_SPACE_HOST)
        bt_queue_unpin(queue, memory);
    else if (queue)
        bt_queue_free(queue, memory);
    else
        free(memory);
}

void bt_watch_free(bt_phase *phase)
{
    bt_watch_drop(phase);
    if (phase->watch) {
        bt_free(phase->watch->values);
        bt_queue_free(phase->instance->queue, phase->watch->stage);
    }
    bt_free(phase->watch);
    phase->watch = NULL;
}

bt_status bt_watch_plan(bt_phase *phase)
{
    size_t whole = 0, most = 0;
    for (int64_t i = 0; i < phase->value_count; i++) {
        whole = (phase->intervals[i].joined ? whole : 0) + phase->intervals[i].bytes;
        most = phase->intervals[i].joined && whole > most ? whole : most;
    }
    bt_watch *watch = phase->watch = bt_alloc(sizeof *watch);
    if (!watch)
        return BT_ERROR_MEMORY;
    watch->values = bt_alloc_array((size_t)phase->value_count, sizeof *watch->values);
    watch->stage = bt_queue_alloc(phase->instance->queue, most);
    return watch->values && watch->stage ? BT_OK : BT_ERROR_MEMORY;
}

char *bt_watch_address(const bt_phase *phase, int64_t value)
{
    return phase->watch ? phase->watch->values[value].memory : NULL;
}

static size_t rounded(const bt_phase *phase, int64_t i)
{
    return phase->intervals[i].bytes ? phase->intervals[i].bytes : BT_ALIGN;
}

/* Checks that nobody wrote behind the value, up to the end of its red zone. */
static bt_status check_behind(const bt_phase *phase, int64_t i)
{
    const bt_phase_value *value = &phase->values[i];
    const size_t bytes = rounded(phase, i) + phase->instance->red_zone - value->used;
    char zone[4 * BT_ALIGN]; /* a red zone, and the value's rounding */
    bool same = bytes <= sizeof zone;
    if (same && value->space == BT_SPACE_HOST)
        BT_TRY(bt_queue_wait(phase->instance->queue));
    if (same)
        BT_TRY(bt_queue_read(value->space == BT_SPACE_HOST ? NULL : phase->instance->queue, zone,
                             phase->watch->values[i].memory + value->used, bytes));
    for (size_t k = 0; same && k < bytes; k++)
        same = zone[k] == PATTERN;
    return same ? BT_OK
                : bt_fail(BT_ERROR_INTERNAL, "%s, %s: a kernel wrote past the %zu bytes of %s", phase->owner,
                          phase->name, value->used, value->buffer->node->op->name);
}

static bt_status release(bt_phase *phase, int64_t i)
{
    const bt_phase_value *value = &phase->values[i];
    held *h = &phase->watch->values[i];
    bt_status status = BT_OK;
    if (h->memory && phase->instance->red_zone && !value->var)
        status = check_behind(phase, i);
    if (!h->tied)
        return_bytes(phase->instance->queue, h->memory, value->space);
    h->memory = NULL;
    h->tied = false;
    if (value->var)
        value->var->data = NULL;
    return status;
}

/* Whether a buffer in use at this step spans this part of a variable and the one before. */
static bool tie(const moment *m, int64_t i)
{
    const bt_phase_value *value = &m->phase->values[i];
    const held *h = &m->phase->watch->values[i];
    if (!m->phase->intervals[i].joined || !h->wanted || !h[-1].wanted)
        return false;
    for (int64_t b = 0; b < m->program->buffer_count; b++) {
        const bt_buffer *buffer = &m->program->buffers[b];
        if (buffer->home == BT_HOME_VAR && buffer->var == value->var && buffer->first <= m->step &&
            m->step <= buffer->last && buffer->start < value->start && value->start < buffer->start + buffer->bytes)
            return true;
    }
    return false;
}

/* Makes one allocation for the values i .. to - 1. A pattern reveals reads of bytes that were never written. */
static bt_status obtain(bt_phase *phase, int64_t i, int64_t to)
{
    size_t bytes = phase->instance->red_zone;
    for (int64_t k = i; k < to; k++)
        bytes += rounded(phase, k);
    bt_queue *queue = phase->instance->queue;
    char *memory = obtain_bytes(queue, bytes, phase->values[i].space);
    if (!memory)
        return BT_ERROR_MEMORY;
    BT_TRY(bt_queue_fill(queue, memory, PATTERN, bytes));
    for (int64_t k = i; k < to; k++) {
        held *h = &phase->watch->values[k];
        h->memory = memory;
        h->tied = k > i;
        if (h->stays)
            BT_TRY(bt_queue_copy(queue, memory, phase->watch->stage + phase->values[k].start, rounded(phase, k)));
        memory += rounded(phase, k);
    }
    bool cut = phase->intervals[i].joined || (i + 1 < phase->value_count && phase->intervals[i + 1].joined);
    if (phase->values[i].var && !cut) { /* a divided variable has no single address */
        phase->values[i].var->data = phase->watch->values[i].memory;
        phase->values[i].var->queue = queue;
        bt_phase_clear(phase, i);
    }
    return BT_OK;
}

/* Reallocates the parts from .. to - 1 of a value as they are needed now, unless they are so already. */
static bt_status rearrange(const moment *m, int64_t from, int64_t to)
{
    held *h = m->phase->watch->values;
    bool same = true;
    for (int64_t i = from; i < to; i++) {
        h[i].stays = h[i].wanted && h[i].memory;
        same = same && h[i].wanted == (h[i].memory != NULL) && tie(m, i) == h[i].tied;
    }
    for (int64_t i = from; !same && i < to; i++)
        if (h[i].stays)
            BT_TRY(bt_queue_copy(m->phase->instance->queue, m->phase->watch->stage + m->phase->values[i].start,
                                 h[i].memory, rounded(m->phase, i)));
    for (int64_t i = from; !same && i < to; i++)
        BT_TRY(release(m->phase, i));
    for (int64_t i = from, end; !same && i < to; i = end) {
        for (end = i + 1; end < to && tie(m, end);)
            end++;
        if (h[i].wanted)
            BT_TRY(obtain(m->phase, i, end));
    }
    return BT_OK;
}

/* Moves to this time of the phase: frees what has ended, then allocates what begins. */
static bt_status advance(const moment *m)
{
    bt_phase *phase = m->phase;
    for (int births = 0; births < 2; births++) {
        for (int64_t i = 0; i < phase->value_count; i++)
            phase->watch->values[i].wanted = phase->intervals[i].first <= m->time &&
                                             m->time <= phase->intervals[i].last &&
                                             (births || phase->watch->values[i].memory);
        for (int64_t i = 0, end; i < phase->value_count; i = end) {
            for (end = i + 1; end < phase->value_count && phase->intervals[end].joined;)
                end++;
            BT_TRY(rearrange(m, i, end));
        }
    }
    return BT_OK;
}

bt_status bt_watch_reach(bt_phase *phase, int entry, int64_t step)
{
    const bt_phase_entry *e = &phase->entries[entry];
    const moment m = {phase, e->program, step, e->base + step};
    BT_TRY(advance(&m));
    bt_bound_set(e->bound, bt_phase_address, phase);
    return bt_bound_begin(e->bound);
}

bt_status bt_watch_run(bt_phase *phase, int entry)
{
    const bt_program *program = phase->entries[entry].program;
    bt_bound *bound = phase->entries[entry].bound;
    for (int64_t s = 0; s < program->step_count; s++) {
        BT_TRY(bt_bound_meet(bound, s)); /* moves must be done before their memory is freed */
        BT_TRY(bt_watch_reach(phase, entry, s));
        BT_TRY(bt_bound_step(bound, s));
    }
    return program->step_count ? bt_bound_end(bound) : BT_OK; /* without a step, nothing is alive */
}

void bt_watch_drop(bt_phase *phase)
{
    for (int64_t i = 0; phase->watch && phase->watch->values && i < phase->value_count; i++)
        release(phase, i);
}
