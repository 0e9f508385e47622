/* tests/engine/test_queries.c: hypergradients change nothing of the lower problem; requests change nothing at all. */
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <stdio.h>
#include <string.h>

enum { ROWS = 10, PARAMS = 2 };

static int asked; /* calls of get_batch */

static bt_dataset *rows(bt_problem *self)
{
    double x[ROWS * 2], y[ROWS];
    (void)self;
    for (int i = 0; i < ROWS * 2; i++)
        x[i] = 2 * bt_host_uniform(3, 0, (uint64_t)i) - 1;
    for (int i = 0; i < ROWS; i++)
        y[i] = bt_host_uniform(3, 1, (uint64_t)i);
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, ROWS, 2));
    bt_dataset_add(data, "y", BT_ARRAY(y, ROWS));
    return data;
}

static bt_status make_batch(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    float x[8], y[4];
    (void)self, (void)mode;
    asked++;
    for (int i = 0; i < 8; i++)
        x[i] = (float)bt_host_uniform(4, (uint64_t)index, (uint64_t)i);
    for (int i = 0; i < 4; i++)
        y[i] = (float)bt_host_uniform(5, (uint64_t)index, (uint64_t)i);
    bt_batch_set(batch, "x", BT_ARRAY(x, 4, 2));
    return bt_batch_set(batch, "y", BT_ARRAY(y, 4));
}

/* A net with dropout, and a buffer that every training step updates. */
static bt_module *net(bt_problem *self)
{
    (void)self;
    bt_module *net = bt_nn_sequential(bt_nn_linear(2, 5), bt_nn_fn(bt_tanh), bt_nn_dropout(0.4), bt_nn_linear(5, 1));
    bt_module_add_buffer(net, "mean", bt_init_constant(0.25), 2);
    return net;
}

static bt_module *weights(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_nn_parameter(bt_init_normal(0, 0.5), PARAMS);
    bt_module_add_buffer(module, "seen", bt_init_constant(0), 1);
    return module;
}

static bt_tensor *losses(bt_problem *lower, const bt_batch *batch)
{
    bt_tensor *x = bt_sub(bt_field(batch, "x"), bt_param(lower, "mean"));
    return bt_square(bt_sub(bt_squeeze(bt_forward(lower, x), 1), bt_field(batch, "y")));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *mean = bt_param(self, "mean"), *lambda = bt_forward(bt_peer(self, "upper"));
    bt_tensor *loss = losses(self, batch);
    bt_tensor *weight = bt_sigmoid(bt_add(bt_at(lambda, 0), bt_mul(bt_at(lambda, 1), bt_detach(loss))));
    bt_param_set(self, "mean", bt_add(bt_mul(0.9, mean), bt_mul(0.1, bt_mean(bt_field(batch, "x"), 0))));
    bt_metric(self, "weight", weight);
    return bt_mean(bt_mul(weight, loss));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    bt_param_set(self, "seen", bt_add(bt_param(self, "seen"), 1));
    return bt_add(bt_mean(losses(bt_peer(self, "lower"), batch)), bt_mul(0.01, bt_sum(bt_square(bt_params(self)))));
}

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = rows, .configure_module = weights, .training_step = upper_step};
static const bt_problem_def lower = {
    .name = "lower", .configure_train_data = rows, .configure_module = net, .training_step = lower_step};
static const bt_export from_sets = {.abi = BT_ABI, .problems = {&upper, &lower}};

static const bt_problem_def upper_made = {
    .name = "upper", .get_batch = make_batch, .configure_module = weights, .training_step = upper_step};
static const bt_problem_def lower_made = {
    .name = "lower", .get_batch = make_batch, .configure_module = net, .training_step = lower_step};
static const bt_export from_callbacks = {.abi = BT_ABI, .problems = {&upper_made, &lower_made}};

#define SETTINGS                                                                                                       \
    "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.batch_size = 4\nupper.batch_size = 3\n" \
    "lower.optimizer = adam\nlower.lr = 0.01\nupper.optimizer = adam\nupper.lr = 0.05\nengine.log_step = 0\n"          \
    "lower.neumann_alpha = 0.3\n"

