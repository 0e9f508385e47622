/* tests/engine/test_loss_count.c: losses that are means over tokens: a step over K micro-batches with different numbers
 * of tokens equals the step over the one large batch, whose loss does not declare counts.
 *
 * lower  C(w) = mean over the tokens of s (x w - y)^2 / 2 + e |w|^2 / 2,  s = sigmoid(lambda0), e = exp(lambda1)
 * upper  F    = mean over the tokens of (x w - y)^2 / 2 + 0.05 |lambda|^2
 *
 * Row i stands for tokens[i] tokens. */
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 12, SIZE = 2, MICROS = 4 };

typedef struct scene {
    double tokens[ROWS], upper_tokens[ROWS];
    bool says; /* the losses declare their counts */
} scene;

/* Batches of three rows: 3, none, 6, 9 tokens. */
static const scene unequal = {{2, 0, 1, 0, 0, 0, 5, 1, 0, 1, 4, 4}, {1, 1, 2, 1, 6, 0, 0, 3, 0, 2, 1, 1}, true};

static bt_dataset *rows(bt_problem *self, const double *tokens, uint64_t stream)
{
    double x[ROWS * SIZE], y[ROWS];
    for (int i = 0; i < ROWS * SIZE; i++)
        x[i] = 2 * bt_host_uniform(5, stream, (uint64_t)i) - 1;
    for (int i = 0; i < ROWS; i++)
        y[i] = 1.5 * x[2 * i] - 0.5 * x[2 * i + 1] + bt_host_uniform(5, stream + 1, (uint64_t)i);
    (void)self;
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, ROWS, SIZE));
    bt_dataset_add(data, "y", BT_ARRAY(y, ROWS));
    bt_dataset_add(data, "tokens", BT_ARRAY(tokens, ROWS));
    return data;
}

static bt_dataset *lower_rows(bt_problem *self) { return rows(self, ((scene *)bt_user(self))->tokens, 0); }
static bt_dataset *upper_rows(bt_problem *self) { return rows(self, ((scene *)bt_user(self))->upper_tokens, 2); }

static bt_module *vector(bt_problem *self, double a, double b)
{
    const double values[] = {a, b};
    (void)self;
    return bt_nn_parameter(bt_init_array(BT_ARRAY(values, 2)), 2);
}

static bt_module *weights(bt_problem *self) { return vector(self, 0.3, -0.7); }
static bt_module *lambdas(bt_problem *self) { return vector(self, 0.4, -1.2); }

/* Without tokens it is 0 / 0. */
static bt_tensor *fit(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *tokens = bt_field(batch, "tokens"), *count = bt_sum(tokens);
    bt_tensor *away = bt_sub(bt_matmul(bt_field(batch, "x"), bt_forward(bt_peer(self, "lower"))), bt_field(batch, "y"));
    if (((scene *)bt_user(self))->says)
        bt_loss_count(self, count);
    bt_metric(self, "away", bt_div(bt_sum(bt_mul(tokens, away)), count));
    /* 0 without tokens, not 0 / 0: the loss must not be the reason that the step is skipped. */
    return bt_div(bt_sum(bt_mul(tokens, bt_mul(0.5, bt_square(away)))), bt_maximum(count, 1e-3));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *lambda = bt_forward(bt_peer(self, "upper")), *w = bt_forward(self);
    bt_tensor *decay = bt_mul(0.5, bt_mul(bt_exp(bt_at(lambda, 1)), bt_sum(bt_square(w))));
    return bt_add(bt_mul(bt_sigmoid(bt_at(lambda, 0)), fit(self, batch)), decay);
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    return bt_add(fit(self, batch), bt_mul(0.05, bt_sum(bt_square(bt_forward(self)))));
}

static bt_tensor *lower_field(bt_problem *self, const bt_batch *batch)
{
    return bt_grad(lower_step(self, batch), bt_params(self));
}

#define LOWER                                                                                                          \
    .name = "lower", .configure_train_data = lower_rows, .configure_valid_data = upper_rows,                           \
    .configure_module = weights, .training_step = lower_step, .validation_step = fit

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = upper_rows, .configure_module = lambdas, .training_step = upper_step};
static const bt_problem_def lower = {LOWER}, conditional = {LOWER, .condition = lower_field};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}},
                       of_condition = {.abi = BT_ABI, .problems = {&upper, &conditional}};

