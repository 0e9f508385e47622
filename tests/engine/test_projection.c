/* Lower levels whose steps end in a projection, or another callback that the loss does not include: the results of
 * implicit methods with and without a condition, and the warnings.
 *
 * C = (w - lambda)^T A (w - lambda) / 2, or w^T A w / 2 - b^T w + strength |w|_1; F = |w - t|^2 / 2. */
#include "levels.h"

#include "engine/session/front.h"
#include "engine/session/session.h"
#include "support/suite.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4 };

typedef struct scene {
    int n;
    double a[MOST][MOST], t[MOST], start[MOST], lambda[MOST]; /* lambda: for the lasso it is b */
    double strength, rate, size;                              /* rate: of sgd; size: of the step in the condition */
} scene;

static scene now;

static bt_module *numbers(const double *values)
{
    bt_module *module = bt_module_new(NULL);
    for (int i = 0; i < now.n; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        bt_module_add_param(module, name, bt_init_constant(values[i]), 1);
    }
    return module;
}

static bt_module *lower_module(bt_problem *self) { return (void)self, numbers(now.start); }
static bt_module *lambda_module(bt_problem *self) { return (void)self, numbers(now.lambda); }
static bt_module *strength_module(bt_problem *self)
{
    return (void)self, bt_nn_parameter(bt_init_constant(now.strength), 1);
}

static bt_tensor *times_a(bt_tensor *w)
{
    double a[MOST * MOST];
    for (int i = 0; i < now.n; i++)
        memcpy(a + i * now.n, now.a[i], (size_t)now.n * sizeof *a);
    return bt_squeeze(bt_matmul(bt_constant(BT_ARRAY(a, now.n, now.n)), bt_reshape(w, now.n, 1)), 1);
}

static bt_tensor *half_form(bt_tensor *w) { return bt_mul(0.5, bt_sum(bt_mul(w, times_a(w)))); }

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *off = bt_sub(bt_params(bt_peer(self, "lower")), bt_constant(BT_ARRAY(now.t, now.n)));
    return bt_mul(0.5, bt_sum(bt_square(off)));
}

/* ---- bounds ---- */

static bt_tensor *quadratic(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return half_form(bt_sub(bt_params(self), bt_params(bt_peer(self, "upper"))));
}

static bt_tensor *above_zero(bt_problem *self, bt_tensor *w) { return (void)self, bt_clamp(w, 0, HUGE_VAL); }

static bt_tensor *above_zero_holds(bt_problem *self, const bt_batch *batch)
{
    return bt_projected_condition(self, batch, quadratic, now.size, above_zero);
}

/* The way PyTorch users write it: not symmetric. */
static bt_tensor *by_hand(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *w = bt_params(self), *g = bt_grad(quadratic(self, batch), w);
    return bt_sub(w, above_zero(self, bt_sub(w, bt_mul(now.size, g))));
}

/* ---- the lasso ---- */

static bt_tensor *strength(bt_problem *self) { return bt_forward(bt_peer(self, "upper")); }

static bt_tensor *smooth(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *w = bt_params(self);
    return bt_sub(half_form(w), bt_sum(bt_mul(bt_constant(BT_ARRAY(now.lambda, now.n)), w)));
}

static bt_tensor *with_kink(bt_problem *self, const bt_batch *batch)
{
    return bt_add(smooth(self, batch), bt_sum(bt_mul(strength(self), bt_abs(bt_params(self)))));
}

static bt_tensor *shrink(bt_problem *self, bt_tensor *w)
{
    return bt_soft_threshold(w, bt_mul(now.rate, strength(self)));
}

static bt_tensor *shrunk_holds(bt_problem *self, const bt_batch *batch)
{
    return bt_projected_condition(self, batch, smooth, now.rate, shrink);
}

/* ---- other callbacks ---- */

static bt_tensor *masked(bt_problem *self, bt_tensor *gradient)
{
    static const double mask[] = {0, 1, 1, 1};
    return (void)self, bt_mul(gradient, bt_constant(BT_ARRAY(mask, now.n)));
}

static bt_tensor *same(bt_problem *self, bt_tensor *vector) { return (void)self, vector; }

/* ---- problems ---- */

