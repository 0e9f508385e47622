/* plan/remat.c: the consequences of dropping values. Compared with: small cases by hand; plan/order.c's count, if
 * nothing is dropped; the verifier's count on random graphs with random choices. The verifier itself must detect
 * errors. */
#include "graphs.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static graph g;
static bt_remat remat;
static bt_region *region;
static bt_remat_choice choice;
static bt_remat_plan plan;

static void begin(void)
{
    region = bt_region_new();
    ck_assert_int_eq(bt_remat_new(&remat, &g.order, g.cost), BT_OK);
    ck_assert_int_eq(bt_remat_choice_new(&remat, region, &choice), BT_OK);
}

static void end(void)
{
    bt_remat_free(&remat);
    bt_region_free(region);
    bt_error_clear();
}

static void follow(void)
{
    ck_assert_int_eq(bt_remat_follow(&remat, &choice, region, &plan), BT_OK);
    ck_assert_msg(bt_remat_verify(&remat, &plan) == BT_OK, "%s", bt_error());
}

static void drop(int64_t value, int gap) { choice.dropped[remat.gaps[value] + gap] = true; }

/* Applies the choice and compares the launches; the list ends with -1. */
static void expect(size_t most, double extra, const int64_t *launches)
{
    follow();
    for (int64_t l = 0; l < plan.count || launches[l] >= 0; l++)
        ck_assert_int_eq(l < plan.count ? plan.launches[l] : -1, launches[l]);
    ck_assert_uint_eq(plan.most, most);
    ck_assert_double_eq(plan.extra, extra);
}
#define EXPECT(most, extra, ...) expect((most), (extra), (const int64_t[]){__VA_ARGS__, -1})

/* Steps 0, 1, 2 compute values 1, 2, 3; steps 3, 4, 5, 6 go back through x[3], ..., x[0], value 0. */
START_TEST(a_chain_by_hand)
{
    graph_chain(&g, 4, (const int[]){0, 10, 20, 30}, (const int[]){0, 2, 3, 5}, false);
    begin();
    ck_assert_uint_eq(remat.most, 60);
    ck_assert_double_eq(remat.total, 2 + 3 + 5 + 4);
    EXPECT(60, 0, 0, 1, 2, 3, 4, 5, 6);
    drop(1, 1);
    EXPECT(50, 2, 0, 1, 2, 3, 4, 0, 5, 6); /* 20 + 30 while x[3] is computed */
    drop(2, 1);
    EXPECT(50, 5, 0, 1, 2, 3, 0, 1, 4, 5, 6); /* x[1] is computed for x[2] and kept */
    choice.brief[1] = true;
    EXPECT(50, 7, 0, 1, 2, 3, 0, 1, 4, 0, 5, 6);
    ck_assert_int_eq(plan.at, 2);
    end();
}
END_TEST

/* A value without further readers takes no memory; if it is held, it serves recomputations, and is alive until the last
 * of them. */
START_TEST(behind_the_last_reader)
{
    graph_begin(&g);
    int64_t x = graph_value(&g, 0, true), a = STEP(&g, 7, 10, x), b = STEP(&g, 1, 4, a), c = STEP(&g, 1, 5, b);
    int64_t wide = STEP(&g, 1, 100, c);
    STEP(&g, 1, 0, wide, b);
    begin();
    EXPECT(4 + 5 + 100, 0, 0, 1, 2, 3, 4);
    drop(b, 1);
    EXPECT(10 + 5 + 100, 1, 0, 1, 2, 3, 1, 4); /* a instead of b */
    drop(a, 1);
    EXPECT(100 + 10 + 4, 8, 0, 1, 2, 3, 0, 1, 4);
    end();
}
END_TEST

/* A step with two outputs, one of which is kept to the end: its readers always use the first computation of that one;
 * the second output only takes memory while the step runs. */
START_TEST(kept_values_stay_the_first)
{
    graph_begin(&g);
    int64_t x = graph_value(&g, 0, true), a = STEP(&g, 3, 10, x), other = graph_value(&g, 6, false);
    g.out[0][g.steps[0].outputs++] = other;
    g.values[other].kept = true;
    int64_t b = STEP(&g, 1, 50, a);
    STEP(&g, 1, 0, b);
    STEP(&g, 1, 0, a, other);
    begin();
    ck_assert(remat.fixed[other] && !remat.fixed[a] && remat.fixed[x]);
    EXPECT(66, 0, 0, 1, 2, 3);
    drop(a, 1);
    EXPECT(66, 3, 0, 1, 2, 0, 3); /* 6 + 10 + 50 while b is computed; later 6 + 6 + 10 */
    g.values[b].bytes = 0;
    follow();
    ck_assert_uint_eq(plan.most, 6 + 6 + 10);
    end();
}
END_TEST

START_TEST(what_must_not_run_again_is_fixed)
{
    graph_begin(&g);
    int64_t x = graph_value(&g, 8, true), a = STEP(&g, -1, 10, x), b = STEP(&g, 1, 10, a);
    g.values[b].kept = true;
    begin();
    ck_assert(remat.fixed[x] && remat.fixed[a] && remat.fixed[b]);
    ck_assert_double_eq(remat.total, 1);
    end();
}
END_TEST

