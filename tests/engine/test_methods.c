/* tests/engine/test_methods.c: sama, nystrom, penalty and further options of cg, with known values. */
#include "closed_forms.h"
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include "support/vars.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NEAR(found, expected) ck_assert_double_eq_tol((found), (expected), 1e-10)

static bt_tensor *w(bt_problem *self) { return bt_forward(bt_peer(self, "lower")); }
static bt_tensor *lambda(bt_problem *self) { return bt_forward(bt_peer(self, "upper")); }
static bt_tensor *dot(bt_tensor *a, bt_tensor *b) { return bt_sum(bt_mul(a, b)); }

static void expect(numbers n, const char *settings, const double *expected, double tolerance)
{
    double found[LARGEST];
    bt_status status = closed_form_hypergradient(&n, settings, found);
    ck_assert_msg(status == BT_OK, "%s: %s", settings, bt_error());
    for (int i = 0; i < n.lambdas; i++)
        ck_assert_double_eq_tol(found[i], expected[i], tolerance);
}

/* ---- sama: C = lambda w, F = w: the hypergradient is -D, D = d (update) / d (gradient) at the gradient lambda ---- */

static bt_tensor *line(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return dot(lambda(self), w(self));
}

static bt_tensor *sum(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(w(self));
}

/* The hypergradient after `steps` steps of the lower problem, before the first upper one. `at` (NULL: none) sets the
 * lower problem's state before the last of these steps. */
static void sama_after(numbers *n, const char *settings, int steps, void (*at)(bt_problem *lower), double *found)
{
    char lines[800];
    snprintf(lines, sizeof lines, "lower.type = sama\nlower.unroll_steps = 1000000\nlower.product = jvp\n%s", settings);
    bt_engine *engine = closed_form_engine(n, lines);
    levels_step(engine, steps - 1);
    if (at)
        at(bt_engine_problem(engine, "lower"));
    levels_step(engine, 1);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(found, n->lambdas)));
    bt_engine_free(engine);
}

static const numbers lines = {.w = {0}, .lambda = {1}, .ws = 1, .lambdas = 1, .lower = line, .upper = sum};

/* R13: the first step of Adam is lr g / (|g| + eps), of slope lr eps / (|g| + eps)^2. */
START_TEST(sama_adam_first_step)
{
    static const double gradients[] = {0, 1e-8, 1e-4}, slopes[] = {1e5, 2.5e4, 9.99800029996e-4};
    static const char adam[] = "lower.optimizer = adam\nlower.lr = 0.001\n";
    numbers n = lines;
    double found;
    n.lambda[0] = gradients[_i];
    sama_after(&n, adam, 1, NULL, &found);
    ck_assert_double_eq_tol(-found / slopes[_i], 1, 1e-9);
}
END_TEST

static void tenth_step(bt_problem *lower)
{
    double m = 0.1, v = 0.01;
    var_put(lower->slots[0].flat, 0, m);
    var_put(lower->slots[1].flat, 0, v);
    var_put(lower->optimizer->applied, 0, 9);
}

/* R14: with bias correction, at the slots before the update. */
START_TEST(sama_adam_tenth_step)
{
    static const char *const settings[] = {"lower.optimizer = adam\nlower.lr = 0.001\n",
                                           "lower.optimizer = adamw\nlower.lr = 0.001\n",
                                           "lower.optimizer = adam\nlower.lr = 0.0005\nlower.sama_adam_alpha = 2\n"};
    numbers n = lines;
    double found;
    n.lambda[0] = 0.2;
    sama_after(&n, settings[_i], 2, tenth_step, &found);
    ck_assert_double_eq_tol(-found / 1.49604754025536e-4, 1, 1e-12);
}
END_TEST

/* The first step of each optimiser whose update has a slope, at g = 0.2 with eps = 0.1 and lr = 0.01, by hand: for lr g
 * / (c |g| + eps) the slope is lr eps / (c |g| + eps)^2. */
