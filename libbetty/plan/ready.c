/* plan/ready.c: steps that may run next, as a heap. */
#include "plan/ready.h"

bt_status bt_ready_new(bt_ready *ready, bt_region *region, int64_t steps)
{
    size_t room = (size_t)steps + 1;
    ready->ranks = bt_region_alloc(region, room * sizeof *ready->ranks);
    ready->heap = bt_region_alloc(region, room * sizeof *ready->heap);
    ready->at = bt_region_alloc(region, room * sizeof *ready->at);
    if (!ready->ranks || !ready->heap || !ready->at)
        return BT_ERROR_MEMORY;
    bt_ready_clear(ready, steps);
    return BT_OK;
}

void bt_ready_clear(bt_ready *ready, int64_t steps)
{
    ready->count = 0;
    for (int64_t s = 0; s < steps; s++)
        ready->at[s] = -1;
}

static bool before(const bt_ready *ready, int64_t one, int64_t two)
{
    const bt_rank *a = &ready->ranks[one], *b = &ready->ranks[two];
    if (a->adds != b->adds)
        return a->adds < b->adds;
    return a->then != b->then ? a->then < b->then : one < two;
}

static void put(bt_ready *ready, int64_t place, int64_t step)
{
    ready->heap[place] = step;
    ready->at[step] = place;
}

static void rise(bt_ready *ready, int64_t step)
{
    int64_t place = ready->at[step];
    for (; place > 0 && before(ready, step, ready->heap[(place - 1) / 2]); place = (place - 1) / 2)
        put(ready, place, ready->heap[(place - 1) / 2]);
    put(ready, place, step);
}

static void sink(bt_ready *ready, int64_t step)
{
    int64_t place = ready->at[step];
    for (int64_t child; (child = 2 * place + 1) < ready->count; place = child) {
        if (child + 1 < ready->count && before(ready, ready->heap[child + 1], ready->heap[child]))
            child++;
        if (!before(ready, ready->heap[child], step))
            break;
        put(ready, place, ready->heap[child]);
    }
    put(ready, place, step);
}

void bt_ready_enter(bt_ready *ready, int64_t step, bt_rank rank)
{
    ready->ranks[step] = rank;
    put(ready, ready->count++, step);
    rise(ready, step);
}

void bt_ready_remove(bt_ready *ready, int64_t step)
{
    const int64_t place = ready->at[step];
    if (place < 0)
        return;
    const int64_t last = ready->heap[--ready->count];
    ready->at[step] = -1;
    if (last == step)
        return;
    put(ready, place, last);
    rise(ready, last);
    sink(ready, last);
}

int64_t bt_ready_leave(bt_ready *ready)
{
    const int64_t step = ready->heap[0];
    bt_ready_remove(ready, step);
    return step;
}

void bt_ready_less(bt_ready *ready, int64_t step, size_t bytes)
{
    if (ready->at[step] < 0)
        return;
    ready->ranks[step].adds -= (int64_t)bytes;
    rise(ready, step);
}
