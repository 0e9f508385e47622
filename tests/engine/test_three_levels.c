/* tests/engine/test_three_levels.c: R16, a chain of three levels and a diamond, with known values.
 *
 *   lower   C_v = c v^2 / 2 - d w v,      v* = d w / c
 *   middle  C_w = a w^2 / 2 - b theta w,  w* = b theta / a
 *   upper   F = v^2 / 2, in the diamond v^2 / 2 + w
 *
 * a = 2, b = 1, c = 4, d = 3, theta = 2, so w = 1, v = 3/4; dF/dtheta = 9/32 in the chain, 25/32 in the diamond. */
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <stdio.h>
#include <string.h>

static bt_dataset *one_row(bt_problem *self)
{
    double x = 1;
    (void)self;
    bt_dataset *data = bt_dataset_new(1);
    bt_dataset_add(data, "x", BT_ARRAY(&x, 1));
    return data;
}

static bt_module *theta_module(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(2)); }
static bt_module *w_module(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(1)); }
static bt_module *v_module(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(0.75)); }

static bt_tensor *of(bt_problem *self, const char *name) { return bt_forward(bt_peer(self, name)); }

/* a x^2 / 2 - b y x */
static bt_tensor *quadratic(double a, bt_tensor *x, double b, bt_tensor *y)
{
    return bt_sub(bt_mul(a / 2, bt_square(x)), bt_mul(b, bt_mul(y, x)));
}

static bt_tensor *v_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return quadratic(4, of(self, "v"), 3, of(self, "w"));
}

static bt_tensor *w_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return quadratic(2, of(self, "w"), 1, of(self, "theta"));
}

static bt_tensor *chain_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_square(of(self, "v")));
}

static bt_tensor *diamond_step(bt_problem *self, const bt_batch *batch)
{
    return bt_add(chain_step(self, batch), of(self, "w"));
}

static const bt_problem_def chain = {
    .name = "theta", .configure_train_data = one_row, .configure_module = theta_module, .training_step = chain_step};
static const bt_problem_def diamond = {
    .name = "theta", .configure_train_data = one_row, .configure_module = theta_module, .training_step = diamond_step};
static const bt_problem_def middle = {
    .name = "w", .configure_train_data = one_row, .configure_module = w_module, .training_step = w_step};
static const bt_problem_def lower = {
    .name = "v", .configure_train_data = one_row, .configure_module = v_module, .training_step = v_step};

/* The solution of v reaches theta through w, or directly. */
static const char *const links[] = {"dependencies.u2l = theta > w, w > v\ndependencies.l2u = v > w, w > theta\n",
                                    "dependencies.u2l = theta > w, w > v\ndependencies.l2u = v > theta, w > theta\n"};

static const struct {
    const char *settings;
    double chain, diamond;
} cases[] = {
    {"v.type = cg\nw.type = cg\n", 0.28125, 0.78125},
    {"v.type = cg\nw.type = cg\nv.cg_iterations = 3\nw.cg_iterations = 3\n", 0.28125, 0.78125},
    {"v.type = cg\nw.type = cg\nv.product = vjp\nw.product = vjp\n", 0.28125, 0.78125},
    {"v.type = cg\nw.type = cg\nv.product = finite\nw.product = finite\n", 0.28125, 0.78125},
    {"v.type = darts\nw.type = darts\n", 2.25, 3.25},
    {"v.type = darts\nw.type = darts\nv.product = finite\nw.product = vjp\n", 2.25, 3.25},
    {"v.type = darts\nw.type = cg\n", 2.25 / 2, 3.25 / 2},
    {"v.type = cg\nw.type = darts\n", 2.25 / 4, 1 + 2.25 / 4},
    {"v.type = neumann\nv.neumann_alpha = 0.25\nw.type = neumann\nw.neumann_alpha = 0.5\n", 0.28125, 0.78125},
};
enum { CASES = sizeof cases / sizeof *cases };

static bt_engine *engine_of(const bt_problem_def *upper, const char *link, const char *settings)
{
    static bt_export parts;
    char lines[800];
    parts = (bt_export){.abi = BT_ABI, .problems = {upper, &middle, &lower}};
    snprintf(lines, sizeof lines, "%sengine.log_step = 0\n%s", link, settings);
    return levels_engine(&parts, NULL, lines);
}

