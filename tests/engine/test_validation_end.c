/* What validation_end may request: the metrics of this validation, from every problem, and the hypergradient that a
 * step would use now, compared with closed forms, or the reason why there is none.
 *
 *   lower  C(w) = (w - l)^2 / 2, lr 0.1; upper  F(w) = w^2 / 2: after k steps since the upper problem's last one,
 *   dw/dl = 1 - 0.9^k, and dF/dl = w (1 - 0.9^k) by itd, w by darts */
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ITERS = 13 };
#define RATE 0.1

static struct {
    bt_engine *engine;
    double loss[2], size[2], host[2]; /* as seen by validation_end of upper and of lower */
    double w, l;
    int validations;
    double gradient;
    bt_status status;
    bool said;
} seen;

static bt_status draw(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double x = (double)index;
    (void)self, (void)mode;
    return bt_batch_set(batch, "x", BT_ARRAY(&x, 1));
}

static bt_module *one(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(1)); }
static bt_module *two(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(2)); }

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_square(bt_sub(bt_forward(self), bt_forward(bt_peer(self, "upper")))));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    return (void)batch, bt_mul(0.5, bt_square(bt_forward(bt_peer(self, "lower"))));
}

static bt_tensor *valid_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *value = bt_forward(self);
    bt_metric(self, "size", bt_mul(2, value));
    return bt_add(value, bt_mean(bt_field(batch, "x")));
}

static void look(bt_problem *self, int at)
{
    double value;
    char name[32];
    levels_params(seen.engine, at ? "lower" : "upper", at ? &seen.w : &seen.l, 1);
    value = bt_engine_metric(seen.engine, at ? "upper.valid.loss" : "lower.valid.loss"); /* of the other problem */
    seen.loss[!at] = value;
    snprintf(name, sizeof name, "%s.valid.size", self->name);
    seen.size[at] = bt_engine_metric(seen.engine, name);
    bt_metric(self, "host", 1 + seen.validations);
    bt_metric(self, "host", 3 + seen.validations);
    snprintf(name, sizeof name, "%s.valid.host", self->name);
    seen.host[at] = bt_engine_metric(seen.engine, name);
}

static void upper_ends(bt_problem *self)
{
    look(self, 0);
    seen.status = bt_hypergradient(self, BT_ARRAY(&seen.gradient, 1));
    seen.said =
        strstr(bt_error(), "differentiates through the steps that lower has made since the last step of upper") &&
        strstr(bt_error(), "there are none");
    bt_error_clear();
}

static void lower_ends(bt_problem *self)
{
    look(self, 1);
    seen.validations++;
}

#define LEVEL(id, module)                                                                                              \
    static const bt_problem_def id = {.name = #id,                                                                     \
                                      .get_batch = draw,                                                               \
                                      .configure_module = module,                                                      \
                                      .training_step = id##_step,                                                      \
                                      .validation_step = valid_step,                                                   \
                                      .validation_end = id##_ends}
LEVEL(upper, two);
LEVEL(lower, one);
static const bt_export upper_first = {.abi = BT_ABI, .problems = {&upper, &lower}};
static const bt_export lower_first = {.abi = BT_ABI, .problems = {&lower, &upper}};

static void open_engine(const bt_export *parts, int unroll, const char *more)
{
    char lines[500];
    memset(&seen, 0, sizeof seen);
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nupper.lr = 0.3\nlower.lr = %g\n"
             "lower.unroll_steps = %d\nengine.train_iters = %d\nengine.valid_step = 1\n%s",
             RATE, unroll, ITERS, more);
    seen.engine = levels_engine(parts, NULL, lines);
    ck_assert_msg(seen.engine != NULL, "%s", bt_error());
}

/* The same numbers as in the report that follows, and those of this step. */
START_TEST(metrics_of_this_validation)
{
    open_engine(_i ? &lower_first : &upper_first, 3, "upper.valid_batches = 3\nlower.valid_batches = 3\n");
    for (int step = 1; step <= ITERS; step++) {
        EXPECT_OK(bt_engine_step(seen.engine));
        int validations = step - 1; /* before this one */
        ck_assert_double_eq_tol(seen.loss[0], seen.l + 1, 1e-12);
        ck_assert_double_eq_tol(seen.loss[1], seen.w + 1, 1e-12);
        ck_assert_double_eq_tol(seen.size[0], 2 * seen.l, 1e-12);
        ck_assert_double_eq_tol(seen.size[1], 2 * seen.w, 1e-12);
        ck_assert_double_eq(bt_engine_metric(seen.engine, "upper.valid.loss"), seen.loss[0]);
        ck_assert_double_eq(bt_engine_metric(seen.engine, "lower.valid.loss"), seen.loss[1]);
        ck_assert_double_eq(bt_engine_metric(seen.engine, "lower.valid.host"), seen.host[1]);
        ck_assert_double_eq(seen.host[1], 2 + validations);
    }
    ck_assert_int_eq(seen.validations, ITERS);
    bt_engine_free(seen.engine);
}
END_TEST

