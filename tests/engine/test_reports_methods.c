/* tests/engine/test_reports_methods.c: problems that users have reported with hypergradient methods, tested for every
 * method: each test names the report. */
#include "levels.h"

#include "engine/session/session.h"
#include "engine/solve/methods.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { METHODS = 16 }; /* an upper limit for the loop over the table */

static const char *method(int i) /* NULL after the last one that differentiates; only `none` follows */
{
    const bt_method_def *def = bt_method_builtin(i);
    return def && def != &bt_method_none ? def->name : NULL;
}


static bool is(int i, const char *name) { return strcmp(method(i), name) == 0; }

static bt_module *lambda_module(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(1)); }

static bt_tensor *lambda_of(bt_problem *self) { return bt_forward(bt_peer(self, "upper")); }

/* The hypergradient after `steps` lower steps at lambda = 1. */
static double hypergradient(const bt_export *parts, const char *settings, int steps)
{
    char lines[600];
    double found = NAN;
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nupper.lr = 0\n%s", settings);
    bt_engine *engine = levels_engine(parts, NULL, lines);
    levels_step(engine, steps);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found)));
    bt_engine_free(engine);
    return found;
}

/* ---- "The result is off by the step size", "Must the inner optimiser be the fixed-point map?": an implicit method
 * does not depend on how the solution was found. C = w^2 - 3 lambda w, F = (w - 1)^2 / 2: w = 3/2, dF/dlambda = 3/4
 * ---- */

static bt_tensor *parabola(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *w = bt_forward(self);
    return bt_sub(bt_square(w), bt_mul(3, bt_mul(lambda_of(self), w)));
}

static bt_tensor *distance(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_square(bt_sub(bt_forward(bt_peer(self, "lower")), 1)));
}

static const bt_problem_def parabola_lower = {.name = "lower",
                                              .configure_train_data = levels_one_row,
                                              .configure_module = lambda_module,
                                              .training_step = parabola};
static const bt_problem_def distance_upper = {.name = "upper",
                                              .configure_train_data = levels_one_row,
                                              .configure_module = lambda_module,
                                              .training_step = distance};
static const bt_export solved = {.abi = BT_ABI, .problems = {&distance_upper, &parabola_lower}};

START_TEST(whatever_led_there)
{
    static const char adam[] = "lower.optimizer = adam\nlower.lr = 0.02\nlower.scheduler = cosine\n"
                               "lower.scheduler_t_max = 2000\n";
    static const char *const implicit[] = {"lower.type = cg\n", "lower.type = neumann\nlower.neumann_alpha = 0.5\n"},
                             *const ways[] = {"lower.lr = 0.1\n", "lower.lr = 0.01\n",
                                              "lower.lr = 0.05\nlower.momentum = 0.9\n", adam};
    char settings[400];
    snprintf(settings, sizeof settings, "%s%slower.unroll_steps = 5000\n", implicit[_i / 4], ways[_i % 4]);
    ck_assert_double_eq_tol(hypergradient(&solved, settings, 2000), 0.75, 1e-6);
}
END_TEST

/* ---- "An unused parameter aborts the hypergradient, and the error names nothing" ---- */

static bool idle;

static bt_module *two_module(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_module_new(NULL);
    bt_module_add_param(module, "used", bt_init_constant(0.5));
    if (idle)
        bt_module_add_param(module, "idle", bt_init_constant(2), 3);
    return module;
}

static bt_tensor *two_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *w = bt_param(self, "used");
    return bt_add(bt_square(w), bt_mul(lambda_of(self), bt_sin(w)));
}

static bt_tensor *of_used(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_square(bt_param(bt_peer(self, "lower"), "used"));
}

static const bt_problem_def two_lower = {
    .name = "lower", .configure_train_data = levels_one_row, .configure_module = two_module, .training_step = two_step};
static const bt_problem_def two_upper = {.name = "upper",
                                         .configure_train_data = levels_one_row,
                                         .configure_module = lambda_module,
                                         .training_step = of_used};
static const bt_export unused = {.abi = BT_ABI, .problems = {&two_upper, &two_lower}};

START_TEST(an_unused_parameter)
{
    char settings[400];
    double found[2];
    if (!method(_i))
        return;
    snprintf(settings, sizeof settings, "lower.type = %s\nlower.lr = 0.1\nlower.unroll_steps = 2\nengine.seed = 2\n%s",
             method(_i), is(_i, "nystrom") ? "lower.nystrom_rank = 1\n" : "");
    for (int k = 0; k < 2; k++) {
        idle = k;
        found[k] = hypergradient(&unused, settings, 3);
    }
    ck_assert(isfinite(found[0]) && found[0] != 0);
    if (!is(_i, "nystrom")) /* which chooses other random columns among more parameters */
        ck_assert_double_eq_tol(found[1], found[0], 1e-12);
    ck_assert(isfinite(found[1]));
    char lines[600];
    snprintf(lines, sizeof lines, "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n%s%s", settings,
             "lower.allow_unused = false\n");
    levels_expect_error(levels_engine(&unused, NULL, lines), "lower", "idle", "allow_unused", NULL);
}
END_TEST

/* ---- "Differentiating Adam through the square root at 0 gives NaN"; "a learning rate of 0 gives NaN" ----
 *
 * C = (lambda - 1) w0 + w1: at lambda = 1 the gradient is (0, 1). The first step of Adam is lr g / (|g| + eps): of w0
 * its derivative by lambda is -lr / eps. */

static bt_module *pair(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(0.5), 2); }

static bt_tensor *flat_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *w = bt_forward(self);
    return bt_add(bt_mul(bt_sub(lambda_of(self), 1), bt_at(w, 0)), bt_at(w, 1));
}

static bt_tensor *sum_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_forward(bt_peer(self, "lower")));
}

static const bt_problem_def flat_lower = {
    .name = "lower", .configure_train_data = levels_one_row, .configure_module = pair, .training_step = flat_step};
static const bt_problem_def sum_upper = {.name = "upper",
                                         .configure_train_data = levels_one_row,
                                         .configure_module = lambda_module,
                                         .training_step = sum_step};
static const bt_export at_zero = {.abi = BT_ABI, .problems = {&sum_upper, &flat_lower}};

START_TEST(a_gradient_of_zero)
{
    static const char *const optimizers[] = {"adam", "adamw"};
    static const double rates[] = {1e-3, 0};
    char settings[400];
    for (int i = 0; method(i); i++) {
        double lr = rates[_i % 2];
        snprintf(settings, sizeof settings,
                 "lower.type = %s\nlower.optimizer = %s\nlower.lr = %g\nlower.unroll_steps = 2\nlower.eps = 1e-8\n"
                 "lower.product = vjp\n",
                 method(i), optimizers[_i / 2], lr);
        double found = hypergradient(&at_zero, settings, 1);
        ck_assert_msg(isfinite(found), "%s: %g", method(i), found);
        if (is(i, "itd") || is(i, "sama"))
            ck_assert_msg(fabs(found + lr / 1e-8) < 1e-6, "%s: %.12g", method(i), found);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reports of methods");
    TCase *tests = tcase_create("every method");
    tcase_add_loop_test(tests, whatever_led_there, 0, 8);
    tcase_add_loop_test(tests, an_unused_parameter, 0, METHODS);
    tcase_add_loop_test(tests, a_gradient_of_zero, 0, 4);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
