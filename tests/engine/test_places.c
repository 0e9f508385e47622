/* Hierarchies as places and edges, against the definitions, by looking at every pair and every path. */
#include "engine/hierarchy/hierarchy.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 9 };

typedef struct plain {
    int count;
    bool edge[BT_DIRECTIONS][MOST][MOST], way[BT_DIRECTIONS][MOST][MOST];
    bt_edge edges[2 * MOST * MOST];
    int edge_count;
} plain;

typedef struct draw {
    uint64_t seed, next;
} draw;

static int below(draw *d, int count) { return (int)(bt_host_uniform(d->seed, 0, d->next++) * count); }

static void add(plain *p, bt_direction direction, int from, int to)
{
    p->edge[direction][from][to] = true;
    p->edges[p->edge_count++] = (bt_edge){direction, from, to};
}

static void close_ways(plain *p)
{
    memcpy(p->way, p->edge, sizeof p->way);
    for (int d = 0; d < BT_DIRECTIONS; d++)
        for (int k = 0; k < p->count; k++)
            for (int i = 0; i < p->count; i++)
                for (int j = 0; j < p->count; j++)
                    p->way[d][i][j] |= p->way[d][i][k] && p->way[d][k][j];
}

/* Without cycles, unless `cyclic`: edges go down in a random order. */
static plain draw_plain(draw *d, bool cyclic)
{
    plain p = {.count = 1 + below(d, MOST)};
    int rank[MOST];
    for (int i = 0; i < p.count; i++) {
        int j = below(d, i + 1);
        rank[i] = rank[j];
        rank[j] = i;
    }
    for (int n = below(d, p.count * p.count); n > 0; n--) {
        int a = below(d, p.count), b = below(d, p.count), direction = below(d, BT_DIRECTIONS);
        bool down = rank[a] < rank[b];
        int from = cyclic || down == (direction == BT_U2L) ? a : b, to = from == a ? b : a;
        if (from != to && !p.edge[direction][from][to])
            add(&p, (bt_direction)direction, from, to);
    }
    close_ways(&p);
    return p;
}

static void expect_list(bt_places found, const int *expected, int count)
{
    ck_assert_int_eq(found.count, count);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(found.list[i], expected[i]);
}

/* In sequence: always the lowest place that does not wait for a remaining one, according to `waits`. */
static int plain_order(const plain *p, const bool *in, bool down, int *list)
{
    bool done[MOST] = {false};
    int count = 0;
    for (bool found = true; found;) {
        found = false;
        for (int i = 0; i < p->count && !found; i++) {
            bool free = in[i] && !done[i];
            for (int j = 0; j < p->count; j++)
                free &= !(in[j] && !done[j] && p->edge[BT_U2L][down ? j : i][down ? i : j]);
            if (free) {
                done[i] = found = true;
                list[count++] = i;
            }
        }
    }
    return count;
}

static void expect_lowers(const bt_hierarchy *h, const plain *p, int upper)
{
    bool in[MOST] = {false};
    int expected[MOST];
    for (int round = 0; round < p->count; round++)
        for (int i = 0; i < p->count; i++) {
            bool enters = p->way[BT_L2U][i][upper];
            for (int j = 0; j < p->count; j++)
                enters |= in[j] && p->edge[BT_U2L][i][j];
            in[i] |= i != upper && p->way[BT_U2L][upper][i] && enters;
        }
    expect_list(bt_hierarchy_lowers(h, upper), expected, plain_order(p, in, false, expected));
}

static void expect_leaves(const bt_hierarchy *h, const plain *p, draw *d)
{
    bool in[MOST], leaf[MOST];
    int expected[MOST];
    for (int i = 0; i < p->count; i++) {
        in[i] = leaf[i] = below(d, 4) > 0;
        for (int j = 0; j < p->count; j++)
            leaf[i] &= !p->edge[BT_L2U][j][i];
    }
    expect_list(bt_hierarchy_leaves(h, in), expected, plain_order(p, leaf, true, expected));
}

