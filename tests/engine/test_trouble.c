/* tests/engine/test_trouble.c: failing methods are reported; skipped updates are counted and reported. */
#include "levels.h"

#include "engine/session/front.h"
#include "engine/session/session.h"
#include "support/suite.h"
#include "support/vars.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double curvature, second; /* H = diag(curvature, second) */
static bool alone;               /* the upper loss is the first parameter; otherwise the sum of both */
static double row;

static bt_dataset *one_row(bt_problem *self)
{
    (void)self;
    bt_dataset *data = bt_dataset_new(1);
    bt_dataset_add(data, "x", BT_ARRAY(&row, 1));
    return data;
}

static bt_module *pair(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(1), 2); }

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    const double h[2] = {curvature, second};
    bt_tensor *w = bt_forward(self), *squares = bt_mul(bt_constant(BT_ARRAY(h, 2)), bt_square(w));
    bt_tensor *linear = bt_mul(bt_mean(bt_field(batch, "x")), bt_mul(bt_forward(bt_peer(self, "upper")), w));
    return bt_sum(bt_sub(bt_mul(0.5, squares), linear));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *w = bt_forward(bt_peer(self, "lower"));
    return alone ? bt_at(w, 0) : bt_sum(w);
}

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = one_row, .configure_module = pair, .training_step = upper_step};
static const bt_problem_def lower = {
    .name = "lower", .configure_train_data = one_row, .configure_module = pair, .training_step = lower_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

/* The messages of a run of three steps in `said`, to be freed. */
static bt_engine *run(const char *settings, char **said)
{
    char lines[500];
    size_t size;
    FILE *progress = open_memstream(said, &size);
    snprintf(
        lines, sizeof lines,
        "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nengine.train_iters = 3\nlower.lr = 0\n"
        "upper.lr = 0\n%s",
        settings);
    bt_engine *engine = levels_engine(&parts, NULL, lines);
    EXPECT_OK(bt_engine_attach(engine, &(bt_front){.progress = progress}));
    levels_run(engine);
    fclose(progress);
    return engine;
}

static int64_t trouble(bt_engine *engine)
{
    const bt_problem *upper = bt_engine_problem(engine, "upper"), *lower = bt_engine_problem(engine, "lower");
    return (int64_t)var_get(upper->troubles[lower->place].count, 0);
}

#define NYSTROM_FP32 "engine.precision = fp32\nlower.type = nystrom\n"
#define NYSTROM_ONE  "lower.type = nystrom\nlower.nystrom_rank = 1\nengine.seed = 4\n"

START_TEST(methods_that_fail)
{
    static const struct {
        double curvature, second;
        const char *settings, *warning;
        int steps; /* of the method, in the three steps of the run */
    } cases[] = {
        {4, 1, "lower.type = neumann\nlower.neumann_alpha = 0.6\nlower.neumann_iterations = 4\n", "diverges", 3 * 4},
        {4, 4, "lower.type = neumann\nlower.neumann_alpha = 0.6\nlower.neumann_iterations = 4\n", "diverges", 3 * 4},
        {4, 4, "lower.type = neumann\nlower.neumann_alpha = 0.6\n", "neumann_alpha must be below", 3},
        {4, 1, "lower.type = neumann\nlower.neumann_alpha = 0.4\nlower.neumann_iterations = 9\n", NULL, 0},
        {-1, 10, "lower.type = neumann\nlower.neumann_alpha = 0.1\n", NULL, 0}, /* not visible yet */
        {-1, -2, "lower.type = neumann\nlower.neumann_alpha = 0.1\n", "diverges", 3},
        {-1, -2, "lower.type = cg\nlower.cg_iterations = 2\n", "negative curvature", 3 * 2},
        {-1, -2, "lower.type = cg\nlower.cg_iterations = 1\n", "negative curvature", 3},
        {2, 3, "lower.type = cg\nlower.cg_iterations = 5\n", NULL, 0},
        {-1, -2, "lower.type = cg\nlower.cg_damping = 3\nlower.cg_iterations = 5\n", NULL, 0},
        {-1, -2, "lower.type = nystrom\nlower.nystrom_rank = 2\nlower.nystrom_rho = 4\n", "negative", 3 * 2},
        {-1, 2, "lower.type = nystrom\nlower.nystrom_rank = 2\nlower.nystrom_rho = 4\n", "negative", 3},
        {2, 3, "lower.type = nystrom\nlower.nystrom_rank = 2\n", NULL, 0},
        {0, 3, "lower.type = nystrom\nlower.nystrom_rank = 2\n", NULL, 0}, /* a column of zeros is skipped */
        /* with all columns nothing is lost; with only the first one, which that seed takes, the rest of v / rho is a
         * difference */
        {10, 0.1, "lower.type = nystrom\nlower.nystrom_rank = 2\nlower.nystrom_rho = 1e-14\n", NULL, 0},
        {10, 0.1, NYSTROM_FP32 "lower.nystrom_rank = 2\nlower.nystrom_rho = 1e-6\n", NULL, 0},
        {10, 0.1, NYSTROM_ONE "lower.nystrom_rho = 1e-14\n", "2e-13 times the largest", 3},
        {10, 0.1, NYSTROM_ONE "lower.nystrom_rho = 1e-11\n", NULL, 0},
        {10, 0.1, NYSTROM_FP32 NYSTROM_ONE "lower.nystrom_rho = 1e-6\n", "1e-4 times the largest", 3},
        {10, 0.1, NYSTROM_FP32 NYSTROM_ONE "lower.nystrom_rho = 1e-2\n", NULL, 0},
        {4, 4, "lower.type = penalty\nlower.penalty_lr = 0.6\nlower.penalty_iterations = 4\n", "penalty_lr", 3 * 3},
        {4, 4, "lower.type = penalty\nlower.penalty_lr = 0.4\nlower.penalty_iterations = 4\n", NULL, 0},
    };
    char *said;
    row = 1;
    curvature = cases[_i].curvature;
    second = cases[_i].second;
    alone = strstr(cases[_i].settings, NYSTROM_ONE) != NULL;
    bt_engine *engine = run(cases[_i].settings, &said);
    ck_assert_int_eq(trouble(engine), cases[_i].steps);
    const char *warning = strstr(said, "warning: lower, type = ");
    ck_assert_int_eq(warning != NULL, cases[_i].warning != NULL);
    if (warning) {
        ck_assert_msg(strstr(warning, cases[_i].warning) != NULL, "%s", said);
        ck_assert_ptr_null(strstr(warning + 1, "warning: lower, type = ")); /* once */
    }
    free(said);
    bt_engine_free(engine);
}
END_TEST

/* Requests are not counted. */
START_TEST(questions_do_not_count)
{
    double found[2];
    char *said;
    row = 1, curvature = -1, second = -2;
    bt_engine *engine = run("lower.type = cg\n", &said);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(found, 2)));
    ck_assert_double_eq(found[0], 0); /* it stops at x = 0 */
    ck_assert_double_eq(found[1], 0);
    ck_assert_int_eq(trouble(engine), 3);
    free(said);
    bt_engine_free(engine);
}
END_TEST

