/* Problems reported by users of similar systems that can occur with two levels on one processor and are not covered by
 * another test: each test names the report. */
#include "closed_forms.h"
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include "support/vars.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const methods[] = {
    "lower.type = darts\n",
    "lower.type = darts\nlower.product = finite\n",
    "lower.type = darts\nlower.product = vjp\n",
    "lower.type = neumann\nlower.neumann_alpha = 0.1\nlower.neumann_iterations = 5\n",
    "lower.type = cg\nlower.cg_iterations = 5\n",
    "lower.type = cg\nlower.cg_iterations = 5\nlower.product = finite\n",
};
enum { METHODS = sizeof methods / sizeof *methods };

static bt_tensor *w(bt_problem *self) { return bt_forward(bt_peer(self, "lower")); }
static bt_tensor *lambda(bt_problem *self) { return bt_forward(bt_peer(self, "upper")); }

/* ---- "Memory grows with every inner step, or with every hypergradient": not by a byte ---- */

/* C = (w - lambda)^2 / 2 + w^4 / 4, F = (w - 1)^2 / 2. */
static bt_tensor *quartic_lower(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *square = bt_square(w(self));
    return bt_sum(bt_add(bt_mul(0.5, bt_square(bt_sub(w(self), lambda(self)))), bt_mul(0.25, bt_square(square))));
}

static bt_tensor *quartic_upper(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_sum(bt_square(bt_sub(w(self), 1))));
}

START_TEST(memory_stays)
{
    numbers n = {
        .w = {0.5, 2}, .lambda = {1, -1}, .ws = 2, .lambdas = 2, .lower = quartic_lower, .upper = quartic_upper};
    double hypergradient[2];
    bt_engine *engine = closed_form_engine(&n, methods[_i]);
    bt_problem *upper = bt_engine_problem(engine, "upper");
    levels_step(engine, 2);
    EXPECT_OK(bt_hypergradient(upper, BT_ARRAY(hypergradient, 2)));
    size_t live = bt_live_bytes();
    levels_step(engine, 1000);
    ck_assert_uint_eq(bt_live_bytes(), live);
    for (int i = 0; i < 100; i++)
        EXPECT_OK(bt_hypergradient(upper, BT_ARRAY(hypergradient, 2)));
    ck_assert_uint_eq(bt_live_bytes(), live);
    bt_engine_free(engine);
}
END_TEST

/* "Memory grows with the number of iterations": not for implicit methods; and more steps do not need more. */
START_TEST(memory_by_iterations)
{
    static const char *const few[] = {"lower.type = cg\nlower.cg_iterations = 2\n",
                                      "lower.type = neumann\nlower.neumann_iterations = 2\n",
                                      "lower.type = darts\nlower.unroll_steps = 2\n"},
                             *const many[] = {"lower.type = cg\nlower.cg_iterations = 50\n",
                                              "lower.type = neumann\nlower.neumann_iterations = 50\n",
                                              "lower.type = darts\nlower.unroll_steps = 50\n"};
    numbers n = {
        .w = {0.5, 2}, .lambda = {1, -1}, .ws = 2, .lambdas = 2, .lower = quartic_lower, .upper = quartic_upper};
    size_t arena[2];
    for (int k = 0; k < 2; k++) {
        bt_engine *engine = closed_form_engine(&n, k ? many[_i] : few[_i]);
        EXPECT_OK(bt_engine_setup(engine));
        arena[k] = bt_arena_planned(&engine->context);
        bt_engine_free(engine);
    }
    ck_assert_uint_gt(arena[0], 0);
    ck_assert_uint_eq(arena[0], arena[1]);
}
END_TEST

/* ---- "The Fisher matrix is used as the Hessian": it is 0 where the residual is 0, but the Hessian is not ---- */

/* C = (w x - y)^2 / 2 - lambda w at w x = y, x = 2: H = 4, and with F = w the hypergradient is 1 / H. */
static bt_tensor *residual_lower(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *residual = bt_sub(bt_mul(bt_field(batch, "x"), w(self)), bt_field(batch, "y"));
    return bt_sub(bt_mul(0.5, bt_sum(bt_square(residual))), bt_sum(bt_mul(lambda(self), w(self))));
}

static bt_tensor *sum_upper(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(w(self));
}

START_TEST(curvature_without_residual)
{
    numbers n = {.w = {1.5},
                 .lambda = {0.3},
                 .ws = 1,
                 .lambdas = 1,
                 .x = {2},
                 .y = {3},
                 .lower = residual_lower,
                 .upper = sum_upper};
    double found;
    EXPECT_OK(closed_form_hypergradient(&n, "lower.type = cg\nlower.cg_iterations = 1\n", &found));
    ck_assert_double_eq_tol(found, 0.25, 1e-14);
}
END_TEST

/* ---- "Conjugate gradients return the iterate before the solution": with H = 2 I the first one is the solution ---- */

static bt_tensor *twice_lower(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_sub(bt_square(w(self)), bt_mul(lambda(self), w(self))));
}