#define LINES                                                                                                          \
    "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.shuffle = false\n"                      \
    "upper.shuffle = false\nengine.log_step = 0\nlower.optimizer = sgd\nlower.momentum = 0.9\nlower.lr = 0.3\n"        \
    "upper.lr = 0.2\nlower.unroll_steps = 2\nlower.product_batches = all\n"

/* An engine with micro-batches, or (micros 1) with the large batch. */
static bt_engine *engine_of(const bt_export *problems, const scene *scene, const char *settings, int micros)
{
    char lines[1200];
    snprintf(lines, sizeof lines,
             LINES "%slower.batch_size = %d\nupper.batch_size = %d\nlower.gradient_accumulation = %d\n"
                   "upper.gradient_accumulation = %d\n",
             settings, ROWS / micros, ROWS / micros, micros, micros);
    bt_engine *engine = levels_engine(problems, (void *)(uintptr_t)scene, lines);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    return engine;
}

static const struct {
    const char *settings;
    double within;
} methods[] = {
    {"lower.type = darts\n", 1e-13},
    {"lower.type = darts\nlower.product = vjp\n", 1e-13},
    {"lower.type = darts\nlower.product = finite\n", 1e-9}, /* rounding, over the step of the difference */
    {"lower.type = cg\nlower.cg_iterations = 2\n", 1e-12},
    {"lower.type = cg\nlower.cg_iterations = 3\nlower.cg_warm_start = true\nlower.product = vjp\n", 1e-12},
    {"lower.type = neumann\nlower.neumann_iterations = 3\nlower.neumann_alpha = 0.5\n", 1e-13},
    {"lower.type = nystrom\nlower.nystrom_rank = 1\n", 1e-12},
    {"lower.type = nystrom\nlower.nystrom_rank = 2\n", 1e-12},
    {"lower.type = sama\n", 1e-12},
    {"lower.type = penalty\nlower.penalty_lambda = 10\n", 1e-12},
    {"lower.type = itd\n", 1e-13},
    {"lower.type = itd\nlower.itd_spacing = 2\n", 1e-13},
    {"lower.type = itd\nlower.itd_second_order = 0\n", 1e-13},
};

enum { METHODS = sizeof methods / sizeof *methods };

static void both(bt_engine *engine, int steps, double *values)
{
    levels_step(engine, steps);
    ck_assert_int_eq(levels_skipped(engine, "lower"), 0);
    ck_assert_int_eq(levels_skipped(engine, "upper"), 0);
    levels_params(engine, "lower", values, 2);
    levels_params(engine, "upper", values + 2, 2);
    bt_engine_free(engine);
}

START_TEST(micro_batches_are_the_large_batch)
{
    scene silent = unequal;
    double large[4], small[4];
    silent.says = false;
    both(engine_of(&parts, &silent, methods[_i].settings, 1), 6, large);
    both(engine_of(&parts, &unequal, methods[_i].settings, MICROS), 6, small);
    for (int k = 0; k < 4; k++)
        ck_assert_msg(fabs(large[k] - small[k]) <= methods[_i].within, "%s: %d: %.17g, %.17g", methods[_i].settings, k,
                      large[k], small[k]);
}
END_TEST

START_TEST(a_condition_is_weighted_too)
{
    scene silent = unequal;
    double large[4], small[4];
    silent.says = false;
    both(engine_of(&of_condition, &silent, "lower.type = cg\nlower.cg_iterations = 2\n", 1), 4, large);
    both(engine_of(&of_condition, &unequal, "lower.type = cg\nlower.cg_iterations = 2\n", MICROS), 4, small);
    for (int k = 0; k < 4; k++)
        ck_assert_double_eq_tol(large[k], small[k], 1e-12);
}
END_TEST

/* Also if there are other micro-batches: those that a check differentiates numerically. */
START_TEST(a_check_agrees)
{
    const bt_export *const problems = _i % 2 ? &of_condition : &parts;
    bt_engine *engine = engine_of(problems, &unequal, "lower.type = cg\nlower.cg_iterations = 2\n", MICROS);
    bt_check_result *result = bt_engine_check(engine, NULL, 2);
    ck_assert_msg(result != NULL, "%s", bt_error());
    for (int64_t k = 0; k < result->levels[0].part_count; k++)
        ck_assert_msg(result->levels[0].parts[k].error < 1e-5, "%s: %g", result->levels[0].parts[k].name,
                      result->levels[0].parts[k].error);
    bt_check_result_free(result);
    bt_engine_free(engine);
}
END_TEST