/* The first of the three steps with a non-finite loss. */
static int bad_from;

static double moving(bt_problem *self) { return bt_host_step(self) < bad_from ? 1 : NAN; }

static bt_tensor *failing_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(bt_host_scalar(self, "moving", moving), bt_sum(bt_square(bt_forward(self))));
}

static const bt_problem_def failing = {
    .name = "lower", .configure_train_data = one_row, .configure_module = pair, .training_step = failing_step};
static const bt_export failing_parts = {.abi = BT_ABI, .problems = {&failing}};

/* Some skipped updates are a warning; most of them, a failure. */
START_TEST(updates_left_out)
{
    static const struct {
        int bad_from;
        const char *said;
    } cases[] = {{3, NULL}, {2, "lower: 1 of 3 updates were skipped"}, {1, "lower: 2 of 3 updates were skipped"}};
    char *said;
    size_t size;
    FILE *progress = open_memstream(&said, &size);
    row = 1, bad_from = cases[_i].bad_from;
    bt_engine *engine = levels_engine(&failing_parts, NULL, "engine.train_iters = 3\n");
    EXPECT_OK(bt_engine_attach(engine, &(bt_front){.progress = progress}));
    ck_assert_int_eq(bt_engine_run(engine), bad_from == 1 ? BT_ERROR_NUMERIC : BT_OK);
    fclose(progress);
    ck_assert_int_eq(strstr(said, "skipped") != NULL, cases[_i].said != NULL);
    if (cases[_i].said)
        ck_assert_msg(strstr(said, cases[_i].said) != NULL, "%s", said);
    if (bad_from == 1)
        ck_assert_msg(strstr(bt_error(), "lower has diverged: in 2 of 3 steps") != NULL, "%s", bt_error());
    free(said);
    bt_engine_free(engine);
}
END_TEST

/* There is a warning for a level that never steps because the run is too short: its result looks as if it had learned
 * nothing. */
START_TEST(levels_that_make_no_step)
{
    static const struct {
        const char *settings;
        bool said;
    } cases[] = {{"lower.unroll_steps = 4\n", true}, {"lower.unroll_steps = 3\n", false},
                 {"lower.warmup_steps = 3\n", true}, {"lower.warmup_steps = 2\n", false},
                 {"upper.meta_batch = 4\n", true},   {"engine.levels = lower\n", false}};
    char *said;
    row = 1, curvature = 1, second = 1;
    bt_engine *engine = run(cases[_i].settings, &said);
    ck_assert_msg((strstr(said, "warning: upper has made no step: it waits until") != NULL) == cases[_i].said, "%s",
                  said);
    ck_assert_int_eq(strstr(said, "meta_batch times") != NULL, _i == 4);
    free(said);
    bt_engine_free(engine);
}
END_TEST

/* ---- a loss that is NaN with a valid gradient ---- */

static double negative(bt_problem *self) { return (void)self, -1; }

static bt_tensor *lost_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *squares = bt_sum(bt_square(bt_forward(self)));
    return bt_add(squares, bt_log(bt_host_scalar(self, "negative", negative)));
}

