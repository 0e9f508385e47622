/* tests/engine/test_bf16_true.c: parameters and gradients stored in bf16: bytes, initial values, small updates that
 * count on average, hypergradients against double precision, resumed runs, checkpoints. */
#include "levels.h"
#include "resumable.h"
#include "two_nets.h"

#include "base/footprint.h"
#include "engine/session/front.h"
#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 20000, LAMBDAS = TWO_NETS_UPPER };

/* ---- a gradient of 1 for all elements ---- */

static bt_module *ones(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(1), MANY);
}

static bt_status no_batch(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double value = 1;
    (void)self, (void)mode, (void)index;
    return bt_batch_set(batch, "number", BT_ARRAY(&value, 1));
}

static bt_tensor *slope(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_params(self));
}

static const bt_problem_def sloped = {
    .name = "model", .configure_module = ones, .get_batch = no_batch, .training_step = slope};
static const bt_export slopes = {.abi = BT_ABI, .problems = {&sloped}};

static bt_engine *slope_engine(const char *more)
{
    char settings[400];
    snprintf(settings, sizeof settings, "engine.precision = bf16-true\nmodel.lr = 1e-3\n%s", more);
    return levels_engine(&slopes, NULL, settings);
}

/* From 1, a hundred steps of 1e-3: rounding to nearest would never move, since half a unit below 1 is 2^-9. */
START_TEST(small_steps_count)
{
    static double p[MANY];
    bt_engine *engine = slope_engine("");
    levels_step(engine, 100);
    levels_params(engine, "model", p, MANY);
    double mean = 0, error = 0x1p-9 * sqrt(100.0 / MANY); /* the error of each rounding is at most half a unit */
    for (int i = 0; i < MANY; i++) {
        mean += p[i] / MANY;
        ck_assert(p[i] == bt_dtype_round(BT_BF16, p[i]));
    }
    ck_assert_msg(fabs(mean - 0.9) < 5 * error, "the mean is %g, not .9, 5 errors of %g", mean, error);
    ck_assert(bt_dtype_round(BT_BF16, 1 - 1e-3) == 1);
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

/* Two bytes for each parameter and its gradient, which is f32 if micro-batches are accumulated. */
START_TEST(bytes)
{
    static const char *const settings[] = {"", "model.gradient_accumulation = 2\n", "model.optimizer = adam\n"};
    for (int k = 0; k < 3; k++) {
        bt_engine *engine = slope_engine(settings[k]);
        EXPECT_OK(bt_engine_setup(engine));
        const bt_problem *problem = bt_engine_problem(engine, "model");
        size_t kept[BT_CATEGORIES];
        bt_persistent_bytes(&engine->context, kept, bt_engine_problem(engine, "model"));
        ck_assert_uint_eq(kept[BT_PARAMETERS], 2 * MANY);
        ck_assert_uint_eq(problem->gradients.flat->bytes, (k == 1 ? 4 : 2) * MANY);
        if (k == 2)
            ck_assert_int_eq(problem->slots[0].flat->dtype, BT_F32);
        bt_engine_free(engine);
    }
}
END_TEST

/* Initial values are those of fp64, rounded once, without a copy in f32: besides the block there is memory for one
 * parameter at a time, in bf16. */
START_TEST(first_values)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    bt_module *module[2];
    size_t room[2];
    for (int k = 0; k < 2; k++) {
        module[k] = bt_module_new(NULL);
        for (int i = 0; i < 8; i++)
            bt_module_add_param(module[k], names[i], bt_init_normal(0, 1), MANY);
        module[k]->narrow = k;
        EXPECT_OK(bt_module_list(module[k]));
        size_t live = bt_live_bytes();
        bt_own_peak_begin();
        size_t before = bt_own_peak();
        EXPECT_OK(bt_module_adopt(module[k], "", k ? BT_F32 : BT_F64, 5, NULL));
        room[k] = bt_own_peak() - before;
        ck_assert_msg(bt_live_bytes() - live < (k ? 2 : 8) * 8 * MANY + 8 * 128, "%zu", bt_live_bytes() - live);
    }
    ck_assert_msg(room[1] < 2 * MANY + 8192 && room[0] > 8 * MANY, "%zu bytes, in f64 %zu", room[1], room[0]);
    for (int i = 0; i < 8; i++)
        for (int e = 0; e < MANY; e++) {
            double wide = bt_get(BT_F64, bt_var_data(module[0]->params[i]->var), e);
            ck_assert(bt_get(BT_BF16, bt_var_data(module[1]->params[i]->var), e) == bt_dtype_round(BT_BF16, wide));
        }
    bt_module_free(module[0]);
    bt_module_free(module[1]);
}
END_TEST

/* ---- two levels, of networks ---- */

START_TEST(activations_as_in_bf16)
{
    size_t mixed = two_nets_saved("bf16"), narrow = two_nets_saved("bf16-true");
    ck_assert_msg(narrow <= mixed, "%zu bytes, in bf16 %zu", narrow, mixed);
}
END_TEST