/* Checks a path: each step is an edge, and the last place is the requested one. */
static void expect_way(const bt_hierarchy *h, const plain *p, bt_direction direction, int from, int to)
{
    int way[MOST + 1], length = bt_hierarchy_way(h, direction, from, to, way);
    ck_assert_int_eq(length > 0, p->way[direction][from][to]);
    ck_assert_int_eq(bt_hierarchy_reaches(h, direction, from, to), p->way[direction][from][to]);
    ck_assert_int_eq(bt_hierarchy_has(h, direction, from, to), p->edge[direction][from][to]);
    ck_assert_int_le(length, p->count);
    for (int i = 0; i < length; i++)
        ck_assert(p->edge[direction][i ? way[i - 1] : from][way[i]]);
    if (length)
        ck_assert_int_eq(way[length - 1], to);
}

static bool plain_link(const plain *p, const bt_edge *edge)
{
    for (int i = 0; i < p->count; i++)
        if ((i == edge->to || p->way[BT_L2U][edge->to][i]) && (i == edge->from || p->way[BT_U2L][i][edge->from]))
            return true;
    return false;
}

static void expect_same(const plain *p, draw *d, bool cyclic)
{
    bt_hierarchy h;
    ck_assert_int_eq(bt_hierarchy_new(&h, p->count, p->edges, p->edge_count), BT_OK);
    for (int direction = 0; direction < BT_DIRECTIONS; direction++) {
        bool cycle = false;
        for (int i = 0; i < p->count; i++) {
            cycle |= p->way[direction][i][i];
            for (int j = 0; j < p->count; j++)
                expect_way(&h, p, (bt_direction)direction, i, j);
        }
        ck_assert_int_eq(bt_hierarchy_has_cycle(&h, (bt_direction)direction), cycle);
    }
    for (int i = 0; i < p->edge_count; i++) {
        const bt_edge *edge = &p->edges[i];
        ck_assert_int_eq(bt_hierarchy_follows(&h, edge),
                         edge->direction == BT_U2L || p->way[BT_U2L][edge->to][edge->from]);
        ck_assert_int_eq(bt_hierarchy_links(&h, edge), plain_link(p, edge));
    }
    for (int i = 0; i < p->count && !cyclic; i++)
        expect_lowers(&h, p, i);
    if (!cyclic)
        expect_leaves(&h, p, d);
    bt_hierarchy_free(&h);
}

START_TEST(by_the_definitions)
{
    draw d = {.seed = 5};
    for (int round = 0; round < 300; round++) {
        bool cyclic = round % 4 == 0;
        plain p = draw_plain(&d, cyclic);
        expect_same(&p, &d, cyclic);
    }
}
END_TEST

/* A chain of so many levels that trying each pair would take forever, and recursion would overflow the stack. */
START_TEST(a_long_chain)
{
    enum { LONG = 200000 };
    bt_edge *edges = calloc(2 * LONG, sizeof *edges);
    int count = 0;
    for (int i = 0; i + 1 < LONG; i++) {
        edges[count++] = (bt_edge){BT_U2L, i, i + 1};
        edges[count++] = (bt_edge){BT_L2U, i + 1, i};
    }
    bt_hierarchy h;
    ck_assert_int_eq(bt_hierarchy_new(&h, LONG, edges, count), BT_OK);
    ck_assert(!bt_hierarchy_has_cycle(&h, BT_U2L) && !bt_hierarchy_has_cycle(&h, BT_L2U));
    ck_assert(bt_hierarchy_reaches(&h, BT_U2L, 0, LONG - 1) && !bt_hierarchy_reaches(&h, BT_U2L, LONG - 1, 0));
    bt_places lowers = bt_hierarchy_lowers(&h, 0);
    ck_assert_int_eq(lowers.count, LONG - 1);
    for (int i = 0; i < lowers.count; i++) /* from the bottom */
        ck_assert_int_eq(lowers.list[i], LONG - 1 - i);
    bt_hierarchy_free(&h);
    free(edges);
}
END_TEST

START_TEST(nothing)
{
    bt_hierarchy h;
    ck_assert_int_eq(bt_hierarchy_new(&h, 0, NULL, 0), BT_OK);
    ck_assert(!bt_hierarchy_has_cycle(&h, BT_U2L));
    ck_assert_int_eq(bt_hierarchy_leaves(&h, NULL).count, 0);
    bt_hierarchy_free(&h);
    bt_hierarchy_free(&h);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("places");
    TCase *tests = tcase_create("places");
    tcase_add_test(tests, by_the_definitions);
    tcase_add_test(tests, a_long_chain);
    tcase_add_test(tests, nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
