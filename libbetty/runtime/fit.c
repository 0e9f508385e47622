/* runtime/fit.c: a phase within a budget. A program is given what the budget leaves beside what others have alive while
 * it runs, and beside the gaps that placing leaves. */
#include "runtime/fit.h"

#include "compile/work.h"
#include <string.h>

enum { ROUNDS = 5 };

/* What each entry has alive at the worst of its steps. */
static bt_status find_peaks(const bt_phase *phase, size_t *peaks)
{
    const bt_phase_entry *last = &phase->entries[phase->entry_count - 1];
    int64_t steps = last->base + last->program->step_count, entry = 0, now = 0;
    int64_t *changes = bt_alloc_array((size_t)steps + 1, sizeof *changes);
    if (!changes)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < phase->value_count; i++) {
        const bt_interval *life = &phase->intervals[i];
        if (life->last < life->first)
            continue;
        changes[life->first] += (int64_t)life->bytes;
        changes[life->last + 1] -= (int64_t)life->bytes;
    }
    memset(peaks, 0, (size_t)phase->entry_count * sizeof *peaks);
    for (int64_t s = 0; s < steps; s++) {
        while (entry + 1 < phase->entry_count && phase->entries[entry + 1].base <= s)
            entry++;
        now += changes[s];
        peaks[entry] = (size_t)now > peaks[entry] ? (size_t)now : peaks[entry];
    }
    bt_free(changes);
    return BT_OK;
}

/* Compiles the entry's program anew, with so much of the budget taken by others. */
static bt_status recompile(bt_phase *phase, bt_phase_entry *entry, size_t budget, size_t beside)
{
    bt_compile_options options = phase->options;
    options.loop = entry->loop != 0;
    options.budget = budget;
    options.beside = beside;
    options = bt_compile_settle(&options);
    bt_program *program = bt_compile_graph(entry->program->graph, &options);
    return program ? bt_phase_replace(phase, entry, program) : bt_error_status();
}

/* *stuck: a program needs more than it was given. */
static bt_status tighten(bt_phase *phase, size_t budget, bool anything, size_t *peaks, bool *stuck)
{
    BT_TRY(find_peaks(phase, peaks));
    size_t gaps = phase->arena - phase->bound;
    for (int64_t e = 0; e < phase->entry_count; e++) {
        bt_phase_entry *entry = &phase->entries[e];
        size_t own = entry->program->most, beside = gaps + (peaks[e] > own ? peaks[e] - own : 0);
        if (peaks[e] + gaps <= budget)
            continue;
        BT_TRY(recompile(phase, entry, anything ? budget : 0, beside));
        *stuck |= entry->program->most + beside > budget;
    }
    return bt_phase_plan(phase);
}

/* The same plan whatever the budget is: so one of exactly its bytes fits. */
static bt_status find_least(bt_phase *phase, bool anything)
{
    for (int64_t e = 0; e < phase->entry_count; e++)
        BT_TRY(recompile(phase, &phase->entries[e], anything ? 1 : 0, SIZE_MAX));
    return bt_phase_plan(phase);
}

bt_status bt_phase_fit(bt_phase *phase, size_t budget, bool anything)
{
    size_t *peaks = bt_alloc_array((size_t)phase->entry_count + 1, sizeof *peaks);
    bool stuck = false;
    bt_status status = peaks ? BT_OK : BT_ERROR_MEMORY;
    budget = budget ? budget : 1;
    for (int i = 0; status == BT_OK && i < ROUNDS && phase->arena > budget && !stuck; i++)
        status = tighten(phase, budget, anything, peaks, &stuck);
    bt_free(peaks);
    return status == BT_OK && phase->arena > budget ? find_least(phase, anything) : status;
}

bt_phase_work bt_phase_count(const bt_phase *phase)
{
    bt_phase_work work = {0, 0};
    for (int64_t e = 0; e < phase->entry_count; e++) {
        const bt_phase_entry *entry = &phase->entries[e];
        work.all += entry->runs * entry->work;
        for (int64_t s = 0; s < entry->program->step_count; s++)
            if (entry->program->steps[s].again)
                work.again += entry->runs * bt_call_work(&entry->program->steps[s].call);
    }
    return work;
}

double bt_phase_extra(const bt_phase *phase)
{
    const bt_phase_work work = bt_phase_count(phase);
    return work.again > 0 ? work.again / (work.all - work.again) : 0;
}
