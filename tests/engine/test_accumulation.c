/* tests/engine/test_accumulation.c: a step over K micro-batches equals the step over the one large batch. */
#include "ridge.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include "support/vars.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 60 }; /* the most micro-batches of any case */

static const double lr = 0.3, momentum = 0.9, upper_lr = 0.2;

#define LOWER "lower.optimizer = sgd\nlower.lr = 0.3\nlower.momentum = 0.9\nupper.lr = 0.2\n"

typedef struct plain_run { /* SGD on both levels, one upper step after every lower step */
    const ridge *data;
    double w[2], lambda[2], velocity[2];
    int lower_drawn, upper_drawn;
} plain_run;

static plain_run begin(const ridge *data)
{
    plain_run run = {.data = data};
    memcpy(run.w, data->w, sizeof run.w);
    memcpy(run.lambda, data->lambda, sizeof run.lambda);
    return run;
}

static void lower_step(plain_run *run, rows *batches, int micros, int batch, double rate)
{
    double g[2];
    for (int m = 0; m < micros; m++)
        batches[m] = rows_next(RIDGE_ROWS, batch, &run->lower_drawn);
    plain_lower(run->data, batches, micros, run->w, run->lambda, g);
    for (int k = 0; k < 2; k++) {
        run->velocity[k] = momentum * run->velocity[k] + g[k];
        run->w[k] -= rate * run->velocity[k];
    }
}

static void upper_step(plain_run *run, const rows *lowers, int n, int micros, int batch, plain_method method)
{
    rows batches[MOST];
    double h[2];
    for (int m = 0; m < micros; m++)
        batches[m] = rows_next(RIDGE_UPPER_ROWS, batch, &run->upper_drawn);
    plain_hypergradient(run->data, lowers, n, batches, micros, run->w, run->lambda, method, h);
    for (int k = 0; k < 2; k++)
        run->lambda[k] -= upper_lr * h[k];
}

static void expect(bt_engine *engine, const plain_run *run)
{
    double w[2], lambda[2];
    levels_params(engine, "lower", w, 2);
    levels_params(engine, "upper", lambda, 2);
    for (int k = 0; k < 2; k++) {
        ck_assert_double_eq_tol(w[k], run->w[k], 1e-12);
        ck_assert_double_eq_tol(lambda[k], run->lambda[k], 1e-12);
    }
}

/* An epoch has batches of 4, 4, 2 rows, so three micro-batches are the large batch; two of them have 8, 6, 6 rows in
 * turn. */
START_TEST(lower_alone)
{
    static const int cases[][2] = {{3, 4}, {2, 4}, {1, 10}, {5, 2}, {4, 3}, {7, 10}};
    ridge data = ridge_data();
    plain_run run = begin(&data);
    char settings[400];
    rows batches[MOST];
    int micros = cases[_i][0], batch = cases[_i][1];
    snprintf(settings, sizeof settings,
             LOWER "engine.levels = lower\nengine.train_iters = 9\nlower.gradient_accumulation = %d\n"
                   "lower.batch_size = %d\n",
             micros, batch);
    bt_engine *engine = ridge_engine(&data, settings);
    levels_run(engine);
    for (int i = 0; i < 9; i++)
        lower_step(&run, batches, micros, batch, lr);
    double w[2];
    levels_params(engine, "lower", w, 2);
    ck_assert_double_eq_tol(w[0], run.w[0], 1e-12);
    ck_assert_double_eq_tol(w[1], run.w[1], 1e-12);
    ck_assert_int_eq(levels_steps(engine, "lower"), 9);
    bt_engine_free(engine);
}
END_TEST

static const struct {
    const char *settings;
    plain_method method;
} methods[] = {
    {"lower.type = darts\n", {PLAIN_DARTS, 0, 0}},
    {"lower.type = cg\nlower.cg_iterations = 1\n", {PLAIN_CG, 1, 0}},
    {"lower.type = cg\nlower.cg_iterations = 2\nlower.product = vjp\n", {PLAIN_CG, 2, 0}},
    {"lower.type = neumann\nlower.neumann_iterations = 3\nlower.neumann_alpha = 0.5\n", {PLAIN_NEUMANN, 3, 0.5}},
    {"lower.type = neumann\nlower.neumann_iterations = 1\nlower.neumann_alpha = 0.5\n", {PLAIN_NEUMANN, 1, 0.5}},
};

static void two_levels(int which, int micros, int batch, int upper_micros, int upper_batch, bool all)
{
    ridge data = ridge_data();
    plain_run run = begin(&data);
    char settings[600];
    rows batches[MOST];
    snprintf(settings, sizeof settings,
             LOWER "%sengine.train_iters = 7\nlower.gradient_accumulation = %d\nlower.batch_size = %d\n"
                   "upper.gradient_accumulation = %d\nupper.batch_size = %d\nlower.product_batches = %s\n",
             methods[which].settings, micros, batch, upper_micros, upper_batch, all ? "all" : "last");
    bt_engine *engine = ridge_engine(&data, settings);
    levels_run(engine);
    for (int i = 0; i < 7; i++) {
        lower_step(&run, batches, micros, batch, lr);
        int used = all ? micros : 1;
        upper_step(&run, batches + micros - used, used, upper_micros, upper_batch, methods[which].method);
    }
    expect(engine, &run);
    bt_engine_free(engine);
}

