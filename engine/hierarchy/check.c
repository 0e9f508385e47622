/* engine/hierarchy/check.c: the requirements on the edges of a hierarchy. */
#include "engine/hierarchy/hierarchy.h"

#include <string.h>

bool bt_hierarchy_has_cycle(const bt_hierarchy *h, bt_direction direction)
{
    memset(h->marks, true, (size_t)h->count * sizeof *h->marks);
    return bt_hierarchy_order(h, direction, BT_ALONG, h->marks).count < h->count;
}

bool bt_hierarchy_follows(const bt_hierarchy *h, const bt_edge *edge)
{
    return edge->direction != BT_L2U || bt_hierarchy_has(h, BT_U2L, edge->to, edge->from) ||
           bt_hierarchy_reaches(h, BT_U2L, edge->to, edge->from);
}

bool bt_hierarchy_links(const bt_hierarchy *h, const bt_edge *edge)
{
    bool *users = h->marks, *above = h->marks + h->count, link = false;
    memset(h->marks, 0, 2 * (size_t)h->count * sizeof *h->marks);
    bt_hierarchy_reach(h, BT_L2U, BT_ALONG, edge->to, users);
    bt_hierarchy_reach(h, BT_U2L, BT_AGAINST, edge->from, above);
    users[edge->to] = above[edge->from] = true;
    for (int place = 0; place < h->count && !link; place++)
        link = users[place] && above[place];
    return link;
}
