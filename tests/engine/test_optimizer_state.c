/* tests/engine/test_optimizer_state.c: optimiser state in bf16 with stochastic rounding: its mean is the fp32 value,
 * while rounding to nearest would get stuck; it trains as in fp32; hypergradients pass through it; bits do not depend
 * on threads; where it is refused. */
#include "levels.h"
#include "resumable.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include "support/vars.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MANY = 20000 };
static int size = MANY; /* of parameters */

static bt_module *one_vector(bt_problem *self)
{
    return bt_nn_parameter(bt_init_constant(strcmp(self->name, "upper") == 0 ? 0.5 : 1), size);
}

static bt_status no_batch(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double value = 1;
    (void)self, (void)mode, (void)index;
    return bt_batch_set(batch, "number", BT_ARRAY(&value, 1));
}

/* ---- a gradient that is 1 for all elements, in all steps: v is 1 - beta2^t ---- */

static bt_tensor *slope(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_params(self));
}

static const bt_problem_def sloped = {
    .name = "model", .configure_module = one_vector, .get_batch = no_batch, .training_step = slope};
static const bt_export slopes = {.abi = BT_ABI, .problems = {&sloped}};

static bt_engine *slope_engine(const char *more)
{
    char settings[400];
    snprintf(settings, sizeof settings,
             "engine.precision = fp32\nmodel.optimizer = adam\nmodel.lr = 1e-6\nmodel.optimizer_state = bf16\n%s",
             more);
    return levels_engine(&slopes, NULL, settings);
}

static bt_var *slot_of(bt_engine *engine, const char *problem, int slot)
{
    return bt_engine_problem(engine, problem)->slots[slot].windows[0];
}

START_TEST(mean_of_squares)
{
    enum { STEPS = 1200 };
    bt_engine *engine = slope_engine("");
    levels_step(engine, STEPS);
    bt_var *v = slot_of(engine, "model", 1);
    ck_assert_int_eq(v->dtype, BT_BF16);
    double sum = 0, squares = 0, near = 0, due = 1 - pow(0.999, STEPS);
    for (int64_t i = 0; i < MANY; i++) {
        double x = var_get(v, i);
        sum += x / MANY;
        squares += x * x / MANY;
    }
    /* Each rounding adds at most the variance of half a unit, 2^-9 for numbers below 1, which decays by .999 per
     * step. */
    double error = 0x1p-9 * sqrt(1 / (1 - 0.999 * 0.999) / MANY);
    ck_assert_msg(fabs(sum - due) <= 5 * error, "the mean is %g, not %g, 5 errors of %g", sum, due, error);
    ck_assert(squares - sum * sum > 0); /* elements differ */
    for (int t = 0; t < STEPS; t++)     /* to nearest: .001 (1 - v) is soon less than half a unit */
        near = bt_dtype_round(BT_BF16, 0.999 * near + 0.001);
    ck_assert_msg(near < 0.6 * due, "to the nearest it comes to %g", near);
    bt_engine_free(engine);
}
END_TEST

START_TEST(same_with_two_threads)
{
    uint64_t hash[2];
    for (int k = 0; k < 2; k++) {
        bt_engine *engine = slope_engine(k ? "engine.threads = 2\n" : "engine.threads = 1\n");
        levels_step(engine, 5);
        hash[k] = levels_hash(engine, "model");
        bt_engine_free(engine);
    }
    ck_assert(hash[0] == hash[1]);
}
END_TEST

/* ---- a bowl, against fp32 ---- */

enum { WIDE = 256 };

static bt_module *wide(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_normal(0, 1), WIDE);
}

static bt_tensor *bowl(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *rise = bt_cast(bt_arange(WIDE), BT_F32), *p = bt_params(self);
    (void)batch;
    return bt_mul(0.5 / WIDE, bt_sum(bt_mul(bt_add(0.5, bt_div(rise, WIDE)), bt_square(bt_sub(p, 0.25)))));
}

static const bt_problem_def bowled = {
    .name = "model", .configure_module = wide, .get_batch = no_batch, .training_step = bowl};
static const bt_export bowls = {.abi = BT_ABI, .problems = {&bowled}};