/* At every step of a run: in the middle of a loop for the steps so far; right after an upper step there are none. */
START_TEST(what_a_step_would_use)
{
    static const char *const more[] = {"lower.type = itd\n", "lower.type = itd\nlower.itd_spacing = 2\n",
                                       "lower.type = itd\nengine.roll_back = true\n",
                                       "lower.type = itd\nlower.warmup_steps = 6\n", "lower.type = darts\n"};
    int unroll = 1 + _i % 4, which = _i / 4, warmup = which == 3 ? 6 : 0;
    int since = 0, begun = 0;
    double w = 1, l = 2;
    open_engine(&upper_first, unroll, more[which]);
    for (int step = 1; step <= ITERS; step++) {
        double start = (step - 1) % unroll == 0 ? w : NAN;
        static double loop_start;
        loop_start = isnan(start) ? loop_start : start;
        w -= RATE * (w - l);
        since++;
        if (step % unroll == 0 && step > warmup) { /* before the first upper step, only the last loop is kept */
            int reach = since < unroll ? since : unroll;
            l -= 0.3 * w * (which == 4 ? 1 : 1 - pow(1 - RATE, reach));
            since = 0;
            if (which == 2)
                w = loop_start - RATE * (loop_start - l);
        }
        EXPECT_OK(bt_engine_step(seen.engine));
        ck_assert_double_eq_tol(seen.w, w, 1e-12);
        ck_assert_double_eq_tol(seen.l, l, 1e-12);
        if (which == 4) {
            ck_assert_int_eq(seen.status, BT_OK);
            ck_assert_double_eq_tol(seen.gradient, w, 1e-12);
            continue;
        }
        ck_assert_int_eq(seen.status, since ? BT_OK : BT_ERROR_ARGUMENT);
        ck_assert(seen.said == !since);
        begun = since < unroll ? since : unroll;
        if (since && which != 1)
            ck_assert_double_eq_tol(seen.gradient, w * (1 - pow(1 - RATE, begun)), 1e-12);
    }
    bt_engine_free(seen.engine);
}
END_TEST

/* ---- top > mid > low: top needs more than steps of low ---- */

static bt_tensor *low_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_square(bt_sub(bt_forward(self), bt_forward(bt_peer(self, "mid")))));
}

static bt_tensor *mid_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *w = bt_forward(self), *of_low = bt_mul(0.5, bt_square(bt_forward(bt_peer(self, "low"))));
    return (void)batch, bt_add(of_low, bt_mul(0.5, bt_square(bt_sub(w, bt_forward(bt_peer(self, "top"))))));
}

static bt_tensor *top_step(bt_problem *self, const bt_batch *batch)
{
    return (void)batch, bt_mul(0.5, bt_square(bt_forward(bt_peer(self, "mid"))));
}

static void top_ends(bt_problem *self)
{
    seen.status = bt_hypergradient(self, BT_ARRAY(&seen.gradient, 1));
    seen.said = strstr(bt_error(), "differentiates through the steps that mid has made since the last step of top");
    bt_error_clear();
}

START_TEST(three_levels)
{
    static const bt_problem_def
        top = {.name = "top",
               .get_batch = draw,
               .configure_module = two,
               .training_step = top_step,
               .validation_end = top_ends},
        mid = {.name = "mid", .get_batch = draw, .configure_module = two, .training_step = mid_step},
        low = {.name = "low", .get_batch = draw, .configure_module = one, .training_step = low_step};
    static const bt_export parts = {.abi = BT_ABI, .problems = {&top, &mid, &low}};
    memset(&seen, 0, sizeof seen);
    seen.engine = levels_engine(&parts, NULL,
                                "dependencies.u2l = top > mid, mid > low\ndependencies.l2u = low > mid, mid > top\n"
                                "mid.type = itd\nlow.type = itd\nlow.unroll_steps = 2\nmid.unroll_steps = 2\n"
                                "engine.train_iters = 12\nengine.valid_step = 1\nlow.lr = 0.1\nmid.lr = 0.1\n");
    ck_assert_msg(seen.engine != NULL, "%s", bt_error());
    for (int step = 1; step <= 12; step++) { /* mid steps at 2, 4, ..., and top at 4, 8, 12 */
        EXPECT_OK(bt_engine_step(seen.engine));
        bool there = step % 4 >= 2;
        ck_assert_int_eq(seen.status, there ? BT_OK : BT_ERROR_ARGUMENT);
        ck_assert(seen.said == !there);
        ck_assert(!there || seen.gradient != 0);
    }
    bt_engine_free(seen.engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("validation_end");
    TCase *tc = tcase_create("validation_end");
    tcase_add_loop_test(tc, metrics_of_this_validation, 0, 2);
    tcase_add_loop_test(tc, what_a_step_would_use, 0, 20);
    tcase_add_test(tc, three_levels);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
