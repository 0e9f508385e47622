/* runtime/fit.c: fits a phase into a budget. Each program gets the limit minus the bytes that others have alive while
 * it runs. Placing leaves gaps, so the limit is lowered from the budget until the arena fits, each time just enough
 * that some program must do with less. The plan depends only on the limit, and the first one that fits is the cheapest,
 * so a larger budget never needs more work. */
#include "runtime/fit.h"

#include <string.h>

/* Finds the peak of live bytes during each entry. */
static bt_status find_peaks(const bt_phase *phase, size_t *peaks)
{
    const bt_phase_entry *last = &phase->entries[phase->entry_count - 1];
    int64_t steps = last->base + last->program->step_count, entry = 0, now = 0;
    int64_t *changes = bt_alloc_array((size_t)steps + 1, sizeof *changes);
    if (!changes)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < phase->value_count; i++) {
        const bt_interval *life = &phase->intervals[i];
        if (life->last < life->first || phase->values[i].space == BT_SPACE_HOST)
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

typedef struct fit {
    bt_phase *phase;
    bool anything;
    size_t *peaks, *beside; /* by entry: its peak before there was a limit; the part of that outside its program */
    size_t lowest;          /* the lowest limit so far: programs above it have been recompiled */
    size_t limit;           /* of the current plan */
    size_t bound;           /* the highest peak of a program in it, with the bytes beside */
    bool stuck;             /* that program cannot have less */
} fit;

/* Compiles the entry's program again within the limit; without a budget if it fits as it was at first. */
static bt_status recompile(const fit *f, int64_t e)
{
    const size_t room = f->limit > f->beside[e] ? f->limit - f->beside[e] : 1;
    bt_phase *phase = f->phase;
    bt_phase_entry *entry = &phase->entries[e];
    bt_compile_options options = phase->options;
    options.loop = entry->loop != 0;
    options.budget = f->peaks[e] > f->limit ? room : 0;
    options.anything = f->anything;
    options.known = phase->instance->first->known;
    options.spent = entry->spent;
    options = bt_compile_settle(&options);
    bt_program *program = bt_compile_graph(entry->program->graph, &options);
    if (!program)
        return bt_error_status();
    program->sharded = entry->program->sharded; /* the graph is already the rank's own */
    entry->program->sharded = (bt_sharded_report){0};
    return bt_phase_replace(phase, entry, program);
}

/* Makes the plan for a limit. */
static bt_status plan_within(fit *f, size_t limit)
{
    f->limit = limit;
    f->lowest = limit < f->lowest ? limit : f->lowest;
    f->bound = 0;
    for (int64_t e = 0; e < f->phase->entry_count; e++) {
        if (f->peaks[e] > f->lowest)
            BT_TRY(recompile(f, e));
        const size_t has = f->peaks[e] > limit ? f->phase->entries[e].program->most + f->beside[e] : f->peaks[e];
        f->bound = has > f->bound ? has : f->bound;
    }
    f->stuck = f->bound > limit;
    return bt_phase_plan(f->phase);
}

/* Lowers the limit until the arena fits; *best: the limit with the smallest arena. */
static bt_status go_down(fit *f, size_t limit, size_t budget, size_t *best)
{
    size_t least = SIZE_MAX;
    do {
        BT_TRY(plan_within(f, limit));
        if (f->phase->arena < least) {
            least = f->phase->arena;
            *best = limit;
        }
        limit = f->bound - 1;
    } while (f->phase->arena > budget && !f->stuck);
    return BT_OK;
}

/* If no plan fits, some program has the least that it can have: which one, and how much, does not depend on the budget.
 * That plan leaves gaps, so other plans, of limits up to the size of its arena, may need fewer bytes: takes the best of
 * them. */
static bt_status find_least(fit *f)
{
    size_t best = 0;
    BT_TRY(plan_within(f, f->bound));
    BT_TRY(go_down(f, f->phase->arena, 0, &best));
    return f->limit == best ? BT_OK : plan_within(f, best);
}

static bt_status begin(fit *f)
{
    const size_t count = (size_t)f->phase->entry_count + 1;
    f->peaks = bt_alloc_array(count, sizeof *f->peaks);
    f->beside = bt_alloc_array(count, sizeof *f->beside);
    if (!f->peaks || !f->beside)
        return BT_ERROR_MEMORY;
    BT_TRY(find_peaks(f->phase, f->peaks));
    for (int64_t e = 0; e < f->phase->entry_count; e++) {
        const size_t own = f->phase->entries[e].program->most;
        f->beside[e] = f->peaks[e] > own ? f->peaks[e] - own : 0;
    }
    return BT_OK;
}

static bt_status fit_one(bt_phase *phase, size_t budget, bool anything)
{
    fit f = {.phase = phase, .anything = anything, .lowest = SIZE_MAX};
    size_t best;
    bt_status status = begin(&f);
    if (status == BT_OK && phase->arena > budget)
        status = go_down(&f, budget ? budget : 1, budget, &best);
    if (status == BT_OK && phase->arena > budget)
        status = find_least(&f);
    bt_free(f.peaks);
    bt_free(f.beside);
    return status;
}

bt_status bt_phase_fit(bt_phase *phase, size_t budget, bool anything)
{
    for (int r = 0; r < bt_phase_others(phase); r++)
        BT_TRY(fit_one(phase->others[r], budget, anything));
    return fit_one(phase, budget, anything);
}

bt_phase_work bt_phase_count(const bt_phase *phase)
{
    bt_phase_work work = {0, 0};
    for (int64_t e = 0; e < phase->entry_count; e++) {
        const bt_phase_entry *entry = &phase->entries[e];
        work.all += entry->runs * entry->program->work;
        work.again += entry->runs * entry->program->repeated;
    }
    return work;
}

double bt_phase_extra(const bt_phase *phase)
{
    const bt_phase_work work = bt_phase_count(phase);
    return work.again > 0 ? work.again / (work.all - work.again) : 0;
}
