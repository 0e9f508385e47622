/* tests/engine/test_condition.c: a lower problem whose solution is the zero of a field that is not a gradient:
 *
 *   g(w, lambda) = A w - B lambda,  A not symmetric;  F = c w + |lambda|^2 / 2
 *   dF/dlambda = B^T A^-T c + lambda    (with H instead of H^T: B^T A^-1 c, a different number) */
#include "levels.h"

#include "engine/session/front.h"
#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double a[] = {2, 1, 0, 4}, b[] = {1, -1, 0.5, 3}, c[] = {1, 2}, lambda = 0.25;

static bt_dataset *rows(bt_problem *self)
{
    static const double x[] = {1, 2, 3};
    (void)self;
    bt_dataset *data = bt_dataset_new(3);
    bt_dataset_add(data, "x", BT_ARRAY(x, 3));
    return data;
}

static bt_module *pair(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(lambda), 2); }

static bt_tensor *times(const double *matrix, bt_tensor *x)
{
    return bt_squeeze(bt_matmul(bt_constant(BT_ARRAY(matrix, 2, 2)), bt_reshape(x, 2, 1)), 1);
}

/* Scaled by the mean of x over that of the whole set, so that batches differ. */
static bt_tensor *field(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *g = bt_sub(times(a, bt_forward(self)), times(b, bt_forward(bt_peer(self, "upper"))));
    return bt_mul(g, bt_div(bt_mean(bt_field(batch, "x")), 2));
}

/* The steps follow the field: the gradient of <g, w> with g constant. */
static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    return bt_sum(bt_mul(bt_detach(field(self, batch)), bt_forward(self)));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *below = bt_sum(bt_mul(bt_constant(BT_ARRAY(c, 2)), bt_forward(bt_peer(self, "lower"))));
    return bt_add(below, bt_mul(0.5, bt_sum(bt_square(bt_forward(self)))));
}

static bt_tensor *too_long(bt_problem *self, const bt_batch *batch)
{
    return bt_concat(0, field(self, batch), bt_forward(self));
}

static bt_tensor *lost(bt_problem *self, const bt_batch *batch) { return (void)self, (void)batch, NULL; }

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = rows, .configure_module = pair, .training_step = upper_step};

static bt_export with(bt_problem_def *lower, bt_step_fn *condition)
{
    *lower = (bt_problem_def){.name = "lower",
                              .configure_train_data = rows,
                              .configure_module = pair,
                              .training_step = lower_step,
                              .condition = condition};
    return (bt_export){.abi = BT_ABI, .problems = {&upper, lower}};
}

#define SETTINGS                                                                                                       \
    "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nupper.lr = 0\nlower.lr = 0.1\n"               \
    "lower.batch_size = all\nlower.type = neumann\nlower.neumann_alpha = 0.25\nlower.neumann_iterations = 200\n"

static void transposed_solution(double *due)
{
    double x1 = c[0] / a[0], x2 = (c[1] - a[1] * x1) / a[3]; /* A^T x = c: first 2 x1 = c1, then x1 + 4 x2 = c2 */
    due[0] = b[0] * x1 + b[2] * x2 + lambda;
    due[1] = b[1] * x1 + b[3] * x2 + lambda;
}

START_TEST(a_field_that_is_no_gradient)
{
    static const char *const more[] = {"", "lower.product = vjp\n", "lower.product = jvp\nlower.detach = field\n",
                                       "lower.batch_size = 1\nlower.gradient_accumulation = 3\n"
                                       "lower.product_batches = all\n",
                                       "lower.batch_size = 2\nlower.gradient_accumulation = 2\n"
                                       "lower.product_batches = all\n"};
    char settings[800];
    bt_problem_def lower;
    bt_export parts = with(&lower, field);
    double due[2], found[2];
    snprintf(settings, sizeof settings, "%s%s", SETTINGS, more[_i]);
    bt_engine *engine = levels_engine(&parts, NULL, settings);
    levels_step(engine, 2);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(found, 2)));
    transposed_solution(due);
    for (int k = 0; k < 2; k++)
        ck_assert_double_eq_tol(found[k], due[k], 1e-12);
    bt_engine_free(engine);
}
END_TEST

/* The check compares with differences of the condition, and with the field that the steps follow. */
START_TEST(checked)
{
    char *text;
    size_t size;
    bt_problem_def lower;
    bt_export parts = with(&lower, field);
    FILE *file = open_memstream(&text, &size);
    bt_engine *engine = levels_engine(&parts, NULL, SETTINGS "lower.unroll_steps = 300\n");
    bt_status status = bt_engine_check_hypergradient(engine, &(bt_checking){.file = file});
    fclose(file);
    ck_assert_msg(status == BT_OK, "%s %s", bt_error(), text);
    ck_assert_msg(strstr(text, "\nagrees, in direction and in length") != NULL, "%s", text);
    free(text);
    bt_engine_free(engine);
}
END_TEST

/* itd differentiates the steps, whatever the condition. */
START_TEST(unrolled)
{
    bt_problem_def lowers[2];
    double found[2][2];
    for (int k = 0; k < 2; k++) {
        bt_export parts = with(&lowers[k], k ? field : NULL);
        bt_engine *engine =
            levels_engine(&parts, NULL, SETTINGS "lower.type = itd\nlower.detach = field\nlower.unroll_steps = 4\n");
        levels_step(engine, 3);
        EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(found[k], 2)));
        bt_engine_free(engine);
    }
    ck_assert_double_eq_tol(found[0][0], found[1][0], 1e-13);
    ck_assert_double_eq_tol(found[0][1], found[1][1], 1e-13);
    ck_assert(found[0][0] != lambda);
}
END_TEST

START_TEST(mistakes)
{
    bt_problem_def lower;
    bt_export parts = with(&lower, too_long);
    levels_expect_error(levels_engine(&parts, NULL, SETTINGS), "lower", "condition returned f64[4], expected f64[2]",
                        NULL);
    parts = with(&lower, lost);
    levels_expect_error(levels_engine(&parts, NULL, SETTINGS), "condition returned nothing", NULL);
    parts = with(&lower, field);
    levels_expect_error(levels_engine(&parts, NULL, SETTINGS "lower.type = penalty\n"), "type = penalty", "condition",
                        NULL);
    levels_expect_error(levels_engine(&parts, NULL, SETTINGS "lower.detach = follow\n"), "detach = follow", "condition",
                        NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("condition");
    TCase *tests = tcase_create("condition");
    tcase_add_loop_test(tests, a_field_that_is_no_gradient, 0, 5);
    tcase_add_test(tests, checked);
    tcase_add_test(tests, unrolled);
    tcase_add_test(tests, mistakes);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
