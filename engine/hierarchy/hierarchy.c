/* engine/hierarchy/hierarchy.c: the neighbours of each place, in consecutive lists. */
#include "engine/hierarchy/hierarchy.h"

#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return x < y ? -1 : x > y;
}

static bt_status list(bt_hierarchy *h, bt_direction direction, bt_sense sense, const bt_edge *edges, int64_t edge_count)
{
    size_t count = (size_t)h->count;
    int *first = h->first[direction][sense] = bt_alloc_array(count + 2, sizeof *first);
    int *next = h->next[direction][sense] = bt_alloc_array((size_t)edge_count, sizeof *next);
    if (!first || !next)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < edge_count; i++) /* offset by two, because filling moves each by one */
        if (edges[i].direction == direction)
            first[(sense == BT_ALONG ? edges[i].from : edges[i].to) + 2]++;
    for (size_t i = 2; i < count + 2; i++)
        first[i] += first[i - 1];
    for (int64_t i = 0; i < edge_count; i++)
        if (edges[i].direction == direction) {
            int of = sense == BT_ALONG ? edges[i].from : edges[i].to;
            next[first[of + 1]++] = sense == BT_ALONG ? edges[i].to : edges[i].from;
        }
    for (size_t i = 0; i < count; i++)
        if (first[i + 1] > first[i])
            qsort(next + first[i], (size_t)(first[i + 1] - first[i]), sizeof *next, ascending);
    return BT_OK;
}

bt_status bt_hierarchy_new(bt_hierarchy *h, int count, const bt_edge *edges, int64_t edge_count)
{
    *h = (bt_hierarchy){.count = count};
    h->room = bt_alloc_array(3 * (size_t)count + 1, sizeof *h->room);
    h->marks = bt_alloc_array(2 * (size_t)count + 1, sizeof *h->marks);
    bt_status status = h->room && h->marks ? BT_OK : BT_ERROR_MEMORY;
    for (int direction = 0; direction < BT_DIRECTIONS; direction++)
        for (int sense = 0; sense < BT_SENSES && status == BT_OK; sense++)
            status = list(h, (bt_direction)direction, (bt_sense)sense, edges, edge_count);
    if (status != BT_OK)
        bt_hierarchy_free(h);
    return status;
}

void bt_hierarchy_free(bt_hierarchy *h)
{
    for (int direction = 0; direction < BT_DIRECTIONS; direction++)
        for (int sense = 0; sense < BT_SENSES; sense++) {
            bt_free(h->first[direction][sense]);
            bt_free(h->next[direction][sense]);
        }
    bt_free(h->room);
    bt_free(h->marks);
    *h = (bt_hierarchy){0};
}

bt_places bt_hierarchy_next(const bt_hierarchy *h, bt_direction direction, bt_sense sense, int place)
{
    const int *first = h->first[direction][sense];
    return (bt_places){h->next[direction][sense] + first[place], first[place + 1] - first[place]};
}

bool bt_hierarchy_has(const bt_hierarchy *h, bt_direction direction, int from, int to)
{
    bt_places next = bt_hierarchy_next(h, direction, BT_ALONG, from);
    int low = 0, high = next.count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (next.list[middle] < to)
            low = middle + 1;
        else
            high = middle;
    }
    return low < next.count && next.list[low] == to;
}

/* Breadth-first from `from`. `queue` has room for all places; `reached_from`: by place; NULL: not wanted. */
static void spread(const bt_hierarchy *h, bt_direction direction, bt_sense sense, int from, bool *seen, int *queue,
                   int *reached_from)
{
    int end = 0;
    queue[end++] = from;
    for (int at = 0; at < end; at++) {
        bt_places next = bt_hierarchy_next(h, direction, sense, queue[at]);
        for (int i = 0; i < next.count; i++) {
            if (seen[next.list[i]])
                continue;
            seen[next.list[i]] = true;
            if (reached_from)
                reached_from[next.list[i]] = queue[at];
            if (next.list[i] != from)
                queue[end++] = next.list[i];
        }
    }
}

void bt_hierarchy_reach(const bt_hierarchy *h, bt_direction direction, bt_sense sense, int from, bool *seen)
{
    spread(h, direction, sense, from, seen, h->room, NULL);
}

bool bt_hierarchy_reaches(const bt_hierarchy *h, bt_direction direction, int from, int to)
{
    memset(h->marks, 0, (size_t)h->count * sizeof *h->marks);
    bt_hierarchy_reach(h, direction, BT_ALONG, from, h->marks);
    return h->marks[to];
}

int bt_hierarchy_way(const bt_hierarchy *h, bt_direction direction, int from, int to, int *way)
{
    int *reached_from = h->room + h->count, length = 0;
    memset(h->marks, 0, (size_t)h->count * sizeof *h->marks);
    spread(h, direction, BT_ALONG, from, h->marks, h->room, reached_from);
    if (!h->marks[to])
        return 0;
    int at = to;
    do {
        way[length++] = at;
        at = reached_from[at];
    } while (at != from);
    for (int i = 0; i < length / 2; i++) {
        int swap = way[i];
        way[i] = way[length - 1 - i];
        way[length - 1 - i] = swap;
    }
    return length;
}
