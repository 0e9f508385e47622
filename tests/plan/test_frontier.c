/* plan/frontier.c: the search for values to drop. Compared with: all choices on small graphs; on chains of unequal
 * steps, a dynamic programme over stored states, which knows nothing of choices; on chains of equal steps, Revolve's
 * closed form (Griewank and Walther 2000); the verifier on random graphs. */
#include "graphs.h"

#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static graph g;
static bt_remat remat;
static bt_frontier frontier;

static void search_with(const bt_remat_choice *start, const bt_remat_may *may, int64_t simulations)
{
    ck_assert_int_eq(bt_frontier_new(&frontier, &remat, start, may, simulations), BT_OK);
    ck_assert_int_le(frontier.simulations, simulations);
    ck_assert_int_ge(frontier.count, 1);
}

static void search(int64_t simulations)
{
    ck_assert_int_eq(bt_remat_new(&remat, &g.order, g.cost), BT_OK);
    search_with(NULL, NULL, simulations);
}

static void end(void)
{
    bt_frontier_free(&frontier);
    bt_remat_free(&remat);
    bt_error_clear();
}

static bt_remat_choice choice_of(const bt_frontier_point *point, bt_region *region)
{
    bt_remat_choice choice;
    ck_assert_int_eq(bt_remat_choice_new(&remat, region, &choice), BT_OK);
    bt_frontier_choice(point, &remat, &choice);
    return choice;
}

/* Checks that each point is the result of its choice, and that more bytes never cost more. */
static void check_points(void)
{
    for (int64_t i = 0; i < frontier.count; i++) {
        const bt_frontier_point *point = &frontier.points[i];
        bt_remat_plan plan;
        bt_region *region = bt_region_new();
        const bt_remat_choice choice = choice_of(point, region);
        ck_assert_int_eq(bt_remat_follow(&remat, &choice, region, &plan), BT_OK);
        ck_assert_msg(bt_remat_verify(&remat, &plan) == BT_OK, "%s", bt_error());
        ck_assert_uint_eq(plan.most, point->most);
        ck_assert_double_eq(plan.extra, point->extra);
        for (int64_t v = 0; v < g.order.value_count; v++)
            for (int64_t gap = remat.gaps[v]; gap < remat.gaps[v + 1]; gap++)
                ck_assert(!remat.fixed[v] || !choice.dropped[gap]);
        if (i > 0)
            ck_assert(point->most < point[-1].most && point->extra > point[-1].extra);
        ck_assert_ptr_eq(bt_frontier_within(&frontier, point->most), point);
        ck_assert_ptr_eq(bt_frontier_for(&frontier, point->extra), point);
        bt_region_free(region);
    }
    const bt_frontier_point *least = &frontier.points[frontier.count - 1];
    ck_assert_ptr_eq(bt_frontier_within(&frontier, least->most - 1), least->most > 0 ? NULL : least);
    ck_assert_ptr_null(bt_frontier_for(&frontier, -1));
}

START_TEST(points_on_random_graphs)
{
    for (uint32_t seed = 0; seed < 400; seed++) {
        graph_random(&g, seed, 3 + (int)seed % 80);
        search(1000);
        ck_assert_uint_le(frontier.points[0].most, remat.most);
        ck_assert(frontier.points[0].extra == 0);
        check_points();
        end();
    }
}
END_TEST

/* ---- budgets ---- */

enum { GRAPHS = 10000, PART = 20, BUDGETS = 8 };

/* The cheapest plan within a budget, recounted. */
static double extra_within(size_t budget)
{
    const bt_frontier_point *point = bt_frontier_within(&frontier, budget);
    bt_remat_plan plan;
    bt_region *region = bt_region_new();
    ck_assert_msg(point != NULL, "%zu bytes are enough", budget);
    const bt_remat_choice choice = choice_of(point, region);
    ck_assert_int_eq(bt_remat_follow(&remat, &choice, region, &plan), BT_OK);
    ck_assert_msg(bt_remat_verify(&remat, &plan) == BT_OK, "%s", bt_error());
    ck_assert_uint_le(plan.most, budget);
    ck_assert_uint_eq(plan.most, point->most);
    bt_region_free(region);
    return plan.extra;
}

/* Any budget from the minimum on is met, and more bytes never cost more work. Some of the graphs; with BT_TEST_ALL=1
 * all. */
