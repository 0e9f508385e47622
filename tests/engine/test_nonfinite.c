/* tests/engine/test_nonfinite.c: non-finite values are never written; zeros stay zeros. */
#include "ridge.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include "support/vars.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- a batch that is not finite: the update is skipped, and counted ---- */

typedef struct plain_run {
    const ridge *data;
    double w[2], lambda[2], velocity[2], sum[2];
    int lower_drawn, upper_drawn, calls, skipped, upper_skipped;
} plain_run;

static bool both_finite(const double *x) { return isfinite(x[0]) && isfinite(x[1]); }

static void leaf_step(plain_run *run, int micros, int batch, int meta_batch, plain_method method)
{
    rows lower[8], upper;
    double g[2], h[2];
    for (int m = 0; m < micros; m++)
        lower[m] = rows_next(RIDGE_ROWS, batch, &run->lower_drawn);
    plain_lower(run->data, lower, micros, run->w, run->lambda, g);
    run->skipped += !both_finite(g);
    for (int k = 0; k < 2 && both_finite(g); k++) {
        run->velocity[k] = 0.9 * run->velocity[k] + g[k];
        run->w[k] -= 0.3 * run->velocity[k];
    }
    upper = rows_next(RIDGE_UPPER_ROWS, 3, &run->upper_drawn);
    plain_hypergradient(run->data, lower + micros - 1, 1, &upper, 1, run->w, run->lambda, method, h);
    for (int k = 0; k < 2; k++)
        run->sum[k] += h[k] / meta_batch;
    if (++run->calls % meta_batch != 0)
        return;
    run->upper_skipped += !both_finite(run->sum);
    for (int k = 0; k < 2 && both_finite(run->sum); k++)
        run->lambda[k] -= 0.2 * run->sum[k];
    run->sum[0] = run->sum[1] = 0;
}

static void expect_finite(void *user, const bt_var *var, const bt_block *block)
{
    (void)block;
    (void)user;
    bt_array array = bt_var_array(var);
    for (int64_t i = 0; i < bt_array_count(array) && !strstr(var->name, ".sum"); i++)
        ck_assert_msg(isfinite(var_get(var, i)), "%s of %s is not finite", var->name, var->owner);
}

typedef struct fault {
    const char *settings;
    plain_method method;
    int micros, batch, meta_batch;
    double bad;
    bool upper;
    int skipped, upper_skipped;
} fault;

/* 12 leaf steps; row 5 of the lower data or row 4 of the upper data is bad. With batches of 4, 4, 2 rows it is in every
 * third batch; with three micro-batches, in every step; with two micro-batches of 2 rows (5 to an epoch), in two of
 * five steps. */
static const fault faults[] = {
    {"", {PLAIN_DARTS, 0, 0}, 1, 4, 1, NAN, false, 4, 4},
    {"", {PLAIN_DARTS, 0, 0}, 1, 4, 1, INFINITY, false, 4, 4},
    {"", {PLAIN_DARTS, 0, 0}, 1, 4, 1, 1e200, false, 4, 4},
    {"lower.product = vjp\n", {PLAIN_DARTS, 0, 0}, 1, 4, 1, NAN, false, 4, 4},
    {"lower.product = finite\n", {PLAIN_DARTS, 0, 0}, 1, 4, 1, NAN, false, 4, 4},
    {"lower.type = cg\nlower.cg_iterations = 2\n", {PLAIN_CG, 2, 0}, 1, 4, 1, NAN, false, 4, 4},
    {"lower.type = neumann\nlower.neumann_alpha = 0.5\n", {PLAIN_NEUMANN, 1, 0.5}, 1, 4, 1, NAN, false, 4, 4},
    {"", {PLAIN_DARTS, 0, 0}, 3, 4, 1, NAN, false, 12, 0},
    {"", {PLAIN_DARTS, 0, 0}, 2, 2, 1, NAN, false, 5, 2},
    {"", {PLAIN_DARTS, 0, 0}, 1, 4, 3, NAN, false, 4, 4},
    {"", {PLAIN_DARTS, 0, 0}, 1, 4, 1, NAN, true, 0, 4},
    {"lower.product = finite\n", {PLAIN_DARTS, 0, 0}, 1, 4, 1, NAN, true, 0, 4},
    {"lower.type = cg\nlower.cg_iterations = 2\n", {PLAIN_CG, 2, 0}, 1, 4, 1, INFINITY, true, 0, 4},
    {"", {PLAIN_DARTS, 0, 0}, 1, 4, 2, NAN, true, 0, 4},
};
enum { FAULTS = sizeof faults / sizeof *faults };