START_TEST(first_iterate_solves)
{
    numbers n = {.w = {3, -1}, .lambda = {1, 1}, .ws = 2, .lambdas = 2, .lower = twice_lower, .upper = sum_upper};
    char settings[100];
    double found[2];
    static const int iterations[] = {1, 2, 5};
    snprintf(settings, sizeof settings, "lower.type = cg\nlower.cg_iterations = %d\n", iterations[_i]);
    EXPECT_OK(closed_form_hypergradient(&n, settings, found));
    ck_assert_double_eq_tol(found[0], 0.5, 1e-14);
    ck_assert_double_eq_tol(found[1], 0.5, 1e-14);
}
END_TEST

/* ---- "Statistics change with every evaluation": a buffer changes once a step, whatever the hypergradient evaluates
 * ---- */

static bt_module *counted_module(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_nn_parameter(bt_init_constant(0.5), 2);
    bt_module_add_buffer(module, "seen", bt_init_constant(0));
    return module;
}

static bt_tensor *counted_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_param_set(self, "seen", bt_add(bt_param(self, "seen"), 1));
    bt_tensor *value = bt_param(self, "value");
    return bt_sum(bt_mul(0.5, bt_square(bt_sub(value, bt_param(bt_peer(self, "upper"), "value")))));
}

static bt_tensor *counted_upper(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_param_set(self, "seen", bt_add(bt_param(self, "seen"), 1));
    return bt_sum(bt_square(bt_sub(bt_param(bt_peer(self, "lower"), "value"), 1)));
}

static bt_dataset *one_row(bt_problem *self)
{
    double x = 1;
    (void)self;
    bt_dataset *data = bt_dataset_new(1);
    bt_dataset_add(data, "x", BT_ARRAY(&x, 1));
    return data;
}

static const bt_problem_def counted = {.name = "lower",
                                       .configure_train_data = one_row,
                                       .configure_module = counted_module,
                                       .training_step = counted_step},
                            counting = {.name = "upper",
                                        .configure_train_data = one_row,
                                        .configure_module = counted_module,
                                        .training_step = counted_upper};
static const bt_export counters = {.abi = BT_ABI, .problems = {&counting, &counted}};

static double seen(bt_engine *engine, const char *problem)
{
    double value = NAN;
    const bt_block *block = &bt_engine_problem(engine, problem)->module->buffer_block;
    ck_assert_int_eq(block->count, 1);
    memcpy(&value, var_near(block->windows[0]), sizeof value);
    return value;
}

START_TEST(statistics_move_once)
{
    char settings[400];
    snprintf(settings, sizeof settings,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.unroll_steps = 3\n%s",
             methods[_i]);
    bt_engine *engine = levels_engine(&counters, NULL, settings);
    levels_step(engine, 12);
    ck_assert_double_eq(seen(engine, "lower"), 12);
    ck_assert_double_eq(seen(engine, "upper"), 4);
    bt_engine_free(engine);
}
END_TEST

/* ---- "Parameters are not updated, without any message" ---- */

START_TEST(no_rate_is_said)
{
    numbers n = {.w = {0.5}, .lambda = {1}, .ws = 1, .lambdas = 1, .lower = quartic_lower, .upper = quartic_upper};
    bt_engine *engine = closed_form_engine(&n, _i ? "lower.lr = 0\n" : "lower.lr = 0.1\n");
    EXPECT_OK(bt_engine_setup(engine));
    const char *said = bt_text_get(&engine->context.warnings);
    ck_assert_msg((strstr(said, "lower: lr = 0: its parameters do not change") != NULL) == (_i == 1), "%s", said);
    bt_engine_free(engine);
}
END_TEST

/* ---- "Two parameters with the same initial constant share one gradient" ---- */

static bt_module *alike(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_module_new(NULL);
    bt_module_add_param(module, "a", bt_init_constant(1));
    bt_module_add_param(module, "b", bt_init_constant(1));
    return module;
}

static bt_tensor *alike_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_add(bt_mul(2, bt_param(self, "a")), bt_mul(3, bt_param(self, "b")));
}

START_TEST(equal_parameters_are_two)
{
    static const bt_problem_def def = {
        .name = "alike", .configure_train_data = one_row, .configure_module = alike, .training_step = alike_step};
    static const bt_export parts = {.abi = BT_ABI, .problems = {&def}};
    double values[2];
    bt_engine *engine = levels_engine(&parts, NULL, "alike.lr = 0.1\n");
    levels_step(engine, 1);
    levels_params(engine, "alike", values, 2);
    ck_assert_double_eq_tol(values[0], 0.8, 1e-15);
    ck_assert_double_eq_tol(values[1], 0.7, 1e-15);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reports");
    TCase *tests = tcase_create("reports");
    tcase_add_loop_test(tests, memory_stays, 0, METHODS);
    tcase_add_loop_test(tests, memory_by_iterations, 0, 3);
    tcase_add_test(tests, curvature_without_residual);
    tcase_add_loop_test(tests, first_iterate_solves, 0, 3);
    tcase_add_loop_test(tests, statistics_move_once, 0, METHODS);
    tcase_add_loop_test(tests, no_rate_is_said, 0, 2);
    tcase_add_test(tests, equal_parameters_are_two);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
