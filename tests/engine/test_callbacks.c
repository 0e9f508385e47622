/* tests/engine/test_callbacks.c: what host callbacks see and can do: batches, epochs, evaluation between steps. */
#include "ridge.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- batches from get_batch ---- */

static struct {
    int64_t indices[32];
    int drawn, fail_at, odd_at, epochs;
    bool ask;
    int64_t dims[4];
    double found[4];
} seen;

static bt_status make_batch(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double x[3] = {(double)index, (double)index + 1, 7};
    (void)self, (void)mode;
    seen.indices[seen.drawn++ % 32] = index;
    if (seen.fail_at && index == seen.fail_at)
        return bt_fail(BT_ERROR_DATA, "row %lld: no label", (long long)index);
    return bt_batch_set(batch, "x", BT_ARRAY(x, seen.odd_at && index == seen.odd_at ? 3 : 2));
}

static bt_module *scalar(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(0.5));
}

static bt_tensor *mean_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mul(bt_forward(self), bt_mean(bt_field(batch, "x")));
}

static const bt_problem_def made = {
    .name = "model", .get_batch = make_batch, .configure_module = scalar, .training_step = mean_step};
static const bt_export made_parts = {.abi = BT_ABI, .problems = {&made}};

static bt_engine *made_engine(const char *more)
{
    char settings[300];
    snprintf(settings, sizeof settings, "model.lr = 1\nengine.log_step = 0\nengine.train_iters = 3\n%s", more);
    return levels_engine(&made_parts, NULL, settings);
}

/* The first is made once more in advance, for its shape; batches 1 and 2 twice, for comparison. */
START_TEST(made_batches)
{
    static const int64_t one_by_one[] = {0, 0, 1, 1, 2, 2}, by_two[] = {0, 0, 1, 1, 2, 2, 3, 4, 5};
    double found;
    memset(&seen, 0, sizeof seen);
    bt_engine *engine = made_engine("");
    levels_run(engine);
    levels_params(engine, "model", &found, 1);
    ck_assert_double_eq_tol(found, 0.5 - (0.5 + 1.5 + 2.5), 1e-12);
    ck_assert_int_eq(seen.drawn, 6);
    ck_assert_mem_eq(seen.indices, one_by_one, sizeof one_by_one);
    bt_engine_free(engine);
    memset(&seen, 0, sizeof seen);
    engine = made_engine("model.gradient_accumulation = 2\n");
    levels_run(engine);
    levels_params(engine, "model", &found, 1);
    ck_assert_double_eq_tol(found, 0.5 - (1 + 3 + 5), 1e-12);
    ck_assert_int_eq(seen.drawn, 9);
    ck_assert_mem_eq(seen.indices, by_two, sizeof by_two);
    bt_engine_free(engine);
}
END_TEST

START_TEST(batches_that_fail)
{
    memset(&seen, 0, sizeof seen);
    seen.fail_at = 2;
    levels_expect_error(made_engine(""), "model", "row 2: no label", NULL);
    memset(&seen, 0, sizeof seen);
    seen.odd_at = 1;
    levels_expect_error(made_engine(""), "model", "batch 1", "x f64 [3]", NULL);
}
END_TEST

/* ---- epochs ---- */

static bt_tensor *first_of(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(2, bt_at(bt_params(self), 0));
}

static bt_dataset *rows_of_data(bt_problem *self)
{
    const ridge *data = bt_user(self);
    bt_dataset *set = bt_dataset_new(RIDGE_ROWS);
    bt_dataset_add(set, "x", BT_ARRAY(data->x, RIDGE_ROWS, 2));
    bt_dataset_add(set, "y", BT_ARRAY(data->y, RIDGE_ROWS));
    return set;
}

static bt_module *two(bt_problem *self)
{
    seen.dims[0] = bt_data_dim(self, "x", 0);
    seen.dims[1] = bt_data_dim(self, "x", 1);
    return bt_nn_parameter(bt_init_array(BT_ARRAY(((ridge *)bt_user(self))->w, 2)), 2);
}

static bt_tensor *fit(bt_problem *self, const bt_batch *batch)
{
    seen.dims[2] = bt_data_dim(self, "y", 0);
    seen.dims[3] = bt_data_dim(self, "x", 1);
    return bt_mean(bt_square(bt_sub(bt_matmul(bt_field(batch, "x"), bt_forward(self)), bt_field(batch, "y"))));
}

/* Requests in the middle of a run that must change nothing. */
static void epoch_ends(bt_problem *self)
{
    double value, params[2];
    seen.epochs++;
    ck_assert_int_ge(bt_host_epoch(self), seen.epochs); /* more, if a step spans several */
    if (!seen.ask)
        return;
    EXPECT_OK(bt_eval(self, first_of, NULL, BT_ARRAY(&value)));
    EXPECT_OK(bt_hypergradient(self, BT_ARRAY(params, 2)));
    seen.found[seen.epochs % 4] = value;
}