START_TEST(budgets_on_random_graphs)
{
    int64_t cheaper = 0;
    for (uint32_t seed = 0; seed < GRAPHS; seed += getenv("BT_TEST_ALL") ? 1 : PART) {
        graph_random(&g, seed, 3 + (int)(seed / PART) % 80);
        search(1000);
        size_t least = frontier.points[frontier.count - 1].most;
        ck_assert_ptr_null(least ? bt_frontier_within(&frontier, least - 1) : NULL);
        double before = extra_within(least);
        for (size_t i = 1; i <= BUDGETS; i++) {
            double extra = extra_within(least + (remat.most - least) * i / BUDGETS);
            ck_assert_msg(extra <= before, "graph %u: %g of work, and %g with more bytes", seed, before, extra);
            cheaper += extra < before;
            before = extra;
        }
        ck_assert_msg(before == 0, "graph %u: work is done again where there is room for all", seed);
        end();
    }
    ck_assert_int_gt(cheaper, 500);
}
END_TEST

START_TEST(the_same_on_every_run)
{
    for (uint32_t seed = 0; seed < 10; seed++) {
        graph_random(&g, seed, 40);
        search(3000);
        bt_frontier first = frontier;
        search_with(NULL, NULL, 3000);
        ck_assert_int_eq(first.count, frontier.count);
        ck_assert_int_eq(first.simulations, frontier.simulations);
        bt_region *region = bt_region_new();
        for (int64_t i = 0; i < first.count; i++) {
            const bt_frontier_point *a = &first.points[i], *b = &frontier.points[i];
            const bt_remat_choice x = choice_of(a, region), y = choice_of(b, region);
            ck_assert(a->most == b->most && a->extra == b->extra);
            ck_assert_int_eq(memcmp(x.dropped, y.dropped, (size_t)remat.gap_count), 0);
            ck_assert_int_eq(memcmp(x.brief, y.brief, (size_t)g.order.value_count), 0);
        }
        bt_region_free(region);
        bt_frontier_free(&first);
        end();
    }
}
END_TEST

/* ---- every choice ---- */

enum { BITS = 12 };

static int64_t list_bits(int64_t *bits) /* gaps; -1 - value */
{
    int64_t count = 0;
    for (int64_t v = 0; v < g.order.value_count && count <= BITS; v++) {
        if (remat.fixed[v] || g.values[v].bytes == 0 || remat.gaps[v + 1] - remat.gaps[v] == 1)
            continue;
        bits[count++] = -1 - v;
        for (int64_t gap = remat.gaps[v]; gap < remat.gaps[v + 1] && count <= BITS; gap++)
            bits[count++] = gap;
    }
    return count;
}

/* How many points of the exhaustive search the frontier reaches. */
static void compare_with_all(int64_t *all, int64_t *reached)
{
    int64_t bits[BITS + 2], count = list_bits(bits);
    bt_remat_choice choice;
    bt_region *region = bt_region_new();
    ck_assert_int_eq(bt_remat_choice_new(&remat, region, &choice), BT_OK);
    for (int64_t set = 0; count <= BITS && set < (int64_t)1 << count; set++) {
        bt_remat_plan plan;
        for (int64_t i = 0; i < count; i++)
            *(bits[i] >= 0 ? &choice.dropped[bits[i]] : &choice.brief[-1 - bits[i]]) = set >> i & 1;
        ck_assert_int_eq(bt_remat_follow(&remat, &choice, NULL, &plan), BT_OK);
        const bt_frontier_point *point = bt_frontier_within(&frontier, plan.most);
        (*all)++;
        *reached += point && point->extra <= plan.extra;
    }
    bt_region_free(region);
}

START_TEST(no_choice_is_better_on_small_graphs)
{
    int64_t all = 0, reached = 0;
    for (uint32_t seed = 0; seed < 600; seed++) {
        graph_random(&g, seed, 4 + (int)seed % 5);
        search(20000);
        compare_with_all(&all, &reached);
        end();
    }
    ck_assert_int_gt(all, 100000);
    ck_assert_double_ge((double)reached, .995 * (double)all);
}
END_TEST

/* ---- chains ---- */

enum { CHAIN = 14, ROOM = 64 };

typedef struct chain {
    int n, bytes[CHAIN + 1], cost[CHAIN + 1];
    double least[CHAIN + 1][CHAIN + 1][ROOM]; /* by first, end and bytes; -1: not computed yet */
} chain;

/* The least cost of the forward steps needed to run backward from `end` to `first`. The state at `first` is stored, and
 * `room` more bytes are free: either each step back recomputes from `first`, or one state in between is stored too. */