static void draw_choice(uint32_t *seed)
{
    uint32_t often = 1 + graph_draw(seed, 10);
    for (int64_t v = 0; v < g.order.value_count; v++) {
        choice.brief[v] = graph_draw(seed, 3) == 0;
        for (int64_t gap = remat.gaps[v]; gap < remat.gaps[v + 1]; gap++)
            choice.dropped[gap] = !remat.fixed[v] && graph_draw(seed, 10) < often;
    }
}

START_TEST(random_graphs_are_counted_right)
{
    int64_t *order = bt_alloc_array(GRAPH_STEPS, sizeof *order), again = 0;
    for (uint32_t seed = 0; seed < 10000; seed++) {
        size_t most;
        graph_random(&g, seed, 3 + (int)seed % 60);
        begin();
        ck_assert_int_eq(bt_order_by(&g.order, BT_ORDER_WRITTEN, order, &most), BT_OK);
        ck_assert_uint_eq(remat.most, most);
        uint32_t chance = seed + 77;
        draw_choice(&chance);
        follow();
        again += plan.count - g.order.step_count;
        end();
    }
    ck_assert_int_gt(again, 100000);
    bt_free(order);
}
END_TEST

static void refuse(const bt_remat_plan *altered)
{
    ck_assert_int_eq(bt_remat_verify(&remat, altered), BT_ERROR_INTERNAL);
    bt_error_clear();
}

static void leave_out(int64_t at)
{
    bt_remat_plan altered = plan;
    altered.launches = bt_region_copy(region, plan.launches, (size_t)plan.count * sizeof *plan.launches);
    memmove(altered.launches + at, altered.launches + at + 1, (size_t)(plan.count - at - 1) * sizeof *plan.launches);
    altered.count--;
    refuse(&altered);
}

START_TEST(the_verifier_finds_what_is_wrong)
{
    for (uint32_t seed = 0; seed < 300; seed++) {
        graph_random(&g, seed, 5 + (int)seed % 40);
        begin();
        uint32_t chance = seed;
        draw_choice(&chance);
        follow();
        bt_remat_plan altered = plan;
        altered.most++;
        refuse(&altered);
        altered.most -= 2;
        refuse(&altered);
        altered = plan;
        altered.extra += 1;
        refuse(&altered);
        leave_out((int64_t)graph_draw(&chance, (uint32_t)plan.count)); /* a first launch, or one with a cost */
        int64_t first = plan.launches[0];
        plan.launches[0] = g.order.step_count;
        refuse(&plan);
        plan.launches[0] = g.order.step_count - 1;
        refuse(&plan);
        plan.launches[0] = first;
        end();
    }
}
END_TEST

/* Missing operands, and steps that must not be rerun. */
START_TEST(the_verifier_knows_the_rules)
{
    graph_begin(&g);
    int64_t x = graph_value(&g, 8, true), a = STEP(&g, -1, 10, x), b = STEP(&g, 1, 10, a);
    g.values[b].kept = true;
    begin();
    int64_t twice[] = {0, 0, 1}, backwards[] = {1, 0}, half[] = {0};
    refuse(&(bt_remat_plan){.launches = twice, .count = 3, .most = 28, .extra = -1});
    refuse(&(bt_remat_plan){.launches = backwards, .count = 2, .most = 28});
    refuse(&(bt_remat_plan){.launches = half, .count = 1, .most = 18});
    end();
}
END_TEST

/* Diamonds, each of two steps with the same input: a value is recomputed once, however many readers it has. */
START_TEST(diamonds_do_not_double)
{
    graph_begin(&g);
    int64_t x = graph_value(&g, 0, true), first = STEP(&g, 1, 1, x);
    x = first;
    for (int i = 0; i < 60; i++) {
        int64_t a = STEP(&g, 1, 1, x), b = STEP(&g, 1, 1, x);
        x = STEP(&g, 1, 1, a, b);
    }
    STEP(&g, 1, 1, first);
    STEP(&g, 1, 1, x);
    begin();
    for (int64_t v = 0; v < g.order.value_count; v++)
        choice.brief[v] = !remat.fixed[v];
    memset(choice.dropped, 1, (size_t)remat.gap_count);
    choice.dropped[0] = choice.dropped[1] = false;
    follow();
    ck_assert_int_le(plan.count, 200 * 200);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("remat");
    TCase *tests = tcase_create("remat");
    tcase_add_test(tests, a_chain_by_hand);
    tcase_add_test(tests, behind_the_last_reader);
    tcase_add_test(tests, kept_values_stay_the_first);
    tcase_add_test(tests, what_must_not_run_again_is_fixed);
    tcase_add_test(tests, random_graphs_are_counted_right);
    tcase_add_test(tests, the_verifier_finds_what_is_wrong);
    tcase_add_test(tests, the_verifier_knows_the_rules);
    tcase_add_test(tests, diamonds_do_not_double);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
