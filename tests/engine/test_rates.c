/* The logged learning rates are those that the updates use: compared with the schedulers' formulas, and with the actual
 * steps of plain gradient descent. */
#include "levels.h"
#include "resumable.h"

#include "engine/level/rates.h"
#include "engine/session/session.h"
#include "support/suite.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* loss = sum of all parameters, so each update changes each parameter by its rate. */
static bool own_metric;

static bt_module *two(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_module_new(NULL);
    bt_module_add_param(module, "a", bt_init_constant(0), 1);
    bt_module_add_param(module, "b", bt_init_constant(0), 1);
    return module;
}

static bt_tensor *sum_of_both(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *x = bt_mean(bt_field(batch, "x")); /* 1 */
    if (own_metric)
        bt_metric(self, "lr", bt_mul(7, x));
    return bt_mul(x, bt_add(bt_sum(bt_param(self, "a")), bt_sum(bt_param(self, "b"))));
}

/* 1 / (updates so far + 1), for all groups without a rate of their own. */
static void falling(bt_problem *self, bt_rule *rule) { bt_hyper_set(rule, "lr", bt_div(1, bt_add(bt_step(self), 1))); }

static const bt_problem_def plain = {.name = "model",
                                     .configure_train_data = levels_one_row,
                                     .configure_module = two,
                                     .training_step = sum_of_both},
                            scheduled = {.name = "model",
                                         .configure_train_data = levels_one_row,
                                         .configure_module = two,
                                         .training_step = sum_of_both,
                                         .schedule = falling};
static const bt_export plain_parts = {.abi = BT_ABI, .problems = {&plain}},
                       scheduled_parts = {.abi = BT_ABI, .problems = {&scheduled}};

static bt_engine *engine_of(const bt_export *parts, const char *settings)
{
    char all[400];
    snprintf(all, sizeof all, "model.lr = 0.5\n%s", settings);
    bt_engine *engine = levels_engine(parts, NULL, all);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    return engine;
}

static double constant(int t) { return (void)t, 0.5; }
static double warm(int t) { return t < 4 ? 0.5 * (t + 1) / 4 : 0.5; }
static double stair(int t) { return 0.5 * pow(0.1, t / 3); }
static double cosine(int t) { return 0.1 + (0.5 - 0.1) * (1 + cos(3.14159265358979323846 * t / 6)) / 2; }
static double hyperbola(int t) { return 1.0 / (t + 1); }

static const struct {
    const bt_export *parts;
    const char *settings;
    double (*rate)(int t), (*of_b)(int t); /* after t updates; of_b: of a group that contains only b */
} cases[] = {
    {&plain_parts, "", constant, NULL},
    {&plain_parts, "model.scheduler_warmup = 4\n", warm, NULL},
    {&plain_parts, "model.scheduler = step\nmodel.scheduler_step_size = 3\n", stair, NULL},
    {&plain_parts,
     "model.scheduler = cosine\nmodel.scheduler_t_max = 6\nmodel.scheduler_eta_min = 0.1\nmodel.some.params = b\n",
     cosine, cosine},
    {&scheduled_parts, "", hyperbola, NULL},
    {&scheduled_parts, "model.some.params = b\nmodel.some.lr = 0.5\n", hyperbola, constant},
    {&scheduled_parts, "model.some.params = b\n", hyperbola, hyperbola},
    {&plain_parts, "model.some.params = b\nmodel.some.frozen = true\n", constant, NULL},
};

/* The rates, compared with the steps of the parameters. */
START_TEST(as_used)
{
    bt_engine *engine = engine_of(cases[_i].parts, cases[_i].settings);
    const bt_problem *model = engine->context.problems[0];
    double before[2] = {0}, after[2];
    for (int t = 0; t < 8; t++) {
        bt_metric_value found[3];
        levels_step(engine, 1);
        levels_params(engine, "model", after, 2);
        ck_assert_int_eq(bt_rates_take(model, found), cases[_i].of_b ? 2 : 1);
        ck_assert_str_eq(found[0].name, "model.lr");
        ck_assert_double_eq_tol(found[0].value, cases[_i].rate(t), 1e-12);
        ck_assert_double_eq_tol(found[0].value, before[0] - after[0], 1e-12);
        if (cases[_i].of_b) {
            ck_assert_str_eq(found[1].name, "model.some.lr");
            ck_assert_double_eq_tol(found[1].value, cases[_i].of_b(t), 1e-12);
            ck_assert_double_eq_tol(found[1].value, before[1] - after[1], 1e-12);
        }
        memcpy(before, after, sizeof before);
    }
    bt_engine_free(engine);
}
END_TEST

/* Optimisers that determine the rate themselves log none; and a metric of the problem with that name takes
 * precedence. */
START_TEST(without)
{
    bt_metric_value found[3];
    bt_engine *engine = levels_engine(&plain_parts, NULL, "model.optimizer = adafactor\n");
    EXPECT_OK(bt_engine_setup(engine));
    levels_step(engine, 1);
    ck_assert_int_eq(bt_rates_take(engine->context.problems[0], found), 0);
    bt_engine_free(engine);
    engine =
        levels_engine(&plain_parts, NULL, "model.optimizer = adafactor\nmodel.relative_step = false\nmodel.lr = 0.1\n");
    EXPECT_OK(bt_engine_setup(engine));
    levels_step(engine, 1);
    ck_assert_int_eq(bt_rates_take(engine->context.problems[0], found), 1);
    bt_engine_free(engine);
    own_metric = true;
    engine = engine_of(&plain_parts, "model.some.params = b\nmodel.some.lr = 0.2\n");
    levels_step(engine, 1);
    ck_assert_int_eq(bt_rates_take(engine->context.problems[0], found), 1);
    ck_assert_str_eq(found[0].name, "model.some.lr");
    bt_engine_free(engine);
    own_metric = false;
}
END_TEST

static bt_text said;

static void listen(void *user, bt_line kind, const char *text)
{
    (void)user, (void)kind, bt_text_add(&said, "%s\n", text);
}

/* In metrics.jsonl, next to the metrics of the level; not in the console output. */
START_TEST(in_the_log)
{
    bt_engine *engine = engine_of(&plain_parts, "engine.train_iters = 4\nengine.log_step = 2\nengine.output = run\n"
                                                "model.scheduler = exponential\nmodel.scheduler_gamma = 0.5\n");
    bt_engine_log(engine, listen, NULL);
    levels_run(engine);
    bt_engine_free(engine);
    char line[1024];
    FILE *file = fopen("run/metrics.jsonl", "r");
    ck_assert_ptr_nonnull(file);
    for (int t = 2; t <= 4; t += 2) {
        ck_assert_ptr_nonnull(fgets(line, sizeof line, file));
        json_t *object = json_loads(line, 0, NULL);
        ck_assert_int_eq(json_integer_value(json_object_get(object, "step")), t);
        ck_assert_double_eq_tol(json_real_value(json_object_get(object, "model.lr")), 0.5 * pow(0.5, t - 1), 1e-15);
        json_decref(object);
    }
    ck_assert_ptr_null(fgets(line, sizeof line, file));
    fclose(file);
    ck_assert_ptr_nonnull(strstr(bt_text_get(&said), "model.loss"));
    ck_assert_ptr_null(strstr(bt_text_get(&said), "model.lr"));
    bt_text_free(&said);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rates");
    TCase *tests = tcase_create("rates");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_loop_test(tests, as_used, 0, BT_COUNT_OF(cases));
    tcase_add_test(tests, without);
    tcase_add_test(tests, in_the_log);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
