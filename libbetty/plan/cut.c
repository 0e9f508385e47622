/* plan/cut.c: a minimum vertex cut, by Dinic's algorithm. Each value is two nodes (places) joined by an arc whose
 * capacity is its bytes. The source feeds the given values; the wanted ones feed the sink. */
#include "plan/cut.h"

#define ENDLESS (INT64_MAX / 4)

typedef struct flow {
    int64_t *to, *next, *room; /* by arc; arc ^ 1 is its reverse; room: capacity left */
    int64_t arc_count;
    int64_t *first, *at, *level; /* by place: first arc; current arc; distance from the source, -1: none or dead end */
    int64_t *path;               /* the arcs of the current path; in a search, the places found */
    int64_t places, source, sink;
} flow;

static int64_t entry_of(int64_t value) { return 2 * value; }
static int64_t exit_of(int64_t value) { return 2 * value + 1; }

static void add_half(flow *f, int64_t from, int64_t to, int64_t room)
{
    int64_t arc = f->arc_count++;
    f->to[arc] = to;
    f->room[arc] = room;
    f->next[arc] = f->first[from];
    f->first[from] = arc;
}

static void add_arc(flow *f, int64_t from, int64_t to, int64_t room)
{
    add_half(f, from, to, room);
    add_half(f, to, from, 0);
}

static bt_status open_flow(flow *f, int64_t count, int64_t need_count)
{
    size_t places = (size_t)(2 * count + 2), arcs = 2 * (size_t)(3 * count + need_count);
    *f = (flow){.places = 2 * count + 2, .source = 2 * count, .sink = 2 * count + 1};
    f->to = bt_alloc_array(arcs, sizeof *f->to);
    f->next = bt_alloc_array(arcs, sizeof *f->next);
    f->room = bt_alloc_array(arcs, sizeof *f->room);
    f->first = bt_alloc_array(places, sizeof *f->first);
    f->at = bt_alloc_array(places, sizeof *f->at);
    f->level = bt_alloc_array(places, sizeof *f->level);
    f->path = bt_alloc_array(places, sizeof *f->path);
    if (!f->to || !f->next || !f->room || !f->first || !f->at || !f->level || !f->path)
        return BT_ERROR_MEMORY;
    for (int64_t v = 0; v < f->places; v++)
        f->first[v] = -1;
    return BT_OK;
}

static void close_flow(flow *f)
{
    bt_free(f->to);
    bt_free(f->next);
    bt_free(f->room);
    bt_free(f->first);
    bt_free(f->at);
    bt_free(f->level);
    bt_free(f->path);
}

/* Finds the distance of each place from `start`, along arcs with room; if `back`, against them. */
static void search(flow *f, int64_t start, bool back)
{
    int64_t found = 0;
    for (int64_t v = 0; v < f->places; v++)
        f->level[v] = -1;
    f->level[start] = 0;
    f->path[found++] = start;
    for (int64_t i = 0; i < found; i++) {
        int64_t v = f->path[i];
        for (int64_t arc = f->first[v]; arc >= 0; arc = f->next[arc])
            if (f->room[back ? arc ^ 1 : arc] > 0 && f->level[f->to[arc]] < 0) {
                f->level[f->to[arc]] = f->level[v] + 1;
                f->path[found++] = f->to[arc];
            }
    }
}

static int64_t push(flow *f, int64_t length)
{
    int64_t least = ENDLESS;
    for (int64_t i = 0; i < length; i++)
        least = f->room[f->path[i]] < least ? f->room[f->path[i]] : least;
    for (int64_t i = 0; i < length; i++) {
        f->room[f->path[i]] -= least;
        f->room[f->path[i] ^ 1] += least;
    }
    return least;
}

/* Pushes as much as possible along one path of increasing levels, and returns it; 0: no such path is left. */
static int64_t advance(flow *f)
{
    int64_t v = f->source, length = 0;
    while (v != f->sink) {
        int64_t arc = f->at[v];
        while (arc >= 0 && (f->room[arc] <= 0 || f->level[f->to[arc]] != f->level[v] + 1))
            arc = f->next[arc];
        f->at[v] = arc;
        if (arc >= 0) {
            f->path[length++] = arc;
            v = f->to[arc];
        } else if (length == 0) {
            return 0;
        } else {
            f->level[v] = -1;
            v = f->to[f->path[--length] ^ 1];
        }
    }
    return push(f, length);
}

static int64_t maximum(flow *f)
{
    int64_t sum = 0, more;
    for (search(f, f->source, false); f->level[f->sink] >= 0; search(f, f->source, false)) {
        for (int64_t v = 0; v < f->places; v++)
            f->at[v] = f->first[v];
        while ((more = advance(f)) > 0)
            sum += more;
    }
    return sum;
}

bt_status bt_cut(bt_cut_value *values, int64_t count, const bt_cut_need *needs, int64_t need_count, int64_t *bytes)
{
    flow f;
    bt_status status = open_flow(&f, count, need_count);
    for (int64_t i = 0; status == BT_OK && i < count; i++) {
        add_arc(&f, entry_of(i), exit_of(i), values[i].bytes < 0 ? ENDLESS : values[i].bytes);
        if (values[i].given)
            add_arc(&f, f.source, entry_of(i), ENDLESS);
        if (values[i].wanted)
            add_arc(&f, exit_of(i), f.sink, ENDLESS);
    }
    for (int64_t i = 0; status == BT_OK && i < need_count; i++)
        add_arc(&f, exit_of(needs[i].of), entry_of(needs[i].value), ENDLESS);
    if (status == BT_OK) {
        *bytes = maximum(&f);
        search(&f, f.sink, true);
        for (int64_t i = 0; i < count; i++)
            values[i].held = f.level[exit_of(i)] >= 0 && f.level[entry_of(i)] < 0;
    }
    close_flow(&f);
    return status;
}
