/* Parameters, slots, D, gradients and x by name, against the same steps in plain C.
 *
 * lower  C(w) = a |w|^2 / 2 - lambda w,  a = 2     upper  F = |w - 1|^2 / 2
 * v = w - 1,  x = v / a,  dF/dlambda = x */
#include "levels.h"

#include "engine/level/level.h"
#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 3 };
static const double a = 2, lr = 0.25, momentum = 0.5;
static const double start[SIZE] = {0.5, -1, 2}, strength[SIZE] = {0.75, 0.25, -0.5};

static bt_status no_batch(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double zero = 0;
    (void)self, (void)mode, (void)index;
    return bt_batch_set(batch, "zero", BT_ARRAY(&zero));
}

static bt_module *values_of(bt_problem *self)
{
    bt_module *net = bt_module_new(NULL);
    bool upper = strcmp(self->name, "upper") == 0;
    bt_module_add_param(net, upper ? "lambda" : "w", bt_init_array(BT_ARRAY(upper ? strength : start, SIZE)), SIZE);
    bt_module_add_buffer(net, "seen", bt_init_constant(0), 2);
    return net;
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *w = bt_param(self, "w"), *lambda = bt_param(bt_peer(self, "upper"), "lambda");
    bt_param_set(self, "seen", bt_add(1, bt_param(self, "seen")));
    return bt_sub(bt_mul(a / 2, bt_sum(bt_square(w))), bt_sum(bt_mul(lambda, w)));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_sum(bt_square(bt_sub(bt_param(bt_peer(self, "lower"), "w"), 1))));
}

static const bt_problem_def upper = {
    .name = "upper", .get_batch = no_batch, .configure_module = values_of, .training_step = upper_step};
static const bt_problem_def lower = {
    .name = "lower", .get_batch = no_batch, .configure_module = values_of, .training_step = lower_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

static bt_engine *engine_of(const char *more)
{
    char lines[600];
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nengine.train_iters = 20\n"
             "lower.lr = %g\nlower.momentum = %g\nlower.unroll_steps = 5\nupper.lr = 0.1\n%s",
             lr, momentum, more);
    return levels_engine(&parts, NULL, lines);
}

/* One step of SGD with momentum. */
static void plain_step(double *w, double *m)
{
    for (int i = 0; i < SIZE; i++) {
        m[i] = momentum * m[i] + a * w[i] - strength[i];
        w[i] -= lr * m[i];
    }
}

static void expect_near(const double *found, const double *due)
{
    for (int i = 0; i < SIZE; i++)
        ck_assert_double_eq_tol(found[i], due[i], 1e-12);
}

START_TEST(what_is_written_is_stepped_from)
{
    bt_engine *engine = engine_of("");
    double w[SIZE], m[SIZE], found[SIZE], seen[2];
    float single[SIZE];
    EXPECT_OK(bt_engine_read(engine, "lower.w", BT_ARRAY(w, SIZE)));
    ck_assert_mem_eq(w, start, sizeof w);
    EXPECT_OK(bt_engine_read(engine, "lower.w:momentum", BT_ARRAY(m, SIZE)));
    plain_step(w, m);
    EXPECT_OK(bt_engine_step(engine));
    EXPECT_OK(bt_engine_read(engine, "lower.w", BT_ARRAY(found, SIZE)));
    expect_near(found, w);
    EXPECT_OK(bt_engine_read(engine, "lower.w", BT_ARRAY(single, SIZE)));
    for (int i = 0; i < SIZE; i++)
        ck_assert_float_eq(single[i], (float)found[i]);
    EXPECT_OK(bt_engine_read(engine, "lower.w:momentum", BT_ARRAY(found, SIZE)));
    expect_near(found, m);

    const int32_t other[SIZE] = {3, 0, -2}, pull[SIZE] = {1, 2, 3};
    const float shown[2] = {7.5f, 8};
    EXPECT_OK(bt_engine_write(engine, "lower.w", BT_ARRAY(other, SIZE)));
    EXPECT_OK(bt_engine_write(engine, "lower.w:momentum", BT_ARRAY(pull, SIZE)));
    EXPECT_OK(bt_engine_write(engine, "lower.seen", BT_ARRAY(shown, 2)));
    for (int i = 0; i < SIZE; i++) {
        w[i] = other[i];
        m[i] = pull[i];
    }
    plain_step(w, m);
    EXPECT_OK(bt_engine_step(engine));
    EXPECT_OK(bt_engine_read(engine, "lower.w", BT_ARRAY(found, SIZE)));
    expect_near(found, w);
    EXPECT_OK(bt_engine_read(engine, "lower.seen", BT_ARRAY(seen, 2)));
    ck_assert_double_eq(seen[0], 8.5);
    ck_assert_double_eq(seen[1], 9);
    bt_engine_free(engine);
}
END_TEST