static const char *const variants[] = {
    "lower.type = darts\n",
    "lower.type = darts\nlower.product = vjp\n",
    "lower.type = darts\nlower.product = finite\n",
    "lower.type = darts\nlower.product = finite\nlower.detach = follow\n",
    "lower.type = darts\nlower.detach = field\n",
    "lower.type = darts\nlower.detach = follow\n",
    "lower.type = neumann\nlower.neumann_iterations = 1\n",
    "lower.type = neumann\nlower.neumann_iterations = 3\nlower.product = vjp\n",
    "lower.type = neumann\nlower.neumann_iterations = 3\nlower.product = finite\n",
    "lower.type = neumann\nlower.neumann_iterations = 2\nlower.detach = field\n",
    "lower.type = neumann\nlower.neumann_iterations = 2\nlower.detach = follow\n",
    "lower.type = cg\nlower.cg_iterations = 1\n",
    "lower.type = cg\nlower.cg_iterations = 3\nlower.product = vjp\n",
    "lower.type = cg\nlower.cg_iterations = 3\nlower.product = finite\n",
    "lower.type = cg\nlower.cg_iterations = 2\nlower.detach = field\n",
    "lower.type = cg\nlower.cg_iterations = 2\nlower.detach = follow\nlower.product = finite\n",
    "lower.type = cg\nlower.gradient_accumulation = 3\nlower.product_batches = all\n",
    "lower.type = darts\nlower.gradient_accumulation = 2\nupper.gradient_accumulation = 3\n",
    "upper.meta_batch = 2\n",
    "engine.precision = fp32\n",
    "engine.precision = fp32\nlower.product = finite\n",
    "engine.precision = fp32\nlower.product = finite\nlower.type = cg\nlower.cg_iterations = 2\n",
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static bt_engine *engine_of(const bt_export *parts, const char *variant)
{
    char settings[1000];
    snprintf(settings, sizeof settings, "%s%s", SETTINGS, variant);
    return levels_engine(parts, NULL, settings);
}

START_TEST(lower_state_is_left_alone)
{
    bt_engine *engine = engine_of(&from_sets, variants[_i]);
    levels_step(engine, 4);
    uint64_t before = levels_hash(engine, "lower"), other = levels_hash(engine, "upper");
    EXPECT_OK(bt_step_alone(bt_engine_problem(engine, "upper")));
    ck_assert_uint_eq(levels_hash(engine, "lower"), before);
    ck_assert_uint_ne(levels_hash(engine, "upper"), other);
    levels_step(engine, 1);
    ck_assert_uint_ne(levels_hash(engine, "lower"), before);
    bt_engine_free(engine);
}
END_TEST

static bt_tensor *loss_of(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_params(self));
}

/* The same run, with and without requests between its steps. */
static uint64_t run(const bt_export *parts, const char *variant, bool ask)
{
    bt_engine *engine = engine_of(parts, variant);
    double first[PARAMS], second[PARAMS], value;
    ck_assert_msg(engine != NULL, "%s", bt_error());
    for (int i = 0; i < 6; i++) {
        bt_problem *problem = bt_engine_problem(engine, "upper");
        ck_assert_msg(problem != NULL, "%s", bt_error());
        EXPECT_OK(bt_eval(problem, loss_of, NULL, BT_ARRAY(&value))); /* its record is a run variable */
        if (ask) {
            uint64_t before = levels_hash(engine, NULL);
            EXPECT_OK(bt_hypergradient(problem, BT_ARRAY(first, PARAMS)));
            ck_assert_uint_eq(levels_hash(engine, NULL), before);
            EXPECT_OK(bt_hypergradient(problem, BT_ARRAY(second, PARAMS)));
            ck_assert_mem_eq(first, second, sizeof first);
            EXPECT_OK(bt_eval(problem, loss_of, NULL, BT_ARRAY(&value)));
            EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "lower"),
                                       (bt_array){.dtype = BT_F64, .rank = 1, .dims = {21}, .data = (double[21]){0}}));
            ck_assert_uint_eq(levels_hash(engine, NULL), before);
        }
        levels_step(engine, 1);
    }
    uint64_t hash = levels_hash(engine, NULL);
    bt_engine_free(engine);
    return hash;
}