START_TEST(known_answers)
{
    for (int link = 0; link < 2; link++)
        for (int is_diamond = 0; is_diamond < 2; is_diamond++) {
            double found;
            bt_engine *engine = engine_of(is_diamond ? &diamond : &chain, links[link], cases[_i].settings);
            ck_assert_msg(engine != NULL, "%s", bt_error());
            EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "theta"), BT_ARRAY(&found)));
            ck_assert_double_eq_tol(found, is_diamond ? cases[_i].diamond : cases[_i].chain, 1e-10);
            bt_engine_free(engine);
        }
}
END_TEST

/* theta's loss only uses v, and w is reached through v: no warning about theta. */
START_TEST(nothing_is_unreached)
{
    for (int link = 0; link < 2; link++) {
        bt_engine *engine = engine_of(&chain, links[link], "");
        levels_step(engine, 1);
        ck_assert_ptr_null(strstr(bt_text_get(&engine->context.warnings), "theta: "));
        bt_engine_free(engine);
    }
}
END_TEST

/* v steps 12 times, w after every second of these, theta after every third step of w. */
START_TEST(who_steps_when)
{
    bt_engine *engine = engine_of(&diamond, links[0],
                                  "engine.train_iters = 12\nv.unroll_steps = 2\nw.unroll_steps = 3\nv.lr = 0.1\n"
                                  "w.lr = 0.1\ntheta.lr = 0.1\nv.type = cg\nw.type = cg\n");
    double v = 0.75, w = 1, theta = 2, found;
    levels_run(engine);
    for (int i = 1; i <= 12; i++) {
        v -= 0.1 * (4 * v - 3 * w);
        if (i % 2 == 0)
            w -= 0.1 * (2 * w - theta);
        if (i % 6 == 0) /* x_v = v / 4, a_w = 1 + 3 x_v, x_w = a_w / 2 */
            theta -= 0.1 * (1 + 3 * v / 4) / 2;
    }
    ck_assert_int_eq(levels_steps(engine, "v"), 12);
    ck_assert_int_eq(levels_steps(engine, "w"), 6);
    ck_assert_int_eq(levels_steps(engine, "theta"), 2);
    levels_params(engine, "v", &found, 1);
    ck_assert_double_eq_tol(found, v, 1e-12);
    levels_params(engine, "w", &found, 1);
    ck_assert_double_eq_tol(found, w, 1e-12);
    levels_params(engine, "theta", &found, 1);
    ck_assert_double_eq_tol(found, theta, 1e-12);
    bt_engine_free(engine);
}
END_TEST

/* With both linked to theta directly, v and w are leaves, and theta waits for both. */
START_TEST(two_leaves)
{
    bt_engine *engine = engine_of(&diamond, links[1],
                                  "engine.train_iters = 12\nv.unroll_steps = 2\nw.unroll_steps = 3\nv.lr = 0.1\n"
                                  "w.lr = 0.1\ntheta.lr = 0.1\nv.type = cg\nw.type = cg\n");
    levels_run(engine);
    ck_assert_int_eq(levels_steps(engine, "v"), 12);
    ck_assert_int_eq(levels_steps(engine, "w"), 12);
    ck_assert_int_eq(levels_steps(engine, "theta"), 4);
    bt_engine_free(engine);
}
END_TEST

/* w is a leaf whose solution is only read by the loss of v, and v comes first in the list: theta must not go through w
 * before w has made a step. However often the two step for each step of theta, the result is that of the chain. */
START_TEST(a_leaf_between)
{
    static const bt_export parts = {.abi = BT_ABI, .problems = {&lower, &chain, &middle}};
    static const char wires[] =
        "dependencies.u2l = theta > w, w > v\ndependencies.l2u = v > theta\n"
        "engine.train_iters = 100\nv.lr = 0\nw.lr = 0\ntheta.lr = 0\nv.type = cg\nw.type = cg\n";
    for (int unroll = 1; unroll <= 3; unroll += 2) {
        char settings[512];
        double found;
        snprintf(settings, sizeof settings, "%sv.unroll_steps = %d\n", wires, unroll);
        bt_engine *engine = levels_engine(&parts, NULL, settings);
        ck_assert_msg(engine != NULL, "%s", bt_error());
        EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "theta"), BT_ARRAY(&found)));
        ck_assert_double_eq_tol(found, 0.28125, 1e-10);
        levels_step(engine, 6);
        ck_assert_int_eq(levels_steps(engine, "w"), 6);
        ck_assert_int_eq(levels_steps(engine, "theta"), 6 / unroll);
        EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "theta"), BT_ARRAY(&found)));
        ck_assert_double_eq_tol(found, 0.28125, 1e-10);
        bt_engine_free(engine);
    }
}
END_TEST

