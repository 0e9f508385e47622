/* tests/engine/test_check.c: what --check-hypergradient compares, and when it reports a disagreement.
 *
 * C = sum of h w^2 / 2 - lambda w, F = sum of w + lambda^2 / 2: after K steps of SGD at rate r
 * dF/dlambda = (1 - (1 - r h)^K) / h + lambda; darts has 1 instead of the first term. */
#include "levels.h"

#include "engine/session/front.h"
#include "support/suite.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double h[2];
static const double lambda = 0.25;

static bt_module *pair(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(lambda), 2); }

static bt_tensor *quadratic(bt_problem *self, bt_tensor *slope)
{
    bt_tensor *w = bt_forward(self), *squares = bt_mul(bt_constant(BT_ARRAY(h, 2)), bt_square(w));
    return bt_sum(bt_sub(bt_mul(0.5, squares), bt_mul(slope, w)));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return quadratic(self, bt_forward(bt_peer(self, "upper")));
}

static bt_tensor *detached_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return quadratic(self, bt_detach(bt_forward(bt_peer(self, "upper"))));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_add(bt_sum(bt_forward(bt_peer(self, "lower"))), bt_mul(0.5, bt_sum(bt_square(bt_forward(self)))));
}

/* ---- lower and upper losses, each with a fault ---- */

static bt_tensor *kinked_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return quadratic(self, bt_relu(bt_sub(bt_forward(bt_peer(self, "upper")), lambda)));
}

static void twice_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_mul(2, in[0]);
}

static void thrice(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                   bt_tensor **wanted)
{
    (void)attr, (void)in, (void)out;
    wanted[0] = bt_mul(3, given[0]);
}

static const bt_op twice = {.name = "twice", .inputs = 1, .body = twice_body, .vjp = thrice};

static bt_tensor *wrong_rule_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return quadratic(self, bt_apply(&twice, NULL, bt_forward(bt_peer(self, "upper"))));
}

static bt_tensor *large_step(bt_problem *self, const bt_batch *batch)
{
    return bt_add(1000, bt_mul(1e-3, upper_step(self, batch)));
}

/* Cancellation loses most digits. */
static bt_tensor *cancelling_step(bt_problem *self, const bt_batch *batch)
{
    return bt_sub(bt_add(1e9, upper_step(self, batch)), 1e9);
}

/* x^2 / 2, with a first derivative but no second. */
static bt_status identity_launch(const bt_launch *run)
{
    for (int64_t i = 0, n = bt_array_count(run->in[0]); i < n; i++)
        ((double *)run->out[0].data)[i] = ((const double *)run->in[0].data)[i];
    return BT_OK;
}

static bt_status half_square_launch(const bt_launch *run)
{
    for (int64_t i = 0, n = bt_array_count(run->in[0]); i < n; i++)
        ((double *)run->out[0].data)[i] = 0.5 * pow(((const double *)run->in[0].data)[i], 2);
    return BT_OK;
}

static const bt_op opaque = {.name = "opaque",
                             .inputs = 1,
                             .infer = bt_infer_same,
                             .kernels = {{.device = BT_CPU, .dtype = BT_F64, .launch = identity_launch}}};

static void opaque_slope(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                         bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = bt_mul(given[0], bt_apply(&opaque, NULL, in[0]));
}

static const bt_op once_only = {.name = "once_only",
                                .inputs = 1,
                                .infer = bt_infer_same,
                                .vjp = opaque_slope,
                                .kernels = {{.device = BT_CPU, .dtype = BT_F64, .launch = half_square_launch}}};

static bt_tensor *once_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *w = bt_forward(self), *slope = bt_forward(bt_peer(self, "upper"));
    return bt_sum(bt_sub(bt_apply(&once_only, NULL, w), bt_mul(slope, w)));
}

/* The kink is closer than the step of the differences. */
static bt_tensor *near_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return quadratic(self, bt_relu(bt_sub(bt_forward(bt_peer(self, "upper")), lambda - 1e-6)));
}

static bt_tensor *near_wrong_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *slope = bt_apply(&twice, NULL, bt_forward(bt_peer(self, "upper")));
    return quadratic(self, bt_relu(bt_sub(slope, 2 * lambda - 1e-6)));
}

/* With h = 1, w stays at lambda, where it starts: shifting lambda to one side takes w across the kink, though neither
 * the product nor the upper gradient sees it. */
