/* tests/engine/test_closed_forms.c: hypergradients with known values: in double precision to 1e-10, in single precision
 * to 1e-5; with bf16 matrix products (unit 2^-8), and with bf16 parameters, to 2^-5. */
#include "closed_forms.h"

#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR(found, expected) ck_assert_double_eq_tol((found), (expected), 1e-10)

static bt_tensor *w(bt_problem *self) { return bt_forward(bt_peer(self, "lower")); }
static bt_tensor *lambda(bt_problem *self) { return bt_forward(bt_peer(self, "upper")); }
static bt_tensor *dot(bt_tensor *a, bt_tensor *b) { return bt_sum(bt_mul(a, b)); }

static void hypergradient(numbers n, const char *settings, double *result)
{
    char single[1000];
    double rounded[LARGEST];
    bt_status status = closed_form_hypergradient(&n, settings, result);
    ck_assert_msg(status == BT_OK, "%s: %s", settings, bt_error());
    if (strstr(settings, "finite")) /* the accuracy of a finite difference in single precision depends on its step */
        return;
    static const char *const precisions[] = {"fp32", "bf16", "bf16-true"};
    for (int k = 0; k < 3; k++) {
        double tolerance = k ? 0x1p-5 : 1e-5;
        snprintf(single, sizeof single, "%sengine.precision = %s\n", settings, precisions[k]);
        status = closed_form_hypergradient(&n, single, rounded);
        ck_assert_msg(status == BT_OK, "%s: %s", single, bt_error());
        for (int i = 0; i < n.lambdas; i++)
            ck_assert_msg(fabs(rounded[i] - result[i]) <= tolerance * fmax(1, fabs(result[i])), "%s: %.9g, not %.9g",
                          single, rounded[i], result[i]);
    }
}

/* R1: C = a w^2 / 2 - b lambda w, F = (w - t)^2 / 2; a = 2, b = 3, t = 1; at lambda = 1: w* = 3/2, dF/dlambda = 3/4. */

static bt_tensor *r1_lower(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sub(dot(w(self), w(self)), bt_mul(3, dot(lambda(self), w(self))));
}

static bt_tensor *r1_upper(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_sum(bt_square(bt_sub(w(self), 1))));
}

static const numbers r1 = {.w = {1.5}, .lambda = {1}, .ws = 1, .lambdas = 1, .lower = r1_lower, .upper = r1_upper};

START_TEST(r1_quadratic)
{
    static const struct {
        const char *settings;
        double expected;
    } cases[] = {
        {"lower.type = darts\n", 1.5},
        {"lower.type = darts\nlower.product = vjp\n", 1.5},
        {"lower.type = darts\nlower.product = finite\n", 1.5},
        {"lower.type = darts\nlower.product = finite\nlower.darts_alpha = 1\n", 1.5},
        {"lower.type = neumann\nlower.neumann_alpha = 0.1\nlower.neumann_iterations = 0\n", 0.15},
        {"lower.type = neumann\nlower.neumann_alpha = 0.1\nlower.neumann_iterations = 1\n", 0.27},
        {"lower.type = neumann\nlower.neumann_alpha = 0.1\nlower.neumann_iterations = 3\n", 0.4428},
        {"lower.type = neumann\nlower.neumann_alpha = 0.1\nlower.neumann_iterations = 5\n", 0.553392},
        {"lower.type = neumann\nlower.neumann_alpha = 0.1\nlower.neumann_iterations = 5\nlower.product = vjp\n",
         0.553392},
        {"lower.type = neumann\nlower.neumann_alpha = 0.5\nlower.neumann_iterations = 0\n", 0.75},
        {"lower.type = neumann\nlower.neumann_alpha = 0.5\nlower.neumann_iterations = 7\n", 0.75},
        {"lower.type = cg\nlower.cg_iterations = 1\n", 0.75},
        {"lower.type = cg\nlower.cg_iterations = 4\n", 0.75},
        {"lower.type = cg\nlower.cg_iterations = 4\nlower.product = finite\n", 0.75},
    };
    double found;
    hypergradient(r1, cases[_i].settings, &found);
    NEAR(found, cases[_i].expected);
}
END_TEST

/* R3: C = h w^2 / 2 - lambda w, F = w: the hypergradient is x itself: alpha sum over j = 0 .. K of (1 - alpha h)^j. */

static double r3_h;
static bt_tensor *r3_lower(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sub(bt_mul(r3_h / 2, dot(w(self), w(self))), dot(lambda(self), w(self)));
}

static bt_tensor *r3_upper(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(w(self));
}

