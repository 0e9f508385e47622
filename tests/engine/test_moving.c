/* tests/engine/test_moving.c: what may change between runs of a program, and that any other change is detected. */
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct {
    int traced;    /* how often training_step was recorded */
    double frozen; /* a C number that a callback makes a constant */
    int where;     /* the callback that does */
    int64_t power; /* a static int */
    int asked;     /* the host scalar's function */
} now;

static bt_dataset *four_rows(bt_problem *self)
{
    static const double x[] = {1, 2, 3, 4};
    (void)self;
    bt_dataset *data = bt_dataset_new(4);
    bt_dataset_add(data, "x", BT_ARRAY(x, 4));
    return data;
}

static bt_module *scalar(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(0.5));
}

static bt_tensor *value(bt_problem *self, const char *name) { return bt_forward(bt_peer(self, name)); }

/* ---- bt_step ---- */

/* C = (t + 1) lambda w, t the lower problem's steps: the derivative of the lower gradient in lambda is t + 1. */
static bt_tensor *counted_lower(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(bt_add(bt_step(self), 1), bt_mul(value(self, "upper"), bt_forward(self)));
}

static bt_tensor *counted_upper(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_metric(self, "own", bt_step(self));
    bt_metric(self, "peer", bt_step(bt_peer(self, "lower")));
    return value(self, "lower");
}

static bt_tensor *steps_of(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_step(self);
}

static const bt_problem_def counted_up = {
    .name = "upper", .configure_train_data = four_rows, .configure_module = scalar, .training_step = counted_upper};
static const bt_problem_def counted_low = {
    .name = "lower", .configure_train_data = four_rows, .configure_module = scalar, .training_step = counted_lower};
static const bt_export counted = {.abi = BT_ABI, .problems = {&counted_up, &counted_low}};

#define LINKS "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nengine.log_step = 1\n"

START_TEST(steps_in_a_trace)
{
    bt_engine *engine = levels_engine(&counted, NULL,
                                      LINKS "upper.lr = 0.1\nlower.lr = 0.1\nlower.unroll_steps = 2\n"
                                            "engine.train_iters = 6\nlower.product = vjp\n");
    double lambda = 0.5, w = 0.5, found;
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found)));
    ck_assert_double_eq_tol(found, -1, 1e-15); /* t = 0 at the first step to come */
    levels_run(engine);
    for (int t = 0; t < 6; t++) {
        w -= 0.1 * (t + 1) * lambda;
        lambda -= t % 2 ? 0.1 * -(t + 1) : 0;
    }
    levels_params(engine, "lower", &found, 1);
    ck_assert_double_eq_tol(found, w, 1e-12);
    levels_params(engine, "upper", &found, 1);
    ck_assert_double_eq_tol(found, lambda, 1e-12);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found)));
    ck_assert_double_eq_tol(found, -6, 1e-15); /* as in the sixth step */
    ck_assert_double_eq(bt_engine_metric(engine, "upper.own"), 2);
    ck_assert_double_eq(bt_engine_metric(engine, "upper.peer"), 6);
    EXPECT_OK(bt_eval(bt_engine_problem(engine, "lower"), steps_of, NULL, BT_ARRAY(&found)));
    ck_assert_double_eq(found, 6);
    ck_assert_int_eq(bt_host_step(bt_engine_problem(engine, "lower")), 6);
    bt_engine_free(engine);
}
END_TEST

/* ---- host scalars and static ints ---- */

static double next_number(bt_problem *self)
{
    (void)self;
    return ++now.asked;
}

static int64_t the_power(bt_problem *self)
{
    (void)self;
    return now.power;
}

/* C = s w; s = 1, 2, 3, ... is requested before each run. */
static bt_tensor *scalar_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    now.traced++;
    return bt_mul(bt_host_scalar(self, "number", next_number), bt_forward(self));
}

static const bt_problem_def moved = {
    .name = "model", .configure_train_data = four_rows, .configure_module = scalar, .training_step = scalar_step};
