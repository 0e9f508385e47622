/* tests/engine/test_precision.c: levels of different precision in one run: the bytes saved for derivatives,
 * hypergradients against double precision, the loss scale of fp16, and resumed runs. */
#include "levels.h"
#include "two_nets.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include "support/vars.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = TWO_NETS_ROWS, LAMBDAS = TWO_NETS_UPPER };

/* ---- saved bytes ---- */

/* Maps take half the memory; arrays with one number per channel or row stay f32. */
START_TEST(half_is_saved)
{
    size_t single = two_nets_saved("fp32"), half = two_nets_saved("bf16"), small = ROWS * 64;
    ck_assert_msg(half >= single / 2 && half <= single / 2 + small, "%zu bytes in bf16, %zu in fp32", half, single);
}
END_TEST

/* ---- hypergradients ---- */

static const char *const methods[] = {
    "lower.type = darts\n",
    "lower.type = darts\nlower.product = vjp\n",
    "lower.type = darts\nlower.product = finite\n",
    "lower.type = darts\nlower.product_precision = fp32\n",
    "lower.type = darts\nlower.product_precision = fp16\n",
    "lower.type = darts\nlower.product = vjp\nlower.product_precision = fp16\n",
    "lower.type = sama\nlower.product = jvp\nlower.product_precision = fp16\n",
    "lower.type = cg\nlower.cg_iterations = 3\nlower.product_precision = fp16\n",
    "lower.type = neumann\nlower.neumann_alpha = 0.1\nlower.neumann_iterations = 3\n",
    "lower.type = cg\nlower.cg_iterations = 3\n",
    "lower.type = cg\nlower.cg_iterations = 3\nlower.product_precision = level\n",
    "lower.type = nystrom\nlower.nystrom_rank = 3\n",
    "lower.type = penalty\nlower.penalty_iterations = 2\n",
};

static void hypergradient(const char *upper_precision, const char *lower_precision, const char *method, double *result)
{
    char lines[200];
    snprintf(lines, sizeof lines, "%s", method);
    char *narrow = strstr(lines, "= fp16");
    if (narrow && strcmp(lower_precision, "fp16") != 0) /* refused */
        memcpy(narrow, "= fp32", 6);
    bt_engine *engine = two_nets_engine(upper_precision, lower_precision, lines);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    for (int i = 0; i < 3; i++)
        EXPECT_OK(bt_session_step(engine));
    ck_assert_msg(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(result, LAMBDAS)) == BT_OK, "%s%s",
                  method, bt_error());
    bt_engine_free(engine);
}