static bt_tensor *resting_step(bt_problem *self, const bt_batch *batch)
{
    return bt_add(lower_step(self, batch), bt_sum(bt_relu(bt_sub(bt_forward(self), lambda))));
}

/* A difference of its gradient is not its exact second derivative: for w^3 the error is the square of the step. */
static bt_tensor *cubic_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *w = bt_forward(self), *cube = bt_mul(w, bt_square(w));
    return bt_add(lower_step(self, batch), bt_sum(bt_mul(bt_forward(bt_peer(self, "upper")), cube)));
}

static double negative(bt_problem *self) { return (void)self, -1; }

static bt_tensor *not_a_number(bt_problem *self) { return bt_log(bt_host_scalar(self, "negative", negative)); }

static bt_tensor *lost_step(bt_problem *self, const bt_batch *batch)
{
    return bt_add(lower_step(self, batch), not_a_number(self));
}

static bt_tensor *lost_upper_step(bt_problem *self, const bt_batch *batch)
{
    return bt_add(upper_step(self, batch), not_a_number(self));
}

static bt_tensor *rootless_step(bt_problem *self, const bt_batch *batch)
{
    return bt_add(upper_step(self, batch), bt_sum(bt_detach(bt_square(bt_forward(bt_peer(self, "lower"))))));
}

/* The same lower problem with its two numbers as separate parameters. */
static bt_module *halves_module(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_module_new(NULL);
    bt_module_add_param(module, "first", bt_init_constant(lambda), 1);
    bt_module_add_param(module, "second", bt_init_constant(lambda), 1);
    return module;
}

static bt_tensor *halves_forward(bt_problem *self, bt_tensor *const *in) { return (void)in, bt_params(self); }

static double loops;

static double loops_now(bt_problem *self) { return (void)self, loops; }
static void count_loop(bt_problem *self) { (void)self, loops++; }

static bt_tensor *counting_step(bt_problem *self, const bt_batch *batch)
{
    return bt_add(lower_step(self, batch), bt_mul(bt_host_scalar(self, "loops", loops_now), bt_sum(bt_forward(self))));
}

static bt_module *counted_pair(bt_problem *self)
{
    bt_state(self, "loops", &loops, sizeof loops);
    return pair(self);
}

#define LEVEL(variable, called, step)                                                                                  \
    static const bt_problem_def variable = {                                                                           \
        .name = called, .configure_train_data = levels_one_row, .configure_module = pair, .training_step = step}
LEVEL(upper, "upper", upper_step);
LEVEL(large, "upper", large_step);
LEVEL(cancelling, "upper", cancelling_step);
LEVEL(once, "lower", once_step);
LEVEL(lost_upper, "upper", lost_upper_step);
LEVEL(near, "lower", near_step);
LEVEL(near_wrong, "lower", near_wrong_step);
LEVEL(resting, "lower", resting_step);
LEVEL(cubic, "lower", cubic_step);
LEVEL(lost, "lower", lost_step);
LEVEL(rootless, "upper", rootless_step);
LEVEL(lower, "lower", lower_step);
LEVEL(detached, "lower", detached_step);
LEVEL(kinked, "lower", kinked_step);
LEVEL(wrong_rule, "lower", wrong_rule_step);
static const bt_problem_def halves = {.name = "lower",
                                      .configure_train_data = levels_one_row,
                                      .configure_module = halves_module,
                                      .forward = halves_forward,
                                      .training_step = lower_step};
static const bt_problem_def counting = {.name = "lower",
                                        .configure_train_data = levels_one_row,
                                        .configure_module = pair,
                                        .training_step = counting_step,
                                        .on_inner_loop_start = count_loop};
static const bt_problem_def counting_known = {.name = "lower",
                                              .configure_train_data = levels_one_row,
                                              .configure_module = counted_pair,
                                              .training_step = counting_step,
                                              .on_inner_loop_start = count_loop};

static bt_export parts_of(const bt_problem_def *outer, const bt_problem_def *inner)
{
    return (bt_export){.abi = BT_ABI, .problems = {outer, inner}};
}

/* The check after three steps in which only the lower level moves. */
static bt_status check(bt_export parts, const char *settings, int64_t samples, json_t **result)
{
    char lines[600], *text;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nupper.lr = 0\n%s", settings);
    bt_engine *engine = levels_engine(&parts, NULL, lines);
    levels_step(engine, 3);
    bt_status status =
        bt_engine_check_hypergradient(engine, &(bt_checking){.samples = samples, .json = true, .file = file});
    fclose(file);
    bt_engine_free(engine);
    *result = json_loads(text, 0, NULL);
    ck_assert_msg(*result != NULL, "%s", bt_error());
    free(text);
    return status;
}