#define LOWER(variable, step, ...)                                                                                     \
    static const bt_problem_def variable = {.name = "lower",                                                           \
                                            .configure_train_data = levels_one_row,                                    \
                                            .configure_module = lower_module,                                          \
                                            .training_step = step,                                                     \
                                            __VA_ARGS__}
LOWER(free_lower, quadratic, .start = NULL);
LOWER(projected, quadratic, .param_callback = above_zero);
LOWER(solved, quadratic, .param_callback = above_zero, .condition = above_zero_holds);
LOWER(solved_by_hand, quadratic, .param_callback = above_zero, .condition = by_hand);
LOWER(still, quadratic, .grad_callback = masked);
LOWER(idle, quadratic, .param_callback = same, .grad_callback = same);
LOWER(lasso, smooth, .param_callback = shrink, .condition = shrunk_holds);
LOWER(kinked, with_kink, .start = NULL);

static const bt_problem_def learns_lambda = {.name = "upper",
                                             .configure_train_data = levels_one_row,
                                             .configure_module = lambda_module,
                                             .training_step = upper_step},
                            learns_strength = {.name = "upper",
                                               .configure_train_data = levels_one_row,
                                               .configure_module = strength_module,
                                               .training_step = upper_step};

static bt_engine *engine_of(const bt_problem_def *upper, const bt_problem_def *lower, const char *settings)
{
    char lines[1200];
    bt_export parts = {.abi = BT_ABI, .problems = {upper, lower}};
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nupper.lr = 0\nlower.optimizer = sgd\n"
             "lower.lr = %.17g\n%s",
             now.rate, settings);
    return levels_engine(&parts, NULL, lines);
}

static void hypergradient(const bt_problem_def *upper, const bt_problem_def *lower, const char *settings, int steps,
                          double *found, int count)
{
    char lines[1000];
    snprintf(lines, sizeof lines, "lower.unroll_steps = %d\n%s", steps + 1, settings);
    bt_engine *engine = engine_of(upper, lower, lines);
    levels_step(engine, steps);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(found, count)));
    bt_engine_free(engine);
}

static const scene given = {
    .n = 2, .a = {{1, 0}, {0, 1}}, .t = {1, 1}, .start = {1, 1}, .lambda = {-1, 2}, .rate = 0.5, .size = 1};

/* Two of four are held at 0, and coupled to the others by A. */
static const scene coupled = {
    .n = 4,
    .a = {{2, 0.6, -0.3, 0.2}, {0.6, 1.5, 0.4, -0.5}, {-0.3, 0.4, 1.8, 0.3}, {0.2, -0.5, 0.3, 1}},
    .t = {0.3, -0.7, 1.1, 0.4},
    .start = {1, 1, 1, 1},
    .lambda = {-1.2, 2, -0.9, 1.4},
    .rate = 0.35,
    .size = 0.3};

/* A lasso in which two of the four weights are 0. */
static const scene sparse = {
    .n = 4,
    .a = {{2, 0.6, -0.3, 0.2}, {0.6, 1.5, 0.4, -0.5}, {-0.3, 0.4, 1.8, 0.3}, {0.2, -0.5, 0.3, 1}},
    .t = {0.3, -0.7, 1.1, 0.4},
    .start = {1, 1, 1, 1},
    .lambda = {0.6, 2, 0.1, 1.4},
    .strength = 0.8,
    .rate = 0.35};

/* ---- plain loops ---- */

/* Projected, or shrinking, gradient descent until convergence; returns the upper loss there. */
static double plain(const scene *s, bool shrinks)
{
    double w[MOST] = {0}, loss = 0;
    for (int step = 0; step < 4000; step++) {
        double g[MOST] = {0};
        for (int i = 0; i < s->n; i++)
            for (int j = 0; j < s->n; j++)
                g[i] += s->a[i][j] * (shrinks ? w[j] : w[j] - s->lambda[j]);
        for (int i = 0; i < s->n; i++) {
            double y = w[i] - 0.3 * (shrinks ? g[i] - s->lambda[i] : g[i]);
            w[i] = !shrinks ? fmax(y, 0) : y > 0 ? fmax(y - 0.3 * s->strength, 0) : fmin(y + 0.3 * s->strength, 0);
        }
    }
    for (int i = 0; i < s->n; i++)
        loss += 0.5 * pow(w[i] - s->t[i], 2);
    return loss;
}

