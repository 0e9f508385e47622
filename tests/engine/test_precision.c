/* tests/engine/test_precision.c: levels of different precision in one run: what is held for derivatives, hypergradients
 * beside those in double precision, and runs that are taken up again. */
#include "levels.h"

#include "engine/session/session.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 64, FEATURES = 12, WIDTH = 32, CLASSES = 4, LAMBDAS = 7 };

static bt_dataset *rows(bt_problem *self)
{
    static float x[ROWS * FEATURES];
    static int32_t label[ROWS];
    uint64_t stream = strcmp(self->name, "upper") == 0;
    for (uint64_t i = 0; i < ROWS * FEATURES; i++)
        x[i] = (float)(2 * bt_host_uniform(11, stream, i) - 1);
    for (uint64_t i = 0; i < ROWS; i++)
        label[i] = x[i * FEATURES] > 0 ? x[i * FEATURES + 1] > 0 : 2 + (x[i * FEATURES + 2] > 0);
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, ROWS, FEATURES));
    bt_dataset_add(data, "label", BT_ARRAY(label, ROWS));
    return data;
}

/* Of layers that compute in 16 bits, that follow, and that keep f32. */
static bt_module *net(bt_problem *self)
{
    (void)self;
    return bt_nn_sequential(bt_nn_linear(FEATURES, WIDTH), bt_nn_batch_norm(WIDTH), bt_nn_fn(bt_tanh),
                            bt_nn_linear(WIDTH, WIDTH), bt_nn_fn(bt_gelu), bt_nn_layer_norm(WIDTH),
                            bt_nn_linear(WIDTH, CLASSES));
}

static bt_module *weights(bt_problem *self)
{
    (void)self;
    return bt_nn_mlp(bt_tanh, 1, 2, 1);
}

static bt_tensor *losses(bt_problem *lower, const bt_batch *batch)
{
    return bt_cross_entropy(bt_forward(lower, bt_field(batch, "x")), bt_field(batch, "label"));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = losses(self, batch);
    bt_tensor *weight = bt_forward(bt_peer(self, "upper"), bt_unsqueeze(bt_detach(loss), 1));
    bt_tensor *size = bt_mul(0.05, bt_sum(bt_square(bt_params(self))));
    return bt_add(size, bt_mean(bt_mul(bt_sigmoid(bt_squeeze(weight, 1)), loss)));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(losses(bt_peer(self, "lower"), batch));
}

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = rows, .configure_module = weights, .training_step = upper_step};
static const bt_problem_def lower = {
    .name = "lower", .configure_train_data = rows, .configure_module = net, .training_step = lower_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

static bt_engine *make(const char *upper_precision, const char *lower_precision, const char *more)
{
    char settings[1000];
    snprintf(settings, sizeof settings,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.batch_size = %d\n"
             "upper.batch_size = %d\nlower.lr = 0.05\nlower.momentum = 0.9\nupper.optimizer = adam\nupper.lr = 0.01\n"
             "engine.precision = fp32\nupper.precision = %s\nlower.precision = %s\n%s",
             ROWS, ROWS, upper_precision, lower_precision, more);
    return levels_engine(&parts, NULL, settings);
}

/* ---- what is held ---- */

static size_t saved(const char *precision)
{
    bt_engine *engine = make("fp32", precision, "lower.type = darts\n");
    bt_saved found = {0};
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    const bt_problem *problem = bt_engine_problem(engine, "lower");
    EXPECT_OK(bt_phase_saved(problem->step->phase, problem->step->gradient.each[0], &found));
    bt_engine_free(engine);
    return found.all;
}

/* Maps are half as large; what has one number a channel or a row stays f32. */
START_TEST(half_is_saved)
{
    size_t single = saved("fp32"), half = saved("bf16"), small = ROWS * 64;
    ck_assert_msg(half >= single / 2 && half <= single / 2 + small, "%zu bytes in bf16, %zu in fp32", half, single);
}
END_TEST

/* ---- hypergradients ---- */

static const char *const methods[] = {
    "lower.type = darts\n",
    "lower.type = darts\nlower.product = vjp\n",
    "lower.type = darts\nlower.product = finite\n",
    "lower.type = darts\nlower.product_precision = fp32\n",
    "lower.type = neumann\nlower.neumann_alpha = 0.1\nlower.neumann_iterations = 3\n",
    "lower.type = cg\nlower.cg_iterations = 3\n",
    "lower.type = cg\nlower.cg_iterations = 3\nlower.product_precision = level\n",
    "lower.type = nystrom\nlower.nystrom_rank = 3\n",
    "lower.type = penalty\nlower.penalty_iterations = 2\n",
};

static void hypergradient(const char *upper_precision, const char *lower_precision, const char *method, double *result)
{
    bt_engine *engine = make(upper_precision, lower_precision, method);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    for (int i = 0; i < 3; i++)
        EXPECT_OK(bt_session_step(engine));
    ck_assert_msg(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(result, LAMBDAS)) == BT_OK, "%s%s",
                  method, bt_error());
    bt_engine_free(engine);
}

/* Relative to its length; a unit of bf16 is 2^-8, and there are some ten roundings on the way. */
START_TEST(near_double_precision)
{
    static const char *const pairs[][2] = {{"fp32", "bf16"}, {"bf16", "bf16"}, {"bf16", "fp32"}};
    double exact[LAMBDAS], found[LAMBDAS];
    hypergradient("fp64", "fp64", methods[_i], exact);
    for (int p = 0; p < BT_COUNT_OF(pairs); p++) {
        double square = 0, off = 0;
        hypergradient(pairs[p][0], pairs[p][1], methods[_i], found);
        for (int i = 0; i < LAMBDAS; i++) {
            square += exact[i] * exact[i];
            off += (found[i] - exact[i]) * (found[i] - exact[i]);
        }
        ck_assert_msg(off <= 0.05 * 0.05 * square, "%s%s over %s: off by %g of %g", methods[_i], pairs[p][0],
                      pairs[p][1], sqrt(off), sqrt(square));
    }
}
END_TEST

/* ---- taken up again ---- */

static bt_engine *mixed(void *user) { return make("fp32", "bf16", user); }

START_TEST(resumes)
{
    static char cg[] = "lower.type = cg\nlower.cg_iterations = 2\nlower.gradient_accumulation = 2\n",
                itd[] = "lower.type = itd\nlower.unroll_steps = 2\n";
    levels_expect_resumes(mixed, _i ? itd : cg, 5);
}
END_TEST

START_TEST(double_goes_with_double)
{
    levels_expect_error(make("fp64", "bf16", ""), "upper (f64) and lower (f32)", "need the same precision", NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("precision");
    TCase *tests = tcase_create("precision");
    tcase_add_test(tests, half_is_saved);
    tcase_add_loop_test(tests, near_double_precision, 0, BT_COUNT_OF(methods));
    tcase_add_loop_test(tests, resumes, 0, 2);
    tcase_add_test(tests, double_goes_with_double);
    suite_add_tcase(suite, tests);
    return levels_main(suite);
}
