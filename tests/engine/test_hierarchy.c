/* tests/engine/test_hierarchy.c: which level steps when, on which data, and the effect of meta_batch and roll_back. */
#include "ridge.h"

#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double lr = 0.3, momentum = 0.9, upper_lr = 0.2;

#define SGD "lower.lr = 0.3\nlower.momentum = 0.9\nupper.lr = 0.2\nlower.batch_size = 4\nupper.batch_size = 3\n"

typedef struct lower_state {
    double w[2], velocity[2];
    int updates; /* as counted by the scheduler */
} lower_state;

typedef struct plain_run {
    const ridge *data;
    lower_state now, start; /* at the start of the inner loop */
    double lambda[2], sum[2];
    int lower_drawn, upper_drawn, steps, calls, upper_steps;
    double decay; /* of the rate, for each update */
    rows batch;
} plain_run;

static plain_run begin(const ridge *data)
{
    plain_run run = {.data = data, .decay = 1};
    memcpy(run.now.w, data->w, sizeof run.now.w);
    memcpy(run.lambda, data->lambda, sizeof run.lambda);
    run.start = run.now;
    return run;
}

static void descend(plain_run *run)
{
    double g[2];
    plain_lower(run->data, &run->batch, 1, run->now.w, run->lambda, g);
    for (int k = 0; k < 2; k++) {
        run->now.velocity[k] = momentum * run->now.velocity[k] + g[k];
        run->now.w[k] -= lr * pow(run->decay, run->now.updates) * run->now.velocity[k];
    }
    run->now.updates++;
}

/* One leaf step, and the steps that it triggers. */
static void leaf_step(plain_run *run, int unroll, int warmup, int meta_batch, bool roll_back)
{
    double h[2];
    if (run->steps % unroll == 0)
        run->start = run->now;
    run->batch = rows_next(RIDGE_ROWS, 4, &run->lower_drawn);
    descend(run);
    run->steps++;
    if (run->steps % unroll != 0 || run->steps <= warmup)
        return;
    rows upper = rows_next(RIDGE_UPPER_ROWS, 3, &run->upper_drawn);
    plain_hypergradient(run->data, &run->batch, 1, &upper, 1, run->now.w, run->lambda,
                        (plain_method){PLAIN_DARTS, 0, 0}, h);
    for (int k = 0; k < 2; k++)
        run->sum[k] += h[k] / meta_batch;
    if (++run->calls % meta_batch != 0)
        return;
    for (int k = 0; k < 2; k++) {
        run->lambda[k] -= upper_lr * run->sum[k];
        run->sum[k] = 0;
    }
    run->upper_steps++;
    if (roll_back) {
        run->now = run->start;
        descend(run);
    }
}

START_TEST(steps_by_the_settings)
{
    static const struct {
        int unroll, warmup, meta_batch, iterations, upper_steps;
        bool roll_back, schedule;
    } cases[] = {
        {1, 0, 1, 7, 7, false, false}, {2, 0, 1, 7, 3, false, false}, {3, 0, 1, 9, 3, false, false},
        {1, 3, 1, 7, 4, false, false}, {2, 3, 1, 9, 3, false, false}, {2, 4, 1, 9, 2, false, false},
        {5, 0, 1, 4, 0, false, false}, {1, 9, 1, 9, 0, false, false}, {1, 0, 3, 7, 2, false, false},
        {2, 1, 2, 9, 2, false, false}, {1, 0, 1, 6, 6, true, false},  {3, 0, 1, 10, 3, true, false},
        {2, 3, 1, 9, 3, true, false},  {2, 0, 2, 9, 2, true, false},  {2, 0, 1, 9, 4, true, true},
        {2, 0, 1, 9, 4, false, true},
    };
    ridge data = ridge_data();
    plain_run run = begin(&data);
    char settings[500];
    snprintf(settings, sizeof settings,
             SGD "lower.unroll_steps = %d\nlower.warmup_steps = %d\nupper.meta_batch = %d\nengine.train_iters = %d\n"
                 "engine.roll_back = %s\n%s",
             cases[_i].unroll, cases[_i].warmup, cases[_i].meta_batch, cases[_i].iterations,
             cases[_i].roll_back ? "true" : "false",
             cases[_i].schedule ? "lower.scheduler = step\nlower.scheduler_step_size = 1\nlower.scheduler_gamma = 0.5\n"
                                : "");
    run.decay = cases[_i].schedule ? 0.5 : 1;
    bt_engine *engine = ridge_engine(&data, settings);
    levels_run(engine);
    for (int i = 0; i < cases[_i].iterations; i++)
        leaf_step(&run, cases[_i].unroll, cases[_i].warmup, cases[_i].meta_batch, cases[_i].roll_back);
    ck_assert_int_eq(levels_steps(engine, "lower"), cases[_i].iterations);
    ck_assert_int_eq(levels_steps(engine, "upper"), cases[_i].upper_steps);
    ck_assert_int_eq(run.upper_steps, cases[_i].upper_steps);
    double w[2], lambda[2];
    levels_params(engine, "lower", w, 2);
    levels_params(engine, "upper", lambda, 2);
    for (int k = 0; k < 2; k++) {
        ck_assert_double_eq_tol(w[k], run.now.w[k], 1e-12);
        ck_assert_double_eq_tol(lambda[k], run.lambda[k], 1e-12);
    }
    bt_engine_free(engine);
}
END_TEST