static double least_cost(chain *c, int first, int end, int room)
{
    if (end - first <= 1)
        return 0;
    double *known = &c->least[first][end][room];
    if (*known >= 0)
        return *known;
    *known = INFINITY;
    double cost = 0;
    for (int j = first + 1; j < end; j++) {
        cost += c->cost[j];
        if ((j - 1 > first ? c->bytes[j - 1] : 0) + c->bytes[j] > room)
            break;
        *known = fmin(*known, cost + least_cost(c, j, end, room - c->bytes[j]) + least_cost(c, first, j, room));
    }
    return *known;
}

static double sum_of(const chain *c)
{
    double sum = 0;
    for (int i = 1; i < c->n; i++)
        sum += c->cost[i];
    return sum;
}

/* The costs of the frontier's points against the optimum, grouped by the optimum relative to the forward pass: up to a
 * half, up to all of it, up to twice. */
typedef struct sums {
    double found[3], due[3];
} sums;

static void compare(sums *all, double found, double due, double forwards)
{
    int kind = due <= forwards / 2 ? 0 : due <= forwards ? 1 : 2;
    if (due > 2 * forwards)
        return;
    all->found[kind] += found;
    all->due[kind] += due;
}

static void expect_close(const sums *all, double half, double whole, double twice)
{
    const double times[3] = {half, whole, twice};
    for (int i = 0; i < 3; i++)
        ck_assert_double_le(all->found[i], times[i] * all->due[i]);
}

static void draw_chain(chain *c, uint32_t seed)
{
    c->n = 4 + (int)graph_draw(&seed, CHAIN - 4);
    for (int i = 0; i <= CHAIN; i++) {
        c->bytes[i] = 1 + (int)graph_draw(&seed, 4);
        c->cost[i] = 1 + (int)graph_draw(&seed, 9);
        for (int j = 0; j <= CHAIN; j++)
            for (int room = 0; room < ROOM; room++)
                c->least[i][j][room] = -1;
    }
}

/* At each budget that the dynamic programme can meet, the frontier meets it too, at nearly its cost. */
START_TEST(chains_of_unlike_steps)
{
    static chain c;
    sums all = {0};
    for (uint32_t seed = 1; seed <= 40; seed++) {
        draw_chain(&c, seed);
        graph_chain(&g, c.n, c.bytes, c.cost, false);
        search(20000);
        for (int room = 0; room < (int)remat.most; room++) {
            double due = least_cost(&c, 0, c.n, room) - sum_of(&c);
            const bt_frontier_point *point = bt_frontier_within(&frontier, (size_t)room);
            if (isinf(due))
                continue;
            ck_assert_msg(point, "%d bytes are enough for chain %u", room, seed);
            compare(&all, point->extra, due, sum_of(&c));
        }
        check_points();
        end();
    }
    expect_close(&all, 1.01, 1.25, 1.7);
}
END_TEST

static double binomial(int n, int k)
{
    double result = k < 0 ? 0 : 1;
    for (int i = 1; i <= k; i++)
        result = result * (n - k + i) / i;
    return result;
}

/* The total forward steps with `states` stored states, including the first one. */
static double revolve(int steps, int states)
{
    int r = 0;
    while (binomial(states + r, states) < steps)
        r++;
    return r * steps - binomial(states + r, states + 1);
}

START_TEST(chains_of_equal_steps)
{
    ck_assert_double_eq(revolve(10, 3), 15);
    ck_assert_double_eq(revolve(100, 10), 222);
    ck_assert_double_eq(revolve(100, 44), 154);
    sums all = {0};
    for (int n = 5; n <= 80; n = n * 3 / 2 + 1) {
        graph_chain(&g, n, NULL, NULL, true);
        search(n < 30 ? 40000 : 100000);
        for (int states = n - 1; states >= 1; states--) {
            const bt_frontier_point *point = bt_frontier_within(&frontier, (size_t)states);
            double due = revolve(n, states) - (n - 1);
            if (due > 2 * n)
                continue;
            ck_assert_msg(point, "%d states are enough for %d steps", states, n);
            ck_assert_double_ge(point->extra, due);
            compare(&all, point->extra, due, n - 1);
        }
        end();
    }
    expect_close(&all, 1, 1.05, 1.5);
}
END_TEST

/* Starts from the choice of a policy: values that it forbids to hold stay dropped, unless `may` names them, and in
 * addition only values that `may` names are dropped. */