START_TEST(bad_batch)
{
    const fault *f = &faults[_i];
    ridge data = ridge_data();
    if (f->upper)
        data.upper_x[2 * 4] = f->bad;
    else
        data.x[2 * 5 + 1] = f->bad;
    plain_run run = {.data = &data};
    memcpy(run.w, data.w, sizeof run.w);
    memcpy(run.lambda, data.lambda, sizeof run.lambda);
    char settings[600];
    snprintf(settings, sizeof settings,
             "lower.lr = 0.3\nlower.momentum = 0.9\nupper.lr = 0.2\nupper.batch_size = 3\n"
             "lower.gradient_accumulation = %d\nlower.batch_size = %d\nupper.meta_batch = %d\n%s",
             f->micros, f->batch, f->meta_batch, f->settings);
    bt_engine *engine = ridge_engine(&data, settings);
    levels_step(engine, 12);
    for (int i = 0; i < 12; i++)
        leaf_step(&run, f->micros, f->batch, f->meta_batch, f->method);
    ck_assert_int_eq(run.skipped, f->skipped);
    ck_assert_int_eq(run.upper_skipped, f->upper_skipped);
    ck_assert_int_eq(levels_skipped(engine, "lower"), f->skipped);
    ck_assert_int_eq(levels_skipped(engine, "upper"), f->upper_skipped);
    ck_assert_int_eq(levels_steps(engine, "lower"), 12);
    bt_visit_vars(&engine->context, NULL, expect_finite, NULL);
    double w[2], lambda[2], tolerance = strstr(f->settings, "finite") ? 1e-9 : 1e-12;
    levels_params(engine, "lower", w, 2);
    levels_params(engine, "upper", lambda, 2);
    for (int k = 0; k < 2; k++) {
        ck_assert_double_eq_tol(w[k], run.w[k], tolerance);
        ck_assert_double_eq_tol(lambda[k], run.lambda[k], tolerance);
    }
    bt_engine_free(engine);
}
END_TEST

/* ---- neither optimiser state nor a module's buffers are affected ---- */

static double row_value; /* of row 2 */

static bt_dataset *four_rows(bt_problem *self)
{
    double x[] = {1, 2, row_value, 4};
    (void)self;
    bt_dataset *data = bt_dataset_new(4);
    bt_dataset_add(data, "x", BT_ARRAY(x, 4));
    return data;
}

static bt_module *tracked(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_nn_parameter(bt_init_constant(0.5));
    bt_module_add_buffer(module, "mean", bt_init_constant(0));
    return module;
}

static bt_tensor *tracked_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *x = bt_mean(bt_field(batch, "x"));
    bt_param_set(self, "mean", bt_add(bt_mul(0.5, bt_param(self, "mean")), bt_mul(0.5, x)));
    return bt_mean(bt_square(bt_sub(bt_forward(self), x)));
}

static bt_tensor *mean_of(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_param(self, "mean");
}

static const bt_problem_def alone = {
    .name = "alone", .configure_train_data = four_rows, .configure_module = tracked, .training_step = tracked_step};
static const bt_export alone_parts = {.abi = BT_ABI, .problems = {&alone}};

START_TEST(state_and_buffers)
{
    static const char *const optimizers[] = {"sgd\nalone.momentum = 0.9\n", "adam\n", "adamw\n"};
    char settings[300];
    snprintf(settings, sizeof settings,
             "alone.batch_size = 1\nalone.shuffle = false\nengine.log_step = 0\nengine.train_iters = 4\n"
             "alone.optimizer = %s",
             optimizers[_i]);
    row_value = NAN;
    bt_engine *engine = levels_engine(&alone_parts, NULL, settings);
    levels_run(engine);
    bt_visit_vars(&engine->context, NULL, expect_finite, NULL);
    ck_assert_int_eq(levels_skipped(engine, "alone"), 1);
    double mean, expected = 0;
    for (int i = 0; i < 4; i++)
        expected = i == 2 ? expected : 0.5 * expected + 0.5 * (i + 1);
    EXPECT_OK(bt_eval(bt_engine_problem(engine, "alone"), mean_of, NULL, BT_ARRAY(&mean)));
    ck_assert_double_eq_tol(mean, expected, 1e-15);
    bt_engine_free(engine);
}
END_TEST

