/* The counts of bt_histogram, and the norms of hypergradients, against plain loops. */
#include "levels.h"
#include "ridge.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* None is at the end of a bucket, where rounding could decide; values that are not above 0 do not count in the
 * histogram of logarithms. */
static const double values[] = {-3, -1.1, -0.55, 0, 1e-9, 0.3, 0.55, 1.2, 2.2, 1e9, -1e-7};
enum { ROWS = sizeof values / sizeof *values, BATCHES = 4 /* of 3 rows; the last batch is short */ };

static const char *other_name, *other_way;

static bt_dataset *data(bt_problem *self)
{
    (void)self;
    bt_dataset *set = bt_dataset_new(ROWS);
    bt_dataset_add(set, "x", BT_ARRAY(values, ROWS));
    return set;
}

static bt_module *module(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(0.5)); }

static bt_tensor *step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *x = bt_field(batch, "x");
    bt_histogram(self, "x", x);
    bt_histogram(self, "log", bt_log(x));
    if (other_way && strcmp(other_way, "first") == 0)
        bt_metric(self, other_name, x);
    if (other_way)
        bt_histogram(self, other_name, x);
    if (other_way && strcmp(other_way, "then") == 0)
        bt_metric(self, other_name, x);
    return bt_mean(bt_square(bt_sub(bt_forward(self), bt_mul(1e-3, bt_tanh(x)))));
}

static const bt_problem_def model = {.name = "model",
                                     .configure_train_data = data,
                                     .configure_valid_data = data,
                                     .configure_module = module,
                                     .training_step = step,
                                     .validation_step = step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&model}};

static bt_engine *engine_of(const char *settings)
{
    char all[400];
    snprintf(all, sizeof all, "engine.log_histograms = true\nengine.log_step = 0\nmodel.shuffle = false\n%s", settings);
    bt_engine *engine = levels_engine(&parts, NULL, all);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    return engine;
}

/* ---- against plain loops ---- */

typedef struct plain {
    double counts[BT_HISTOGRAM_BUCKETS], number, least, most, sum, square;
} plain;

static void plain_add(plain *p, double x)
{
    if (!isfinite(x))
        return;
    int b = 0;
    while (b < BT_HISTOGRAM_BUCKETS - 1 && !(x < bt_histogram_limit(b)))
        b++;
    p->counts[b]++;
    p->least = p->number > 0 ? fmin(p->least, x) : x;
    p->most = p->number > 0 ? fmax(p->most, x) : x;
    p->number++;
    p->sum += x;
    p->square += x * x;
}

static void expect(const bt_histogram_value *found, const char *name, const plain *due)
{
    ck_assert_str_eq(found->name, name);
    ck_assert_double_eq(found->number, due->number);
    for (int b = 0; b < BT_HISTOGRAM_BUCKETS; b++)
        ck_assert_msg(found->counts[b] == due->counts[b], "%s, bucket %d up to %g: %g, expected %g", name, b,
                      bt_histogram_limit(b), found->counts[b], due->counts[b]);
    ck_assert_double_eq_tol(found->least, due->least, 1e-12 * fabs(due->least));
    ck_assert_double_eq_tol(found->most, due->most, 1e-12 * fabs(due->most));
    ck_assert_double_eq_tol(found->sum, due->sum, 1e-12 * fabs(due->sum) + 1e-6);
    ck_assert_double_eq_tol(found->square, due->square, 1e-12 * due->square);
}

static void expect_rows(bt_engine *engine, bool valid, int times)
{
    plain x = {.number = 0}, logarithm = {.number = 0};
    bt_histogram_value found[2];
    bt_context *context = &engine->context;
    for (int t = 0; t < times; t++)
        for (int i = 0; i < ROWS; i++) {
            plain_add(&x, values[i]);
            plain_add(&logarithm, log(values[i]));
        }
    ck_assert_int_eq(bt_histograms_take(context, context->problems[0], valid, found), 2);
    expect(&found[0], valid ? "model.valid.x" : "model.x", &x);
    expect(&found[1], valid ? "model.valid.log" : "model.log", &logarithm);
    ck_assert_int_eq(bt_histograms_take(context, context->problems[0], valid, found), 0); /* each counts once */
}

static const char *const variants[] = {
    "model.batch_size = 3\n",
    "model.batch_size = 3\nmodel.gradient_accumulation = 2\n",
    "model.batch_size = 3\nengine.ranks = 2\nengine.executor = lockstep\n",
};