/* ---- scalars: a, b and an upper lambda: C_a = (a - lambda)^2 / 2, C_b = (b - 2 lambda)^2 / 2, F = (a + b - 1)^2 / 2
 * ---- */

static int started[3]; /* on_inner_loop_start of upper, a, b */

static bt_dataset *one_row(bt_problem *self)
{
    static const double x[] = {1, 2, 3};
    (void)self;
    bt_dataset *data = bt_dataset_new(3);
    bt_dataset_add(data, "x", BT_ARRAY(x, 3));
    return data;
}

static bt_module *scalar(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(0.5));
}

static bt_tensor *value(bt_problem *self, const char *name) { return bt_forward(bt_peer(self, name)); }

static bt_tensor *a_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_square(bt_sub(bt_forward(self), value(self, "upper"))));
}

static bt_tensor *b_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_square(bt_sub(bt_forward(self), bt_mul(2, value(self, "upper")))));
}

static bt_tensor *sum_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_square(bt_sub(bt_add(value(self, "a"), value(self, "b")), 1)));
}

static void upper_starts(bt_problem *self) { (void)self, started[0]++; }
static void a_starts(bt_problem *self) { (void)self, started[1]++; }
static void b_starts(bt_problem *self) { (void)self, started[2]++; }

static const bt_problem_def sum = {.name = "upper",
                                   .configure_train_data = one_row,
                                   .configure_module = scalar,
                                   .training_step = sum_step,
                                   .on_inner_loop_start = upper_starts};
static const bt_problem_def a = {.name = "a",
                                 .configure_train_data = one_row,
                                 .configure_module = scalar,
                                 .training_step = a_step,
                                 .on_inner_loop_start = a_starts};
static const bt_problem_def b = {.name = "b",
                                 .configure_train_data = one_row,
                                 .configure_module = scalar,
                                 .training_step = b_step,
                                 .on_inner_loop_start = b_starts};
static const bt_export siblings = {.abi = BT_ABI, .problems = {&sum, &a, &b}};

#define SIBLINGS                                                                                                       \
    "dependencies.u2l = upper > a, b\ndependencies.l2u = a > upper, b > upper\nengine.log_step = 0\nupper.lr = 0.1\n"  \
    "a.lr = 0.2\nb.lr = 0.3\n"