/* F is a quadratic function of the learned parameters, as long as the same bounds are active. */
static double slope_by_lambda(int i)
{
    scene plus = now, minus = now;
    plus.lambda[i] += 1e-3;
    minus.lambda[i] -= 1e-3;
    return (plain(&plus, false) - plain(&minus, false)) / 2e-3;
}

static double slope_by_strength(void)
{
    scene plus = now, minus = now;
    plus.strength += 1e-3;
    minus.strength -= 1e-3;
    return (plain(&plus, true) - plain(&minus, true)) / 2e-3;
}

/* ---- hypergradients ---- */

static const char *const methods[] = {
    "lower.type = cg\nlower.cg_iterations = 8\n", "lower.type = neumann\nlower.neumann_iterations = 400\n",
    "lower.type = nystrom\nlower.nystrom_rank = 4\nlower.nystrom_rho = 1e-9\n", "lower.type = itd\n"};

START_TEST(as_given)
{
    static const char *const types[] = {"itd", "darts", "neumann", "cg"};
    char settings[100];
    double found[2];
    now = given;
    snprintf(settings, sizeof settings, "lower.type = %s\n", types[_i]);
    hypergradient(&learns_lambda, &solved, settings, 30, found, 2);
    ck_assert_double_eq_tol(found[0], 0, 1e-7);
    ck_assert_double_eq_tol(found[1], 1, 1e-7);
    hypergradient(&learns_lambda, &projected, settings, 30, found, 2);
    ck_assert_double_eq_tol(found[0], _i ? -1 : 0, 1e-7); /* an implicit method ignores bounds */
    ck_assert_double_eq_tol(found[1], 1, 1e-7);
}
END_TEST

