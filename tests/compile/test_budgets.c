/* tests/compile/test_budgets.c: programs within budgets, over all orders of steps. If any plan with fewer bytes exists,
 * a plan that meets the budget is found; more bytes never cost more work; and with room for everything, nothing is
 * recomputed. On random graphs and on networks of several depths.
 *
 * Only some of the graphs are tried; BT_TEST_ALL=1: all of them. */
#include "support/random_graph.h"

#include "support/suite.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUDGETS = 5, GRAPHS = 2000, PART = 25, DEPTHS = 8, KINDS = 8, ROWS = 64, WIDTH = 16 };

typedef struct plan {
    size_t bytes, most; /* the budget, and the bytes needed within it */
    double extra;
} plan;

static scene s;
static int64_t useful; /* graphs that need less memory with recomputation */

static plan plan_within(size_t bytes, bt_known *known)
{
    bt_compile_options options = bt_compile_defaults(&bt_backend_cpu()->kernels, 1);
    options.budget = bytes;
    options.anything = true;
    options.known = known;
    bt_program *program = bt_compile_graph(s.graph, &options);
    ck_assert_msg(program != NULL, "%s", bt_error());
    plan result = {bytes, program->most, program->extra};
    bt_program_free(program);
    return result;
}

static void check_budgets(const char *what, int number)
{
    bt_known *known = bt_known_new();
    plan whole = plan_within(0, known), least = plan_within(1, known), before = least;
    ck_assert(whole.extra == 0 && least.most <= whole.most);
    useful += least.most < whole.most;
    for (size_t i = 0; least.most < whole.most && i <= BUDGETS; i++) {
        plan now = plan_within(least.most + (whole.most - least.most) * i / BUDGETS, known);
        ck_assert_msg(now.most <= now.bytes, "%s %d: %zu bytes are needed within %zu, where there is a plan of %zu",
                      what, number, now.most, now.bytes, before.most);
        ck_assert_msg(now.extra <= before.extra * (1 + 1e-9), "%s %d: %g more work within %zu bytes, and %g within %zu",
                      what, number, now.extra, now.bytes, before.extra, before.bytes);
        ck_assert(i < BUDGETS || now.extra == 0);
        before = now;
    }
    bt_known_free(known);
}

START_TEST(graphs)
{
    for (int seed = 0; seed < GRAPHS; seed += getenv("BT_TEST_ALL") ? 1 : PART) {
        random_graph(&s, (uint64_t)seed, BT_F32, 10 + seed / PART % 80,
                     RANDOM_GRADIENTS | RANDOM_COMPOSITES | RANDOM_ASSIGNS);
        check_budgets("graph", seed);
        scene_free(&s);
    }
    ck_assert_int_gt(useful, 5);
}
END_TEST

/* A product, perhaps a norm, and one or two functions; perhaps with a shortcut. */
static bt_tensor *layer(bt_tensor *x, bt_tensor *w, int kind)
{
    bt_tensor *y = bt_matmul(x, w);
    if (kind & 1) {
        y = bt_sub(y, bt_unsqueeze(bt_mean(y, 1), 1));
        y = bt_div(y, bt_sqrt(bt_add(bt_unsqueeze(bt_mean(bt_square(y), 1), 1), bt_number(1e-5, BT_F32))));
    }
    y = kind & 2 ? bt_sin(bt_softplus(y)) : bt_relu(y);
    return kind & 4 ? bt_add(x, y) : y;
}

START_TEST(networks)
{
    static const double zeros[ROWS * WIDTH];
    if (!getenv("BT_TEST_ALL"))
        return;
    scene_begin(&s, BT_F32);
    bt_tensor *x = scene_read(&s, "x", zeros, (const int64_t[]){ROWS, WIDTH, BT_END}), *y = x;
    bt_tensor *w = scene_read(&s, "w", zeros, (const int64_t[]){WIDTH, WIDTH, BT_END});
    bt_var *slope = scene_var(&s, "slope", BT_F64, NULL, (const int64_t[]){WIDTH, WIDTH, BT_END});
    for (int i = 0; i < 3 + _i / KINDS * 2; i++)
        y = layer(y, w, _i % KINDS);
    bt_graph_assign(s.graph, slope, bt_grad(bt_sum(bt_square(y)), w));
    scene_end(&s);
    check_budgets("network", _i);
    ck_assert_int_eq(useful, 1);
    scene_free(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("budgets");
    TCase *tests = tcase_create("budgets");
    tcase_add_test(tests, graphs);
    tcase_add_loop_test(tests, networks, 0, DEPTHS * KINDS);
    tcase_set_timeout(tests, 600);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