static const bt_export moved_parts = {.abi = BT_ABI, .problems = {&moved}};

START_TEST(host_scalar)
{
    memset(&now, 0, sizeof now);
    bt_engine *engine = levels_engine(&moved_parts, NULL, "model.lr = 1\nmodel.batch_size = all\n");
    levels_step(engine, 11);
    int traced = now.traced, first = now.asked;
    double before, after;
    levels_params(engine, "model", &before, 1);
    first = now.asked;
    levels_step(engine, 50);
    ck_assert_int_eq(now.traced, traced); /* no retrace */
    ck_assert_int_eq(now.asked, first + 50);
    levels_params(engine, "model", &after, 1);
    double sum = 0;
    for (int i = 1; i <= 50; i++)
        sum += first + i;
    ck_assert_double_eq_tol(after, before - sum, 1e-9);
    bt_engine_free(engine);
}
END_TEST

/* C_lower = lambda w^p / p; F = w. */
static bt_tensor *power_lower(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    int64_t power = bt_static_int(self, "power", the_power);
    bt_tensor *product = bt_forward(self);
    now.traced++;
    for (int64_t i = 1; i < power; i++)
        product = bt_mul(product, bt_forward(self));
    return bt_div(bt_mul(value(self, "upper"), product), power);
}

static bt_tensor *plain_upper(bt_problem *self, const bt_batch *batch)
{
    return bt_add(value(self, "lower"), bt_mul(0, bt_mul(bt_mean(bt_field(batch, "x")), bt_forward(self))));
}

static const bt_problem_def power_up = {
    .name = "upper", .configure_train_data = four_rows, .configure_module = scalar, .training_step = plain_upper};
static const bt_problem_def power_low = {
    .name = "lower", .configure_train_data = four_rows, .configure_module = scalar, .training_step = power_lower};
static const bt_export power_parts = {.abi = BT_ABI, .problems = {&power_up, &power_low}};

/* The power changes at steps 3, 4 and 7, in the middle of a meta-batch of two; momentum continues. */
START_TEST(static_int)
{
    static const int64_t powers[] = {1, 1, 1, 3, 2, 2, 2, 1, 1, 1, 1, 1};
    double w = 0.5, lambda = 0.5, velocity = 0, sum = 0, found;
    memset(&now, 0, sizeof now);
    now.power = 1;
    bt_engine *engine = levels_engine(
        &power_parts, NULL, LINKS "upper.lr = 0.1\nupper.meta_batch = 2\nlower.lr = 0.1\nlower.momentum = 0.9\n");
    for (int i = 0; i < 12; i++) {
        now.power = powers[i];
        int traced = now.traced;
        levels_step(engine, 1);
        bool changed = i == 0 || powers[i] != powers[i - 1];
        if (changed || i == 5 || i == 6)
            ck_assert_msg(changed == (now.traced > traced), "step %d: %d traces", i, now.traced - traced);
        velocity = 0.9 * velocity + lambda * pow(w, (double)powers[i] - 1);
        w -= 0.1 * velocity;
        sum -= pow(w, (double)powers[i] - 1);
        if (i % 2) {
            lambda -= 0.1 * sum / 2;
            sum = 0;
        }
    }
    levels_params(engine, "lower", &found, 1);
    ck_assert_double_eq_tol(found, w, 1e-12);
    levels_params(engine, "upper", &found, 1);
    ck_assert_double_eq_tol(found, lambda, 1e-12);
    bt_engine_free(engine);
}
END_TEST

static bt_tensor *to_the_power(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *product = bt_mul(1, bt_forward(self));
    for (int64_t i = 1; i < bt_static_int(self, "power", the_power); i++)
        product = bt_mul(product, bt_forward(self));
    return bt_add(product, bt_mul(0, bt_host_scalar(self, "late", next_number)));
}