START_TEST(bounds)
{
    double found[MOST];
    now = coupled;
    hypergradient(&learns_lambda, &solved, methods[_i], 400, found, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(found[i], slope_by_lambda(i), 1e-6);
    ck_assert(found[0] != 0 && found[1] != 0); /* the part at a bound affects the others */
    if (_i != 1)
        return;
    hypergradient(&learns_lambda, &solved_by_hand, methods[1], 400, found, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(found[i], slope_by_lambda(i), 1e-6);
}
END_TEST

START_TEST(soft_threshold)
{
    double found, w[MOST];
    now = sparse;
    hypergradient(&learns_strength, &lasso, methods[_i], 400, &found, 1);
    ck_assert_double_eq_tol(found, slope_by_strength(), 1e-6);
    ck_assert(fabs(found) > 0.1);
    bt_engine *engine = engine_of(&learns_strength, &lasso, "lower.unroll_steps = 500\n");
    levels_step(engine, 400);
    levels_params(engine, "lower", w, 4);
    ck_assert(w[0] == 0 && w[1] > 0 && w[2] == 0 && w[3] > 0);
    bt_engine_free(engine);
}
END_TEST

/* In single precision, and with some parameters that are not trained, which count as solved. */
START_TEST(parts)
{
    double found[MOST], w[MOST];
    now = coupled;
    hypergradient(&learns_lambda, &solved, "engine.precision = fp32\nlower.type = cg\nlower.cg_iterations = 4\n", 200,
                  found, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(found[i], slope_by_lambda(i), 1e-4);
    now = given;
    now.start[0] = 0.25;
    bt_engine *engine =
        engine_of(&learns_lambda, &solved, "lower.trainable = p1\nlower.unroll_steps = 80\nlower.type = cg\n");
    levels_step(engine, 60);
    levels_params(engine, "lower", w, 2);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(found, 2)));
    ck_assert_double_eq(w[0], 0.25);
    ck_assert_double_eq_tol(found[0], 0, 1e-12);
    ck_assert_double_eq_tol(found[1], 1, 1e-12);
    bt_engine_free(engine);
}
END_TEST

static bt_tensor *no_size(bt_problem *self, const bt_batch *batch)
{
    return bt_projected_condition(self, batch, quadratic, 0, above_zero);
}

static bt_tensor *no_scalar(bt_problem *self, const bt_batch *batch) { return (void)batch, bt_params(self); }

static bt_tensor *vector_loss(bt_problem *self, const bt_batch *batch)
{
    return bt_projected_condition(self, batch, no_scalar, 1, above_zero);
}

static bt_tensor *no_projection(bt_problem *self, const bt_batch *batch)
{
    return bt_projected_condition(self, batch, quadratic, 1, NULL);
}

LOWER(without_size, quadratic, .condition = no_size);
LOWER(without_scalar, quadratic, .condition = vector_loss);
LOWER(without_projection, quadratic, .condition = no_projection);

START_TEST(mistakes)
{
    now = given;
    levels_expect_error(engine_of(&learns_lambda, &without_size, ""), "step size", NULL);
    levels_expect_error(engine_of(&learns_lambda, &without_scalar, ""), "must be a scalar", "[2]", NULL);
    levels_expect_error(engine_of(&learns_lambda, &without_projection, ""), "the projection must not be NULL", NULL);
}
END_TEST

/* ---- warnings at the start ---- */

static const struct {
    const bt_problem_def *lower;
    const char *settings, *said; /* NULL: none */
} starts[] = {
    {&projected, "",
     "lower: type = darts assumes that the gradient of its loss is 0 at its solution, and leaves out these parts of "
     "its steps: param_callback; state what holds"},
    {&projected, "lower.type = cg\n", "of its steps: param_callback;"},
    {&still, "lower.type = penalty\n", "of its steps: grad_callback;"},
    {&idle, "", "of its steps: param_callback, grad_callback;"},
    {&free_lower, "lower.gradient_clipping = 2\n", "of its steps: gradient_clipping (where it still acts"},
    {&free_lower, "lower.gradient_clipping_value = 2\n", "of its steps: gradient_clipping_value"},
    {&free_lower, "lower.type = sama\nlower.gradient_clipping_value = 2\n", NULL}, /* its slope includes it */
    {&free_lower, "lower.type = cg\nlower.weight_decay = 0.1\n",
     "of its steps: weight_decay (as a term of the loss it is included);"},
    {&free_lower, "lower.weight_decay = 0.1\n", NULL}, /* darts does not use H, so nothing is missing */
    {&free_lower, "", NULL},
    {&solved, "", NULL},
    {&projected, "lower.type = itd\n", NULL},
};
enum { STARTS = sizeof starts / sizeof *starts };

START_TEST(said_at_the_start)
{
    now = given;
    bt_problem_def upper = learns_lambda;
    bt_engine *engine = engine_of(&upper, starts[_i].lower, starts[_i].settings);
    EXPECT_OK(bt_engine_setup(engine));
    const char *found = bt_text_get(&engine->context.warnings), *first = strstr(found, "leaves out");
    ck_assert_msg(!first == !starts[_i].said && (!first || strstr(found, starts[_i].said)), "%s", found);
    ck_assert_msg(!first || !strstr(first + 1, "leaves out"), "%s", found); /* once */
    bt_engine_free(engine);
}
END_TEST

/* ---- reports of the check ---- */

static const struct {
    const scene *scene;
    const bt_problem_def *upper, *lower;
    const char *settings, *said[2];
    bt_status status;
} checks[] = {
    {&given,
     &learns_lambda,
     &projected,
     "lower.type = cg\nlower.unroll_steps = 30\n",
     {"DISAGREES: lower: type = cg assumes that", "also depend on param_callback"},
     BT_ERROR_NUMERIC},
    {&given,
     &learns_lambda,
     &projected,
     "lower.type = neumann\nlower.unroll_steps = 3000\n",
     {"the gradient's length is 1: ", "also depend on param_callback"},
     BT_ERROR_NUMERIC},
    {&given,
     &learns_lambda,
     &projected,
     "lower.unroll_steps = 30\n",
     {"DISAGREES", "param_callback"},
     BT_ERROR_NUMERIC},
    {&given,
     &learns_lambda,
     &projected,
     "engine.precision = fp32\nlower.unroll_steps = 30\n",
     {"DISAGREES", "param_callback"},
     BT_ERROR_NUMERIC},
    {&given,
     &learns_lambda,
     &solved,
     "lower.type = cg\nlower.unroll_steps = 60\n",
     {"agrees, in direction", ""},
     BT_OK},
    {&coupled,
     &learns_lambda,
     &solved,
     "lower.type = cg\nlower.cg_iterations = 4\nlower.unroll_steps = 300\n",
     {"agrees, in direction", ""},
     BT_OK},
    {&sparse,
     &learns_strength,
     &lasso,
     "lower.type = cg\nlower.cg_iterations = 4\nlower.unroll_steps = 300\n",
     {"agrees, in direction", ""},
     BT_OK},
    {&given,
     &learns_lambda,
     &projected,
     "lower.type = itd\nlower.unroll_steps = 30\n",
     {"agrees, in direction", ""},
     BT_OK},
    {&coupled,
     &learns_lambda,
     &still,
     "lower.type = cg\nlower.cg_iterations = 4\nlower.unroll_steps = 300\n",
     {"DISAGREES", "also depend on grad_callback"},
     BT_ERROR_NUMERIC},
    {&given,
     &learns_lambda,
     &free_lower,
     "lower.gradient_clipping = 0.1\nlower.unroll_steps = 5\n",
     {"DISAGREES", "also depend on gradient_clipping"},
     BT_ERROR_NUMERIC},
    {&given,
     &learns_lambda,
     &free_lower,
     "lower.gradient_clipping_value = 0.1\nlower.unroll_steps = 5\n",
     {"DISAGREES", "also depend on gradient_clipping_value"},
     BT_ERROR_NUMERIC},
    {&given,
     &learns_lambda,
     &free_lower,
     "lower.type = cg\nlower.weight_decay = 1\nlower.unroll_steps = 80\n",
     {"DISAGREES", "also depend on weight_decay"},
     BT_ERROR_NUMERIC},
    {&sparse,
     &learns_strength,
     &kinked,
     "lower.type = cg\nlower.cg_iterations = 4\nlower.unroll_steps = 30\n",
     {"DISAGREES: lower: type = cg", "back and forth over a kink of the loss, as of abs"},
     BT_ERROR_NUMERIC},
    {&sparse,
     &learns_strength,
     &kinked,
     "lower.type = neumann\nlower.unroll_steps = 3000\n",
     {"DISAGREES: lower: type = neumann", "kink"},
     BT_ERROR_NUMERIC},
    {&sparse,
     &learns_strength,
     &kinked,
     "engine.precision = fp32\nlower.type = cg\nlower.unroll_steps = 300\n",
     {"DISAGREES: lower: type = cg", "kink"},
     BT_ERROR_NUMERIC},
    /* a callback without effect there is not blamed */
    {&coupled,
     &learns_lambda,
     &free_lower,
     "lower.type = cg\nlower.cg_iterations = 4\nlower.unroll_steps = 2\n",
     {"approximation: ", "more unroll_steps"},
     BT_OK},
    {&coupled,
     &learns_lambda,
     &idle,
     "lower.type = cg\nlower.cg_iterations = 4\nlower.unroll_steps = 2\n",
     {"approximation: ", "more unroll_steps"},
     BT_OK},
    {&coupled,
     &learns_lambda,
     &idle,
     "lower.unroll_steps = 300\nlower.gradient_clipping = 5\n",
     {"approximation: ", "H^-1 is replaced by something simpler"},
     BT_OK},
};
enum { CHECKS = sizeof checks / sizeof *checks };

START_TEST(said_by_the_check)
{
    char *text;
    size_t size;
    now = *checks[_i].scene;
    FILE *file = open_memstream(&text, &size);
    bt_engine *engine = engine_of(checks[_i].upper, checks[_i].lower, checks[_i].settings);
    ck_assert_ptr_nonnull(engine);
    bt_status status = bt_engine_check_hypergradient(engine, &(bt_checking){.file = file});
    fclose(file);
    ck_assert_msg(status == checks[_i].status, "%s\n%s", bt_error(), text);
    for (int k = 0; k < 2; k++)
        ck_assert_msg(strstr(text, checks[_i].said[k]) != NULL, "%s", text);
    ck_assert_msg(status == BT_OK || !strstr(text, "more unroll_steps"), "%s", text);
    bt_error_clear();
    bt_engine_free(engine);
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("projection");
    TCase *tests = tcase_create("projection");
    tcase_add_loop_test(tests, as_given, 0, 4);
    tcase_add_loop_test(tests, bounds, 0, 4);
    tcase_add_loop_test(tests, soft_threshold, 0, 4);
    tcase_add_test(tests, parts);
    tcase_add_test(tests, mistakes);
    tcase_add_loop_test(tests, said_at_the_start, 0, STARTS);
    tcase_add_loop_test(tests, said_by_the_check, 0, CHECKS);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