START_TEST(from_a_choice_and_by_name)
{
    bt_region *region = bt_region_new();
    bt_remat_choice start;
    bt_remat_may may[GRAPH_VALUES] = {BT_REMAT_HOLD};
    graph_chain(&g, 12, NULL, NULL, true);
    ck_assert_int_eq(bt_remat_new(&remat, &g.order, g.cost), BT_OK);
    ck_assert_int_eq(bt_remat_choice_new(&remat, region, &start), BT_OK);
    start.dropped[remat.gaps[3] + 1] = true; /* value 3 is x[3] */
    may[7] = BT_REMAT_DROP_FIRST;
    may[8] = BT_REMAT_DROP;
    search_with(&start, may, 3000);
    ck_assert_int_gt(frontier.count, 1);
    ck_assert_double_eq(frontier.points[0].extra, 1);
    for (int64_t i = 0; i < frontier.count; i++) {
        const bt_remat_choice choice = choice_of(&frontier.points[i], region);
        for (int64_t v = 0; v < g.order.value_count; v++)
            for (int64_t gap = remat.gaps[v]; gap < remat.gaps[v + 1]; gap++)
                if (may[v] == BT_REMAT_HOLD)
                    ck_assert_int_eq(choice.dropped[gap], start.dropped[gap]);
    }
    check_points();
    bt_region_free(region);
    end();
}
END_TEST

/* Blocks x[i + 1] = x[i] + f(x[i]) with tangents t in parallel. At each block's peak x[i + 1] is waiting, so only
 * recomputing the chain in every block helps. That means many values at once, and a search over all values, tangents
 * included, does not find it. */
static void blocks_with_tangents(int blocks, bt_remat_may *may)
{
    graph_begin(&g);
    int64_t x = graph_value(&g, 0, true), t = graph_value(&g, 0, true);
    for (int i = 0; i < blocks; i++) {
        int64_t f = STEP(&g, 4, 100, x), next = STEP(&g, 1, 100, x, f);
        int64_t wide = STEP(&g, 4, 200, t, x), slope = STEP(&g, 1, 100, wide);
        t = STEP(&g, 1, 100, t, slope);
        may[f] = may[next] = BT_REMAT_DROP_FIRST;
        may[wide] = may[slope] = may[t] = BT_REMAT_DROP;
        x = next;
    }
    g.values[STEP(&g, 1, 1, t)].kept = true;
}

START_TEST(what_comes_first)
{
    for (int blocks = 8; blocks <= 24; blocks += 8) {
        bt_remat_may may[GRAPH_VALUES] = {BT_REMAT_HOLD};
        blocks_with_tangents(blocks, may);
        ck_assert_int_eq(bt_remat_new(&remat, &g.order, g.cost), BT_OK);
        ck_assert_uint_eq(remat.most, 500); /* t, x, x', and the wide value */
        search_with(NULL, may, 2000);
        ck_assert_uint_eq(frontier.points[frontier.count - 1].most, 400);
        check_points();
        end();
    }
}
END_TEST

/* Values that are not tried first are searched, too: together with some that are, or alone. */
START_TEST(what_comes_later)
{
    for (int all = 0; all <= 1; all++) {
        bt_remat_may may[GRAPH_VALUES];
        for (int v = 0; v < GRAPH_VALUES; v++)
            may[v] = v % 4 || all ? BT_REMAT_DROP : BT_REMAT_DROP_FIRST;
        graph_chain(&g, 12, NULL, NULL, true);
        ck_assert_int_eq(bt_remat_new(&remat, &g.order, g.cost), BT_OK);
        search_with(NULL, may, 20000);
        ck_assert_uint_eq(frontier.points[frontier.count - 1].most, 1); /* the same as with a single state */
        check_points();
        end();
    }
}
END_TEST

/* One step needs everything at once: nothing can be gained, and the search detects that. Also: nothing to drop, and an
 * empty graph. */
START_TEST(nothing_to_win)
{
    graph_begin(&g);
    int64_t x = graph_value(&g, 100, true), a = STEP(&g, 1, 1000, x), b = STEP(&g, 1, 10, a, x);
    g.values[b].kept = true;
    search(1000);
    ck_assert_int_eq(frontier.count, 1);
    ck_assert_uint_eq(frontier.points[0].most, 1110);
    end();
    graph_begin(&g);
    search(1000);
    ck_assert_int_eq(frontier.count, 1);
    ck_assert_uint_eq(frontier.points[0].most, 0);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("frontier");
    TCase *tests = tcase_create("frontier");
    tcase_add_test(tests, points_on_random_graphs);
    tcase_add_test(tests, budgets_on_random_graphs);
    tcase_add_test(tests, the_same_on_every_run);
    tcase_add_test(tests, no_choice_is_better_on_small_graphs);
    tcase_add_test(tests, chains_of_unlike_steps);
    tcase_add_test(tests, chains_of_equal_steps);
    tcase_add_test(tests, from_a_choice_and_by_name);
    tcase_add_test(tests, what_comes_first);
    tcase_add_test(tests, what_comes_later);
    tcase_add_test(tests, nothing_to_win);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
