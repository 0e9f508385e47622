/* Schedules count the updates of their own level: by default, a cosine ends at the end of the run, also for an upper
 * level. The numbers of updates come from a counting loop, and from runs. */
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bt_dataset *rows(bt_problem *self)
{
    static const double x[] = {1, 2};
    (void)self;
    bt_dataset *data = bt_dataset_new(2);
    bt_dataset_add(data, "x", BT_ARRAY(x, 2));
    return data;
}

static bt_module *zero(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(0)); }
static bt_tensor *of(bt_problem *self, const char *name) { return bt_forward(bt_peer(self, name)); }

/* Every gradient is 1, so parameters change by the sum of the rates. */
static bt_tensor *sum_step(bt_problem *self, const bt_batch *batch)
{
    return (void)batch, bt_add(of(self, "upper"), of(self, "lower"));
}

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = rows, .configure_module = zero, .training_step = sum_step};
static const bt_problem_def lower = {
    .name = "lower", .configure_train_data = rows, .configure_module = zero, .training_step = sum_step};
static const bt_export pair = {.abi = BT_ABI, .problems = {&upper, &lower}};

enum { ITERS = 100 };

typedef struct counts {
    int unroll, warmup, meta_batch;
    bool roll_back;
} counts;

/* The upper updates of a run, and in *lasting the lower ones that roll_back keeps. */
static int upper_updates(const counts *c, int *lasting)
{
    int calls = 0, updates = 0, begun = 0;
    *lasting = 0;
    for (int steps = 1; steps <= ITERS; steps++) {
        if ((steps - 1) % c->unroll == 0)
            begun = *lasting;
        ++*lasting;
        if (steps % c->unroll != 0 || steps <= c->warmup || ++calls % c->meta_batch != 0)
            continue;
        updates++;
        if (c->roll_back)
            *lasting = begun + 1;
    }
    return updates;
}

static double cosine_sum(int updates, int warmup)
{
    double sum = 0, end = updates - warmup;
    for (int t = 0; t < updates; t++)
        sum += t < warmup ? (t + 1.0) / warmup : (1 + cos(acos(-1.0) * (t - warmup) / end)) / 2;
    return sum;
}

static const counts cases[] = {{1, 0, 1, false},   {10, 0, 1, false}, {7, 0, 1, false},  {10, 35, 1, false},
                               {10, 40, 1, false}, {5, 0, 3, false},  {4, 30, 2, false}, {1, 97, 1, false},
                               {10, 0, 1, true},   {10, 35, 2, true}};
enum { CASES = sizeof cases / sizeof *cases };

static bt_engine *pair_of(const counts *c, const char *more)
{
    char lines[700];
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nengine.train_iters = %d\n"
             "upper.lr = 0.1\nlower.lr = 0.1\nlower.unroll_steps = %d\nlower.warmup_steps = %d\nupper.meta_batch = %d\n"
             "engine.roll_back = %s\n%s",
             ITERS, c->unroll, c->warmup, c->meta_batch, c->roll_back ? "true" : "false", more);
    return levels_engine(&pair, NULL, lines);
}

START_TEST(an_upper_cosine)
{
    const counts *c = &cases[_i];
    int lasting, updates = upper_updates(c, &lasting);
    double moved;
    bt_engine *engine = pair_of(c, "upper.scheduler = cosine\n");
    levels_run(engine);
    levels_params(engine, "upper", &moved, 1);
    ck_assert_double_eq_tol(moved, -0.1 * cosine_sum(updates, 0), 1e-12);
    bt_engine_free(engine);
    if (updates < 4)
        return;
    engine = pair_of(c, "upper.scheduler = cosine\nupper.scheduler_warmup = 3\n");
    levels_run(engine);
    levels_params(engine, "upper", &moved, 1);
    ck_assert_double_eq_tol(moved, -0.1 * cosine_sum(updates, 3), 1e-12);
    bt_engine_free(engine);
}
END_TEST

START_TEST(ten_updates_in_a_hundred_steps)
{
    double moved;
    bt_engine *engine = pair_of(&cases[1], "upper.scheduler = cosine\n");
    levels_run(engine);
    levels_params(engine, "upper", &moved, 1);
    ck_assert_double_eq_tol(moved, -0.55, 1e-12);
    bt_engine_free(engine);
}
END_TEST

/* With roll_back only the updates that are kept count: the rate falls from its maximum in the first loop to its
 * minimum. */
START_TEST(a_lower_cosine)
{
    int lasting;
    upper_updates(&cases[_i], &lasting);
    bt_engine *engine = pair_of(&cases[_i], "lower.scheduler = cosine\n");
    levels_run(engine);
    bt_problem *problem = bt_engine_problem(engine, "lower");
    ck_assert_int_eq(problem->settings->scheduler.t_max, lasting);
    ck_assert_int_eq(bt_count_get(&engine->context, problem->optimizer->applied), lasting);
    bt_engine_free(engine);
}
END_TEST

/* ---- hierarchies ---- */