START_TEST(sama_first_steps)
{
    const double mu = 0.9 * (1 - 0.5 * pow(0.96, 0.004)), next = 0.9 * (1 - 0.5 * pow(0.96, 0.008));
    const struct {
        const char *settings;
        double slope;
    } cases[] = {
        {"lower.optimizer = adam\nlower.amsgrad = true\n", 0.001 / 0.09},
        {"lower.optimizer = adagrad\n", 0.001 / 0.09},
        {"lower.optimizer = adagrad\nlower.initial_accumulator_value = 0.12\n", /* lr g / (s + eps), s = 0.4 */
         0.01 / 0.5 - 0.01 * 0.2 * (0.2 / 0.4) / 0.25},
        {"lower.optimizer = rmsprop\nlower.alpha = 0.75\n", 0.001 / 0.04},
        {"lower.optimizer = rmsprop\nlower.alpha = 0.75\nlower.momentum = 0.9\n", 0.001 / 0.04},
        {"lower.optimizer = rmsprop\nlower.alpha = 0.5\nlower.centered = true\n", 0.001 / 0.04}, /* 1/2 - 1/4 */
        {"lower.optimizer = radam\n", 0.01},                                                     /* not adaptive yet */
        {"lower.optimizer = nadam\n", 0.001 / 0.09 * (1 + next * 0.1 / (1 - mu * next))},
    };
    ck_assert_int_lt(_i, (int)(sizeof cases / sizeof *cases));
    numbers n = lines;
    char settings[300];
    double found;
    n.lambda[0] = 0.2;
    snprintf(settings, sizeof settings, "%slower.lr = 0.01\nlower.eps = 0.1\n", cases[_i].settings);
    sama_after(&n, settings, 1, NULL, &found);
    ck_assert_double_eq_tol(-found / cases[_i].slope, 1, 1e-12);
}
END_TEST

/* Variants of SGD, and the effect of clipping, schedules and a skipped update. */
START_TEST(sama_sgd)
{
    static const struct {
        const char *settings;
        int steps;
        double gradient, slope;
    } cases[] = {
        {"lower.lr = 0.1\n", 1, 1, 0.1},
        {"lower.lr = 0.1\nlower.product = finite\n", 3, 1, 0.1},
        {"lower.lr = 0.1\nlower.weight_decay = 0.3\n", 2, 1, 0.1},
        {"lower.lr = 0.1\nlower.momentum = 0.9\nlower.dampening = 0.5\n", 1, 1, 0.1},
        {"lower.lr = 0.1\nlower.momentum = 0.9\nlower.dampening = 0.5\n", 2, 1, 0.05},
        {"lower.lr = 0.1\nlower.momentum = 0.9\nlower.nesterov = true\n", 2, 1, 0.19},
        {"lower.lr = 0.1\nlower.gradient_clipping = 0.5\n", 2, 2, 0.1 * 0.5 / (2 + 1e-6)},
        {"lower.lr = 0.1\nlower.gradient_clipping = 5\n", 2, 2, 0.1},
        {"lower.lr = 0.1\nlower.gradient_clipping_value = 0.5\n", 2, 2, 0},
        {"lower.lr = 0.1\nlower.gradient_clipping_value = 2.5\n", 2, 2, 0.1},
        {"lower.lr = 0.1\nlower.scheduler = step\nlower.scheduler_step_size = 2\nlower.scheduler_gamma = 0.5\n", 5, 2,
         0.025},
    };
    ck_assert_int_lt(_i, (int)(sizeof cases / sizeof *cases));
    numbers n = lines;
    double found;
    n.lambda[0] = cases[_i].gradient;
    sama_after(&n, cases[_i].settings, cases[_i].steps, NULL, &found);
    ck_assert_double_eq_tol(-found, cases[_i].slope, 1e-12);
}
END_TEST
enum { SGD_CASES = 11 };

static void set_upper(bt_engine *engine, double value)
{
    var_write(bt_engine_problem(engine, "upper")->module->params[0]->var, &value);
}

/* The slope is that of the last update that was applied. */
START_TEST(sama_of_an_update_left_out)
{
    numbers n = lines;
    char settings[] = "lower.type = sama\nlower.unroll_steps = 1000000\nlower.lr = 0.1\nlower.product = jvp\n";
    bt_engine *engine = closed_form_engine(&n, settings);
    double found = 1;
    levels_step(engine, 1);
    set_upper(engine, NAN);
    levels_step(engine, 1);
    ck_assert_int_eq(levels_skipped(engine, "lower"), 1);
    set_upper(engine, 1);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found)));
    ck_assert_double_eq_tol(-found, 0.1, 1e-12);
    bt_engine_free(engine);
}
END_TEST