START_TEST(r3_neumann_series)
{
    static const struct {
        double h, alpha, expected;
        int iterations;
    } cases[] = {{1, 0.2, 0.2, 0},   {1, 0.2, 0.36, 1},    {1, 0.2, 0.5904, 3},
                 {4, 0.2, 0.2, 0},   {4, 0.2, 0.24, 1},    {4, 0.2, 0.2496, 3},
                 {4, 0.6, -0.24, 1}, {4, 0.6, -0.7104, 3}, {4, 0.6, -6.9813663744, 9}};
    numbers n = {.w = {2}, .lambda = {1}, .ws = 1, .lambdas = 1, .lower = r3_lower, .upper = r3_upper};
    char settings[200];
    double found;
    r3_h = cases[_i].h;
    snprintf(settings, sizeof settings,
             "lower.type = neumann\nlower.neumann_alpha = %g\nlower.neumann_iterations = %d\n", cases[_i].alpha,
             cases[_i].iterations);
    hypergradient(n, settings, &found);
    NEAR(found, cases[_i].expected);
}
END_TEST

/* R4: C = w^T H w / 2 - lambda^T w with H = [[4, 1], [1, 3]], F = v^T w with v = (1, 2): the hypergradient is x. */

static bt_tensor *r4_lower(bt_problem *self, const bt_batch *batch)
{
    static const double h[] = {4, 1, 1, 3};
    (void)batch;
    bt_tensor *hw = bt_matmul(bt_constant(BT_ARRAY(h, 2, 2)), w(self));
    return bt_sub(bt_mul(0.5, dot(w(self), hw)), dot(lambda(self), w(self)));
}

static bt_tensor *r4_upper(bt_problem *self, const bt_batch *batch)
{
    static const double v[] = {1, 2};
    (void)batch;
    return dot(bt_constant(BT_ARRAY(v, 2)), w(self));
}

START_TEST(r4_conjugate_gradients)
{
    static const struct {
        const char *settings;
        double expected[2];
    } cases[] = {
        {"lower.type = cg\nlower.cg_iterations = 1\n", {0.25, 0.5}},
        {"lower.type = cg\nlower.cg_iterations = 2\n", {1.0 / 11, 7.0 / 11}},
        {"lower.type = cg\nlower.cg_iterations = 10\n", {1.0 / 11, 7.0 / 11}}, /* stays at the solution */
        {"lower.type = cg\nlower.cg_iterations = 2\nlower.cg_alpha = 0.1\n", {1.0 / 11, 7.0 / 11}},
        {"lower.type = cg\nlower.cg_iterations = 2\nlower.product = vjp\n", {1.0 / 11, 7.0 / 11}},
        {"lower.type = cg\nlower.cg_iterations = 2\nlower.cg_damping = 0.1\n", {0.0939368061485909, 0.614859094790777}},
    };
    numbers n = {.w = {1, 1}, .lambda = {1, 1}, .ws = 2, .lambdas = 2, .lower = r4_lower, .upper = r4_upper};
    double found[2];
    hypergradient(n, cases[_i].settings, found);
    NEAR(found[0], cases[_i].expected[0]);
    NEAR(found[1], cases[_i].expected[1]);
}
END_TEST

/* R5: C = lambda w^3 / 3 at w = 2, F = v w: exactly -w^2 v; by differences -(w^2 v + e^2 v^3 / 3), e = darts_alpha /
 * |v|. */

static double r5_v;

static bt_tensor *r5_lower(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *cube = bt_mul(w(self), bt_square(w(self)));
    return bt_div(dot(lambda(self), cube), 3);
}

static bt_tensor *r5_upper(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(r5_v, bt_sum(w(self)));
}

START_TEST(r5_finite_difference)
{
    static const struct {
        const char *settings;
        double v, expected;
    } cases[] = {
        {"lower.type = darts\n", 1, -4},
        {"lower.type = darts\nlower.product = vjp\n", 1, -4},
        {"lower.type = darts\nlower.product = finite\n", 1, -4.0 - 1e-4 / 3},
        {"lower.type = darts\nlower.product = finite\nlower.darts_alpha = 0.1\n", 1, -4.0 - 1e-2 / 3},
        {"lower.type = darts\nlower.product = finite\nlower.darts_alpha = 1\n", 1, -4.0 - 1.0 / 3},
        {"lower.type = darts\nlower.product = finite\nlower.darts_alpha = 1\n", -3, 3 * (4.0 + 1.0 / 3)},
    };
    numbers n = {.w = {2}, .lambda = {1}, .ws = 1, .lambdas = 1, .lower = r5_lower, .upper = r5_upper};
    double found;
    r5_v = cases[_i].v;
    hypergradient(n, cases[_i].settings, &found);
    NEAR(found, cases[_i].expected);
}
END_TEST

