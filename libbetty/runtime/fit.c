/* runtime/fit.c: a phase within a budget. A program is given what the budget leaves beside what others have alive while
 * it runs, and beside the gaps that placing leaves. */
#include "runtime/fit.h"

#include <string.h>

enum { ROUNDS = 5 };

/* By entry: the most bytes alive at one of its steps. */
static bt_status find_peaks(const bt_phase *phase, size_t *peaks)
{
    const bt_phase_entry *last = &phase->entries[phase->entry_count - 1];
    int64_t steps = last->base + last->program->step_count, entry = 0;
    size_t *begins = bt_alloc_array(2 * (size_t)steps + 2, sizeof *begins), alive = 0;
    if (!begins)
        return BT_ERROR_MEMORY;
    size_t *ends = begins + steps + 1;
    for (int64_t i = 0; i < phase->value_count; i++) {
        const bt_interval *life = &phase->intervals[i];
        if (life->last < life->first)
            continue;
        begins[life->first] += life->bytes;
        ends[life->last] += life->bytes;
    }
    memset(peaks, 0, (size_t)phase->entry_count * sizeof *peaks);
    for (int64_t s = 0; s < steps; s++) {
        while (entry + 1 < phase->entry_count && phase->entries[entry + 1].base <= s)
            entry++;
        alive += begins[s];
        peaks[entry] = alive > peaks[entry] ? alive : peaks[entry];
        alive -= ends[s];
    }
    bt_free(begins);
    return BT_OK;
}

/* Compiles the entry's program anew, with so much of the budget taken by others. */
static bt_status recompile(bt_phase *phase, bt_phase_entry *entry, size_t budget, size_t beside)
{
    bt_compile_options options = phase->options;
    options.loop = entry->loop != 0;
    options.budget = budget;
    options.beside = beside;
    /* The graph has been through these. */
    options.simplify = options.reassociate = options.fuse = options.absorb = false;
    bt_program *program = bt_compile_graph(entry->program->graph, &options);
    return program ? bt_phase_replace(phase, entry, program) : bt_error_status();
}

static bt_status tighten(bt_phase *phase, size_t budget, bool anything, size_t *peaks)
{
    BT_TRY(find_peaks(phase, peaks));
    size_t gaps = phase->arena - phase->bound;
    for (int64_t e = 0; e < phase->entry_count; e++) {
        bt_phase_entry *entry = &phase->entries[e];
        size_t most = entry->program->most, beside = gaps + (peaks[e] > most ? peaks[e] - most : 0);
        if (peaks[e] + gaps > budget)
            BT_TRY(recompile(phase, entry, anything ? budget : 0, beside));
    }
    return bt_phase_plan(phase);
}

bt_status bt_phase_fit(bt_phase *phase, size_t budget, bool anything)
{
    size_t *peaks = bt_alloc_array((size_t)phase->entry_count, sizeof *peaks), least = SIZE_MAX;
    bt_status status = peaks ? BT_OK : BT_ERROR_MEMORY;
    for (int i = 0; status == BT_OK && i < ROUNDS && phase->arena > budget && phase->arena < least; i++) {
        least = phase->arena;
        status = tighten(phase, budget, anything, peaks);
    }
    bt_free(peaks);
    return status;
}

double bt_phase_extra(const bt_phase *phase)
{
    double extra = 0, work = 0;
    for (int64_t e = 0; e < phase->entry_count; e++)
        if (phase->entries[e].work > work) {
            work = phase->entries[e].work;
            extra = phase->entries[e].program->extra;
        }
    return extra;
}