static const bt_problem_def fitted = {.name = "model",
                                      .configure_train_data = rows_of_data,
                                      .configure_module = two,
                                      .training_step = fit,
                                      .epoch_callback = epoch_ends};
static const bt_export fitted_parts = {.abi = BT_ABI, .problems = {&fitted}};

START_TEST(epochs)
{
    static const struct {
        int batch, micros, iterations, epochs;
    } cases[] = {{4, 1, 9, 3}, {4, 1, 8, 2}, {4, 2, 6, 4}, {10, 1, 5, 5}, {10, 3, 2, 6}, {3, 4, 2, 2}};
    ridge data = ridge_data();
    double results[2][2];
    char settings[300];
    for (int ask = 0; ask < 2; ask++) {
        memset(&seen, 0, sizeof seen);
        seen.ask = ask;
        snprintf(settings, sizeof settings,
                 "model.lr = 0.1\nmodel.momentum = 0.5\nmodel.batch_size = %d\nmodel.gradient_accumulation = %d\n"
                 "engine.train_iters = %d\nengine.log_step = 0\n",
                 cases[_i].batch, cases[_i].micros, cases[_i].iterations);
        bt_engine *engine = levels_engine(&fitted_parts, &data, settings);
        levels_run(engine);
        ck_assert_int_eq(seen.epochs, cases[_i].epochs);
        levels_params(engine, "model", results[ask], 2);
        bt_engine_free(engine);
    }
    ck_assert_mem_eq(results[0], results[1], sizeof results[0]);
}
END_TEST

/* After the update that ends the epoch: ten steps on all the data, each one an epoch. */
START_TEST(epochs_end_after_the_update)
{
    ridge data = ridge_data();
    double w[2];
    memset(&seen, 0, sizeof seen);
    seen.ask = true;
    bt_engine *engine = levels_engine(&fitted_parts, &data, "model.lr = 0.1\nmodel.batch_size = all\n");
    levels_step(engine, 1);
    levels_params(engine, "model", w, 2);
    ck_assert_double_eq(seen.found[1], 2 * w[0]);
    ck_assert_double_ne(w[0], data.w[0]);
    bt_engine_free(engine);
}
END_TEST

START_TEST(sizes_of_the_data)
{
    static const int64_t expected[] = {RIDGE_ROWS, 2, RIDGE_ROWS, 2};
    ridge data = ridge_data();
    memset(&seen, 0, sizeof seen);
    bt_engine *engine = levels_engine(&fitted_parts, &data, "model.lr = 0\n");
    bt_problem *model = bt_engine_problem(engine, "model");
    ck_assert_msg(model != NULL, "%s", bt_error());
    ck_assert_mem_eq(seen.dims, expected, sizeof expected);
    ck_assert_int_eq(bt_data_dim(model, "x", 1), 2);
    ck_assert_int_eq(bt_data_dim(model, "z", 1), 1);
    ck_assert_ptr_nonnull(strstr(bt_error(), "`z`"));
    bt_engine_free(engine);
}
END_TEST

/* ---- bt_eval ---- */

static bt_tensor *total(bt_problem *self, const bt_batch *batch)
{
    return bt_mul(bt_add(bt_sum(bt_field(batch, "x")), bt_field(batch, "k")), bt_at(bt_params(self), 0));
}

static bt_tensor *table(bt_problem *self, const bt_batch *batch)
{
    (void)self;
    return bt_mul(bt_field(batch, "x"), 2);
}

static bt_tensor *params(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_params(self);
}

static bt_tensor *no_such_field(bt_problem *self, const bt_batch *batch)
{
    (void)self;
    return bt_field(batch, "weight");
}

static bt_tensor *nothing(bt_problem *self, const bt_batch *batch)
{
    (void)self, (void)batch;
    return NULL;
}

static bt_tensor *asks_itself(bt_problem *self, const bt_batch *batch)
{
    double value;
    (void)batch;
    bt_eval(self, params, NULL, BT_ARRAY(&value));
    return bt_params(self);
}