/* R6: ridge: C = mean (X w - y)^2 / 2 + lambda |w|^2 / 2 at its solution, F = (x^T w - y)^2 / 2. */

static const double *r6_point;
static double r6_target;

static bt_tensor *r6_lower(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *error = bt_sub(bt_matmul(bt_field(batch, "x"), w(self)), bt_field(batch, "y"));
    return bt_mul(0.5, bt_add(bt_mean(bt_square(error)), bt_mul(bt_at(lambda(self), 0), dot(w(self), w(self)))));
}

static bt_tensor *r6_upper(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *error = bt_sub(dot(bt_constant(BT_ARRAY(r6_point, 2)), w(self)), r6_target);
    return bt_mul(0.5, bt_square(error));
}

START_TEST(r6_ridge)
{
    static const double a_point[] = {1, 1}, b_point[] = {1, -1};
    numbers a = {.w = {0.5, 0.8},
                 .lambda = {0.5},
                 .ws = 2,
                 .lambdas = 1,
                 .x = {1, 0, 0, 2},
                 .y = {1, 2},
                 .rows = 2,
                 .columns = 2,
                 .lower = r6_lower,
                 .upper = r6_upper};
    numbers b = {.w = {12.0 / 17, 15.0 / 17},
                 .lambda = {1.0 / 3},
                 .ws = 2,
                 .lambdas = 1,
                 .x = {1, 0, 1, 1, 0, 2},
                 .y = {1, 2, 2},
                 .rows = 3,
                 .columns = 2,
                 .lower = r6_lower,
                 .upper = r6_upper};
    double found;
    r6_point = a_point, r6_target = 1;
    hypergradient(a, "lower.type = cg\nlower.cg_iterations = 2\n", &found);
    NEAR(found, -123.0 / 500);
    r6_point = b_point, r6_target = 0;
    hypergradient(b, "lower.type = cg\nlower.cg_iterations = 2\n", &found);
    NEAR(found, 216.0 / 4913);
}
END_TEST

/* R7: g = z^T A z / 2 + x^T C z + a^T z, f = z^T F z / 2 + x^T x / 2 + x^T K z + f^T z + h^T x: the direct gradient
 * counts. */

static bt_tensor *r7_lower(bt_problem *self, const bt_batch *batch)
{
    static const double a_matrix[] = {2, 1, 1, 3}, c_matrix[] = {1, 0, 1, 1}, a_vector[] = {1, -1};
    (void)batch;
    bt_tensor *az = bt_matmul(bt_constant(BT_ARRAY(a_matrix, 2, 2)), w(self));
    bt_tensor *cz = bt_matmul(bt_constant(BT_ARRAY(c_matrix, 2, 2)), w(self));
    bt_tensor *linear = bt_add(dot(lambda(self), cz), dot(bt_constant(BT_ARRAY(a_vector, 2)), w(self)));
    return bt_add(bt_mul(0.5, dot(w(self), az)), linear);
}

static bt_tensor *r7_upper(bt_problem *self, const bt_batch *batch)
{
    static const double f_diagonal[] = {1, 2}, k_matrix[] = {0, 1, 1, 0}, f[] = {1, 0}, h[] = {0, -1};
    (void)batch;
    bt_tensor *z = w(self), *x = lambda(self);
    bt_tensor *own = bt_add(dot(bt_mul(bt_constant(BT_ARRAY(f_diagonal, 2)), z), z), dot(x, x));
    bt_tensor *cross = dot(x, bt_matmul(bt_constant(BT_ARRAY(k_matrix, 2, 2)), z));
    bt_tensor *linear = bt_add(dot(bt_constant(BT_ARRAY(f, 2)), z), dot(bt_constant(BT_ARRAY(h, 2)), x));
    return bt_add(bt_mul(0.5, own), bt_add(cross, linear));
}

static const numbers r7 = {
    .w = {-2.2, 0.4}, .lambda = {1, 2}, .ws = 2, .lambdas = 2, .lower = r7_lower, .upper = r7_upper};

START_TEST(r7_direct_gradient)
{
    double found[2];
    hypergradient(r7, "lower.type = cg\nlower.cg_iterations = 2\n", found);
    NEAR(found[0], 32.0 / 25);
    NEAR(found[1], -47.0 / 25);
}
END_TEST

