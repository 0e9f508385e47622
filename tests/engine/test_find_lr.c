/* The learning rate range test: its curve and suggestion against plain loops, on losses whose best rates are known. */
#include "levels.h"
#include "resumable.h"

#include "engine/find_lr/find_lr_inside.h"
#include "engine/output/json.h"
#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 100 };
#define LOW  1e-6
#define HIGH 100.0

static double rate_of(int64_t step) { return LOW * pow(HIGH / LOW, (double)step / (STEPS - 1)); }

/* The weighted mean of all losses so far, newest first. */
static double smooth_of(const double *losses, int64_t step)
{
    double sum = 0, weights = 0, weight = 1;
    for (int64_t i = step; i >= 0; i--, weight *= 0.98) {
        sum += weight * losses[i];
        weights += weight;
    }
    return sum / weights;
}

/* ---- a run of it ---- */

static json_t *found(bt_engine *engine, const char *problem, const char *range)
{
    FILE *file = fopen("out", "w");
    const bt_find_lr how = {.problem = problem, .range = range, .folder = "curve", .json = true, .file = file};
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_find_lr(engine, &how));
    fclose(file);
    bt_engine_free(engine);
    json_t *all = json_load_file("out", 0, NULL);
    ck_assert_ptr_nonnull(all);
    return all;
}

static double number(const json_t *all, int64_t step, const char *key)
{
    return bt_json_read_number(json_array_get(json_object_get(all, "points"), (size_t)step), key);
}

/* Checks that its points have these losses; returns their number. */
static int64_t expect_points(const json_t *all, const double *losses)
{
    const int64_t count = (int64_t)json_array_size(json_object_get(all, "points"));
    for (int64_t i = 0; i < count; i++) {
        const double smooth = smooth_of(losses, i);
        ck_assert_double_eq_tol(number(all, i, "lr") / rate_of(i), 1, 1e-12);
        ck_assert_double_eq_tol(number(all, i, "loss"), losses[i], 1e-9 * fabs(losses[i]));
        ck_assert_double_eq_tol(number(all, i, "smoothed"), smooth, 1e-9 * fabs(smooth));
    }
    return count;
}

/* ---- a x^2 / 2 + y^2 / 2: x is solved in one step if lr = 1 / a, and diverges if lr > 2 / a ---- */

#define STEEP 50.0

static bt_module *two_numbers(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_module_new(NULL);
    bt_module_add_param(module, "x", bt_init_constant(1), 1);
    bt_module_add_param(module, "y", bt_init_constant(1), 1);
    return module;
}

static bt_status nothing(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double x[1] = {1};
    (void)self, (void)mode, (void)index;
    return bt_batch_set(batch, "x", BT_ARRAY(x, 1));
}

static bt_tensor *bowl(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *sum = bt_add(bt_mul(STEEP, bt_square(bt_param(self, "x"))), bt_square(bt_param(self, "y")));
    return bt_mean(bt_mul(bt_mul(0.5, sum), bt_field(batch, "x")));
}

static const bt_problem_def model = {
    .name = "model", .get_batch = nothing, .configure_module = two_numbers, .training_step = bowl};
static const bt_export one = {.abi = BT_ABI, .problems = {&model}};

/* y has `part` of the rate. */
static void bowl_losses(double part, double *losses)
{
    double x = 1, y = 1;
    for (int64_t i = 0; i < STEPS; i++) {
        losses[i] = 0.5 * (STEEP * x * x + y * y);
        x -= rate_of(i) * STEEP * x;
        y -= part * rate_of(i) * y;
    }
}

/* For any configuration of the problem. */
START_TEST(known_rate)
{
    static const struct {
        const char *settings;
        double part;
    } cases[] = {
        {"", 1},
        {"model.lr = 3\nmodel.scheduler = cosine\nmodel.scheduler_warmup = 7\nengine.train_iters = 5\n", 1},
        {"model.lr = 0.5\nmodel.slow.params = y\nmodel.slow.lr = 0.125\n", 0.25},
    };
    double losses[STEPS];
    json_t *all = found(levels_engine(&one, NULL, cases[_i].settings), "model", "1e-6:100:100");
    bowl_losses(cases[_i].part, losses);
    const int64_t count = expect_points(all, losses);
    const double suggestion = bt_json_read_number(all, "suggestion");
    double least = INFINITY;
    for (int64_t i = 0; i < count; i++)
        least = fmin(least, smooth_of(losses, i));
    ck_assert_str_eq(bt_json_read_text(all, "stopped"), "the loss rose");
    ck_assert_double_gt(rate_of(count - 1), 2 / STEEP);
    ck_assert_double_gt(number(all, count - 1, "smoothed"), 4 * least);
    ck_assert_double_le(number(all, count - 2, "smoothed"), 4 * least);
    ck_assert_double_gt(suggestion, 0.01 / STEEP);
    ck_assert_double_lt(suggestion, 2 / STEEP);
    json_decref(all);
}
END_TEST