/* Steps undone by bt_restore leave no slope. */
START_TEST(sama_after_an_adaptation)
{
    numbers n = lines;
    double found[2];
    bt_engine *engine = closed_form_engine(&n, "lower.type = sama\nlower.unroll_steps = 1000000\nlower.lr = 0.1\n"
                                               "lower.optimizer = adam\n");
    levels_step(engine, 2);
    bt_problem *upper = bt_engine_problem(engine, "upper"), *lower = bt_engine_problem(engine, "lower");
    EXPECT_OK(bt_hypergradient(upper, BT_ARRAY(&found[0])));
    EXPECT_OK(bt_adapt(lower, lower->train->kept[0], 3));
    EXPECT_OK(bt_restore(lower));
    EXPECT_OK(bt_hypergradient(upper, BT_ARRAY(&found[1])));
    ck_assert_double_eq(found[0], found[1]);
    bt_engine_free(engine);
}
END_TEST

/* ---- R4, R17: C = w^T H w / 2 - lambda^T w with H = [[4, 1], [1, 3]], F = v^T w, v = (1, 2): the result is x ---- */

static bt_tensor *quadratic(bt_problem *self, const bt_batch *batch)
{
    static const double h[] = {4, 1, 1, 3};
    (void)batch;
    bt_tensor *hw = bt_matmul(bt_constant(BT_ARRAY(h, 2, 2)), w(self));
    return bt_sub(bt_mul(0.5, dot(w(self), hw)), dot(lambda(self), w(self)));
}

static bt_tensor *linear(bt_problem *self, const bt_batch *batch)
{
    static const double v[] = {1, 2};
    (void)batch;
    return dot(bt_constant(BT_ARRAY(v, 2)), w(self));
}

static const numbers r4 = {.w = {1, 1}, .lambda = {1, 1}, .ws = 2, .lambdas = 2, .lower = quadratic, .upper = linear};

START_TEST(nystrom_of_full_rank)
{
    static const double expected[] = {0.0939368061485909, 0.614859094790777};
    static const char *const ranks[] = {"2", "3", "1000"}; /* more than there are parameters: reduced to their number */
    char settings[200];
    snprintf(settings, sizeof settings, "lower.type = nystrom\nlower.nystrom_rho = 0.1\nlower.nystrom_rank = %s\n",
             ranks[_i]);
    expect(r4, settings, expected, 1e-10);
}
END_TEST

/* With rank 1 either column may be chosen; the seed decides, always the same way. */
START_TEST(nystrom_of_rank_one)
{
    static const double first[] = {10 - 2400.0 / 174, 20 - 600.0 / 174};  /* h = (4, 1) */
    static const double second[] = {10 - 700.0 / 103, 20 - 2100.0 / 103}; /* h = (1, 3) */
    int times[2] = {0};
    ck_assert_double_eq_tol(first[0], -3.79310344828, 1e-11);
    ck_assert_double_eq_tol(first[1], 16.5517241379, 1e-10);
    for (int seed = 0; seed < 12; seed++) {
        char settings[200];
        numbers n = r4;
        double found[2], again[2];
        snprintf(settings, sizeof settings,
                 "engine.seed = %d\nlower.type = nystrom\nlower.nystrom_rho = 0.1\nlower.nystrom_rank = 1\n", seed);
        EXPECT_OK(closed_form_hypergradient(&n, settings, found));
        EXPECT_OK(closed_form_hypergradient(&n, settings, again));
        ck_assert_mem_eq(found, again, sizeof found);
        bool is_second = fabs(found[0] - second[0]) < 1e-10;
        NEAR(found[0], is_second ? second[0] : first[0]);
        NEAR(found[1], is_second ? second[1] : first[1]);
        times[is_second]++;
    }
    ck_assert_int_gt(times[0], 1);
    ck_assert_int_gt(times[1], 1);
}
END_TEST

START_TEST(nystrom_of_rank_zero)
{
    static const double expected[] = {10, 20}; /* v / rho */
    expect(r4, "lower.type = nystrom\nlower.nystrom_rho = 0.1\nlower.nystrom_rank = 0\n", expected, 1e-12);
}
END_TEST

/* ---- cg: stopping and starting ---- */