/* For sgd, D is lr. */
START_TEST(the_slope_of_the_update)
{
    bt_engine *engine = engine_of("lower.type = sama\nlower.momentum = 0\n");
    double slope[SIZE];
    EXPECT_OK(bt_engine_read(engine, "lower.w:slope of the update", BT_ARRAY(slope, SIZE)));
    ck_assert_double_eq(slope[0], 0);
    EXPECT_OK(bt_engine_step(engine));
    EXPECT_OK(bt_engine_read(engine, "lower.w:slope of the update", BT_ARRAY(slope, SIZE)));
    for (int i = 0; i < SIZE; i++)
        ck_assert_double_eq_tol(slope[i], lr, 1e-15);
    bt_engine_free(engine);
    engine = engine_of("lower.type = cg\n");
    ck_assert_int_eq(bt_engine_read(engine, "lower.w:slope of the update", BT_ARRAY(slope, SIZE)), BT_ERROR_ARGUMENT);
    ck_assert_msg(strstr(bt_error(), "D is kept only for parameters of a problem whose method uses it") != NULL, "%s",
                  bt_error());
    bt_error_clear();
    bt_engine_free(engine);
}
END_TEST

/* type; x = scale * (w - 1), and the fraction of it that reaches lambda */
static const struct {
    const char *type;
    double scale;
} solves[] = {{"cg", 0.5}, {"darts", 1}, {"sama", 0.25}};

START_TEST(x_and_what_it_is_made_from)
{
    char lines[100];
    snprintf(lines, sizeof lines, "lower.momentum = 0\nlower.type = %s\n", solves[_i].type);
    bt_engine *engine = engine_of(lines);
    double w[SIZE], gradient[SIZE], x[SIZE], adjoint[SIZE];
    EXPECT_OK(bt_engine_run_to(engine, 7));
    uint64_t before = levels_state(engine);
    EXPECT_OK(bt_engine_read(engine, "lower.w", BT_ARRAY(w, SIZE)));
    EXPECT_OK(bt_engine_read(engine, "upper:adjoint.lower", BT_ARRAY(adjoint, SIZE)));
    EXPECT_OK(bt_engine_read(engine, "upper:x.lower", BT_ARRAY(x, SIZE)));
    EXPECT_OK(bt_engine_read(engine, "upper:gradient", BT_ARRAY(gradient, SIZE)));
    for (int i = 0; i < SIZE; i++) {
        ck_assert_double_eq_tol(adjoint[i], w[i] - 1, 1e-12);
        ck_assert_double_eq_tol(x[i], solves[_i].scale * (w[i] - 1), 1e-9);
        ck_assert_double_eq_tol(gradient[i], x[i], 1e-12);
    }
    double lambda[SIZE];
    EXPECT_OK(bt_engine_read(engine, "upper.lambda", BT_ARRAY(lambda, SIZE)));
    EXPECT_OK(bt_engine_read(engine, "lower:gradient", BT_ARRAY(gradient, SIZE)));
    for (int i = 0; i < SIZE; i++)
        ck_assert_double_eq_tol(gradient[i], a * w[i] - lambda[i], 1e-12);
    ck_assert_uint_eq(levels_state(engine), before);
    bt_engine_free(engine);
}
END_TEST