/* The files have the same numbers: a row for each point, and a picture with two lines and a mark. */
START_TEST(files)
{
    double losses[STEPS], rate, loss, smooth;
    int64_t step, rows = 0, points = 0;
    char line[200];
    json_t *all = found(levels_engine(&one, NULL, ""), "model", "1e-6:100:100");
    bowl_losses(1, losses);
    FILE *csv = fopen("curve/lr.csv", "r"), *svg = fopen("curve/lr.svg", "r");
    ck_assert(csv && svg && fgets(line, sizeof line, csv));
    ck_assert_str_eq(line, "step,lr,loss,smoothed\n");
    for (; fscanf(csv, "%ld,%lf,%lf,%lf\n", &step, &rate, &loss, &smooth) == 4; rows++) {
        ck_assert_int_eq(step, rows + 1);
        ck_assert_double_eq(rate, number(all, rows, "lr"));
        ck_assert_double_eq(loss, number(all, rows, "loss"));
        ck_assert_double_eq(smooth, number(all, rows, "smoothed"));
    }
    while (fscanf(svg, "%199s", line) == 1)
        points += strcmp(line, "<circle") == 0;
    ck_assert_uint_eq(json_array_size(json_object_get(all, "points")), (size_t)rows);
    ck_assert_int_eq(points, 2 * rows + 1);
    ck_assert_int_ne(access("runs", F_OK), 0);
    fclose(csv);
    fclose(svg);
    json_decref(all);
}
END_TEST

/* ---- two levels: w_{t+1} = w_t - lr_t (w_t - lambda), the upper loss is w^2 / 2 ---- */

static bt_module *scalar(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(1), 1); }

static bt_tensor *half_square(bt_tensor *x, const bt_batch *batch)
{
    return bt_mean(bt_mul(bt_mul(0.5, bt_square(x)), bt_field(batch, "x")));
}

static bt_tensor *follow(bt_problem *self, const bt_batch *batch)
{
    return half_square(bt_sub(bt_forward(self), bt_forward(bt_peer(self, "upper"))), batch);
}

static bt_tensor *end(bt_problem *self, const bt_batch *batch)
{
    return half_square(bt_forward(bt_peer(self, "lower")), batch);
}

static bt_module *three(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(3), 1); }

static const bt_problem_def upper = {
    .name = "upper", .get_batch = nothing, .configure_module = scalar, .training_step = end};
static const bt_problem_def lower = {
    .name = "lower", .get_batch = nothing, .configure_module = three, .training_step = follow};
static const bt_export two = {.abi = BT_ABI, .problems = {&upper, &lower}};

#define WIRED                                                                                                          \
    "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.type = itd\nlower.unroll_steps = 2\n"   \
    "lower.lr = 0.5\nupper.lr = 0.125\n"

/* The losses of either level while the rate of one rises: the hypergradient is w d w / d lambda, with the rates of the
 * two steps of the inner loop. */
static void wired_losses(bool sweeps_upper, double *losses)
{
    double w = 3, lambda = 1, before = 0;
    for (int step = 0, made = 0; made < STEPS; step++) {
        const double rate = sweeps_upper ? 0.5 : rate_of(made);
        if (!sweeps_upper)
            losses[made++] = 0.5 * (w - lambda) * (w - lambda);
        w -= rate * (w - lambda);
        if (step % 2 == 1) {
            const double upper_rate = sweeps_upper ? rate_of(made) : 0.125;
            if (sweeps_upper)
                losses[made++] = 0.5 * w * w;
            lambda -= upper_rate * w * (before * (1 - rate) + rate);
        }
        before = rate;
    }
}

START_TEST(wired)
{
    const bool sweeps_upper = _i;
    double losses[STEPS];
    bt_engine *engine = levels_engine(&two, NULL, WIRED);
    json_t *all = found(engine, sweeps_upper ? "upper" : "lower", "1e-6:100:100");
    wired_losses(sweeps_upper, losses);
    ck_assert_int_gt(expect_points(all, losses), STEPS / 2);
    json_decref(all);
}
END_TEST

/* ---- the curve alone ---- */