/* An evaluation with its own numbers, whose programs are recompiled during the call. */
START_TEST(in_an_evaluation)
{
    double found;
    memset(&now, 0, sizeof now);
    now.power = 1;
    bt_engine *engine = levels_engine(&power_parts, NULL, LINKS "lower.lr = 0\nupper.lr = 0\n");
    for (int64_t power = 1; power < 5; power++) {
        now.power = power;
        EXPECT_OK(bt_eval(bt_engine_problem(engine, "lower"), to_the_power, NULL, BT_ARRAY(&found)));
        ck_assert_double_eq_tol(found, pow(0.5, (double)power), 1e-15);
        levels_step(engine, 1);
    }
    bt_engine_free(engine);
}
END_TEST

/* The function of a host scalar or static int runs on the host, even in the middle of a trace: it may use host numbers
 * and request values, but not before there are any. */
static double step_and_epoch(bt_problem *self) { return (double)(10 * bt_host_step(self) + bt_host_epoch(self)); }
static int64_t step_on_host(bt_problem *self) { return bt_host_step(self) / 2; }

static double asks(bt_problem *self)
{
    double found = 0;
    bt_eval(self, steps_of, NULL, BT_ARRAY(&found));
    return found;
}

static bt_tensor *hosted_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    int64_t half = bt_static_int(self, "half", step_on_host);
    return bt_mul(bt_add(bt_host_scalar(self, "both", step_and_epoch), half), bt_forward(self));
}

static bt_tensor *asking_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(bt_host_scalar(self, "asked", asks), bt_forward(self));
}

static bt_tensor *asking_value(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(bt_host_scalar(self, "asked", asks), 1);
}

static const bt_problem_def hosted = {
    .name = "model", .configure_train_data = four_rows, .configure_module = scalar, .training_step = hosted_step};
static const bt_problem_def asking = {
    .name = "model", .configure_train_data = four_rows, .configure_module = scalar, .training_step = asking_step};

START_TEST(host_code_in_a_trace)
{
    bt_export host_parts = {.abi = BT_ABI, .problems = {&hosted}}, ask_parts = {.abi = BT_ABI, .problems = {&asking}};
    double w = 0.5, found;
    bt_engine *engine = levels_engine(&host_parts, NULL, "model.lr = 1\nmodel.batch_size = 2\n");
    levels_step(engine, 7);
    for (int step = 0; step < 7; step++)
        w -= 10 * step + step / 2 + step / 2; /* two batches to an epoch */
    levels_params(engine, "model", &found, 1);
    ck_assert_double_eq_tol(found, w, 1e-12);
    EXPECT_OK(bt_eval(bt_engine_problem(engine, "model"), asking_value, NULL, BT_ARRAY(&found)));
    ck_assert_double_eq(found, 7);
    bt_engine_free(engine);
    levels_expect_error(levels_engine(&ask_parts, NULL, ""), "being set up", NULL);
}
END_TEST

/* ---- purity ---- */

enum { NOWHERE, STEP, VALIDATION, SCHEDULE, GRAD, PARAM, NODES, HOST_STEP, HOST_EPOCH };

static double frozen(int where) { return now.where == where ? (now.frozen += 0.25) : 1; }

static bt_tensor *impure_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    if (now.where == HOST_STEP)
        bt_host_step(self);
    if (now.where == HOST_EPOCH)
        bt_host_epoch(self);
    bt_tensor *loss = bt_mul(frozen(STEP), bt_forward(self));
    for (int i = 0; now.where == NODES && i < now.traced; i++)
        loss = bt_mul(loss, 2);
    now.traced++;
    return loss;
}

static bt_tensor *impure_validation(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(frozen(VALIDATION), bt_forward(self));
}

static void impure_schedule(bt_problem *self, bt_rule *optimizer)
{
    bt_hyper_set(optimizer, "lr", bt_mul(frozen(SCHEDULE), bt_div(0.1, bt_add(1, bt_step(self)))));
}

