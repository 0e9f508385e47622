/* scheduler = plateau in an engine: the rate decreases after validations, is the same after a resume, and itd goes back
 * through each step with the rate that it used. */
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <string.h>

/* ---- one level: w decreases by lr in each step, so it shows the rates ---- */

static const double scores[] = {5, 4, 4, 4, 3, 3, 3, 3, 3, 3};

static bt_status nothing(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double x[1] = {1};
    (void)self, (void)mode, (void)index;
    return bt_batch_set(batch, "x", BT_ARRAY(x, 1));
}

static bt_module *scalar(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(1), 1);
}

static bt_tensor *slope(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_mul(bt_forward(self), bt_field(batch, "x")));
}

static void score(bt_problem *self) { bt_metric(self, "score", scores[bt_host_step(self) / 2 - 1]); }

static const bt_problem_def model = {
    .name = "model", .get_batch = nothing, .configure_module = scalar, .training_step = slope, .validation_end = score};
static const bt_export one = {.abi = BT_ABI, .problems = {&model}};

#define PLATEAU                                                                                                        \
    "model.lr = 0.5\nmodel.scheduler = plateau\nmodel.scheduler_gamma = 0.5\nmodel.scheduler_metric = score\n"

/* Validations after steps 2, 4, ...; patience 1: bad ones after 6, 8 (reduced), 12, 14 (reduced), 16, 18 (again). */
START_TEST(rates)
{
    bt_engine *engine = levels_engine(&one, NULL,
                                      PLATEAU "model.scheduler_patience = 1\nengine.valid_step = 2\n"
                                              "engine.train_iters = 20\n");
    double w, expected = 1 - 8 * 0.5 - 6 * 0.25 - 4 * 0.125 - 2 * 0.0625;
    levels_run(engine);
    levels_params(engine, "model", &w, 1);
    ck_assert_double_eq_tol(w, expected, 1e-14);
    ck_assert_int_eq(engine->context.problems[0]->plateau.bad, 1);
    ck_assert_double_eq(engine->context.problems[0]->plateau.best, 3);
    bt_engine_free(engine);
}
END_TEST

/* A group of parameters has its own rate, which decreases with the others. */
START_TEST(groups)
{
    bt_engine *engine = levels_engine(&one, NULL,
                                      PLATEAU "model.scheduler_patience = 0\nengine.valid_step = 2\n"
                                              "model.all.params = *\nmodel.all.lr = 0.01\n"
                                              "model.scheduler_eta_min = 0.006\nengine.train_iters = 10\n");
    double w; /* bad after 6 and 8: 0.01, then 0.006 from step 7 on */
    levels_run(engine);
    levels_params(engine, "model", &w, 1);
    ck_assert_double_eq_tol(w, 1 - 6 * 0.01 - 4 * 0.006, 1e-14);
    bt_engine_free(engine);
}
END_TEST

START_TEST(mistakes)
{
    levels_expect_error(levels_engine(&one, NULL, PLATEAU "engine.train_iters = 4\n"), "[model]", "plateau",
                        "set valid_step", NULL);
    levels_expect_error(
        levels_engine(&one, NULL, "model.scheduler = plateau\nengine.valid_step = 2\nengine.train_iters = 4\n"),
        "[model]", "scheduler_metric = loss", "it has model.score", NULL);
    levels_expect_error(levels_engine(&one, NULL, "model.scheduler = exponential\n"),
                        "scheduler = exponential needs scheduler_gamma", NULL);
    levels_expect_error(levels_engine(&one, NULL, "model.scheduler = plateau\nmodel.scheduler_gamma = 1.5\n"),
                        "[model] scheduler", "below 1", NULL);
}
END_TEST

/* ---- two levels: w_{t+1} = w_t - lr_t (w_t - lambda), the upper loss is w ---- */

static bt_tensor *follow(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *away = bt_sub(bt_forward(self), bt_forward(bt_peer(self, "upper")));
    return bt_mul(0.5, bt_mean(bt_mul(bt_square(away), bt_field(batch, "x"))));
}

static bt_tensor *end(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_mul(bt_forward(bt_peer(self, "lower")), bt_field(batch, "x")));
}

static void flat(bt_problem *self) { bt_metric(self, "score", 1.0); }

static const bt_problem_def upper = {
    .name = "upper", .get_batch = nothing, .configure_module = scalar, .training_step = end};
static const bt_problem_def lower = {
    .name = "lower", .get_batch = nothing, .configure_module = scalar, .training_step = follow, .validation_end = flat};
static const bt_export two = {.abi = BT_ABI, .problems = {&upper, &lower}};

/* Rates 0.5, 0.5 | 0.25, 0.125: the plateau occurs within the second inner loop. Over two steps d w / d lambda is lr_1
 * (1 - lr_2) + lr_2. */
START_TEST(unrolled)
{
    bt_engine *engine = levels_engine(
        &two, NULL,
        "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.type = itd\nlower.unroll_steps = 2\n"
        "lower.lr = 0.5\nlower.scheduler = plateau\nlower.scheduler_gamma = 0.5\nlower.scheduler_patience = 0\n"
        "lower.scheduler_metric = score\nupper.lr = 1\nengine.valid_step = 1\nengine.train_iters = 4\n");
    double lambda;
    levels_run(engine);
    levels_params(engine, "upper", &lambda, 1);
    ck_assert_double_eq_tol(lambda, 1 - (0.5 * 0.5 + 0.5) - (0.25 * 0.875 + 0.125), 1e-14);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plateau");
    TCase *tests = tcase_create("plateau");
    tcase_add_test(tests, rates);
    tcase_add_test(tests, groups);
    tcase_add_test(tests, mistakes);
    tcase_add_test(tests, unrolled);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