START_TEST(product_of_all) { two_levels(_i, 3, 4, 2, 3, true); }
END_TEST

/* 4, 4 | 2, 4 | 4, 2 rows: two, one or no short batch among them, in an order that differs from the program's. */
START_TEST(product_of_all_in_any_order) { two_levels(_i, 2, 4, 3, 2, true); }
END_TEST

START_TEST(product_of_many_short) { two_levels(_i, 4, 7, 2, 4, true); /* 7, 3, 7, 3 */ }
END_TEST

/* With 10 rows in batches of 7 every second one is short: 20 of 41, or 21. */
START_TEST(product_of_more_short_than_programs) { two_levels(_i, 41, 7, 2, 4, true); }
END_TEST

/* Counting the batches of a whole run must not overflow: here there would be 2e18, of 7 rows. */
START_TEST(too_long_a_run)
{
    ridge data = ridge_data();
    bt_engine *engine = ridge_engine(&data, LOWER "engine.levels = lower\nengine.train_iters = 1000000000000000\n"
                                                  "lower.gradient_accumulation = 2000\nlower.batch_size = 7\n");
    ck_assert_int_eq(bt_engine_setup(engine), BT_ERROR_CONFIG);
    levels_expect_error(engine, "lower", "train_iters = 1000000000000000", "gradient_accumulation = 2000", "batch_size",
                        NULL);
}
END_TEST

START_TEST(product_of_the_last) { two_levels(_i, 3, 4, 2, 3, false); }
END_TEST

START_TEST(one_batch) { two_levels(_i, 1, 4, 1, 3, false); }
END_TEST

/* Two micro-batches per update, three updates; the rate falls to a tenth after two updates. */
START_TEST(scheduler_moves_per_update)
{
    ridge data = ridge_data();
    plain_run run = begin(&data);
    rows batches[2];
    bt_engine *engine =
        ridge_engine(&data, LOWER "engine.levels = lower\nengine.train_iters = 3\nlower.batch_size = 4\n"
                                  "lower.gradient_accumulation = 2\nlower.scheduler = step\n"
                                  "lower.scheduler_step_size = 2\nlower.scheduler_gamma = 0.1\n");
    levels_run(engine);
    for (int i = 0; i < 3; i++)
        lower_step(&run, batches, 2, 4, i < 2 ? lr : lr * 0.1);
    double w[2];
    levels_params(engine, "lower", w, 2);
    ck_assert_double_eq_tol(w[0], run.w[0], 1e-12);
    ck_assert_double_eq_tol(w[1], run.w[1], 1e-12);
    int64_t applied;
    memcpy(&applied, var_near(bt_engine_problem(engine, "lower")->optimizer->applied), sizeof applied);
    ck_assert_int_eq(applied, 3);
    ck_assert_int_eq(bt_host_step(bt_engine_problem(engine, "lower")), 3);
    bt_engine_free(engine);
}
END_TEST

/* ---- losses that are not a mean over the examples: there is a warning ---- */

static bt_dataset *ten_rows(bt_problem *self)
{
    double x[10], y[10];
    (void)self;
    for (int i = 0; i < 10; i++)
        x[i] = i, y[i] = i % 3;
    bt_dataset *data = bt_dataset_new(10);
    bt_dataset_add(data, "x", BT_ARRAY(x, 10));
    bt_dataset_add(data, "y", BT_ARRAY(y, 10));
    return data;
}

static bt_module *a_number(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(1)); }

static bt_tensor *losses(bt_problem *self, const bt_batch *batch)
{
    return bt_square(bt_sub(bt_mul(bt_forward(self), bt_field(batch, "x")), bt_field(batch, "y")));
}

static bt_tensor *weights(const bt_batch *batch) { return bt_exp(bt_mul(-0.1, bt_field(batch, "x"))); }

static bt_tensor *quotient(bt_problem *self, const bt_batch *batch)
{
    return bt_div(bt_sum(bt_mul(weights(batch), losses(self, batch))), bt_sum(weights(batch)));
}

static bt_tensor *variance(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *l = losses(self, batch);
    return bt_sub(bt_mean(bt_square(l)), bt_square(bt_mean(l)));
}

static bt_tensor *total(bt_problem *self, const bt_batch *batch) { return bt_sum(losses(self, batch)); }
static bt_tensor *a_mean(bt_problem *self, const bt_batch *batch) { return bt_mean(losses(self, batch)); }