START_TEST(curves)
{
    bt_lr_curve c;
    EXPECT_OK(bt_lr_open(&c, "1e-3:1:20"));
    ck_assert_double_eq_tol(bt_lr_rate(&c, 19), 1, 1e-15);
    for (int i = 0; i < 20; i++) /* a negative loss may double, and come back */
        ck_assert_int_eq(bt_lr_add(&c, i < 10 ? -1 - i : i - 20), i < 19);
    ck_assert_int_eq(c.end, BT_LR_ALL);
    const bt_lr_point *best = bt_lr_suggest(&c);
    ck_assert(best && best - c.points >= 2 && best - c.points < 10);
    bt_lr_close(&c);

    EXPECT_OK(bt_lr_open(&c, NULL));
    ck_assert_int_eq(c.steps, 100);
    ck_assert_double_eq(c.low, 1e-7);
    ck_assert_double_eq(c.high, 10);
    ck_assert(bt_lr_add(&c, 1) && bt_lr_add(&c, 1.5) && !bt_lr_add(&c, NAN));
    ck_assert_int_eq(c.end, BT_LR_INFINITE);
    ck_assert_int_eq(c.count, 2);
    ck_assert_ptr_null(bt_lr_suggest(&c));
    bt_lr_close(&c);

    EXPECT_OK(bt_lr_open(&c, "1:2:10"));
    for (int i = 0; i < 10; i++) /* it never falls */
        bt_lr_add(&c, 1 + 0.1 * i);
    ck_assert_ptr_null(bt_lr_suggest(&c));
    bt_lr_close(&c);
}
END_TEST

/* ---- errors ---- */

static void own_rate(bt_problem *self, bt_rule *rule) { (void)self, bt_hyper_set(rule, "lr", bt_number(0.1, BT_F64)); }
static bt_tensor *fixed(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    return (void)rule, bt_sub(param, bt_mul(0.1, grad));
}

static const bt_problem_def scheduled = {.name = "model",
                                         .get_batch = nothing,
                                         .configure_module = two_numbers,
                                         .training_step = bowl,
                                         .schedule = own_rate};
static const bt_optimizer_def rateless = {.name = "rateless", .update = fixed};
static const bt_export with_schedule = {.abi = BT_ABI, .problems = {&scheduled}};
static const bt_export with_rateless = {.abi = BT_ABI, .problems = {&model}, .optimizers = {&rateless}};

START_TEST(mistakes)
{
    static const struct {
        const bt_export *parts;
        const char *settings, *problem, *range, *words;
    } cases[] = {
        {&one, "", "nobody", NULL, "--find-lr nobody: [nobody]: there is no problem `nobody`"},
        {&one, "", "model", "1:10", "--lr-range = 1:10: expected LOW:HIGH:N, such as 1e-7:10:100"},
        {&one, "", "model", "1:0.1:20", "--lr-range = 1:0.1:20: the highest rate, 0.1, must be above the lowest, 1"},
        {&one, "", "model", "1:1:20", "the highest rate, 1, must be above the lowest, 1"},
        {&one, "", "model", "0:1:20", "--lr-range = 0: expected a number"},
        {&one, "", "model", "1e-3:many:20", "--lr-range = many: expected a number"},
        {&one, "", "model", "1e-3:1:9", "--lr-range = 9: expected a whole number"},
        {&one, "model.optimizer = adafactor\nmodel.relative_step = true\n", "model", NULL,
         "--find-lr model: optimizer adafactor, as it is configured, has no learning rate"},
        {&one, "model.lr = 0\n", "model", NULL, "--find-lr model: lr is 0"},
        {&with_schedule, "", "model", NULL,
         "--find-lr model: the problem's schedule sets the learning rate: 0.1, not 1e-07"},
        {&with_rateless, "model.optimizer = rateless\n", "model", NULL, "has no hyperparameter \"lr\""},
    };
    bt_engine *engine = levels_engine(cases[_i].parts, NULL, cases[_i].settings);
    FILE *file = fopen("out", "w");
    ck_assert_msg(engine != NULL, "%s", bt_error());
    const bt_find_lr how = {.problem = cases[_i].problem, .range = cases[_i].range, .file = file};
    ck_assert_int_eq(bt_engine_find_lr(engine, &how), BT_ERROR_CONFIG);
    ck_assert_msg(strstr(bt_error(), cases[_i].words) != NULL, "%s", bt_error());
    ck_assert_int_ne(access("runs", F_OK), 0);
    bt_error_clear();
    fclose(file);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("find_lr");
    TCase *tests = tcase_create("find_lr");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_loop_test(tests, known_rate, 0, 3);
    tcase_add_test(tests, files);
    tcase_add_loop_test(tests, wired, 0, 2);
    tcase_add_test(tests, curves);
    tcase_add_loop_test(tests, mistakes, 0, 11);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