static bt_tensor *impure_grad(bt_problem *self, bt_tensor *vector)
{
    (void)self;
    return bt_mul(frozen(GRAD), vector);
}

static bt_tensor *impure_param(bt_problem *self, bt_tensor *vector)
{
    (void)self;
    return bt_mul(frozen(PARAM), vector);
}

static const bt_problem_def impure = {.name = "model",
                                      .configure_train_data = four_rows,
                                      .configure_valid_data = four_rows,
                                      .configure_module = scalar,
                                      .training_step = impure_step,
                                      .validation_step = impure_validation,
                                      .schedule = impure_schedule,
                                      .grad_callback = impure_grad,
                                      .param_callback = impure_param};
static const bt_export impure_parts = {.abi = BT_ABI, .problems = {&impure}};

static bt_engine *impure_engine(int where)
{
    memset(&now, 0, sizeof now);
    now.where = where;
    return levels_engine(&impure_parts, NULL, "engine.train_iters = 120\n");
}

START_TEST(frozen_numbers_are_found)
{
    static const struct {
        int where;
        const char *callback, *what;
    } cases[] = {{STEP, "training_step is not pure", "constant"},
                 {VALIDATION, "validation_step is not pure", "constant"},
                 {SCHEDULE, "schedule or a callback is not pure", "constant"},
                 {GRAD, "schedule or a callback is not pure", "constant"},
                 {PARAM, "schedule or a callback is not pure", "constant"},
                 {NODES, "training_step is not pure", "` became `"}};
    bt_engine *engine = impure_engine(cases[_i].where);
    bt_status status = bt_engine_run(engine);
    ck_assert_int_eq(status, BT_ERROR_ARGUMENT);
    ck_assert_int_eq(engine->context.step, 1); /* in the second step */
    levels_expect_error(engine, "model", cases[_i].callback, "step 2", cases[_i].what, "bt_step or bt_host_scalar",
                        "bt_static_int", NULL);
}
END_TEST

/* The message has the old and the new value. */
START_TEST(both_values_are_named)
{
    bt_engine *engine = impure_engine(STEP);
    bt_engine_run(engine);
    const char *node = strstr(bt_error(), "node "), *old = strstr(bt_error(), "`");
    ck_assert_msg(node && old, "%s", bt_error());
    const char *became = strstr(old, "` became `");
    ck_assert_msg(became && strstr(old, "0.") < became && strstr(became, "0.") != NULL, "%s", bt_error());
    bt_engine_free(engine);
}
END_TEST

START_TEST(host_numbers_poison)
{
    levels_expect_error(impure_engine(HOST_STEP), "bt_host_step", "bt_step or bt_host_scalar", NULL);
    levels_expect_error(impure_engine(HOST_EPOCH), "bt_host_epoch", NULL);
}
END_TEST

/* lr = 0.1 / (1 + t). The callbacks are the identity, and the run of 120 steps is retraced at 2, 3, 10 and 100. */
START_TEST(schedule_by_steps)
{
    bt_engine *engine = impure_engine(NOWHERE);
    double w = 0.5, found;
    levels_run(engine);
    for (int t = 0; t < 120; t++)
        w -= 0.1 / (1 + t);
    levels_params(engine, "model", &found, 1);
    ck_assert_double_eq_tol(found, w, 1e-12);
    ck_assert_int_eq(now.traced, 1 + 4); /* once for the program, and the retraces */
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("moving");
    TCase *tests = tcase_create("numbers");
    tcase_add_test(tests, steps_in_a_trace);
    tcase_add_test(tests, host_scalar);
    tcase_add_test(tests, static_int);
    tcase_add_test(tests, in_an_evaluation);
    tcase_add_test(tests, host_code_in_a_trace);
    tcase_add_loop_test(tests, frozen_numbers_are_found, 0, 6);
    tcase_add_test(tests, both_values_are_named);
    tcase_add_test(tests, host_numbers_poison);
    tcase_add_test(tests, schedule_by_steps);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