static const bt_problem_def lost = {
    .name = "lower", .configure_train_data = one_row, .configure_module = pair, .training_step = lost_step};
static const bt_export lost_parts = {.abi = BT_ABI, .problems = {&lost}};

START_TEST(loss_not_finite)
{
    static const char *const often[] = {"engine.log_step = 1\n", "engine.log_step = 0\n"};
    char *said, settings[100];
    size_t size;
    FILE *progress = open_memstream(&said, &size);
    snprintf(settings, sizeof settings, "engine.train_iters = 3\n%s", often[_i]);
    row = 1;
    bt_engine *engine = levels_engine(&lost_parts, NULL, settings);
    EXPECT_OK(bt_engine_attach(engine, &(bt_front){.progress = progress}));
    EXPECT_OK(bt_engine_run(engine));
    fclose(progress);
    const char *warning = strstr(said, "warning: lower: up to step ");
    ck_assert_msg(warning && strstr(warning, "the loss is not finite"), "%s", said);
    ck_assert_msg(!strstr(warning + 1, "warning: "), "%s", said); /* once */
    free(said);
    bt_engine_free(engine);
}
END_TEST

static bt_tensor *quiet_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_square(bt_forward(self)));
}

/* The same for a validation, once. */
START_TEST(validation_loss_not_finite)
{
    bt_problem_def def = lost;
    def.training_step = quiet_step;
    def.configure_valid_data = one_row;
    def.validation_step = lost_step;
    const bt_export all = {.abi = BT_ABI, .problems = {&def}};
    char *said;
    size_t size;
    FILE *progress = open_memstream(&said, &size);
    row = 1;
    bt_engine *engine = levels_engine(&all, NULL, "engine.train_iters = 4\nengine.valid_step = 2\n");
    EXPECT_OK(bt_engine_attach(engine, &(bt_front){.progress = progress}));
    EXPECT_OK(bt_engine_run(engine));
    fclose(progress);
    const char *warning = strstr(said, "warning: lower: after step 2, the validation loss is not finite");
    ck_assert_msg(warning && !strstr(warning + 1, "warning: "), "%s", said);
    free(said);
    bt_engine_free(engine);
}
END_TEST

/* ---- a hyperparameter that `schedule` sets outside its range ---- */

static double base, slope_of_lr;

/* base, base + slope, ... by step. */
static void set_lr(bt_problem *self, bt_rule *optimizer)
{
    bt_tensor *moving = bt_add(base, bt_mul(slope_of_lr, bt_step(self)));
    bt_hyper_set(optimizer, "lr", moving);
    bt_hyper_set(optimizer, "weight_decay", bt_mul(0.5, bt_square(bt_hyper(optimizer, "lr"))));
}

START_TEST(out_of_range)
{
    static const struct {
        double base, slope;
        const char *said; /* NULL: no message */
    } cases[] = {
        {0.25, 0.25, NULL},
        {0, 0, NULL}, /* the ends are within the range */
        {0.25, -0.25,
         "lower: schedule has set lr outside its range, 0 to 1e+06, 1 time up to step 3, the first "
         "time to -0.25; the value is used unchanged"},
        {-0.125, -0.25, "lr outside its range, 0 to 1e+06, 1 time up to step 1, the first time to -0.125"},
        {-0.125, 0, "lr outside its range, 0 to 1e+06, 1 time up to step 1"}, /* a constant of the program */
        {2e6, 0, "weight_decay outside its range"},
    };
    bt_problem_def moving = lower;
    bt_export both = {.abi = BT_ABI, .problems = {&upper, &moving}};
    curvature = second = row = 1;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char *said;
        size_t size;
        FILE *progress = open_memstream(&said, &size);
        base = cases[k].base;
        slope_of_lr = cases[k].slope;
        moving.schedule = set_lr;
        bt_engine *engine = levels_engine(&both, NULL,
                                          "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n"
                                          "engine.train_iters = 3\nengine.log_step = 1\nlower.weight_decay = 0.1\n"
                                          "upper.lr = 0\n");
        EXPECT_OK(bt_engine_attach(engine, &(bt_front){.progress = progress}));
        levels_run(engine);
        fclose(progress);
        const char *first = strstr(said, "outside its range");
        ck_assert_msg(!first == !cases[k].said && (!first || strstr(said, cases[k].said)), "%s", said);
        const char *lr = strstr(said, "has set lr"); /* once, however often it happens */
        ck_assert_msg(!lr || !strstr(lr + 1, "has set lr"), "%s", said);
        bt_engine_free(engine);
        free(said);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trouble");
    TCase *tests = tcase_create("said");
    tcase_add_loop_test(tests, methods_that_fail, 0, 22);
    tcase_add_test(tests, questions_do_not_count);
    tcase_add_loop_test(tests, updates_left_out, 0, 3);
    tcase_add_loop_test(tests, levels_that_make_no_step, 0, 6);
    tcase_add_loop_test(tests, loss_not_finite, 0, 2);
    tcase_add_test(tests, validation_loss_not_finite);
    tcase_add_test(tests, out_of_range);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