/* sama uses its slope, here 1/4, instead of 1/a, also for a level that only another level's solution depends on. */
START_TEST(sama_of_a_leaf_between)
{
    static const bt_export parts = {.abi = BT_ABI, .problems = {&lower, &chain, &middle}};
    double found;
    bt_engine *engine = levels_engine(&parts, NULL,
                                      "dependencies.u2l = theta > w, w > v\ndependencies.l2u = v > theta\n"
                                      "engine.train_iters = 100\nv.lr = 0\nw.lr = 0.25\ntheta.lr = 0\n"
                                      "v.type = cg\nw.type = sama\nw.product = jvp\n");
    ck_assert_msg(engine != NULL, "%s", bt_error());
    levels_step(engine, 4);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "theta"), BT_ARRAY(&found)));
    ck_assert_double_eq_tol(found, 0.28125 * 2 * 0.25, 1e-10);
    bt_engine_free(engine);
}
END_TEST

/* To the fixed point: theta moves until dF/dtheta = 1/2 + 9/64 theta is 0, slowly compared with the levels below. */
START_TEST(to_the_solution)
{
    bt_engine *engine = engine_of(&diamond, links[_i],
                                  "engine.train_iters = 6000\nv.lr = 0.2\nw.lr = 0.3\ntheta.lr = 0.05\n"
                                  "v.type = cg\nw.type = cg\n");
    double found;
    levels_run(engine);
    levels_params(engine, "theta", &found, 1);
    ck_assert_double_eq_tol(found, -32.0 / 9, 1e-6);
    bt_engine_free(engine);
}
END_TEST

/* A step of theta does not change the levels below, and requests to any level change nothing. */
START_TEST(purity)
{
    static const char settings[] =
        "v.unroll_steps = 2\nv.optimizer = adam\nw.optimizer = adam\ntheta.optimizer = adam\n"
        "v.type = cg\nw.type = neumann\nw.neumann_alpha = 0.1\n";
    uint64_t hashes[2];
    for (int ask = 0; ask < 2; ask++) {
        bt_engine *engine = engine_of(&diamond, links[_i], settings);
        double value;
        for (int i = 0; i < 7; i++) {
            levels_step(engine, 1);
            static const char *const names[] = {"theta", "w", "v"};
            for (int k = 0; k < 3 && ask; k++)
                EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, names[k]), BT_ARRAY(&value)));
        }
        hashes[ask] = levels_hash(engine, NULL);
        uint64_t v = levels_hash(engine, "v"), w = levels_hash(engine, "w");
        EXPECT_OK(bt_step_alone(bt_engine_problem(engine, "theta")));
        ck_assert_uint_eq(levels_hash(engine, "v"), v);
        ck_assert_uint_eq(levels_hash(engine, "w"), w);
        EXPECT_OK(bt_step_alone(bt_engine_problem(engine, "w")));
        ck_assert_uint_eq(levels_hash(engine, "v"), v);
        ck_assert_uint_ne(levels_hash(engine, "w"), w);
        bt_engine_free(engine);
    }
    ck_assert_uint_eq(hashes[0], hashes[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("three levels");
    TCase *tests = tcase_create("R16");
    tcase_add_loop_test(tests, known_answers, 0, CASES);
    tcase_add_test(tests, nothing_is_unreached);
    tcase_add_test(tests, who_steps_when);
    tcase_add_test(tests, two_leaves);
    tcase_add_test(tests, a_leaf_between);
    tcase_add_test(tests, sama_of_a_leaf_between);
    tcase_add_loop_test(tests, to_the_solution, 0, 2);
    tcase_add_loop_test(tests, purity, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