static double number(const json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }

static const char *verdict(const json_t *result) { return json_string_value(json_object_get(result, "verdict")); }

static double after_steps(double curvature, double rate, int steps)
{
    return (1 - pow(1 - rate * curvature, steps)) / curvature;
}

START_TEST(against_the_closed_form)
{
    static const struct {
        const char *settings;
        double rate;
        int steps;
    } cases[] = {
        {"lower.lr = 0.5\n", 0.5, 1},
        {"lower.lr = 0.1\nlower.unroll_steps = 3\n", 0.1, 3},
        {"lower.lr = 0.1\nlower.unroll_steps = 3\nlower.product = vjp\n", 0.1, 3},
        {"lower.lr = 0.1\nlower.unroll_steps = 2\nlower.product = finite\n", 0.1, 2},
    };
    json_t *result;
    h[0] = 1, h[1] = 1.5;
    bt_status status = check(parts_of(&upper, &lower), cases[_i].settings, 10, &result);
    ck_assert_msg(status == BT_OK, "%s: %s", bt_error(), verdict(result));
    const json_t *samples = json_object_get(result, "samples"), *solved = json_object_get(result, "solved");
    ck_assert_int_eq((int)json_array_size(samples), 2);
    double mm = 0, md = 0, dd = 0, rr = 0, rd = 0;
    for (size_t i = 0; i < 2; i++) {
        const json_t *sample = json_array_get(samples, i);
        double m = 1 + lambda, r = 1 / h[i] + lambda, d = after_steps(h[i], cases[_i].rate, cases[_i].steps) + lambda;
        ck_assert_double_eq_tol(number(sample, "method"), m, 1e-9);
        ck_assert_double_eq_tol(number(sample, "difference"), d, 1e-8);
        ck_assert_double_eq_tol(number(sample, "reference"), r, 1e-8);
        mm += m * m, md += m * d, dd += d * d, rr += r * r, rd += r * d;
    }
    ck_assert_double_eq_tol(number(result, "cosine"), md / sqrt(mm * dd), 1e-8);
    ck_assert_double_eq_tol(number(result, "ratio"), sqrt(mm / dd), 1e-8);
    ck_assert_double_eq_tol(number(solved, "cosine"), rd / sqrt(rr * dd), 1e-8);
    ck_assert_double_eq_tol(number(solved, "ratio"), sqrt(rr / dd), 1e-8);
    const json_t *level = json_array_get(json_object_get(result, "lowers"), 0); /* x = (1, 1) against (1, 1 / h) */
    double length = sqrt(1 + 1 / (h[1] * h[1]));
    ck_assert_double_eq_tol(number(level, "cosine"), (1 + 1 / h[1]) / (sqrt(2) * length), 1e-9);
    ck_assert_double_eq_tol(number(level, "ratio"), sqrt(2) / length, 1e-9);
    ck_assert_ptr_nonnull(strstr(verdict(result), "approximation: the parts that must be exact agree"));
    json_decref(result);
}
END_TEST

/* A single direction of -1 and 1 if there are more coordinates than samples. */
START_TEST(directions)
{
    json_t *result;
    h[0] = h[1] = 1;
    ck_assert_int_eq(check(parts_of(&upper, &lower), "lower.lr = 0.5\n", 1, &result), BT_OK);
    const json_t *sample = json_array_get(json_object_get(result, "samples"), 0);
    ck_assert_int_eq((int)json_array_size(json_object_get(result, "samples")), 1);
    double m = number(sample, "method") / (1 + lambda), d = number(sample, "difference") / (0.5 + lambda);
    ck_assert_double_eq_tol(m, d, 1e-7);
    ck_assert(fabs(fabs(m) - 2) < 1e-12 || fabs(m) < 1e-12);
    json_decref(result);
}
END_TEST