START_TEST(cg_tolerance)
{
    static const struct {
        const char *settings;
        double expected[2];
    } cases[] = {
        /* |r| / |v| is 1, 1/4, 0 before, after one and after two iterations */
        {"lower.cg_iterations = 10\nlower.cg_tolerance = 1\n", {0, 0}},
        {"lower.cg_iterations = 10\nlower.cg_tolerance = 0.99\n", {0.25, 0.5}},
        {"lower.cg_iterations = 10\nlower.cg_tolerance = 0.2501\n", {0.25, 0.5}},
        {"lower.cg_iterations = 10\nlower.cg_tolerance = 0.2499\n", {1.0 / 11, 7.0 / 11}},
        {"lower.cg_iterations = 10\nlower.cg_tolerance = 0\n", {1.0 / 11, 7.0 / 11}},
        {"lower.cg_iterations = 1\nlower.cg_tolerance = 0.0001\n", {0.25, 0.5}},
    };
    char settings[200];
    snprintf(settings, sizeof settings, "lower.type = cg\n%s", cases[_i].settings);
    expect(r4, settings, cases[_i].expected, 1e-12);
}
END_TEST

static bt_tensor *sphere(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sub(dot(w(self), w(self)), dot(lambda(self), w(self)));
}

/* H = 2 I is solved by the first iteration: its x is the result, not the one before it. */
START_TEST(cg_first_step_solves)
{
    static const double expected[] = {0.5, 0.5};
    numbers n = {.w = {1, 1}, .lambda = {1, 1}, .ws = 2, .lambdas = 2, .lower = sphere, .upper = sum};
    expect(n, "lower.type = cg\nlower.cg_iterations = 1\n", expected, 1e-15);
    expect(n, "lower.type = cg\nlower.cg_iterations = 1\nlower.cg_tolerance = 0.1\n", expected, 1e-15);
    expect(n, "lower.type = cg\nlower.cg_iterations = 7\nlower.cg_tolerance = 0.1\n", expected, 1e-15);
}
END_TEST

/* One iteration from the x of the previous upper step; requests do not affect it. */
START_TEST(cg_warm_start)
{
    static const double expected[][2] = {{0.25, 0.5}, {0.25 - 0.5 / 3, 0.5 + 0.25 / 3}};
    numbers n = r4;
    bt_engine *engine = closed_form_engine(&n, "lower.type = cg\nlower.cg_warm_start = true\nlower.lr = 0\n"
                                               "upper.lr = 0\n");
    bt_problem *upper = bt_engine_problem(engine, "upper");
    double found[2];
    for (int asked = 0; asked < 3; asked++) {
        EXPECT_OK(bt_hypergradient(upper, BT_ARRAY(found, 2)));
        NEAR(found[0], expected[0][0]);
        NEAR(found[1], expected[0][1]);
    }
    levels_step(engine, 1);
    for (int asked = 0; asked < 3; asked++) {
        EXPECT_OK(bt_hypergradient(upper, BT_ARRAY(found, 2)));
        NEAR(found[0], expected[1][0]);
        NEAR(found[1], expected[1][1]);
    }
    levels_step(engine, 40);
    EXPECT_OK(bt_hypergradient(upper, BT_ARRAY(found, 2)));
    NEAR(found[0], 1.0 / 11);
    NEAR(found[1], 7.0 / 11);
    bt_engine_free(engine);
}
END_TEST

/* ---- R18: penalty on R1: C = w^2 - 3 lambda w, F = (w - 1)^2 / 2 at lambda = 1, w = 3/2 ---- */

static bt_tensor *r1_lower(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sub(dot(w(self), w(self)), bt_mul(3, dot(lambda(self), w(self))));
}

static bt_tensor *r1_upper(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_sum(bt_square(bt_sub(w(self), 1))));
}

START_TEST(penalty_value_function)
{
    static const double weights[] = {1, 10, 100, 1000};
    static const double expected[] = {0.5, 15.0 / 21, 150.0 / 201, 1500.0 / 2001};
    numbers n = {.w = {1.5}, .lambda = {1}, .ws = 1, .lambdas = 1, .lower = r1_lower, .upper = r1_upper};
    char settings[200];
    snprintf(settings, sizeof settings,
             "lower.type = penalty\nlower.penalty_lambda = %g\nlower.penalty_iterations = 100\n"
             "lower.penalty_lr = 0.3\n",
             weights[_i]);
    expect(n, settings, &expected[_i], 1e-10);
    ck_assert_double_eq_tol(1 - expected[_i] / 0.75, 1 / (1 + 2 * weights[_i]), 1e-12);
}
END_TEST

