/* plan/away.c: repeatedly relieves the step with the most bytes, until no step has more than the peak with all values
 * away. */
#include "plan/away.h"

static void leave(bt_absence *absence, size_t *there)
{
    absence->chosen = true;
    for (int64_t s = absence->from; s <= absence->to; s++)
        there[s] -= absence->bytes;
}

/* Finds the peak with all values away. */
static bt_status find_least(const bt_absence *absences, int64_t count, const size_t *there, int64_t steps,
                            size_t *least)
{
    size_t *less = bt_alloc_array((size_t)steps + 1, sizeof *less), away = 0;
    if (!less)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < count; i++) { /* unsigned: it may wrap, and wraps back */
        less[absences[i].from] += absences[i].bytes;
        less[absences[i].to + 1] -= absences[i].bytes;
    }
    *least = 0;
    for (int64_t s = 0; s < steps; s++) {
        away += less[s];
        *least = there[s] - away > *least ? there[s] - away : *least;
    }
    bt_free(less);
    return BT_OK;
}

static int64_t worst_of(const size_t *there, int64_t steps)
{
    int64_t worst = 0;
    for (int64_t s = 1; s < steps; s++)
        worst = there[s] > there[worst] ? s : worst;
    return worst;
}

/* The longest absence left at the step; NULL: nothing more can be away then. */
static bt_absence *longest_at(bt_absence *absences, int64_t count, int64_t step)
{
    bt_absence *best = NULL;
    for (int64_t i = 0; i < count; i++) {
        bt_absence *a = &absences[i];
        if (!a->chosen && a->from <= step && step <= a->to && (!best || a->to - a->from > best->to - best->from))
            best = a;
    }
    return best;
}

bt_status bt_away_choose(bt_absence *absences, int64_t count, size_t *there, int64_t steps)
{
    size_t least;
    if (!steps)
        return BT_OK;
    BT_TRY(find_least(absences, count, there, steps, &least));
    for (int64_t worst = worst_of(there, steps); there[worst] > least; worst = worst_of(there, steps)) {
        bt_absence *next = longest_at(absences, count, worst);
        if (!next)
            return bt_fail(BT_ERROR_INTERNAL, "no value can be away at step %lld", (long long)worst);
        leave(next, there);
    }
    return BT_OK;
}
