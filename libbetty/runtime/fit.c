/* runtime/fit.c: a phase within a budget. A program is given what the budget leaves beside what others have alive while
 * it runs, and beside the gaps that placing leaves. */
#include "runtime/fit.h"

#include "compile/work.h"
#include <string.h>

enum { ROUNDS = 5 };

typedef struct peak { /* of an entry */
    size_t most;      /* bytes alive at one of its steps; */
    size_t vars;      /* of these, variables of the phase, which cannot be computed again */
} peak;

typedef struct change {
    int64_t alive, vars;
} change;

static bt_status find_peaks(const bt_phase *phase, peak *peaks)
{
    const bt_phase_entry *last = &phase->entries[phase->entry_count - 1];
    int64_t steps = last->base + last->program->step_count, entry = 0;
    change *changes = bt_alloc_array((size_t)steps + 1, sizeof *changes), now = {0, 0};
    if (!changes)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < phase->value_count; i++) {
        const bt_interval *life = &phase->intervals[i];
        int64_t bytes = (int64_t)life->bytes, var = phase->values[i].var ? bytes : 0;
        if (life->last < life->first)
            continue;
        changes[life->first].alive += bytes;
        changes[life->first].vars += var;
        changes[life->last + 1].alive -= bytes;
        changes[life->last + 1].vars -= var;
    }
    memset(peaks, 0, (size_t)phase->entry_count * sizeof *peaks);
    for (int64_t s = 0; s < steps; s++) {
        while (entry + 1 < phase->entry_count && phase->entries[entry + 1].base <= s)
            entry++;
        now.alive += changes[s].alive;
        now.vars += changes[s].vars;
        if ((size_t)now.alive > peaks[entry].most)
            peaks[entry] = (peak){(size_t)now.alive, (size_t)now.vars};
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

/* *stuck: a program needs more than it was given, or its variables alone do, and so it will always be. */
static bt_status tighten(bt_phase *phase, size_t budget, bool anything, peak *peaks, bool *stuck)
{
    BT_TRY(find_peaks(phase, peaks));
    size_t gaps = phase->arena - phase->bound;
    bool beyond = false;
    for (int64_t e = 0; e < phase->entry_count; e++)
        beyond |= peaks[e].vars > budget;
    *stuck = beyond;
    for (int64_t e = 0; e < phase->entry_count && !beyond; e++) {
        bt_phase_entry *entry = &phase->entries[e];
        size_t own = entry->program->most, beside = gaps + (peaks[e].most > own ? peaks[e].most - own : 0);
        if (peaks[e].most + gaps <= budget)
            continue;
        BT_TRY(recompile(phase, entry, anything ? budget : 0, beside));
        *stuck |= entry->program->most + beside > budget;
    }
    return bt_phase_plan(phase);
}

bt_status bt_phase_fit(bt_phase *phase, size_t budget, bool anything)
{
    peak *peaks = bt_alloc_array((size_t)phase->entry_count, sizeof *peaks);
    bool stuck = false;
    bt_status status = peaks ? BT_OK : BT_ERROR_MEMORY;
    for (int i = 0; status == BT_OK && i < ROUNDS && phase->arena > budget && !stuck; i++)
        status = tighten(phase, budget, anything, peaks, &stuck);
    bt_free(peaks);
    return status;
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