/* Fields of every dtype and several shapes, results of another dtype, in turn and repeatedly; in f32 and in f64. */
START_TEST(evaluation)
{
    ridge data = ridge_data();
    float f[] = {1, 2, 3, 4, 5, 6};
    double d[] = {1, 2, 3, 4, 5, 6}, result, rows[6];
    int32_t i[] = {1, 2, 3, 4, 5, 6}, whole[6];
    int64_t l[] = {1, 2, 3, 4, 5, 6};
    uint8_t u[] = {1, 2, 3, 4, 5, 6};
    float single;
    bt_engine *engine = levels_engine(&fitted_parts, &data, _i ? "engine.precision = fp32\n" : "");
    bt_problem *model = bt_engine_problem(engine, "model");
    ck_assert_msg(model != NULL, "%s", bt_error());
    bt_array xs[] = {BT_ARRAY(f, 6), BT_ARRAY(d, 3, 2), BT_ARRAY(i, 2, 3), BT_ARRAY(l, 6, 1), BT_ARRAY(u, 1, 6)};
    uint64_t before = 0;
    for (int round = 0; round < 3; round++)
        for (int k = 0; k < 5; k++) {
            bt_batch *batch = bt_batch_new();
            bt_batch_set(batch, "x", xs[k]);
            bt_batch_set(batch, "k", BT_ARRAY(round ? &l[2] : &l[1]));
            bt_batch_set(batch, "idle", BT_ARRAY(f, 2));
            EXPECT_OK(bt_eval(model, total, batch, BT_ARRAY(&result)));
            ck_assert_double_eq_tol(result, (21 + (round ? 3 : 2)) * data.w[0], _i ? 1e-5 : 1e-12);
            EXPECT_OK(bt_eval(model, total, batch, BT_ARRAY(&single)));
            ck_assert_float_eq_tol(single, (float)result, 1e-6f);
            EXPECT_OK(bt_eval(model, table, batch, BT_ARRAY(rows, 6)));
            EXPECT_OK(bt_eval(model, table, batch, BT_ARRAY(whole, 6)));
            for (int n = 0; n < 6; n++) {
                ck_assert_double_eq(rows[n], 2 * (n + 1));
                ck_assert_int_eq(whole[n], 2 * (n + 1));
            }
            bt_batch_free(batch);
            if (round == 1 && k == 0)
                before = levels_hash(engine, "model");
            if (round == 1 && k == 4)
                ck_assert_uint_eq(levels_hash(engine, "model"), before);
        }
    EXPECT_OK(bt_eval(model, params, NULL, BT_ARRAY(rows, 2)));
    ck_assert_double_eq_tol(rows[1], data.w[1], 1e-6);
    bt_engine_free(engine);
}
END_TEST

START_TEST(evaluation_that_fails)
{
    static const struct {
        bt_step_fn *fn;
        const char *words[3];
        int count;
    } cases[] = {{no_such_field, {"model, bt_eval", "weight", "x [2]"}, 2},
                 {nothing, {"model, bt_eval", "returned nothing"}, 2},
                 {asks_itself, {"bt_eval is for the host"}, 2},
                 {params, {"3", "2"}, 3},
                 {NULL, {"bt_eval", "function"}, 2}};
    ridge data = ridge_data();
    double values[3] = {0}, x[] = {1, 2};
    bt_engine *engine = levels_engine(&fitted_parts, &data, "");
    bt_problem *model = bt_engine_problem(engine, "model");
    bt_batch *batch = bt_batch_new();
    bt_batch_set(batch, "x", BT_ARRAY(x, 2));
    ck_assert_int_ne(bt_eval(model, cases[_i].fn, batch, BT_ARRAY(values, cases[_i].count)), BT_OK);
    for (int k = 0; k < 3 && cases[_i].words[k]; k++)
        ck_assert_msg(strstr(bt_error(), cases[_i].words[k]) != NULL, "%s", bt_error());
    bt_batch_free(batch);
    levels_expect_error(engine, cases[_i].words[0], NULL); /* errors stick */
}
END_TEST

/* ---- requests that are refused in the middle of a step ---- */

static bt_status curious_batch(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double x[2] = {1, 2}, value;
    (void)mode;
    if (index == 1)
        EXPECT_OK(bt_eval(self, first_of, NULL, BT_ARRAY(&value))); /* this one is allowed */
    if (index == 2)
        bt_hypergradient(self, BT_ARRAY(&value));
    return bt_batch_set(batch, "x", BT_ARRAY(x, 2));
}

static bt_tensor *curious_step(bt_problem *self, const bt_batch *batch)
{
    return bt_sum(bt_mul(bt_forward(self), bt_field(batch, "x")));
}

static bt_module *pair(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(0.5), 2);
}

static const bt_problem_def curious = {
    .name = "model", .get_batch = curious_batch, .configure_module = pair, .training_step = curious_step};
static const bt_export curious_parts = {.abi = BT_ABI, .problems = {&curious}};

START_TEST(within_a_step)
{
    double w[2];
    bt_engine *engine = levels_engine(&curious_parts, NULL, "model.lr = 1\nengine.train_iters = 2\n");
    levels_run(engine);
    levels_params(engine, "model", w, 2);
    ck_assert_double_eq(w[0], -1.5);
    ck_assert_double_eq(w[1], -3.5);
    bt_engine_free(engine);
    levels_expect_error(levels_engine(&curious_parts, NULL, "model.lr = 1\nengine.train_iters = 3\n"),
                        "bt_hypergradient", "within a step", NULL);
}
END_TEST

