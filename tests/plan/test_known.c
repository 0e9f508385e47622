/* plan/known.c: a search is not repeated; the remembered result is that of bt_frontier_new. */
#include "graphs.h"

#include "plan/known.h"
#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPHS = 20, SIMULATIONS = 300 };

static graph g;
static bt_remat remat;
static bt_region *region;
static bt_remat_choice start;
static bt_remat_may *may;
static bt_known *known;

static void begin(uint32_t seed)
{
    graph_random(&g, seed, 10 + (int)seed % 30);
    region = bt_region_new();
    ck_assert_int_eq(bt_remat_new(&remat, &g.order, g.cost), BT_OK);
    ck_assert_int_eq(bt_remat_choice_new(&remat, region, &start), BT_OK);
    may = bt_region_alloc(region, (size_t)(g.order.value_count + 1) * sizeof *may);
    for (int64_t v = 0; v < g.order.value_count; v++)
        may[v] = BT_REMAT_DROP_FIRST;
}

static void end(void)
{
    bt_remat_free(&remat);
    bt_region_free(region);
}

static bt_frontier ask(int64_t simulations)
{
    bt_frontier found;
    ck_assert_int_eq(bt_known_search(known, &remat, &start, may, simulations, &found), BT_OK);
    return found;
}

static bt_remat_choice choice_of(const bt_frontier_point *point)
{
    bt_remat_choice choice;
    ck_assert_int_eq(bt_remat_choice_new(&remat, region, &choice), BT_OK);
    memset(choice.dropped, true, (size_t)remat.gap_count); /* overwritten */
    bt_frontier_choice(point, &remat, &choice);
    return choice;
}

static void expect_point(const bt_frontier_point *point, const bt_frontier_point *expected)
{
    const bt_remat_choice choice = choice_of(point), due = choice_of(expected);
    ck_assert(point->most == expected->most && point->extra == expected->extra);
    ck_assert_int_eq(memcmp(choice.dropped, due.dropped, (size_t)remat.gap_count), 0);
    ck_assert_int_eq(memcmp(choice.brief, due.brief, (size_t)g.order.value_count), 0);
}

START_TEST(what_a_search_gives)
{
    known = bt_known_new();
    for (uint32_t seed = 0; seed < GRAPHS; seed++) {
        begin(seed);
        bt_frontier frontier;
        ck_assert_int_eq(bt_frontier_new(&frontier, &remat, &start, may, SIMULATIONS), BT_OK);
        for (int again = 0; again <= 1; again++) {
            const bt_frontier found = ask(SIMULATIONS);
            ck_assert_int_eq(found.count, frontier.count);
            for (int64_t i = 0; i < found.count; i++) {
                const size_t most = found.points[i].most;
                expect_point(&found.points[i], &frontier.points[i]);
                ck_assert_ptr_eq(bt_frontier_within(&found, most), &found.points[i]);
                ck_assert_ptr_eq(bt_frontier_for(&found, found.points[i].extra), &found.points[i]);
            }
            ck_assert_ptr_null(bt_frontier_for(&found, -1));
            ck_assert_ptr_null(bt_frontier_within(&found, found.points[found.count - 1].most - 1));
        }
        bt_frontier_free(&frontier);
        end();
    }
    bt_known_free(known);
}
END_TEST

/* The same search has the same answer, at the same address; one with any difference has its own. */
START_TEST(each_question_once)
{
    known = bt_known_new();
    begin(7);
    const bt_frontier_point *first = ask(SIMULATIONS).points;
    ck_assert_ptr_eq(ask(SIMULATIONS).points, first);
    ck_assert_ptr_ne(ask(SIMULATIONS + 1).points, first);
    int64_t free_one = 0;
    while (remat.fixed[free_one])
        free_one++;
    may[free_one] = BT_REMAT_HOLD;
    ck_assert_ptr_ne(ask(SIMULATIONS).points, first);
    may[free_one] = BT_REMAT_DROP;
    ck_assert_ptr_ne(ask(SIMULATIONS).points, first);
    may[free_one] = BT_REMAT_DROP_FIRST;
    start.dropped[remat.gaps[free_one]] = true;
    ck_assert_ptr_ne(ask(SIMULATIONS).points, first);
    start.dropped[remat.gaps[free_one]] = false;
    start.brief[free_one] = true;
    ck_assert_ptr_ne(ask(SIMULATIONS).points, first);
    start.brief[free_one] = false;
    g.cost[remat.maker[free_one]] *= 1.5;
    ck_assert_ptr_ne(ask(SIMULATIONS).points, first);
    g.cost[remat.maker[free_one]] /= 1.5;
    ck_assert_ptr_eq(ask(SIMULATIONS).points, first);
    end();
    begin(8);
    ck_assert_ptr_ne(ask(SIMULATIONS).points, first);
    end();
    bt_known_free(known);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan.known");
    TCase *tests = tcase_create("known");
    tcase_add_test(tests, what_a_search_gives);
    tcase_add_test(tests, each_question_once);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