/* Each kind of verdict, with a problem made to get it. */
#define ITD    "lower.type = itd\nlower.lr = 0.1\nlower.momentum = 0.5\nlower.unroll_steps = 6\n"
#define PARTLY "lower.meta_trainable = first\n"
#define STILL  "lower.still.params = second\nlower.still.frozen = true\n"
#define ROUGH  "lower.product = finite\nlower.darts_alpha = 0.3\n"
#define SOLVED "lower.lr = 0.019\nlower.unroll_steps = 1500\n"
static const struct {
    const bt_problem_def *outer, *inner;
    const char *settings, *words[3];
    double curvature;
    bt_status status;
} verdict_cases[] = {
    {&upper,
     &lower,
     SOLVED "lower.type = cg\nlower.cg_iterations = 2\n",
     {"agrees, in direction and in length"},
     100,
     BT_OK},
    {&upper, &lower, SOLVED, {"approximation: ", "lower, darts: H^-1 is replaced by something simpler"}, 100, BT_OK},
    {&upper,
     &lower,
     SOLVED "lower.type = cg\n",
     {"approximation: ", "lower, cg: after 1 iterations, compared with a solution, x has cosine 0.7"},
     100,
     BT_OK},
    {&upper,
     &lower,
     "lower.lr = 0.01\nlower.unroll_steps = 9\nlower.type = cg\nlower.cg_iterations = 2\n",
     {"approximation: ", "agree; the lower levels are not solved", "more unroll_steps"},
     2,
     BT_OK},
    {&upper,
     &detached,
     "lower.detach = frozen\n",
     {"DISAGREES: the product of lower with upper", "detaches values of upper.value", "detach = field"},
     1,
     BT_ERROR_NUMERIC},
    {&upper,
     &detached,
     SOLVED "lower.type = cg\nlower.cg_iterations = 2\nlower.detach = field\n",
     {"agrees, in direction and in length"},
     1,
     BT_OK},
    {&rootless,
     &lower,
     "",
     {"DISAGREES: the gradient of the loss of upper with respect to lower", "detaches values of lower.value"},
     1,
     BT_ERROR_NUMERIC},
    {&upper,
     &kinked,
     "",
     {"undecided: there is a kink: the product of lower with upper", "is not smooth here"},
     1,
     BT_OK},
    {&upper,
     &wrong_rule,
     "",
     {"DISAGREES: the product of lower with upper", "twice has a derivative rule of its own"},
     1,
     BT_ERROR_NUMERIC},
    {&large,
     &lower,
     "engine.precision = fp32\n",
     {"undecided: rounding: the gradient of the loss of upper with respect to lower does not match",
      "set precision = fp64"},
     1,
     BT_OK},
    {&cancelling, &lower, "", {"undecided: rounding: ", "here: fewer unroll_steps"}, 1, BT_OK},
    {&upper, &once, "lower.product = finite\n", {"approximation: ", "lower: product = finite"}, 1, BT_OK},
    {&upper, &near, ITD, {"agrees, in direction and in length"}, 1, BT_OK},
    {&upper, &near_wrong, ITD, {"DISAGREES: the product of lower with upper", "twice has"}, 1, BT_ERROR_NUMERIC},
    {&upper, &resting, ITD, {"undecided: there is a kink: the retrained loss is not smooth"}, 1, BT_OK},
    {&upper,
     &cubic,
     ROUGH,
     {"approximation: the parts that must be exact agree; lower: product = finite, which "},
     1,
     BT_OK},
    {&upper, &cubic, ITD ROUGH, {"approximation: ", "lower: product = finite"}, 1, BT_OK},
    {&upper,
     &wrong_rule,
     "lower.product = finite\n",
     {"DISAGREES: the product of lower with upper", "twice has a derivative rule of its own"},
     1,
     BT_ERROR_NUMERIC},
    {&upper,
     &detached,
     "lower.product = finite\n",
     {"DISAGREES: the product of lower with upper", "detaches values of upper.value"},
     1,
     BT_ERROR_NUMERIC},
    {&upper, &lost, ITD, {"DISAGREES: the loss of lower is not finite"}, 1, BT_ERROR_NUMERIC},
    {&lost_upper, &lower, ITD, {"DISAGREES: the loss of upper is not finite"}, 1, BT_ERROR_NUMERIC},
    {&large, &lower, SOLVED "lower.type = cg\nlower.cg_iterations = 2\n", {"agrees"}, 1, BT_OK},
    {&upper, &counting, "", {"DISAGREES: ", "bt_state"}, 1, BT_ERROR_NUMERIC},
    {&upper, &counting_known, "lower.lr = 0.5\n", {"approximation: "}, 1, BT_OK},
    {&upper, &lower, ITD, {"agrees, in direction and in length"}, 1.5, BT_OK},
    {&upper,
     &lower,
     ITD "lower.itd_steps = 3\n",
     {"approximation: ", "lower, itd: it differentiates through the last steps only, at most 3"},
     1.5,
     BT_OK},
    {&upper, &halves, ITD PARTLY, {"approximation: ", "lower: hypergradients pass through meta_trainable"}, 2, BT_OK},
    {&upper, &halves, ITD STILL, {"agrees, in direction and in length"}, 2, BT_OK},
    {&upper, &halves, SOLVED STILL "lower.type = cg\n", {"agrees, in direction and in length"}, 2, BT_OK},
    {&upper,
     &kinked,
     ITD,
     {"undecided: there is a kink: the product of lower with upper", "is not smooth here"},
     1,
     BT_OK},
    {&upper,
     &detached,
     ITD,
     {"DISAGREES: the product of lower with upper", "detaches values of upper.value"},
     1,
     BT_ERROR_NUMERIC},
};