START_TEST(questions_change_nothing)
{
    uint64_t without = run(&from_sets, variants[_i], false);
    ck_assert_uint_eq(run(&from_sets, variants[_i], true), without);
}
END_TEST

START_TEST(questions_about_made_batches)
{
    static const char *const accumulated = "lower.gradient_accumulation = 2\nupper.gradient_accumulation = 2\n"
                                           "lower.product_batches = all\nlower.type = cg\n";
    ck_assert_uint_eq(run(&from_callbacks, "", true), run(&from_callbacks, "", false));
    ck_assert_uint_eq(run(&from_callbacks, accumulated, true), run(&from_callbacks, accumulated, false));
    ck_assert_int_gt(asked, 0);
}
END_TEST

/* With plain SGD, the upper parameters change by lr times the requested hypergradient. */
static void expect_next_step_uses_it(bt_engine *engine)
{
    double asked_for[PARAMS], before[PARAMS], after[PARAMS];
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(asked_for, PARAMS)));
    levels_params(engine, "upper", before, PARAMS);
    EXPECT_OK(bt_step_alone(bt_engine_problem(engine, "upper")));
    levels_params(engine, "upper", after, PARAMS);
    for (int k = 0; k < PARAMS; k++)
        ck_assert_double_eq_tol(after[k], before[k] - 0.05 * asked_for[k], 1e-15);
}

START_TEST(what_the_next_step_uses)
{
    bt_engine *engine = engine_of(&from_sets, "upper.optimizer = sgd\nlower.unroll_steps = 3\n");
    levels_step(engine, 3);
    expect_next_step_uses_it(engine);
    bt_engine_free(engine);
}
END_TEST

/* A method that needs steps of the lower problem is refused before there are any. */
START_TEST(steps_that_are_not_there)
{
    static const char *const types[] = {"lower.type = itd\n", "lower.type = sama\n"};
    static const char *const said[] = {
        "differentiates through the steps that lower has made since the last step of upper",
        "needs the last update of lower (type = sama), but it has not made one"};
    double asked_for[PARAMS];
    char settings[300];
    snprintf(settings, sizeof settings, "upper.optimizer = sgd\nlower.unroll_steps = 2\n%s", types[_i]);
    bt_engine *engine = engine_of(&from_sets, settings);
    for (int steps = 0; steps < 5; steps++) { /* upper steps after 2 and 4 */
        bool there = _i ? steps > 0 : steps % 2 == 1;
        bt_status status = bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(asked_for, PARAMS));
        ck_assert_int_eq(status, there ? BT_OK : BT_ERROR_ARGUMENT);
        if (!there)
            ck_assert_msg(strstr(bt_error(), said[_i]) != NULL, "%s", bt_error());
        bt_error_clear();
        levels_step(engine, 1);
    }
    expect_next_step_uses_it(engine);
    bt_engine_free(engine);
}
END_TEST

/* Before the first step the lower problem's first batch is used, and it is still the first one afterwards. */
START_TEST(before_the_first_step)
{
    double asked_for[PARAMS], again[PARAMS];
    bt_engine *engine = engine_of(&from_sets, "");
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(asked_for, PARAMS)));
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(again, PARAMS)));
    ck_assert_mem_eq(asked_for, again, sizeof again);
    ck_assert_int_eq(bt_stream_position(bt_engine_problem(engine, "lower")->train), 0);
    ck_assert_int_eq(bt_stream_position(bt_engine_problem(engine, "upper")->train), 0);
    bt_engine_free(engine);
}
END_TEST

/* A check changes everything and restores it: the run continues as without it. */
START_TEST(after_a_check)
{
    FILE *nowhere = fopen("/dev/null", "w");
    uint64_t hashes[2];
    for (int with = 0; with < 2; with++) {
        bt_engine *engine =
            engine_of(&from_sets, "lower.product = vjp\nlower.detach = field\nlower.unroll_steps = 2\n");
        levels_step(engine, 3);
        if (with) /* its verdict does not matter here */
            bt_engine_check_hypergradient(engine, &(bt_checking){.samples = 2, .file = nowhere});
        bt_error_clear();
        levels_step(engine, 3);
        hashes[with] = levels_hash(engine, NULL);
        bt_engine_free(engine);
    }
    fclose(nowhere);
    ck_assert_uint_eq(hashes[0], hashes[1]);
}
END_TEST