/* ---- zero ---- */

static bt_tensor *w(bt_problem *self) { return bt_forward(bt_peer(self, "lower")); }

static bt_dataset *nothing(bt_problem *self)
{
    double x = 0;
    (void)self;
    bt_dataset *data = bt_dataset_new(1);
    bt_dataset_add(data, "x", BT_ARRAY(&x, 1));
    return data;
}

static bt_module *three(bt_problem *self)
{
    static const double values[] = {1.5, -0.25, 0.125};
    (void)self;
    return bt_nn_parameter(bt_init_array(BT_ARRAY(values, 3)), 3);
}

/* Its Hessian and its mixed derivative are not zero, and it uses bt_detach. */
static bt_tensor *cubic(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *x = w(self), *cube = bt_mul(bt_detach(x), bt_square(x));
    return bt_sum(bt_mul(bt_forward(bt_peer(self, "upper")), bt_add(cube, bt_square(x))));
}

/* Its derivative in w is exactly zero there. */
static bt_tensor *at_its_minimum(bt_problem *self, const bt_batch *batch)
{
    static const double values[] = {1.5, -0.25, 0.125};
    (void)batch;
    return bt_sum(bt_square(bt_sub(w(self), bt_constant(BT_ARRAY(values, 3)))));
}

static const bt_problem_def zero_upper = {
    .name = "upper", .configure_train_data = nothing, .configure_module = three, .training_step = at_its_minimum};
static const bt_problem_def zero_lower = {
    .name = "lower", .configure_train_data = nothing, .configure_module = three, .training_step = cubic};
static const bt_export zero_parts = {.abi = BT_ABI, .problems = {&zero_upper, &zero_lower}};

START_TEST(zero_stays_zero)
{
    static const char *const types[] = {"darts\n", "neumann\nlower.neumann_iterations = 3\n",
                                        "cg\nlower.cg_iterations = 3\n"};
    static const char *const products[] = {"jvp\n",
                                           "vjp\n",
                                           "finite\n",
                                           "jvp\nlower.detach = field\n",
                                           "jvp\nlower.detach = follow\n",
                                           "finite\nlower.detach = follow\n"};
    char settings[400];
    double found[3] = {1, 1, 1};
    snprintf(settings, sizeof settings,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.type = %slower.product = %s"
             "engine.precision = %s\n",
             types[_i % 3], products[_i / 3 % 6], _i < 18 ? "fp64" : "fp32");
    bt_engine *engine = levels_engine(&zero_parts, NULL, settings);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(found, 3)));
    for (int k = 0; k < 3; k++)
        ck_assert_msg(found[k] == 0, "%s: %g", settings, found[k]);
    bt_engine_free(engine);
}
END_TEST

/* With a learning rate of 0 or a gradient of 0, nothing moves and nothing becomes NaN. */
START_TEST(no_rate_or_no_gradient)
{
    static const char *const optimizers[] = {"sgd\n", "sgd\nlower.momentum = 0.9\n", "adam\n", "adamw\n"};
    double before[] = {1.5, -0.25, 0.125}, after[3];
    char settings[400];
    bool rate = _i >= 4;
    snprintf(settings, sizeof settings,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nengine.log_step = 0\n"
             "engine.train_iters = 3\nlower.optimizer = %slower.lr = 0\nupper.lr = %d\nupper.optimizer = adam\n",
             optimizers[_i % 4], rate);
    bt_engine *engine = levels_engine(&zero_parts, NULL, settings);
    levels_run(engine);
    levels_params(engine, "lower", after, 3);
    ck_assert_mem_eq(before, after, sizeof before);
    levels_params(engine, "upper", after, 3);
    ck_assert_mem_eq(before, after, sizeof before); /* its hypergradient is 0 */
    bt_visit_vars(&engine->context, NULL, expect_finite, NULL);
    ck_assert_int_eq(levels_skipped(engine, "lower") + levels_skipped(engine, "upper"), 0);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nonfinite");
    TCase *tests = tcase_create("values");
    tcase_add_loop_test(tests, bad_batch, 0, FAULTS);
    tcase_add_loop_test(tests, state_and_buffers, 0, 3);
    tcase_add_loop_test(tests, zero_stays_zero, 0, 36);
    tcase_add_loop_test(tests, no_rate_or_no_gradient, 0, 8);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