static const struct {
    bt_step_fn *loss;
    const char *warning; /* NULL: none */
    double whole, parts; /* the final parameter, with one batch and with three; NaN: unknown */
} splits[] = {
    {quotient, "training_step (div)", -34.8, -45.9},
    {variance, "training_step (square)", -2468, -596},
    {total, "use bt_mean instead of bt_sum", -485, -141.8},
    {a_mean, NULL, -47.6, -47.6},
};

static void one_step(int which, bool parts)
{
    bt_problem_def def = {.name = "lower",
                          .configure_train_data = ten_rows,
                          .configure_module = a_number,
                          .training_step = splits[which].loss};
    bt_export all = {.abi = BT_ABI, .problems = {&def}};
    char lines[200];
    snprintf(lines, sizeof lines,
             "engine.train_iters = 1\nlower.shuffle = false\nlower.lr = 1\nlower.batch_size = %d\n"
             "lower.gradient_accumulation = %d\n",
             parts ? 4 : 10, parts ? 3 : 1);
    bt_engine *engine = levels_engine(&all, NULL, lines);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    const char *found = bt_text_get(&engine->context.warnings), *due = parts ? splits[which].warning : NULL;
    ck_assert_msg(due ? strstr(found, due) != NULL : !strstr(found, "accumulation"), "%d: %s", which, found);
    double value, expected = parts ? splits[which].parts : splits[which].whole;
    levels_step(engine, 1);
    levels_params(engine, "lower", &value, 1);
    ck_assert_msg(fabs(value - expected) < 0.001 * fabs(expected), "%d, %d: %.10g", which, parts, value);
    bt_engine_free(engine);
}

START_TEST(losses_that_do_not_split)
{
    one_step(_i, false);
    one_step(_i, true);
}
END_TEST

/* ---- bytes ---- */

enum { WIDE = 32, DEEP = 12, EACH = 48 };

static bt_dataset *wide_rows(bt_problem *self)
{
    static double x[4 * EACH * WIDE];
    for (int i = 0; i < 4 * EACH * WIDE; i++)
        x[i] = 2 * bt_host_uniform(3, 0, (uint64_t)i) - 1;
    bt_dataset *data = bt_dataset_new(4 * EACH);
    bt_dataset_add(data, "x", BT_ARRAY(x, 4 * EACH, WIDE));
    return (void)self, data;
}

static bt_module *deep_layers(bt_problem *self)
{
    bt_module *net = bt_module_new(NULL);
    for (int i = 0; i < DEEP; i++)
        bt_module_add(net, bt_nn_sequential(bt_nn_linear(WIDE, WIDE), bt_nn_fn(bt_tanh)), "%d", i);
    return (void)self, net;
}

static bt_tensor *deep_loss(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *x = bt_field(batch, "x");
    for (int i = 0; i < DEEP; i++)
        x = bt_forward(bt_child(self, "%d", i), x);
    return bt_mean(bt_square(x));
}

/* Gradients are accumulated directly in the sums: no separate gradient of a micro-batch exists, and recomputation frees
 * as much as without micro-batches. */
START_TEST(one_gradient_in_memory)
{
    static const char *const settings[] = {"", "lower.checkpointing = sqrt\n"};
    const size_t gradients = DEEP * WIDE * (WIDE + 1) * sizeof(double), value = EACH * WIDE * sizeof(double);
    const size_t values[] = {DEEP + 2, 7}; /* alive at once */
    bt_problem_def def = {.name = "lower",
                          .configure_train_data = wide_rows,
                          .configure_module = deep_layers,
                          .training_step = deep_loss};
    bt_export all = {.abi = BT_ABI, .problems = {&def}};
    char lines[200];
    snprintf(lines, sizeof lines, "lower.batch_size = %d\nlower.gradient_accumulation = 4\n%s", EACH, settings[_i]);
    bt_engine *engine = levels_engine(&all, NULL, lines);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    const size_t arena = bt_engine_problem(engine, "lower")->step->phase->arena;
    ck_assert_msg(arena >= gradients && arena < gradients + values[_i] * value, "%zu bytes: %.2f values and gradients",
                  arena, ((double)arena - (double)gradients) / (double)value);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("accumulation");
    TCase *tests = tcase_create("steps");
    int count = (int)(sizeof methods / sizeof *methods);
    tcase_add_loop_test(tests, lower_alone, 0, 6);
    tcase_add_loop_test(tests, product_of_all, 0, count);
    tcase_add_loop_test(tests, product_of_all_in_any_order, 0, count);
    tcase_add_loop_test(tests, product_of_many_short, 0, count);
    tcase_add_loop_test(tests, product_of_more_short_than_programs, 0, count);
    tcase_add_test(tests, too_long_a_run);
    tcase_add_loop_test(tests, product_of_the_last, 0, count);
    tcase_add_loop_test(tests, one_batch, 0, count);
    tcase_add_test(tests, scheduler_moves_per_update);
    tcase_add_loop_test(tests, one_gradient_in_memory, 0, 2);
    tcase_add_loop_test(tests, losses_that_do_not_split, 0, (int)(sizeof splits / sizeof *splits));
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