/* Relative to the length; a unit of bf16 is 2^-8, and there are about ten roundings on the way. */
START_TEST(near_double_precision)
{
    static const char *const pairs[][2] = {{"fp32", "bf16"}, {"bf16", "bf16"}, {"bf16", "fp32"}, {"fp32", "fp16"}};
    double exact[LAMBDAS], found[LAMBDAS];
    hypergradient("fp64", "fp64", methods[_i], exact);
    for (int p = 0; p < BT_COUNT_OF(pairs); p++) {
        double square = 0, off = 0;
        if (p == 3 && strstr(methods[_i], "= level"))
            continue; /* refused */
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

/* ---- the loss scale of fp16 ---- */

static double scale_of(bt_engine *engine, const char *problem)
{
    return var_get(bt_engine_problem(engine, problem)->scale, 0);
}

static uint64_t flags; /* bit i: the gradient of step i is not finite */

static double factor(bt_problem *self) { return flags >> bt_host_step(self) & 1 ? (double)INFINITY : 1; }

static bt_tensor *flagged_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mul(bt_host_scalar(self, "factor", factor), bt_mean(two_nets_losses(self, batch)));
}

static const bt_problem_def flagged = {.name = "flagged",
                                       .configure_train_data = two_nets_rows,
                                       .configure_module = two_nets_classifier,
                                       .training_step = flagged_step};
static const bt_export flagged_parts = {.abi = BT_ABI, .problems = {&flagged}};

/* The same sequence as torch.amp.GradScaler with the same settings and flags; nothing moves in a skipped step. */
START_TEST(scale_sequence)
{
    static const double due[] = {4096, 4096, 2048, 2048, 2048, 4096, 4096, 4096, 8192, 4096, 2048, 2048};
    flags = 1 << 2 | 1 << 9 | 1 << 10;
    bt_engine *engine = levels_engine(&flagged_parts, NULL,
                                      "engine.precision = fp32\nflagged.fp16 = true\nflagged.scale_interval = 3\n"
                                      "flagged.momentum = 0.9\nflagged.batch_size = all\n");
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    const bt_problem *problem = bt_engine_problem(engine, "flagged");
    const bt_var *params = problem->module->param_block.flat;
    for (int i = 0; i < BT_COUNT_OF(due); i++) {
        uint64_t before = bt_hash(0, var_near(params), params->bytes);
        levels_step(engine, 1);
        ck_assert_msg(scale_of(engine, "flagged") == due[i], "step %d: %g, not %g", i, scale_of(engine, "flagged"),
                      due[i]);
        ck_assert_msg((before == bt_hash(0, var_near(params), params->bytes)) == (flags >> i & 1), "step %d", i);
    }
    ck_assert_int_eq(levels_skipped(engine, "flagged"), 3);
    bt_engine_free(engine);
}
END_TEST

/* A scale that is too large for fp16 in the lower level, and through it in the upper one: both decrease until they fit,
 * and training continues. */
START_TEST(overflow_recovers)
{
    bt_engine *engine = two_nets_engine("fp32", "fp16",
                                        "lower.type = darts\nlower.initial_dynamic_scale = 1e12\n"
                                        "upper.initial_dynamic_scale = 1e12\n");
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    levels_step(engine, 60);
    static const char *const names[] = {"lower", "upper"};
    for (int i = 0; i < 2; i++) {
        int64_t steps = levels_steps(engine, names[i]), skipped = levels_skipped(engine, names[i]);
        ck_assert_msg(skipped >= 10 && steps - skipped >= 20, "%s: %lld of %lld steps were left out", names[i],
                      (long long)skipped, (long long)steps);
        ck_assert_msg(scale_of(engine, names[i]) == ldexp(1e12, -(int)skipped) ||
                          scale_of(engine, names[i]) == (double)(float)1e12 / ldexp(1, (int)skipped),
                      "%s: %g", names[i], scale_of(engine, names[i]));
    }
    double found[LAMBDAS];
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(found, LAMBDAS)));
    for (int i = 0; i < LAMBDAS; i++)
        ck_assert(isfinite(found[i]));
    bt_engine_free(engine);
}
END_TEST

START_TEST(nothing_is_finite)
{
    flags = ~UINT64_C(0);
    bt_engine *engine = levels_engine(&flagged_parts, NULL,
                                      "engine.precision = fp16\nflagged.initial_dynamic_scale = 8\n"
                                      "engine.train_iters = 20\nflagged.batch_size = all\n");
    levels_expect_error(engine, "not finite, even with a loss scale of 1", NULL);
}
END_TEST

/* ---- fp16 products with a scale of their own ---- */

/* C = K (lambda sum w - 1)^2 / 2, F = .001 sum w, at w = (1, 1, 1, 1) / 4 and lambda = 1, where both stay: with the
 * identity instead of H^-1 the result is -.004 K. Its second derivatives exceed the range of fp16. */
enum { K = 100000 };

static bt_module *quarters(bt_problem *self)
{
    bool above = strcmp(self->name, "upper") == 0;
    bt_module *module = bt_module_new(NULL);
    bt_module_add_param(module, "p", bt_init_constant(above ? 1 : 0.25), above ? 1 : 4, 1);
    return module;
}

static bt_status no_batch(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double value = 1;
    (void)self, (void)mode, (void)index;
    return bt_batch_set(batch, "number", BT_ARRAY(&value, 1));
}

static bt_tensor *steep(bt_problem *self, const bt_batch *batch)
{
    static const float ones[] = {1, 1, 1, 1};
    (void)batch;
    bt_tensor *lambda = bt_param(bt_peer(self, "upper"), "p");
    bt_tensor *y = bt_matmul(bt_mul(lambda, bt_constant(BT_ARRAY(ones, 1, 4))), bt_param(self, "p"));
    return bt_mul(K / 2.0, bt_sum(bt_square(bt_sub(bt_cast(y, BT_F32), 1))));
}

