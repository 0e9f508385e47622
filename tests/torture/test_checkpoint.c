/* A run that resumes from a checkpoint and writes another. Every allocation fails in turn, also those of the JSON
 * library: an error with a message, no crash, no leak, and never a partial checkpoint. */
#include "failing.h"

#include "base/base.h"
#include "support/suite.h"
#include <betty/betty.h>

#include <check.h>
#include <dlfcn.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int64_t loops;

static bt_dataset *points(bt_problem *self)
{
    (void)self;
    double x[10];
    for (int i = 0; i < 10; i++)
        x[i] = (double)(i * 7 % 11) / 11;
    bt_dataset *data = bt_dataset_new(10);
    bt_dataset_add(data, "x", BT_ARRAY(x, 10));
    return data;
}

static bt_module *number(bt_problem *self)
{
    bt_state(self, "loops", &loops, sizeof loops);
    return bt_nn_parameter(bt_init_constant(0.5), 3);
}

static bt_tensor *away(bt_problem *lower, const bt_batch *batch)
{
    bt_metric(lower, "mean", bt_mean(bt_forward(lower)));
    return bt_square(bt_sub(bt_mean(bt_forward(lower)), bt_mean(bt_field(batch, "x"))));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *strength = bt_exp(bt_mean(bt_forward(bt_peer(self, "upper"))));
    return bt_add(away(self, batch), bt_mul(strength, bt_sum(bt_square(bt_forward(self)))));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch) { return away(bt_peer(self, "lower"), batch); }

static const bt_problem_def lower = {
    .name = "lower", .configure_train_data = points, .configure_module = number, .training_step = lower_step};
static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = points, .configure_module = number, .training_step = upper_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

static const char *type = "darts";

static bt_engine *planned_engine(const char *steps)
{
    static const char *const settings[][2] = {{"engine.threads", "1"},
                                              {"engine.valid_step", "0"},
                                              {"dependencies.u2l", "upper > lower"},
                                              {"dependencies.l2u", "lower > upper"},
                                              {"lower.batch_size", "3"},
                                              {"lower.momentum", "0.9"},
                                              {"lower.unroll_steps", "2"},
                                              {"upper.batch_size", "4"},
                                              {"upper.meta_batch", "2"},
                                              {"engine.roll_back", "true"}};
    bt_engine *engine = bt_engine_new();
    bt_engine_use(engine, &parts, NULL);
    bt_engine_set(engine, "engine.train_iters", "%s", steps);
    bt_engine_set(engine, "lower.type", "%s", type);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        bt_engine_set(engine, settings[i][0], "%s", settings[i][1]);
    ck_assert_msg(bt_engine_problem(engine, "lower") != NULL, "%s", bt_error());
    return engine;
}

static bt_status go_on(bt_engine *engine, const char *folder)
{
    bt_status status = bt_engine_resume(engine, "base");
    if (status == BT_OK)
        status = bt_engine_run(engine);
    return status == BT_OK ? bt_engine_save(engine, folder) : status;
}

/* The result from the checkpoint in the folder; NaN: there is none. */
static double outcome(const char *folder)
{
    if (access(folder, F_OK) != 0)
        return (double)NAN;
    bt_engine *engine = planned_engine("9");
    bt_status status = bt_engine_resume(engine, folder);
    ck_assert_msg(status == BT_OK || strstr(bt_error(), "holds no checkpoint "), "%s", bt_error());
    double value = status == BT_OK ? bt_engine_metric(engine, "lower.loss") : (double)NAN;
    bt_engine_free(engine);
    bt_error_clear();
    return value;
}

START_TEST(every_so_many_allocations)
{
    type = _i % 2 ? "itd" : "darts"; /* one of them also keeps a trajectory */
    bt_engine *engine = planned_engine("4");
    ck_assert_int_eq(bt_engine_run(engine), BT_OK);
    ck_assert_msg(bt_engine_save(engine, "base") == BT_OK, "%s", bt_error());
    bt_engine_free(engine);
    engine = planned_engine("9");
    ck_assert_msg(go_on(engine, "whole") == BT_OK, "%s", bt_error());
    bt_engine_free(engine);
    double expected = outcome("whole");
    ck_assert(expected == expected);
    long n = _i, failures = 0, unnoticed = 0;
    for (bool reached = true; reached; n += 9) {
        char folder[32];
        snprintf(folder, sizeof folder, "try-%ld", n);
        engine = planned_engine("9");
        size_t bytes = bt_live_bytes();
        failing_start(n, false);
        bt_status status = go_on(engine, folder);
        reached = failing_stop();
        ck_assert_uint_eq(bt_live_bytes(), bytes);
        failures += reached;
        unnoticed += reached && status == BT_OK;
        ck_assert_msg(status == BT_OK || (reached && *bt_error()), "allocation %ld: status %d", n, (int)status);
        bt_engine_free(engine);
        bt_error_clear();
        double found = status == BT_OK || n % 5 == 0 ? outcome(folder) : (double)NAN;
        ck_assert_msg(found == expected || (found != found && status != BT_OK), "allocation %ld: %g", n, found);
    }
    ck_assert_int_gt(failures, 20);
    ck_assert_msg(unnoticed <= failures / 5, "%ld of %ld failures went unnoticed", unnoticed, failures);
}
END_TEST

static char folder[64];

static void setup(void)
{
    strcpy(folder, "/tmp/betty-torture-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    bt_error_clear();
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "cd / && rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* The parser of jansson 2.14 does not notice if its buffer could not grow, and overruns a string. */
json_t *json_loadb(const char *text, size_t size, size_t flags, json_error_t *error)
{
    json_t *(*parse)(const char *, size_t, size_t, json_error_t *);
    *(void **)&parse = dlsym(RTLD_NEXT, "json_loadb");
    failing_pause(true);
    json_t *result = parse(text, size, flags, error);
    failing_pause(false);
    return result;
}

int main(void)
{
    Suite *suite = suite_create("checkpoint");
    TCase *tests = tcase_create("checkpoint");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, every_so_many_allocations, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