/* ---- the mean of 1 .. 10 in micro-batches of 4, 4, 2 is 5.5; the mean of their means 6.17 ---- */

static bt_dataset *ten(bt_problem *self)
{
    double values[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0}, counts[12];
    for (int i = 0; i < 12; i++)
        counts[i] = i < 10;
    (void)self;
    bt_dataset *data = bt_dataset_new(3); /* of four tokens, the last two of them padding */
    bt_dataset_add(data, "values", BT_ARRAY(values, 3, 4));
    bt_dataset_add(data, "counts", BT_ARRAY(counts, 3, 4));
    return data;
}

static bt_module *number(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(0)); }

static bt_tensor *slope(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *counts = bt_field(batch, "counts"), *count = bt_sum(counts);
    if (bt_option_bool(self, "says", true))
        bt_loss_count(self, count);
    return bt_div(bt_mul(bt_forward(self), bt_sum(bt_mul(counts, bt_field(batch, "values")))), count);
}

START_TEST(five_and_a_half)
{
    static const bt_problem_def def = {
        .name = "lower", .configure_train_data = ten, .configure_module = number, .training_step = slope};
    static const bt_export one = {.abi = BT_ABI, .problems = {&def}};
    char lines[300];
    double w;
    snprintf(lines, sizeof lines,
             "lower.shuffle = false\nlower.lr = 1\nlower.batch_size = 1\nlower.gradient_accumulation = 3\n"
             "engine.log_step = 0\nlower.says = %s\n",
             _i ? "true" : "false");
    bt_engine *engine = levels_engine(&one, NULL, lines);
    levels_step(engine, 1);
    levels_params(engine, "lower", &w, 1);
    ck_assert_double_eq_tol(w, _i ? -5.5 : -37.0 / 6, 1e-14);
    const char *warnings = bt_text_get(&engine->context.warnings); /* div: an operand is taken over the whole batch */
    ck_assert_msg((strstr(warnings, "gradient_accumulation") == NULL) == _i, "%s", warnings);
    bt_engine_free(engine);
}
END_TEST

/* ---- zero counts ---- */

START_TEST(without_any_count_there_is_no_step)
{
    scene none = unequal;
    double before[2] = {0.3, -0.7}, after[2];
    memset(none.tokens, 0, sizeof none.tokens);
    if (_i == 2)
        none.tokens[1] = 4, none.tokens[3] = -1; /* an invalid count */
    bt_engine *engine = engine_of(&parts, &none, "engine.levels = lower\n", _i ? MICROS : 1);
    levels_step(engine, 2);
    ck_assert_int_eq(levels_skipped(engine, "lower"), 2);
    levels_params(engine, "lower", after, 2);
    ck_assert_mem_eq(before, after, sizeof after);
    bt_engine_free(engine);
}
END_TEST

/* The upper step depends on the lower level's batches through the product. */
START_TEST(without_any_count_below_there_is_no_upper_step)
{
    scene none = unequal;
    double before[2] = {0.4, -1.2}, after[2];
    memset(none.tokens, 0, sizeof none.tokens);
    bt_engine *engine = engine_of(&parts, &none, "lower.type = cg\n", _i ? MICROS : 1);
    levels_step(engine, 2);
    ck_assert_int_eq(levels_skipped(engine, "upper"), 1);
    levels_params(engine, "upper", after, 2);
    ck_assert_mem_eq(before, after, sizeof after);
    bt_engine_free(engine);
}
END_TEST

/* ---- what is reported ---- */

/* For the initial w. */
static void means(const double *tokens, uint64_t stream, double *loss, double *away)
{
    const double w[] = {0.3, -0.7};
    double total = 0;
    *loss = *away = 0;
    for (int i = 0; i < ROWS; i++) {
        const double x[] = {2 * bt_host_uniform(5, stream, (uint64_t)(2 * i)) - 1,
                            2 * bt_host_uniform(5, stream, (uint64_t)(2 * i + 1)) - 1};
        const double y = 1.5 * x[0] - 0.5 * x[1] + bt_host_uniform(5, stream + 1, (uint64_t)i);
        const double r = x[0] * w[0] + x[1] * w[1] - y;
        *loss += tokens[i] * r * r / 2;
        *away += tokens[i] * r;
        total += tokens[i];
    }
    *loss /= total;
    *away /= total;
}