START_TEST(verdicts)
{
    json_t *result;
    h[0] = 1;
    h[1] = verdict_cases[_i].curvature;
    bt_status status =
        check(parts_of(verdict_cases[_i].outer, verdict_cases[_i].inner), verdict_cases[_i].settings, 10, &result);
    for (int k = 0; k < 3 && verdict_cases[_i].words[k]; k++)
        ck_assert_msg(strstr(verdict(result), verdict_cases[_i].words[k]) != NULL, "%s", verdict(result));
    ck_assert_int_eq(status, verdict_cases[_i].status);
    ck_assert_msg(status == BT_OK || strstr(bt_error(), "disagrees with the differences"), "%s", bt_error());
    json_decref(result);
}
END_TEST

enum { VERDICTS = 31 };

START_TEST(levels_by_name)
{
    bt_export parts = parts_of(&upper, &lower);
    FILE *nowhere = fopen("/dev/null", "w");
    h[0] = h[1] = 1;
    bt_engine *engine =
        levels_engine(&parts, NULL, "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n");
    EXPECT_OK(bt_engine_check_hypergradient(engine, &(bt_checking){.level = "upper", .samples = 1, .file = nowhere}));
    ck_assert_int_eq(
        bt_engine_check_hypergradient(engine, &(bt_checking){.level = "lower", .samples = 1, .file = nowhere}),
        BT_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(bt_error(), "there is no upper level lower in this run"));
    fclose(nowhere);
    bt_engine_free(engine);
}
END_TEST

/* ---- three levels: bottom b, middle m, top t: C_b = b^2 - b m, C_m = 2 m^2 - m t + k m b, F = b + 3 m + t^2 / 2. With
 * k = 0: m = t / 4, b = m / 2, dF/dt = 1/8 + 3/4 + t ---- */

static double coupling;

static bt_module *scalar(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(lambda)); }

static bt_tensor *of(bt_problem *self, const char *name) { return bt_forward(bt_peer(self, name)); }

static bt_tensor *bottom_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(bt_forward(self), bt_sub(bt_forward(self), of(self, "middle")));
}

static bt_tensor *middle_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *m = bt_forward(self), *slope = bt_sub(bt_mul(coupling, of(self, "bottom")), of(self, "top"));
    return bt_mul(m, bt_add(bt_mul(2, m), slope));
}

static bt_tensor *top_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *below = bt_add(of(self, "bottom"), bt_mul(3, of(self, "middle")));
    return bt_add(below, bt_mul(0.5, bt_square(bt_forward(self))));
}

