/* engine/hierarchy/order.c: the order of places. */
#include "engine/hierarchy/hierarchy.h"

#include <string.h>

/* ---- a heap that gives the lowest free place ---- */

static void push(int *heap, int count, int place)
{
    int at = count;
    for (; at > 0 && heap[(at - 1) / 2] > place; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = place;
}

static int pop(int *heap, int count)
{
    int lowest = heap[0], last = heap[count - 1], at = 0;
    for (int child = 1; child < count - 1; child = 2 * at + 1) {
        child += child + 1 < count - 1 && heap[child + 1] < heap[child];
        if (heap[child] >= last)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return lowest;
}

bt_places bt_hierarchy_order(const bt_hierarchy *h, bt_direction direction, bt_sense sense, const bool *in)
{
    int *waits = h->room, *heap = waits + h->count, *order = heap + h->count, free = 0, count = 0;
    for (int place = 0; place < h->count; place++) {
        bt_places next = bt_hierarchy_next(h, direction, sense, place);
        waits[place] = 0;
        for (int i = 0; i < next.count; i++)
            waits[place] += in[next.list[i]];
        if (in[place] && !waits[place])
            push(heap, free++, place);
    }
    while (free) {
        int place = pop(heap, free--);
        bt_places freed = bt_hierarchy_next(h, direction, sense == BT_ALONG ? BT_AGAINST : BT_ALONG, place);
        order[count++] = place;
        for (int i = 0; i < freed.count; i++)
            if (in[freed.list[i]] && --waits[freed.list[i]] == 0)
                push(heap, free++, freed.list[i]);
    }
    return (bt_places){order, count};
}

/* Marks what a marked place can reach against u2l, within `below`: places that the upper loss does not read, but whose
 * solution enters the loss of a marked place. */
static void reach_back(const bt_hierarchy *h, const bool *below, bool *in)
{
    int *waiting = h->room, count = 0;
    for (int place = 0; place < h->count; place++)
        if (in[place])
            waiting[count++] = place;
    while (count) {
        bt_places above = bt_hierarchy_next(h, BT_U2L, BT_AGAINST, waiting[--count]);
        for (int i = 0; i < above.count; i++)
            if (below[above.list[i]] && !in[above.list[i]]) {
                in[above.list[i]] = true;
                waiting[count++] = above.list[i];
            }
    }
}

bt_places bt_hierarchy_lowers(const bt_hierarchy *h, int upper)
{
    bool *below = h->marks, *in = h->marks + h->count;
    memset(h->marks, 0, 2 * (size_t)h->count * sizeof *h->marks);
    bt_hierarchy_reach(h, BT_U2L, BT_ALONG, upper, below);
    bt_hierarchy_reach(h, BT_L2U, BT_AGAINST, upper, in);
    below[upper] = false;
    for (int place = 0; place < h->count; place++)
        in[place] = in[place] && below[place];
    reach_back(h, below, in);
    return bt_hierarchy_order(h, BT_U2L, BT_ALONG, in);
}

bt_places bt_hierarchy_leaves(const bt_hierarchy *h, const bool *in)
{
    bool *leaf = h->marks;
    for (int place = 0; place < h->count; place++)
        leaf[place] = in[place] && !bt_hierarchy_next(h, BT_L2U, BT_AGAINST, place).count;
    return bt_hierarchy_order(h, BT_U2L, BT_AGAINST, leaf);
}