/* The upper problem waits for both. With roll_back each returns to the start of its own inner loop. */
START_TEST(two_children)
{
    static const struct {
        int unroll_a, unroll_b, iterations, upper_steps, starts_a, starts_b;
        bool roll_back;
    } cases[] = {
        {1, 1, 5, 5, 5, 5, false}, {2, 3, 12, 4, 6, 4, false}, {2, 3, 13, 4, 7, 5, false},
        {1, 4, 9, 2, 9, 3, false}, {1, 1, 5, 5, 5, 5, true},   {2, 3, 12, 4, 6, 4, true},
    };
    double lambda = 0.5, pa = 0.5, pb = 0.5, start_a = 0, start_b = 0;
    bool ready_a = false, ready_b = false;
    char settings[500];
    int upper_steps = 0;
    memset(started, 0, sizeof started);
    snprintf(settings, sizeof settings,
             SIBLINGS "a.unroll_steps = %d\nb.unroll_steps = %d\nengine.train_iters = %d\nengine.roll_back = %s\n",
             cases[_i].unroll_a, cases[_i].unroll_b, cases[_i].iterations, cases[_i].roll_back ? "true" : "false");
    bt_engine *engine = levels_engine(&siblings, NULL, settings);
    levels_run(engine);
    for (int i = 0; i < cases[_i].iterations; i++)
        for (int child = 0; child < 2; child++) {
            int unroll = child ? cases[_i].unroll_b : cases[_i].unroll_a;
            double *p = child ? &pb : &pa, *start = child ? &start_b : &start_a;
            bool *ready = child ? &ready_b : &ready_a;
            if (i % unroll == 0)
                *start = *p;
            *p -= (child ? 0.3 : 0.2) * (*p - (child ? 2 : 1) * lambda);
            *ready = *ready || (i + 1) % unroll == 0;
            if (!ready_a || !ready_b || (i + 1) % unroll != 0)
                continue;
            ready_a = ready_b = false;
            lambda -= 0.1 * 3 * (pa + pb - 1);
            upper_steps++;
            if (!cases[_i].roll_back)
                continue;
            pa = start_a - 0.2 * (start_a - lambda);
            pb = start_b - 0.3 * (start_b - 2 * lambda);
        }
    double found[3];
    levels_params(engine, "upper", found, 1);
    levels_params(engine, "a", found + 1, 1);
    levels_params(engine, "b", found + 2, 1);
    ck_assert_int_eq(levels_steps(engine, "upper"), cases[_i].upper_steps);
    ck_assert_int_eq(upper_steps, cases[_i].upper_steps);
    ck_assert_double_eq_tol(found[0], lambda, 1e-12);
    ck_assert_double_eq_tol(found[1], pa, 1e-12);
    ck_assert_double_eq_tol(found[2], pb, 1e-12);
    ck_assert_int_eq(started[0], 1);
    ck_assert_int_eq(started[1], cases[_i].starts_a);
    ck_assert_int_eq(started[2], cases[_i].starts_b);
    bt_engine_free(engine);
}
END_TEST

/* An inner loop begins at every unroll_steps-th step, also in the warm-up. */
START_TEST(inner_loops_begin)
{
    static const struct {
        int unroll, warmup, starts;
    } cases[] = {{1, 0, 6}, {2, 0, 3}, {3, 4, 2}, {4, 0, 2}, {2, 100, 3}};
    char settings[500];
    memset(started, 0, sizeof started);
    snprintf(settings, sizeof settings, SIBLINGS "a.unroll_steps = %d\na.warmup_steps = %d\nengine.train_iters = 6\n",
             cases[_i].unroll, cases[_i].warmup);
    bt_engine *engine = levels_engine(&siblings, NULL, settings);
    levels_run(engine);
    ck_assert_int_eq(started[1], cases[_i].starts);
    bt_engine_free(engine);
}
END_TEST

/* ---- the mean over a meta-batch: C = w lambda, F = x lambda over x = 1, 2, 3, one by one ---- */

static bt_tensor *idle_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(bt_forward(self), bt_mul(0, value(self, "upper")));
}

static bt_tensor *task_step(bt_problem *self, const bt_batch *batch)
{
    return bt_add(bt_mul(bt_mean(bt_field(batch, "x")), bt_forward(self)), bt_mul(0, value(self, "a")));
}

static const bt_problem_def task = {
    .name = "upper", .configure_train_data = one_row, .configure_module = scalar, .training_step = task_step};
static const bt_problem_def idle = {
    .name = "a", .configure_train_data = one_row, .configure_module = scalar, .training_step = idle_step};
static const bt_export tasks = {.abi = BT_ABI, .problems = {&task, &idle}};

START_TEST(mean_of_a_meta_batch)
{
    static const char settings[] = "dependencies.u2l = upper > a\ndependencies.l2u = a > upper\nengine.log_step = 0\n"
                                   "upper.lr = 1\nupper.meta_batch = 3\nupper.batch_size = 1\nupper.shuffle = false\n"
                                   "engine.train_iters = 3\n";
    double found;
    bt_engine *engine = levels_engine(&tasks, NULL, settings);
    levels_run(engine);
    levels_params(engine, "upper", &found, 1);
    ck_assert_double_eq_tol(found, 0.5 - 2, 1e-12);
    bt_engine_free(engine);
}
END_TEST

START_TEST(meta_batch_is_for_upper_problems)
{
    ridge data = ridge_data();
    levels_expect_error(ridge_engine(&data, "lower.meta_batch = 2\n"), "[lower] meta_batch", "gradient_accumulation",
                        NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hierarchy");
    TCase *tests = tcase_create("steps");
    tcase_add_loop_test(tests, steps_by_the_settings, 0, 16);
    tcase_add_loop_test(tests, two_children, 0, 6);
    tcase_add_loop_test(tests, inner_loops_begin, 0, 5);
    tcase_add_test(tests, mean_of_a_meta_batch);
    tcase_add_test(tests, meta_batch_is_for_upper_problems);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