#define SCALAR(called, step)                                                                                           \
    static const bt_problem_def called = {                                                                             \
        .name = #called, .configure_train_data = levels_one_row, .configure_module = scalar, .training_step = step}
SCALAR(top, top_step);
SCALAR(middle, middle_step);
SCALAR(bottom, bottom_step);

static bt_status check_chain(const char *settings, const char *level, json_t **result)
{
    static const bt_export parts = {.abi = BT_ABI, .problems = {&bottom, &middle, &top}};
    char lines[600], *text;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    snprintf(lines, sizeof lines,
             "dependencies.u2l = top > middle, middle > bottom\n"
             "dependencies.l2u = bottom > middle, middle > top\nbottom.lr = 0.3\nmiddle.lr = 0.2\n"
             "bottom.unroll_steps = 25\nmiddle.unroll_steps = 20\nbottom.type = cg\nmiddle.type = cg\n%s",
             settings);
    bt_engine *engine = levels_engine(&parts, NULL, lines);
    bt_status status =
        bt_engine_check_hypergradient(engine, &(bt_checking){.level = level, .json = true, .file = file});
    fclose(file);
    bt_engine_free(engine);
    *result = json_loads(text, 0, NULL);
    ck_assert_msg(*result != NULL, "%s", bt_error());
    free(text);
    return status;
}

START_TEST(three_levels)
{
    static const struct {
        const char *settings, *words[2];
        double method; /* dF/dt without the term t */
        double coupling;
    } cases[] = {
        {"", {"agrees, in direction and in length"}, 0.875, 0},
        {"bottom.type = darts\n", {"approximation: ", "bottom, darts: H^-1"}, 1, 0},   /* x_b = 1 */
        {"middle.type = darts\n", {"approximation: ", "middle, darts: H^-1"}, 3.5, 0}, /* x_m = a_m = 3 + 1/2 */
        {"", {"approximation: ", "middle has lower levels of its own"}, 0.875, 0.5},
        {"middle.unroll_steps = 1\n", {"approximation: ", "are not solved"}, 0.875, 0},
    };
    json_t *result;
    coupling = cases[_i].coupling;
    bt_status status = check_chain(cases[_i].settings, "top", &result);
    ck_assert_msg(status == BT_OK, "%s: %s", bt_error(), verdict(result));
    for (int k = 0; k < 2 && cases[_i].words[k]; k++)
        ck_assert_msg(strstr(verdict(result), cases[_i].words[k]) != NULL, "%s", verdict(result));
    const json_t *sample = json_array_get(json_object_get(result, "samples"), 0);
    ck_assert_double_eq_tol(number(sample, "method"), cases[_i].method + lambda, 1e-9);
    ck_assert_double_eq_tol(number(sample, "reference"), 0.875 + lambda, 1e-9);
    if (_i == 0)
        ck_assert_double_eq_tol(number(sample, "difference"), 0.875 + lambda, 1e-8);
    if (_i == 4) {               /* one step of m; b is only solved again at the next */
        double dm = 0.2, db = 0; /* m' = m - 0.2 (4 m - t); b was trained before */
        ck_assert_double_eq_tol(number(sample, "difference"), db + 3 * dm + lambda, 1e-8);
    }
    ck_assert_int_eq((int)json_array_size(json_object_get(result, "lowers")), 2);
    json_decref(result);
}
END_TEST

/* There is no solution of all levels to compare with, and every x solves its equation. */
START_TEST(a_solution_above_steps_that_are_gone_back_through)
{
    json_t *result;
    coupling = 0;
    bt_status status = check_chain("bottom.type = itd\nmiddle.unroll_steps = 1\n", "top", &result);
    ck_assert_msg(status == BT_OK, "%s: %s", bt_error(), verdict(result));
    ck_assert_msg(strstr(verdict(result), "middle has lower levels of its own") != NULL, "%s", verdict(result));
    ck_assert_msg(strstr(verdict(result), "not solved at the end of the inner loop") != NULL, "%s", verdict(result));
    json_decref(result);
}
END_TEST

/* A middle level is checked with all levels below it. */
START_TEST(in_the_middle)
{
    json_t *result;
    coupling = 0.5; /* dC_m/dm with b = m / 2: 4 m - t + b / 2 + m / 4 */
    bt_status status = check_chain("", "middle", &result);
    ck_assert_msg(status == BT_OK, "%s", bt_error());
    const json_t *sample = json_array_get(json_object_get(result, "samples"), 0);
    double due = 4 * lambda - lambda + 0.5 * (lambda / 2) + 0.5 * lambda / 2;
    ck_assert_double_eq_tol(number(sample, "method"), due, 1e-7);
    ck_assert_double_eq_tol(number(sample, "difference"), due, 1e-7);
    ck_assert_ptr_nonnull(strstr(verdict(result), "agrees, in direction and in length"));
    json_decref(result);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check of hypergradients");
    TCase *tests = tcase_create("two levels");
    tcase_add_loop_test(tests, against_the_closed_form, 0, 4);
    tcase_add_test(tests, directions);
    tcase_add_loop_test(tests, verdicts, 0, VERDICTS);
    tcase_add_test(tests, levels_by_name);
    suite_add_tcase(suite, tests);
    TCase *deeper = tcase_create("three levels");
    tcase_add_loop_test(deeper, three_levels, 0, 5);
    tcase_add_test(deeper, a_solution_above_steps_that_are_gone_back_through);
    tcase_add_test(deeper, in_the_middle);
    suite_add_tcase(suite, deeper);
    return run_suite(suite);
}