START_TEST(near_adam)
{
    double p[2][WIDE];
    for (int k = 0; k < 2; k++) {
        char settings[200];
        snprintf(settings, sizeof settings,
                 "engine.precision = fp32\nmodel.optimizer = adam\nmodel.lr = 0.01\nmodel.optimizer_state = %s\n",
                 k ? "bf16" : "fp32");
        bt_engine *engine = levels_engine(&bowls, NULL, settings);
        levels_step(engine, 1000);
        levels_params(engine, "model", p[k], WIDE);
        bt_engine_free(engine);
    }
    double most = 0;
    for (int i = 0; i < WIDE; i++)
        most = fmax(most, fabs(p[1][i] - p[0][i]));
    ck_assert_msg(most > 0 && most < 1e-2, "by up to %g from fp32", most);
}
END_TEST

/* ---- differentiating it ---- */

static bt_tensor *pulled(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *off = bt_sub(bt_params(self), bt_forward(bt_peer(self, "upper")));
    (void)batch;
    return bt_sum(bt_mul(0.5, bt_square(off)));
}

static bt_tensor *sum_of(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_params(bt_peer(self, "lower")));
}

static const bt_problem_def upper = {
    .name = "upper", .configure_module = one_vector, .get_batch = no_batch, .training_step = sum_of};
static const bt_problem_def lower = {
    .name = "lower", .configure_module = one_vector, .get_batch = no_batch, .training_step = pulled};
static const bt_export both = {.abi = BT_ABI, .problems = {&upper, &lower}};

static bt_engine *unrolled(void *more)
{
    char settings[700];
    snprintf(settings, sizeof settings,
             "engine.precision = fp32\ndependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n"
             "lower.type = itd\nlower.unroll_steps = 4\nlower.lr = 0.1\nlower.momentum = 0.9\nupper.lr = 0.01\n"
             "lower.optimizer_state = bf16\nengine.train_iters = 100\n%s",
             (const char *)more);
    return levels_engine(&both, NULL, settings);
}

/* SGD with momentum on (p - l)^2 / 2: dp/dl by the recursion of p and m is exactly that of a state in fp32, as rounding
 * has the derivative 1; and the state kept for the backward pass is the same, however it is recovered. */
START_TEST(through_steps)
{
    static double found[MANY];
    static const char *const ways[] = {"", "lower.itd_spacing = 2\n", "lower.gradient_accumulation = 2\n"};
    double p = 0, m = 0;
    for (int t = 0; t < 3; t++) {
        double g = p - 1;
        m = t ? 0.9 * m + g : g;
        p -= 0.1 * m;
    }
    bt_engine *engine = unrolled((void *)(size_t)ways[_i]);
    levels_step(engine, 3); /* of four */
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(found, MANY)));
    for (int i = 0; i < MANY; i++)
        ck_assert_double_eq_tol(found[i], p, 1e-6);
    bt_engine_free(engine);
}
END_TEST

START_TEST(computed_again)
{
    uint64_t hash[2];
    for (int k = 0; k < 2; k++) {
        bt_engine *engine = unrolled(k ? "lower.itd_spacing = 2\n" : "");
        levels_step(engine, 8);
        double p[MANY];
        levels_params(engine, "lower", p, MANY);
        hash[k] = bt_hash(0, p, sizeof p);
        levels_params(engine, "upper", p, MANY);
        hash[k] = bt_hash(hash[k], p, sizeof p);
        bt_engine_free(engine);
    }
    ck_assert(hash[0] == hash[1]);
}
END_TEST

START_TEST(resumes)
{
    size = 300;
    levels_expect_resumes(unrolled, "", 6);
    levels_expect_resumes(unrolled, "lower.type = darts\nengine.roll_back = true\n", 6);
}
END_TEST

/* ---- where it is refused ---- */

START_TEST(codes_are_smaller)
{
    levels_expect_error(unrolled("lower.type = darts\nlower.optimizer = adam8bit\n"), "[lower] optimizer_state",
                        "already keeps its state in 8-bit codes", NULL);
    levels_expect_error(unrolled("engine.precision = fp64\n"), "[lower] optimizer_state", "the state is fp64", NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("optimizer state");
    TCase *tests = tcase_create("optimizer state");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_test(tests, mean_of_squares);
    tcase_add_test(tests, same_with_two_threads);
    tcase_add_test(tests, near_adam);
    tcase_add_loop_test(tests, through_steps, 0, 3);
    tcase_add_test(tests, computed_again);
    tcase_add_test(tests, resumes);
    tcase_add_test(tests, codes_are_smaller);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