/* penalty uses the upper loss elsewhere, and needs no adjoint. */
START_TEST(an_adjoint_that_nothing_reads)
{
    setenv("BETTY_PLAN", "off", 1); /* dead values have no memory at all */
    bt_engine *engine =
        engine_of(_i ? "lower.type = penalty\nupper.gradient_accumulation = 2\n" : "lower.type = penalty\n");
    double w[SIZE], adjoint[SIZE];
    EXPECT_OK(bt_engine_run_to(engine, 7));
    uint64_t before = levels_state(engine);
    EXPECT_OK(bt_engine_read(engine, "lower.w", BT_ARRAY(w, SIZE)));
    EXPECT_OK(bt_engine_read(engine, "upper:adjoint.lower", BT_ARRAY(adjoint, SIZE)));
    for (int i = 0; i < SIZE; i++)
        ck_assert_double_eq_tol(adjoint[i], w[i] - 1, 1e-12);
    ck_assert_uint_eq(levels_state(engine), before);
    bt_engine_free(engine);
    unsetenv("BETTY_PLAN");
}
END_TEST

START_TEST(wrong_questions_harm_nothing)
{
    bt_engine *one = engine_of("lower.type = itd\n"), *engine = engine_of("lower.type = itd\n");
    levels_run(one);
    EXPECT_OK(bt_engine_run_to(engine, 8));
    double w[SIZE] = {0};
    const struct {
        const char *name;
        bt_array values;
        bt_status status;
        const char *words;
    } cases[] = {
        {"lower.v", BT_ARRAY(w, SIZE), BT_ERROR_ARGUMENT, "no variable `lower.v`; did you mean `lower.w`?"},
        {NULL, BT_ARRAY(w, SIZE), BT_ERROR_ARGUMENT, "the name is NULL"},
        {"lower.w", BT_ARRAY(w, 2), BT_ERROR_SHAPE, "lower.w is f64[3], but the array is f64[2]"},
        {"lower.w", {.dtype = BT_F64, .rank = 1, .dims = {SIZE}}, BT_ERROR_ARGUMENT, "the array is NULL"},
        {"upper:gradient", BT_ARRAY(w, 2), BT_ERROR_SHAPE, "has room for 2"},
        {"upper:x.lower", BT_ARRAY(w, SIZE), BT_ERROR_ARGUMENT, "has no x"},
        {"lower:x.upper", BT_ARRAY(w, SIZE), BT_ERROR_ARGUMENT, "no hypergradient of lower goes through upper"},
        {"upper:adjoint.lower", BT_ARRAY(w, 2), BT_ERROR_SHAPE, "has room for 2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(bt_engine_read(engine, cases[i].name, cases[i].values), cases[i].status);
        ck_assert_msg(strstr(bt_error(), cases[i].words) != NULL, "%s", bt_error());
        bt_error_clear();
        ck_assert_int_ne(bt_engine_write(engine, cases[i].name, cases[i].values), BT_OK);
        bt_error_clear();
    }
    EXPECT_OK(bt_engine_run(engine));
    ck_assert_uint_eq(levels_state(engine), levels_state(one));
    bt_engine_free(one);
    bt_engine_free(engine);
}
END_TEST

START_TEST(names)
{
    bt_engine *engine = engine_of("");
    static const char *const due[] = {"lower.w", "lower.w:momentum", "lower.seen", "lower:applied", "upper.lambda"};
    bool found[5] = {false};
    const char *name;
    bt_array shape;
    int64_t count = 0;
    for (; (name = bt_engine_name(engine, count, &shape)) != NULL; count++) {
        double *values = calloc((size_t)bt_array_count(shape) + 1, sizeof *values);
        ck_assert_ptr_null(shape.data);
        char copy[100];
        snprintf(copy, sizeof copy, "%s", name);
        EXPECT_OK(bt_engine_read(engine, copy, BT_ARRAY(values, bt_array_count(shape))));
        free(values);
        for (int i = 0; i < 5; i++)
            found[i] |= strcmp(copy, due[i]) == 0;
    }
    for (int i = 0; i < 5; i++)
        ck_assert_msg(found[i], "%s", due[i]);
    ck_assert_ptr_null(bt_engine_name(engine, -1, NULL));
    ck_assert_str_eq(bt_error(), "");
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("values");
    tcase_add_test(tests, what_is_written_is_stepped_from);
    tcase_add_test(tests, the_slope_of_the_update);
    tcase_add_loop_test(tests, x_and_what_it_is_made_from, 0, (int)(sizeof solves / sizeof *solves));
    tcase_add_loop_test(tests, an_adjoint_that_nothing_reads, 0, 2);
    tcase_add_test(tests, wrong_questions_harm_nothing);
    tcase_add_test(tests, names);
    Suite *suite = suite_create("values");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