#define LEVEL(id)                                                                                                      \
    static bt_tensor *id##_step(bt_problem *self, const bt_batch *batch)                                               \
    {                                                                                                                  \
        bt_tensor *sum = bt_forward(self);                                                                             \
        for (const char *const *name = all; *name; name++)                                                             \
            sum = strcmp(*name, #id) == 0 ? sum : bt_add(sum, of(self, *name));                                        \
        return (void)batch, sum;                                                                                       \
    }                                                                                                                  \
    static const bt_problem_def id = {                                                                                 \
        .name = #id, .configure_train_data = rows, .configure_module = zero, .training_step = id##_step}

static const char *const all[] = {"a", "b", "c", "d", NULL};
LEVEL(a);
LEVEL(b);
LEVEL(c);
LEVEL(d);
static const bt_export four = {.abi = BT_ABI, .problems = {&a, &b, &c, &d}};

START_TEST(as_many_as_a_run_makes)
{
    static const char *const wirings[] = {
        /* a chain */
        "dependencies.u2l = a > b, b > c, c > d\ndependencies.l2u = d > c, c > b, b > a\nd.unroll_steps = 3\n"
        "c.unroll_steps = 2\nb.unroll_steps = 4\n",
        "dependencies.u2l = a > b, b > c, c > d\ndependencies.l2u = d > c, c > b, b > a\nd.unroll_steps = 2\n"
        "c.warmup_steps = 7\nb.meta_batch = 2\na.meta_batch = 3\nd.warmup_steps = 20\n",
        /* a diamond, and one level below two */
        "dependencies.u2l = a > b, a > c, b > d, c > d\ndependencies.l2u = d > b, d > c, b > a, c > a\n"
        "d.unroll_steps = 2\nb.unroll_steps = 3\nc.unroll_steps = 3\n",
        "dependencies.u2l = a > b, a > c, a > d\ndependencies.l2u = b > a, c > a, d > a\nb.unroll_steps = 2\n"
        "c.unroll_steps = 6\nd.unroll_steps = 3\n",
    };
    bt_engine *engine = levels_engine(&four, NULL, wirings[_i]);
    for (int k = 0; all[k]; k++) {
        char key[32];
        snprintf(key, sizeof key, "%s.scheduler", all[k]);
        bt_engine_set(engine, key, "cosine");
        snprintf(key, sizeof key, "%s.lr", all[k]);
        bt_engine_set(engine, key, "1e-3");
    }
    bt_engine_set(engine, "engine.train_iters", "%d", 5 * ITERS);
    levels_run(engine);
    for (int k = 0; all[k]; k++) {
        const bt_problem *problem = bt_engine_problem(engine, all[k]);
        ck_assert_msg(problem->settings->scheduler.t_max == problem->steps, "%s: %lld updates, a cosine over %lld",
                      all[k], (long long)problem->steps, (long long)problem->settings->scheduler.t_max);
    }
    bt_engine_free(engine);
}
END_TEST

/* ---- what is printed ---- */

static void silent(void *user, bt_line kind, const char *text)
{
    (void)user;
    ck_assert_msg(kind != BT_LINE_WARNING || !strstr(text, "scheduler"), "%s", text);
}

/* The printed settings of a run read back the same, and none is reported to have no effect. */
START_TEST(the_settings_of_a_run)
{
    bt_engine *engine = pair_of(&cases[1], "upper.scheduler = cosine\n");
    char path[] = "/tmp/betty-schedules-XXXXXX";
    int number = mkstemp(path);
    FILE *file = number < 0 ? NULL : fdopen(number, "w+");
    ck_assert_ptr_nonnull(file);
    EXPECT_OK(bt_engine_print(engine, BT_CONFIG, file));
    bt_engine_free(engine);
    char text[16384] = {0};
    rewind(file);
    fread(text, 1, sizeof text - 1, file);
    fclose(file);
    char *at = strstr(text, "scheduler_t_max = ");
    ck_assert_ptr_nonnull(at);
    ck_assert_int_eq(strncmp(at, "scheduler_t_max = 10\n", 21), 0);
    ck_assert_ptr_null(strstr(at + 1, "scheduler_t_max"));
    ck_assert_ptr_null(strstr(text, "scheduler_step_size"));
    engine = bt_engine_new();
    bt_engine_use(engine, &pair, NULL);
    EXPECT_OK(bt_engine_load(engine, path));
    EXPECT_OK(bt_engine_setup(engine));
    EXPECT_OK(bt_engine_log(engine, silent, NULL));
    ck_assert_int_eq(bt_engine_problem(engine, "upper")->settings->scheduler.t_max, 10);
    bt_engine_free(engine);
    remove(path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules");
    TCase *tc = tcase_create("schedules");
    tcase_add_loop_test(tc, an_upper_cosine, 0, CASES);
    tcase_add_test(tc, ten_updates_in_a_hundred_steps);
    tcase_add_loop_test(tc, a_lower_cosine, 0, CASES);
    tcase_add_loop_test(tc, as_many_as_a_run_makes, 0, 4);
    tcase_add_test(tc, the_settings_of_a_run);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