START_TEST(of_all_batches)
{
    char settings[256];
    if (strstr(variants[_i], "ranks") && getenv("BETTY_TEST_BACKEND")) /* ranks are the processor's */
        return;
    snprintf(settings, sizeof settings,
             "%smodel.valid_batch_size = 4\nengine.train_iters = 16\nengine.valid_step = 8\n", variants[_i]);
    bt_engine *engine = engine_of(settings);
    int epochs = strstr(settings, "accumulation") ? 2 : 1;
    for (int part = 0; part < 2; part++) { /* taking them clears the counts */
        levels_step(engine, BATCHES);
        expect_rows(engine, false, epochs);
    }
    bool any;
    EXPECT_OK(bt_validate(&engine->context, &any));
    expect_rows(engine, true, 1);
    bt_engine_free(engine);
}
END_TEST

/* The limits of buckets: ascending, symmetrical, 8 per octave. */
START_TEST(limits)
{
    for (int b = 1; b < BT_HISTOGRAM_BUCKETS; b++)
        ck_assert_double_lt(bt_histogram_limit(b - 1), bt_histogram_limit(b));
    for (int b = 0; b < BT_HISTOGRAM_SIDE; b++)
        ck_assert_double_eq(bt_histogram_limit(b), -bt_histogram_limit(BT_HISTOGRAM_BUCKETS - 2 - b));
    ck_assert_double_eq(bt_histogram_limit(BT_HISTOGRAM_SIDE), exp2(-24));
    ck_assert_double_eq(bt_histogram_limit(BT_HISTOGRAM_SIDE + 8), exp2(-23));
    ck_assert_double_eq(bt_histogram_limit(BT_HISTOGRAM_BUCKETS - 1), DBL_MAX);
    ck_assert_double_eq(bt_histogram_limit(BT_HISTOGRAM_BUCKETS - 2), exp2(24 - 1.0 / 8));
}
END_TEST

/* Without the key there are no extra steps, and the bits are the same. */
START_TEST(costs_nothing)
{
    bt_histogram_value found[2];
    bt_engine *without = levels_engine(&parts, NULL, "model.batch_size = 3\nmodel.shuffle = false\n"),
              *with = engine_of("model.batch_size = 3\n");
    levels_step(without, 7);
    levels_step(with, 7);
    ck_assert_int_eq(bt_histograms_take(&without->context, without->context.problems[0], false, found), 0);
    ck_assert_int_eq(without->context.metric_count, 2);
    double one, other;
    levels_params(without, "model", &one, 1);
    levels_params(with, "model", &other, 1);
    ck_assert_double_eq(one, other);
    bt_engine_free(without);
    bt_engine_free(with);
}
END_TEST

static const char *const clashes[][2] = {{"first", "m"}, {"then", "m"}, {"", "loss"}};

START_TEST(names_that_collide)
{
    other_way = clashes[_i][0];
    other_name = clashes[_i][1];
    levels_expect_error(engine_of(""), "model, training_step", _i == 1 ? "is a histogram" : "is logged as a number",
                        "another name", NULL);
    other_way = NULL;
}
END_TEST

/* ---- hypergradients ---- */

/* Plain gradient descent changes the upper parameters by lr times the gradient. */
START_TEST(norms_of_hypergradients)
{
    enum { STEPS = 5 };
    ridge numbers = ridge_data();
    double before[2], after[2];
    plain due = {.number = 0};
    bt_histogram_value found;
    bt_engine *engine = ridge_engine(&numbers, "engine.log_histograms = true\nengine.log_step = 0\n"
                                               "upper.optimizer = sgd\nupper.lr = 0.5\nlower.type = cg\n");
    ck_assert_msg(engine != NULL, "%s", bt_error());
    levels_params(engine, "upper", before, 2);
    for (int t = 0; t < STEPS; t++) {
        levels_step(engine, 1);
        levels_params(engine, "upper", after, 2);
        plain_add(&due, hypot(after[0] - before[0], after[1] - before[1]) / 0.5);
        memcpy(before, after, sizeof before);
    }
    bt_context *context = &engine->context;
    const bt_problem *upper = bt_problem_find(context, "upper"), *lower = bt_problem_find(context, "lower");
    ck_assert_int_eq(bt_histograms_take(context, lower, false, &found), 0);
    ck_assert_int_eq(bt_histograms_take(context, upper, false, &found), 1);
    ck_assert_double_eq(due.number, STEPS);
    expect(&found, "upper.hypergradient_norm", &due);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("histogram");
    TCase *tests = tcase_create("histogram");
    tcase_add_loop_test(tests, of_all_batches, 0, BT_COUNT_OF(variants));
    tcase_add_test(tests, limits);
    tcase_add_test(tests, costs_nothing);
    tcase_add_loop_test(tests, names_that_collide, 0, BT_COUNT_OF(clashes));
    tcase_add_test(tests, norms_of_hypergradients);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