static const char *const methods[] = {
    "lower.type = darts\n",
    "lower.type = darts\nlower.product = vjp\n",
    "lower.type = darts\nlower.product = finite\n",
    "lower.type = darts\nlower.product_precision = fp32\n",
    "lower.type = neumann\nlower.neumann_alpha = 0.1\nlower.neumann_iterations = 3\n",
    "lower.type = cg\nlower.cg_iterations = 3\n",
    "lower.type = sama\n",
    "lower.type = itd\nlower.unroll_steps = 4\n",
    "lower.type = penalty\nlower.penalty_iterations = 2\n",
};

static void hypergradient(const char *upper_precision, const char *lower_precision, const char *method, double *result)
{
    bt_engine *engine = two_nets_engine(upper_precision, lower_precision, method);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    for (int i = 0; i < 3; i++)
        EXPECT_OK(bt_session_step(engine));
    ck_assert_msg(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(result, LAMBDAS)) == BT_OK, "%s%s",
                  method, bt_error());
    bt_engine_free(engine);
}

/* Relative to the length: a parameter is off by up to a unit of bf16, 2^-7, after each step, and by half a unit
 * initially. */
START_TEST(near_double_precision)
{
    static const char *const pairs[][2] = {{"fp32", "bf16-true"}, {"bf16-true", "bf16-true"}, {"bf16-true", "bf16"}};
    double exact[LAMBDAS], found[LAMBDAS];
    hypergradient("fp64", "fp64", methods[_i], exact);
    for (int p = 0; p < BT_COUNT_OF(pairs); p++) {
        double square = 0, off = 0;
        hypergradient(pairs[p][0], pairs[p][1], methods[_i], found);
        for (int i = 0; i < LAMBDAS; i++) {
            square += exact[i] * exact[i];
            off += (found[i] - exact[i]) * (found[i] - exact[i]);
        }
        ck_assert_msg(off <= 0.1 * 0.1 * square, "%s%s over %s: off by %g of %g", methods[_i], pairs[p][0], pairs[p][1],
                      sqrt(off), sqrt(square));
    }
}
END_TEST

static bt_engine *narrow(void *more) { return two_nets_engine("bf16-true", "bf16-true", more); }

START_TEST(resumes)
{
    static const char *const ways[] = {
        "lower.type = darts\nlower.gradient_accumulation = 2\nlower.batch_size = 32\nlower.optimizer_state = bf16\n",
        "lower.type = itd\nlower.unroll_steps = 2\n", "engine.roll_back = true\nlower.unroll_steps = 2\n"};
    levels_expect_resumes(narrow, (void *)(size_t)ways[_i], 5);
}
END_TEST

/* Steps that are rerun for the backward pass give the same bits: gradients and parameters are rounded in the same
 * way. */
START_TEST(computed_again)
{
    uint64_t hash[2];
    for (int k = 0; k < 2; k++) {
        char settings[200];
        snprintf(settings, sizeof settings, "lower.type = itd\nlower.unroll_steps = 4\n%s",
                 k ? "lower.itd_spacing = 2\n" : "");
        bt_engine *engine = two_nets_engine("fp32", "bf16-true", settings);
        double p[LAMBDAS];
        levels_step(engine, 8);
        levels_params(engine, "upper", p, LAMBDAS);
        hash[k] = bt_hash(0, p, sizeof p);
        bt_engine_free(engine);
    }
    ck_assert(hash[0] == hash[1]);
}
END_TEST

/* ---- files ---- */

/* A checkpoint stores the parameters as BF16; an fp32 run starts from it with the same numbers, and it can be
 * evaluated. */
START_TEST(in_files)
{
    static double before[2000], after[2000];
    bt_engine *engine = two_nets_engine("fp32", "bf16-true", "engine.train_iters = 5\nengine.output = run\n");
    levels_run(engine);
    int64_t count = bt_params_elements(bt_engine_problem(engine, "lower"));
    ck_assert_int_le(count, 2000);
    levels_params(engine, "lower", before, count);
    bt_engine_free(engine);
    static const char *const precisions[] = {"fp32", "bf16-true"};
    for (int k = 0; k < 2; k++) {
        engine = two_nets_engine("fp32", precisions[k],
                                 "lower.weights = run/checkpoints/step-5.safetensors\nlower.weights_layout = plain\n"
                                 "lower.weights_names = lower.* > *\n");
        ck_assert_msg(engine != NULL, "%s", bt_error());
        EXPECT_OK(bt_engine_setup(engine));
        levels_params(engine, "lower", after, count);
        ck_assert_mem_eq(before, after, (size_t)count * sizeof *before);
        bt_engine_free(engine);
    }
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    engine = two_nets_engine("fp32", "bf16-true", "");
    bt_evaluation what = {.folder = "run", .file = file};
    EXPECT_OK(bt_engine_evaluate(engine, &what));
    fclose(file);
    ck_assert_msg(strstr(text, "each") != NULL, "%s", text);
    free(text);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bf16-true");
    TCase *tests = tcase_create("bf16-true");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_test(tests, small_steps_count);
    tcase_add_test(tests, same_with_two_threads);
    tcase_add_test(tests, bytes);
    tcase_add_test(tests, first_values);
    tcase_add_test(tests, activations_as_in_bf16);
    tcase_add_loop_test(tests, near_double_precision, 0, BT_COUNT_OF(methods));
    tcase_add_loop_test(tests, resumes, 0, 3);
    tcase_add_test(tests, computed_again);
    tcase_add_test(tests, in_files);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