/* ---- evaluation in get_batch while the step goes back through an inner loop and fetches its batches again ---- */

static bool evaluates;

static bt_tensor *large(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    double ramp[64];
    for (int i = 0; i < 64; i++)
        ramp[i] = i + 1;
    bt_tensor *x = bt_mul(bt_forward(self), bt_constant(BT_ARRAY(ramp, 64)));
    for (int i = 0; i < 4; i++)
        x = bt_tanh(bt_add(x, 1));
    return bt_sum(x);
}

static bt_status evaluated_batch(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double x = 1 + 0.1 * (double)(index % 5), value;
    (void)mode;
    if (evaluates && index > 0)
        EXPECT_OK(bt_eval(self, large, NULL, BT_ARRAY(&value)));
    return bt_batch_set(batch, "x", BT_ARRAY(&x, 1));
}

static bt_status batch_of_two(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double x = 2;
    (void)self, (void)mode, (void)index;
    return bt_batch_set(batch, "x", BT_ARRAY(&x, 1));
}

static bt_tensor *follow(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *away = bt_sub(bt_mul(bt_forward(self), bt_field(batch, "x")), bt_forward(bt_peer(self, "upper")));
    return bt_mean(bt_square(away));
}

/* The upper problem's step count changes between two steps of this one. */
static bt_tensor *follow_more(bt_problem *self, const bt_batch *batch)
{
    return bt_mul(bt_add(1, bt_step(bt_peer(self, "upper"))), follow(self, batch));
}

static bt_tensor *reach(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_sub(bt_forward(bt_peer(self, "lower")), bt_field(batch, "x"))));
}

static void run_evaluated(bt_step_fn *step, const char *type, double found[2])
{
    const bt_problem_def lower = {
        .name = "lower", .get_batch = evaluated_batch, .configure_module = scalar, .training_step = step};
    static const bt_problem_def upper = {
        .name = "upper", .get_batch = batch_of_two, .configure_module = scalar, .training_step = reach};
    const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};
    char settings[300];
    snprintf(settings, sizeof settings,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.type = %s\nlower.lr = 0.05\n"
             "upper.lr = 0.01\nlower.unroll_steps = 4\nengine.train_iters = 4\nengine.log_step = 0\n%s",
             type, step == follow ? "" : "lower.unroll_steps = 1\nlower.lr = 0.02\n");
    bt_engine *engine = levels_engine(&parts, NULL, settings);
    levels_run(engine);
    levels_params(engine, "upper", &found[0], 1);
    levels_params(engine, "lower", &found[1], 1);
    bt_engine_free(engine);
}

/* lambda by hand: w <- w - 0.1 x (x w - lambda) four times, with dw/dlambda <- dw/dlambda - 0.1 x (x dw/dlambda - 1).
 */
static double by_hand(void)
{
    double w = 0.5, slope = 0, lambda = 0.5;
    for (int k = 0; k < 4; k++) {
        double x = 1 + 0.1 * k;
        slope -= 0.1 * x * (x * slope - 1);
        w -= 0.1 * x * (x * w - lambda);
    }
    return lambda - 0.01 * 2 * (w - 2) * slope;
}

START_TEST(evaluation_within_a_phase)
{
    static const char *const plans[] = {"on", "off", "guard"};
    double found[2], without[2];
    setenv("BETTY_PLAN", plans[_i], 1);
    for (int ask = 0; ask < 2; ask++) {
        evaluates = ask;
        run_evaluated(follow, "itd", found);
        ck_assert_double_eq_tol(found[0], by_hand(), 1e-14);
    }
    evaluates = false;
    run_evaluated(follow_more, "darts", without);
    evaluates = true;
    run_evaluated(follow_more, "darts", found);
    ck_assert_mem_eq(found, without, sizeof found);
    unsetenv("BETTY_PLAN");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("callbacks");
    TCase *tests = tcase_create("host");
    tcase_add_test(tests, made_batches);
    tcase_add_test(tests, batches_that_fail);
    tcase_add_loop_test(tests, epochs, 0, 6);
    tcase_add_test(tests, epochs_end_after_the_update);
    tcase_add_test(tests, sizes_of_the_data);
    tcase_add_loop_test(tests, evaluation, 0, 2);
    tcase_add_loop_test(tests, evaluation_that_fails, 0, 5);
    tcase_add_test(tests, within_a_step);
    tcase_add_loop_test(tests, evaluation_within_a_phase, 0, 3);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