/* f = lambda w + w^2 / 2 has a direct gradient, taken at y: y from (lambda + y) + p (y - w) = 0 for C = (w - 3)^2 / 2 +
 * 0 lambda at lambda = 2, w = 3: nothing else reaches lambda. */

static bt_tensor *apart(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_add(bt_mul(0.5, bt_sum(bt_square(bt_sub(w(self), 3)))), bt_mul(0, bt_sum(lambda(self))));
}

static bt_tensor *product_and_square(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_add(dot(lambda(self), w(self)), bt_mul(0.5, dot(w(self), w(self))));
}

START_TEST(penalty_direct_gradient)
{
    numbers n = {.w = {3}, .lambda = {2}, .ws = 1, .lambdas = 1, .lower = apart, .upper = product_and_square};
    double y = (3 * 4.0 - 2) / 5;
    expect(n,
           "lower.type = penalty\nlower.penalty_lambda = 4\nlower.penalty_iterations = 200\nlower.penalty_lr = 0.3\n",
           &y, 1e-10);
}
END_TEST

/* The upper loss over several micro-batches, the last one short, equals that of the large batch. */

static bt_tensor *rows_lower(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *x = bt_reshape(bt_field(batch, "x"), -1);
    return bt_mul(0.5, bt_mean(bt_square(bt_sub(bt_square(w(self)), bt_mul(lambda(self), x)))));
}

static bt_tensor *rows_upper(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *x = bt_reshape(bt_field(batch, "x"), -1);
    return bt_mean(bt_mul(lambda(self), bt_square(bt_sub(bt_mul(w(self), x), 1))));
}

START_TEST(penalty_over_micro_batches)
{
    static const char *const splits[] = {
        "upper.batch_size = 2\nupper.shuffle = false\nupper.gradient_accumulation = 2\n",
        "upper.batch_size = 3\nupper.shuffle = false\nupper.gradient_accumulation = 2\n",
        "lower.batch_size = 3\nlower.shuffle = false\nlower.gradient_accumulation = 2\nlower.product_batches = all\n",
        ("lower.batch_size = 3\nlower.shuffle = false\nlower.gradient_accumulation = 2\nlower.product_batches = all\n"
         "upper.batch_size = 1\nupper.shuffle = false\nupper.gradient_accumulation = 4\n")};
    static const char penalty[] = "lower.type = penalty\nlower.penalty_lambda = 5\nlower.penalty_lr = 0.05\n";
    numbers n = {.w = {1.2},
                 .lambda = {0.7},
                 .ws = 1,
                 .lambdas = 1,
                 .x = {1, 2, 3, 4},
                 .rows = 4,
                 .columns = 1,
                 .lower = rows_lower,
                 .upper = rows_upper};
    char settings[600];
    double whole;
    EXPECT_OK(closed_form_hypergradient(&n, penalty, &whole));
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        snprintf(settings, sizeof settings, "%s%s", penalty, splits[i]);
        expect(n, settings, &whole, 1e-12);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("methods");
    TCase *tests = tcase_create("two levels");
    tcase_add_loop_test(tests, sama_adam_first_step, 0, 3);
    tcase_add_loop_test(tests, sama_adam_tenth_step, 0, 3);
    tcase_add_loop_test(tests, sama_first_steps, 0, 8);
    tcase_add_loop_test(tests, sama_sgd, 0, SGD_CASES);
    tcase_add_test(tests, sama_of_an_update_left_out);
    tcase_add_test(tests, sama_after_an_adaptation);
    tcase_add_loop_test(tests, nystrom_of_full_rank, 0, 3);
    tcase_add_test(tests, nystrom_of_rank_one);
    tcase_add_test(tests, nystrom_of_rank_zero);
    tcase_add_loop_test(tests, cg_tolerance, 0, 6);
    tcase_add_test(tests, cg_first_step_solves);
    tcase_add_test(tests, cg_warm_start);
    tcase_add_loop_test(tests, penalty_value_function, 0, 4);
    tcase_add_test(tests, penalty_direct_gradient);
    tcase_add_test(tests, penalty_over_micro_batches);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