static bt_tensor *flat(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.001, bt_sum(bt_param(bt_peer(self, "lower"), "p")));
}

static const bt_problem_def above = {
    .name = "upper", .configure_module = quarters, .get_batch = no_batch, .training_step = flat};
static const bt_problem_def below = {
    .name = "lower", .configure_module = quarters, .get_batch = no_batch, .training_step = steep};
static const bt_export steep_parts = {.abi = BT_ABI, .problems = {&above, &below}};

static bt_engine *steep_engine(void *more)
{
    char settings[600];
    snprintf(settings, sizeof settings,
             "engine.precision = fp32\nlower.precision = fp16\nlower.product_precision = fp16\nlower.lr = 0\n"
             "upper.lr = 0\ndependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n%s",
             (const char *)more);
    return levels_engine(&steep_parts, NULL, settings);
}

/* From 2^12 down to 2^-2, where K |x| = 2 K fits: as many updates of the upper level are skipped, and counted. Its own
 * scale and the lower level are not affected. */
START_TEST(product_overflow_recovers)
{
    double found;
    bt_engine *engine = steep_engine(_i ? "lower.product = vjp\n" : "");
    levels_step(engine, 20);
    ck_assert_int_eq(levels_skipped(engine, "upper"), 14);
    ck_assert_int_eq(levels_skipped(engine, "lower"), 0);
    ck_assert_double_eq(scale_of(engine, "upper"), 4096);
    const bt_problem *lower = bt_engine_problem(engine, "lower");
    ck_assert_double_eq(var_get(lower->product[0], 0), 0.25);
    uint64_t before = levels_state(engine);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found, 1)));
    ck_assert_double_eq_tol(found / (-0.004 * K), 1, 0x1p-8);
    ck_assert(levels_state(engine) == before);
    bt_engine_free(engine);
}
END_TEST

START_TEST(product_scale_resumes) { levels_expect_resumes(steep_engine, "lower.scale_interval = 2\n", 18); }
END_TEST

START_TEST(what_fp16_does_not_go_with)
{
    static const char *const others[] = {"lower.product = finite\n", "lower.type = itd\n", "lower.type = penalty\n"};
    for (int i = 0; i < BT_COUNT_OF(others); i++)
        levels_expect_error(steep_engine((void *)(size_t)others[i]), "[lower] product_precision", "exact product",
                            NULL);
    levels_expect_error(two_nets_engine("fp32", "bf16", "lower.product_precision = fp16\n"),
                        "[lower] product_precision", "precision = fp16", NULL);
    levels_expect_error(two_nets_engine("fp32", "fp16", "lower.product_precision = level\n"),
                        "[lower] product_precision", "with a scale of their own", NULL);
    levels_expect_error(two_nets_engine("fp32", "bf16", "lower.fp16 = true\n"), "[lower] fp16",
                        "contradicts `precision`", NULL);
}
END_TEST

/* ---- resumed ---- */

static bt_engine *mixed(void *user) { return two_nets_engine("fp32", "bf16", user); }
static bt_engine *scaled(void *user) { return two_nets_engine("bf16", "fp16", user); }

START_TEST(resumes)
{
    static char few[] = "lower.type = darts\nlower.scale_interval = 2\nupper.initial_dynamic_scale = 1e9\n";
    levels_expect_resumes(scaled, few, 5);
    static char cg[] = "lower.type = cg\nlower.cg_iterations = 2\nlower.gradient_accumulation = 2\n",
                itd[] = "lower.type = itd\nlower.unroll_steps = 2\n";
    levels_expect_resumes(mixed, _i ? itd : cg, 5);
}
END_TEST

START_TEST(double_goes_with_double)
{
    levels_expect_error(two_nets_engine("fp64", "bf16", ""), "upper (f64) and lower (f32)", "need the same precision",
                        NULL);
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
    tcase_add_test(tests, scale_sequence);
    tcase_add_test(tests, overflow_recovers);
    tcase_add_test(tests, nothing_is_finite);
    tcase_add_loop_test(tests, product_overflow_recovers, 0, 2);
    tcase_add_test(tests, product_scale_resumes);
    tcase_add_test(tests, what_fp16_does_not_go_with);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