/* R10: log(1 + exp(-w)) + lambda w^2 / 2 with lambda = sigmoid(-1), so w* = 1; validation loss log(1 + exp(w)). */

static bt_tensor *r10_lower(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_add(bt_softplus(bt_neg(w(self))), bt_mul(0.5, bt_mul(lambda(self), bt_square(w(self))))));
}

static bt_tensor *r10_upper(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_softplus(w(self)));
}

START_TEST(r10_logistic)
{
    numbers n = {.w = {1}, .lambda = {1 / (1 + exp(1))}, .ws = 1, .lambdas = 1, .lower = r10_lower, .upper = r10_upper};
    double found;
    hypergradient(n, "lower.type = cg\n", &found);
    NEAR(found, -1.57030031335528);
    hypergradient(n, "lower.type = darts\n", &found);
    NEAR(found, -0.731058578630005);
}
END_TEST

/* R19: C = mean (w - lambda x_i)^2 / 2 over x = 1, 2 | 3, 4; F = (w - t)^2 / 2 with w - t = 1; identity: 2.5 over all
 * four, 3.5 on the last micro-batch alone. */

static bt_tensor *r19_lower(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *x = bt_reshape(bt_field(batch, "x"), -1);
    return bt_mul(0.5, bt_mean(bt_square(bt_sub(w(self), bt_mul(lambda(self), x)))));
}

START_TEST(r19_accumulation)
{
    numbers n = {.w = {2},
                 .lambda = {1},
                 .ws = 1,
                 .lambdas = 1,
                 .x = {1, 2, 3, 4},
                 .rows = 4,
                 .columns = 1,
                 .lower = r19_lower,
                 .upper = r1_upper};
    double found;
    hypergradient(n, "lower.type = darts\n", &found);
    NEAR(found, 2.5);
    const char *micro = "lower.type = darts\nlower.batch_size = 2\nlower.shuffle = false\n"
                        "lower.gradient_accumulation = 2\nlower.product_batches = all\n";
    hypergradient(n, micro, &found);
    NEAR(found, 2.5);
    micro = "lower.type = darts\nlower.batch_size = 2\nlower.shuffle = false\nlower.gradient_accumulation = 2\n";
    hypergradient(n, micro, &found); /* product_batches = last */
    NEAR(found, 3.5);
    micro =
        "lower.type = darts\nlower.batch_size = 3\nlower.shuffle = false\n" /* 1 2 3 | 4: a short last micro-batch */
        "lower.gradient_accumulation = 2\nlower.product_batches = all\n";
    hypergradient(n, micro, &found);
    NEAR(found, 2.5);
}
END_TEST

/* R23: C = lambda sg(w^2 / 2) w^2 / 2 at w = 1.3, lambda = 0.7, sg = detach. */

static bt_tensor *r23_lower(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *half = bt_mul(0.5, bt_square(w(self)));
    return dot(lambda(self), bt_mul(bt_detach(half), half));
}

START_TEST(r23_detach_lambda)
{
    const double cube = 1.3 * 1.3 * 1.3;
    static const struct {
        const char *settings;
        double times; /* of w^3 / 2 */
    } cases[] = {
        {"", 1},
        {"lower.product = vjp\n", 1},
        {"lower.detach = field\nlower.product = vjp\n", 1},
        {"lower.detach = field\n", 1},
        {"lower.detach = follow\n", 2},
    };
    numbers n = {.w = {1.3}, .lambda = {0.7}, .ws = 1, .lambdas = 1, .lower = r23_lower, .upper = r3_upper};
    double found;
    hypergradient(n, cases[_i].settings, &found);
    NEAR(found, -cases[_i].times * cube / 2);
}
END_TEST

START_TEST(r23_detach_finite)
{
    /* With e = 0.01: frozen is w^2 / 2 times a difference of squares, exactly; follow is the difference of w^4 / 4 over
     * 2e. */
    numbers n = {.w = {1.3}, .lambda = {0.7}, .ws = 1, .lambdas = 1, .lower = r23_lower, .upper = r3_upper};
    double found;
    hypergradient(n, "lower.product = finite\n", &found);
    NEAR(found, -1.3 * 1.3 * 1.3 / 2);
    hypergradient(n, "lower.product = finite\nlower.detach = follow\n", &found);
    NEAR(found, -(pow(1.31, 4) - pow(1.29, 4)) / 4 / 0.02);
}
END_TEST