START_TEST(reported_are_means_over_tokens)
{
    scene scene = unequal;
    double loss, away;
    if (_i) /* the first validation batch has none */
        memset(scene.upper_tokens, 0, 3 * sizeof(double));
    bt_engine *engine = engine_of(&parts, &scene,
                                  "engine.levels = lower\nlower.lr = 1e-300\nengine.train_iters = 1\n"
                                  "engine.valid_step = 1\nengine.log_step = 1\nlower.valid_batch_size = 3\n",
                                  MICROS);
    levels_run(engine);
    means(scene.tokens, 0, &loss, &away);
    loss = loss / (1 + exp(-0.4)) + exp(-1.2) * (0.09 + 0.49) / 2;
    ck_assert_double_eq_tol(bt_engine_metric(engine, "lower.loss"), loss, 1e-14);
    ck_assert_double_eq_tol(bt_engine_metric(engine, "lower.away"), away, 1e-14);
    means(scene.upper_tokens, 2, &loss, &away);
    ck_assert_double_eq_tol(bt_engine_metric(engine, "lower.valid.loss"), loss, 1e-14);
    ck_assert_double_eq_tol(bt_engine_metric(engine, "lower.valid.away"), away, 1e-14);
    bt_engine_free(engine);
}
END_TEST

START_TEST(of_nothing_nothing_is_reported)
{
    scene none = unequal;
    memset(none.upper_tokens, 0, sizeof none.upper_tokens);
    bt_engine *engine =
        engine_of(&parts, &none, "engine.levels = lower\nengine.train_iters = 1\nengine.valid_step = 1\n", MICROS);
    levels_run(engine);
    ck_assert_double_nan(bt_engine_metric(engine, "lower.valid.loss"));
    bt_engine_free(engine);
}
END_TEST

/* ---- errors ---- */

static bt_tensor *square(bt_problem *self) { return bt_sum(bt_square(bt_forward(self))); }

static bt_tensor *twice(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_loss_count(self, 3);
    bt_loss_count(self, 3);
    return square(self);
}

static bt_tensor *late(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_metric(self, "m", 1.0);
    bt_loss_count(self, 3);
    return square(self);
}

static bt_tensor *of_rows(bt_problem *self, const bt_batch *batch)
{
    bt_loss_count(self, bt_field(batch, "x"));
    return square(self);
}

static bt_tensor *of_parameters(bt_problem *self, const bt_batch *batch)
{
    bt_loss_count(self, bt_add(bt_sum(bt_field(batch, "x")), bt_detach(bt_params(self))));
    return square(self);
}

static bt_tensor *of_null(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_loss_count(self, (bt_tensor *)NULL);
    return square(self);
}

static bt_dataset *two_rows(bt_problem *self)
{
    static const double x[] = {1, 2};
    (void)self;
    bt_dataset *data = bt_dataset_new(2);
    bt_dataset_add(data, "x", BT_ARRAY(x, 2));
    return data;
}

static const struct {
    bt_step_fn *loss;
    const char *message;
} mistakes[] = {{twice, "called twice"},
                {late, "called after a bt_metric"},
                {of_rows, "shape [2]"},
                {of_parameters, "`value`, which changes in training"},
                {of_null, "NULL"}};

START_TEST(told)
{
    bt_problem_def def = {.name = "lower",
                          .configure_train_data = two_rows,
                          .configure_module = number,
                          .training_step = mistakes[_i].loss};
    bt_export one = {.abi = BT_ABI, .problems = {&def}};
    levels_expect_error(levels_engine(&one, NULL, "engine.train_iters = 1\n"), "bt_loss_count", mistakes[_i].message,
                        NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("loss count");
    TCase *tests = tcase_create("counts");
    tcase_add_loop_test(tests, micro_batches_are_the_large_batch, 0, METHODS);
    tcase_add_test(tests, a_condition_is_weighted_too);
    tcase_add_loop_test(tests, a_check_agrees, 0, 2);
    tcase_add_loop_test(tests, five_and_a_half, 0, 2);
    tcase_add_loop_test(tests, without_any_count_there_is_no_step, 0, 3);
    tcase_add_loop_test(tests, without_any_count_below_there_is_no_upper_step, 0, 2);
    tcase_add_loop_test(tests, reported_are_means_over_tokens, 0, 2);
    tcase_add_test(tests, of_nothing_nothing_is_reported);
    tcase_add_loop_test(tests, told, 0, (int)(sizeof mistakes / sizeof *mistakes));
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