static int64_t number;
static int64_t number_now(bt_problem *self) { return (void)self, number; }

static bt_tensor *breaking_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = bt_mean(losses(self, batch));
    return bt_static_int(self, "number", number_now) ? NULL : loss;
}

/* Callbacks of a request find the engine busy: they can neither run nor free it. */
static bt_engine *busy;

static bt_tensor *busy_value(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_engine_free(busy);
    ck_assert_ptr_nonnull(strstr(bt_error(), "bt_engine_free: a call of the engine is under way"));
    bt_error_clear();
    bt_engine_run(busy);
    return bt_sum(bt_params(self));
}

static bt_status busy_batch(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    if (busy && mode == BT_VALID)
        busy_value(self, batch);
    return make_batch(self, mode, index, batch);
}

static bt_dataset *busy_rows(bt_problem *self)
{
    if (busy)
        busy_value(self, NULL);
    return rows(self);
}

static void expect_busy(bt_engine *engine)
{
    ck_assert_msg(strstr(bt_error(), "bt_engine_run: the engine is running"), "%s", bt_error());
    bt_error_clear();
    ck_assert_int_eq(bt_engine_steps(engine), 0);
    busy = NULL;
    levels_step(engine, 1);
    bt_engine_free(engine);
}

START_TEST(what_a_question_calls)
{
    bt_problem_def asked_for = lower;
    bt_export parts = {.abi = BT_ABI, .problems = {&asked_for}};
    double value;
    asked_for.training_step = breaking_step;
    asked_for.configure_valid_data = busy_rows;
    if (_i == 2) {
        asked_for.configure_train_data = asked_for.configure_valid_data = NULL;
        asked_for.get_batch = busy_batch;
    }
    busy = NULL;
    bt_engine *engine = levels_engine(&parts, NULL, "engine.train_iters = 9\n");
    bt_problem *problem = bt_engine_problem(engine, "lower");
    ck_assert_msg(problem != NULL, "%s", bt_error());
    busy = engine;
    if (_i == 0)
        bt_eval(problem, busy_value, NULL, BT_ARRAY(&value));
    else
        ck_assert_ptr_null(bt_valid_batch(problem, 0));
    expect_busy(engine);
}
END_TEST

/* A request that fails halfway ends the run, even if the error is cleared. */
static void break_and_clear(bt_problem *self)
{
    double value;
    number = 1;
    bt_eval(self, busy_value, NULL, BT_ARRAY(&value));
    bt_error_clear();
}

START_TEST(a_question_that_breaks_programs)
{
    bt_problem_def broken = lower;
    bt_export parts = {.abi = BT_ABI, .problems = {&broken}};
    broken.training_step = breaking_step;
    broken.epoch_callback = break_and_clear;
    number = 0;
    bt_engine *engine = levels_engine(&parts, NULL, "engine.train_iters = 50\nlower.batch_size = 4\n");
    ck_assert_int_ne(bt_engine_run(engine), BT_OK);
    ck_assert_msg(strstr(bt_error(), "lower, training_step: training_step returned no loss"), "%s", bt_error());
    bt_engine_free(engine);
    bt_error_clear();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queries");
    TCase *tests = tcase_create("nothing changes");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, lower_state_is_left_alone, 0, VARIANTS);
    tcase_add_loop_test(tests, questions_change_nothing, 0, VARIANTS);
    tcase_add_test(tests, questions_about_made_batches);
    tcase_add_test(tests, what_the_next_step_uses);
    tcase_add_loop_test(tests, steps_that_are_not_there, 0, 2);
    tcase_add_test(tests, before_the_first_step);
    tcase_add_test(tests, after_a_check);
    tcase_add_loop_test(tests, what_a_question_calls, 0, 3);
    tcase_add_test(tests, a_question_that_breaks_programs);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