START_TEST(r23_detach_hessian)
{
    /* The w-part, through one more term of the series: x = v + (v - H v) with alpha = 1, so the hypergradient is
     * -(2 - H) times the lambda-part of the mode. */
    static const struct {
        const char *settings;
        double h, part;
    } cases[] = {
        {"lower.type = neumann\nlower.neumann_iterations = 1\n", 0.5915, 1},
        {"lower.type = neumann\nlower.neumann_iterations = 1\nlower.product = vjp\n", 0.5915, 1},
        {"lower.type = neumann\nlower.neumann_iterations = 1\nlower.detach = field\n", 1.7745, 1},
        {"lower.type = neumann\nlower.neumann_iterations = 1\nlower.detach = follow\n", 1.7745, 2},
    };
    numbers n = {.w = {1.3}, .lambda = {0.7}, .ws = 1, .lambdas = 1, .lower = r23_lower, .upper = r3_upper};
    double found;
    hypergradient(n, cases[_i].settings, &found);
    NEAR(found, -(2 - cases[_i].h) * cases[_i].part * 1.3 * 1.3 * 1.3 / 2);
}
END_TEST

/* Two of them, configured by an INI file. */

static void load(const char *text, numbers *n, const char *level, double *result, int count)
{
    char path[] = "/tmp/betty-closed-XXXXXX.ini";
    int descriptor = mkstemps(path, 4);
    ck_assert_int_ge(descriptor, 0);
    FILE *file = fdopen(descriptor, "w");
    fputs(text, file);
    fclose(file);
    bt_engine *engine = bt_engine_new();
    bt_engine_use(engine, &closed_forms, n);
    bt_engine_load(engine, path);
    bt_status status = bt_hypergradient(bt_engine_problem(engine, level), BT_ARRAY(result, count));
    remove(path);
    ck_assert_msg(status == BT_OK, "%s", bt_error());
    bt_engine_free(engine);
}

START_TEST(through_ini)
{
    static const char head[] = "[engine]\nprecision = fp64\n[dependencies]\nu2l = upper > lower\nl2u = lower > upper\n"
                               "[upper]\nbatch_size = all\n[lower]\nbatch_size = all\n";
    char text[512];
    numbers a = r1, b = r7;
    double one, two[2];
    snprintf(text, sizeof text, "%stype = neumann\nneumann_iterations = 5\nneumann_alpha = 0.1\n", head);
    load(text, &a, "upper", &one, 1);
    NEAR(one, 0.553392);
    snprintf(text, sizeof text, "%stype = cg\ncg_iterations = 2\n", head);
    load(text, &b, "upper", two, 2);
    NEAR(two[0], 32.0 / 25);
    NEAR(two[1], -47.0 / 25);
}
END_TEST

/* The implicit result only depends on the solution of the lower problem, not on how it was found (R1). */

START_TEST(r1_after_training)
{
    static const char *const inner[] = {"lower.lr = 0.1\n", "lower.lr = 0.01\nengine.train_iters = 5000\n",
                                        "lower.lr = 0.1\nlower.momentum = 0.5\n",
                                        "lower.optimizer = adam\nlower.lr = 0.003\nengine.train_iters = 20000\n"};
    char settings[256];
    numbers n = r1;
    n.w[0] = 0;
    snprintf(settings, sizeof settings, "engine.train_iters = 1000\nlower.type = cg\nlower.unroll_steps = 1000000\n%s",
             inner[_i]);
    bt_engine *engine = closed_form_engine(&n, settings);
    ck_assert_msg(bt_engine_run(engine) == BT_OK, "%s", bt_error());
    double found;
    ck_assert_int_eq(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found)), BT_OK);
    bt_engine_free(engine);
    ck_assert_double_eq_tol(found, 0.75, 1e-6);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("closed forms");
    TCase *tests = tcase_create("two levels");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, r1_quadratic, 0, 14);
    tcase_add_loop_test(tests, r3_neumann_series, 0, 9);
    tcase_add_loop_test(tests, r4_conjugate_gradients, 0, 6);
    tcase_add_loop_test(tests, r5_finite_difference, 0, 6);
    tcase_add_test(tests, r6_ridge);
    tcase_add_test(tests, r7_direct_gradient);
    tcase_add_test(tests, r10_logistic);
    tcase_add_test(tests, r19_accumulation);
    tcase_add_loop_test(tests, r23_detach_lambda, 0, 5);
    tcase_add_test(tests, r23_detach_finite);
    tcase_add_loop_test(tests, r23_detach_hessian, 0, 4);
    tcase_add_test(tests, through_ini);
    tcase_add_loop_test(tests, r1_after_training, 0, 4);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
