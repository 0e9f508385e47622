/* tests/engine/test_check.c: what --check-hypergradient compares, and when it says that the two disagree.
 *
 * C = sum of h w^2 / 2 - lambda w, F = sum of w + lambda^2 / 2: after K steps of SGD at rate r
 * dF/dlambda = (1 - (1 - r h)^K) / h + lambda, in place of the first term of which darts has 1. */
#include "levels.h"

#include "engine/front.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double h[2];
static const double lambda = 0.25;

static bt_dataset *one_row(bt_problem *self)
{
    static const double x = 1;
    (void)self;
    bt_dataset *data = bt_dataset_new(1);
    bt_dataset_add(data, "x", BT_ARRAY(&x, 1));
    return data;
}

static bt_module *pair(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(lambda), 2); }

static bt_tensor *quadratic(bt_problem *self, bt_tensor *slope)
{
    bt_tensor *w = bt_forward(self), *squares = bt_mul(bt_constant(BT_ARRAY(h, 2)), bt_square(w));
    return bt_sum(bt_sub(bt_mul(0.5, squares), bt_mul(slope, w)));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return quadratic(self, bt_forward(bt_peer(self, "upper")));
}

static bt_tensor *detached_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return quadratic(self, bt_detach(bt_forward(bt_peer(self, "upper"))));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_add(bt_sum(bt_forward(bt_peer(self, "lower"))), bt_mul(0.5, bt_sum(bt_square(bt_forward(self)))));
}

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = one_row, .configure_module = pair, .training_step = upper_step};
static const bt_problem_def lower = {
    .name = "lower", .configure_train_data = one_row, .configure_module = pair, .training_step = lower_step};
static const bt_problem_def detached = {
    .name = "lower", .configure_train_data = one_row, .configure_module = pair, .training_step = detached_step};

/* The check of a run that has made three steps, in which only the lower level moves. */
static bt_status check(const bt_problem_def *inner, const char *settings, int64_t samples, json_t **result)
{
    char lines[400], *text;
    size_t size;
    bt_export parts = {.abi = BT_ABI, .problems = {&upper, inner}};
    FILE *file = open_memstream(&text, &size);
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nupper.lr = 0\n%s", settings);
    bt_engine *engine = levels_engine(&parts, NULL, lines);
    levels_step(engine, 3);
    bt_status status = bt_engine_check_hypergradient(engine, NULL, samples, true, file);
    fclose(file);
    bt_engine_free(engine);
    *result = json_loads(text, 0, NULL);
    free(text);
    return status;
}

static double number(const json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }

static double after_steps(double curvature, double rate, int steps)
{
    return (1 - pow(1 - rate * curvature, steps)) / curvature;
}

START_TEST(against_the_closed_form)
{
    static const struct {
        const char *settings;
        double rate;
        int steps;
    } cases[] = {
        {"lower.lr = 0.5\n", 0.5, 1},
        {"lower.lr = 0.1\nlower.unroll_steps = 3\n", 0.1, 3},
        {"lower.lr = 0.1\nlower.unroll_steps = 3\nlower.product = vjp\n", 0.1, 3},
    };
    json_t *result;
    h[0] = 1, h[1] = 1.5;
    bt_status status = check(&lower, cases[_i].settings, 10, &result);
    ck_assert_msg(status == BT_OK, "%s", bt_error());
    json_t *samples = json_object_get(result, "samples");
    ck_assert_int_eq((int)json_array_size(samples), 2);
    double mm = 0, md = 0, dd = 0;
    for (size_t i = 0; i < 2; i++) {
        const json_t *sample = json_array_get(samples, i);
        double m = 1 + lambda, d = after_steps(h[i], cases[_i].rate, cases[_i].steps) + lambda;
        ck_assert_double_eq_tol(number(sample, "method"), m, 1e-12);
        ck_assert_double_eq_tol(number(sample, "difference"), d, 1e-8);
        ck_assert_double_eq_tol(number(sample, "product"), -1, 1e-12);
        ck_assert_double_eq_tol(number(sample, "product_difference"), -1, 1e-8);
        mm += m * m, md += m * d, dd += d * d;
    }
    ck_assert_double_eq_tol(number(result, "cosine"), md / sqrt(mm * dd), 1e-8);
    ck_assert_double_eq_tol(number(result, "ratio"), sqrt(mm / dd), 1e-8);
    ck_assert_double_le(number(result, "product_error"), 1e-7);
    ck_assert_ptr_nonnull(strstr(json_string_value(json_object_get(result, "verdict")), "agrees: the direction"));
    json_decref(result);
}
END_TEST

/* One direction of -1 and 1 where there are more coordinates than samples. */
START_TEST(directions)
{
    json_t *result;
    h[0] = h[1] = 1;
    ck_assert_int_eq(check(&lower, "lower.lr = 0.5\n", 1, &result), BT_OK);
    const json_t *sample = json_array_get(json_object_get(result, "samples"), 0);
    ck_assert_int_eq((int)json_array_size(json_object_get(result, "samples")), 1);
    double m = number(sample, "method") / (1 + lambda), d = number(sample, "difference") / (0.5 + lambda);
    ck_assert_double_eq_tol(m, d, 1e-7);
    ck_assert(fabs(fabs(m) - 2) < 1e-12 || fabs(m) < 1e-12);
    json_decref(result);
}
END_TEST

START_TEST(verdicts)
{
    static const char solved[] = "lower.lr = 0.019\nlower.unroll_steps = 1500\n";
    static const struct {
        const bt_problem_def *inner;
        const char *settings, *verdict;
        bt_status status;
    } cases[] = {
        {&lower, "lower.type = cg\nlower.cg_iterations = 2\n", "agrees, in direction and in length", BT_OK},
        {&lower, "", "DISAGREES in direction", BT_ERROR_NUMERIC},
        {&detached, "lower.detach = frozen\n", "DISAGREES: the product", BT_ERROR_NUMERIC},
        {&detached, "lower.type = cg\nlower.cg_iterations = 2\nlower.detach = field\n",
         "agrees, in direction and in length", BT_OK},
    };
    json_t *result;
    char settings[200];
    h[0] = 1;
    h[1] = cases[_i].inner == &lower ? 100 : 1; /* far from the identity */
    snprintf(settings, sizeof settings, "%s%s", solved, cases[_i].settings);
    bt_status status = check(cases[_i].inner, settings, 10, &result);
    const char *verdict = json_string_value(json_object_get(result, "verdict"));
    ck_assert_msg(strncmp(verdict, cases[_i].verdict, strlen(cases[_i].verdict)) == 0, "%s", verdict);
    ck_assert_int_eq(status, cases[_i].status);
    json_decref(result);
}
END_TEST

START_TEST(levels_by_name)
{
    bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};
    FILE *nowhere = fopen("/dev/null", "w");
    h[0] = h[1] = 1;
    bt_engine *engine =
        levels_engine(&parts, NULL, "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n");
    EXPECT_OK(bt_engine_check_hypergradient(engine, "upper", 1, false, nowhere));
    ck_assert_int_eq(bt_engine_check_hypergradient(engine, "lower", 1, false, nowhere), BT_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(bt_error(), "--level lower: there is no such upper level"));
    fclose(nowhere);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check of hypergradients");
    TCase *tests = tcase_create("two levels");
    tcase_add_loop_test(tests, against_the_closed_form, 0, 3);
    tcase_add_test(tests, directions);
    tcase_add_loop_test(tests, verdicts, 0, 4);
    tcase_add_test(tests, levels_by_name);
    suite_add_tcase(suite, tests);
    return levels_main(suite);
}
