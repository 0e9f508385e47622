/* tests/engine/test_purity.c: results that must not change, and are occasionally requested again: batches of a
 * callback, functions of bt_eval and bt_function, conditions, starts, user-defined methods and optimisers. For
 * constants in a training step or schedule see test_moving.c. */
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <stdio.h>
#include <string.h>

enum part { NONE, CONDITION, START, METHOD_START, METHOD_STEP, UPDATE, EVALUATION };

static struct {
    enum part drifts; /* uses a different number each time it is traced */
    double number;
    int changed;     /* get_batch: the index whose batch differs each time; -1: none */
    int made[200];   /* how often each batch was requested */
    const char *how; /* "value", "shape" or "name" */
} world;

static double drifting(enum part part) { return world.drifts == part ? (world.number += 0.25) : 1; }

static bt_module *scalar(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(0.5));
}

static bt_status make(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    (void)self, (void)mode;
    double x[] = {1 + 0.1 * (double)index, 2, 3};
    if (index == world.changed && strcmp(world.how, "end") == 0)
        return BT_DONE;
    bool other = index == world.changed && world.made[index] % 2;
    world.made[index]++;
    if (other && strcmp(world.how, "value") == 0)
        x[1] = 2.5;
    int64_t count = other && strcmp(world.how, "shape") == 0 ? 2 : 3;
    return bt_batch_set(batch, other && strcmp(world.how, "name") == 0 ? "y" : "x", BT_ARRAY(x, count));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *away = bt_sub(bt_forward(self), bt_mul(bt_forward(bt_peer(self, "upper")), bt_field(batch, "x")));
    return bt_mean(bt_square(away));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_sub(bt_forward(bt_peer(self, "lower")), bt_field(batch, "x"))));
}

static bt_tensor *condition(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *away = bt_sub(bt_params(self), bt_params(bt_peer(self, "upper")));
    return bt_mul(bt_mul(drifting(CONDITION), bt_mean(bt_field(batch, "x"))), away);
}

static bt_tensor *start(bt_problem *self) { return bt_mul(drifting(START), bt_params(bt_peer(self, "upper"))); }

static bt_tensor *method_start(bt_rule *rule, bt_tensor *v)
{
    (void)rule;
    return bt_mul(drifting(METHOD_START), v);
}

static bt_tensor *method_step(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    return bt_add(x, bt_mul(0.1 * drifting(METHOD_STEP), bt_sub(v, bt_hvp(rule, x))));
}

static bt_tensor *update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    return bt_sub(param, bt_mul(bt_hyper(rule, "lr"), bt_mul(drifting(UPDATE), grad)));
}

static const bt_method_def method = {.name = "drift",
                                     .hypers = {{"iterations", 2, 0, 10, "steps", BT_HYPER_WHOLE}},
                                     .start = method_start,
                                     .step = method_step};
static const bt_optimizer_def optimizer = {
    .name = "drifter", .hypers = {{"lr", 0.1, 0, 1, "rate", BT_HYPER_REAL}}, .update = update};
static const bt_problem_def upper = {
    .name = "upper", .get_batch = make, .configure_module = scalar, .training_step = upper_step};

static bt_engine *engine_of(enum part drifts)
{
    static bt_problem_def lower;
    static bt_export parts;
    lower =
        (bt_problem_def){.name = "lower", .get_batch = make, .configure_module = scalar, .training_step = lower_step};
    if (drifts == CONDITION)
        lower.condition = condition;
    if (drifts == START)
        lower.start = start;
    parts = (bt_export){.abi = BT_ABI, .problems = {&upper, &lower}, .methods = {&method}, .optimizers = {&optimizer}};
    memset(&world, 0, sizeof world);
    world.drifts = drifts;
    world.changed = -1;
    return levels_engine(&parts, NULL,
                         "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nengine.train_iters = 12\n"
                         "lower.type = drift\nlower.optimizer = drifter\n");
}

START_TEST(what_is_traced)
{
    static const struct {
        enum part part;
        const char *words;
    } cases[] = {{CONDITION, "lower: condition is not pure: traced again at step 2"},
                 {START, "lower: start is not pure: traced again at step 2"},
                 {METHOD_START, "lower: start of type = drift is not pure: traced again at step 2"},
                 {METHOD_STEP, "lower: step of type = drift is not pure: traced again at step 2"},
                 {UPDATE, "lower: the optimizer's update is not pure: traced again at step 2"}};
    levels_expect_error(engine_of(cases[_i].part), cases[_i].words, "constant", "became", "bt_host_scalar", NULL);
}
END_TEST

START_TEST(all_is_well)
{
    static const enum part ways[] = {NONE, CONDITION, START};
    bt_engine *engine = engine_of(ways[_i]);
    world.drifts = NONE;
    levels_run(engine);
    bt_engine_free(engine);
}
END_TEST

static bt_tensor *evaluated(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *value = bt_mul(drifting(EVALUATION), bt_sum(bt_params(self)));
    return batch ? bt_add(value, bt_mean(bt_field(batch, "x"))) : value;
}

static double threshold; /* the constant that `plain` uses */

static bt_tensor *plain(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(threshold, bt_sum(bt_params(self)));
}

START_TEST(functions_of_bt_eval)
{
    bt_engine *engine = engine_of(NONE);
    bt_problem *self = bt_engine_problem(engine, "upper");
    double value;
    threshold = 2;
    for (int call = 1; call <= 9; call++) {
        EXPECT_OK(bt_eval(self, plain, NULL, BT_ARRAY(&value)));
        ck_assert_double_eq(value, 1);
    }
    threshold = 4;
    ck_assert_int_eq(bt_eval(self, plain, NULL, BT_ARRAY(&value)), BT_ERROR_ARGUMENT);
    ck_assert_msg(strstr(bt_error(), "upper: the function of bt_eval is not pure: traced again at call 10") != NULL,
                  "%s", bt_error());
    bt_engine_free(engine);
    bt_error_clear();
    engine = engine_of(EVALUATION);
    self = bt_engine_problem(engine, "upper");
    bt_batch *batch = bt_batch_new();
    EXPECT_OK(bt_batch_set(batch, "x", BT_ARRAY(((double[]){1, 2}), 2)));
    EXPECT_OK(bt_eval(self, evaluated, batch, BT_ARRAY(&value)));
    ck_assert_int_eq(bt_eval(self, evaluated, batch, BT_ARRAY(&value)), BT_ERROR_ARGUMENT);
    bt_batch_free(batch);
    bt_engine_free(engine);
}
END_TEST

static bt_tensor *of_batch(void *user, const bt_batch *batch)
{
    return bt_mul(*(const double *)user, bt_sum(bt_field(batch, "x")));
}

START_TEST(functions_without_a_problem)
{
    double factor = 2, value = 0;
    bt_function *function = bt_function_new(of_batch, &factor, BT_VALID);
    bt_batch *batch = bt_batch_new(), *longer = bt_batch_new();
    EXPECT_OK(bt_batch_set(batch, "x", BT_ARRAY(((double[]){1, 2}), 2)));
    EXPECT_OK(bt_batch_set(longer, "x", BT_ARRAY(((double[]){1, 2, 3}), 3)));
    for (int run = 1; run <= 9; run++) {
        EXPECT_OK(bt_function_run(function, batch, BT_ARRAY(&value)));
        ck_assert_double_eq(value, 6);
    }
    EXPECT_OK(bt_function_run(function, longer, BT_ARRAY(&value))); /* each shape has its own count */
    ck_assert_double_eq(value, 12);
    factor = 3;
    ck_assert_int_eq(bt_function_run(function, batch, BT_ARRAY(&value)), BT_ERROR_ARGUMENT);
    ck_assert_msg(strstr(bt_error(), "the function is not pure: traced again at run 10, node") != NULL, "%s",
                  bt_error());
    bt_function_free(function);
    bt_batch_free(batch);
    bt_batch_free(longer);
}
END_TEST

START_TEST(batches)
{
    static const struct {
        int changed;
        const char *how, *words;
    } cases[] = {{1, "value", "batch 1, made again, is different: element 1 of the field x was 2, and is now 2.5"},
                 {2, "value", "batch 2, made again, is different: element 1 of the field x was 2, and is now 2.5"},
                 {9, "value", "batch 9, made again, is different: element 1 of the field x was 2, and is now 2.5"},
                 {1, "shape", "batch 1, made again, is different: it has other fields, dtypes or shapes"},
                 {1, "name", "batch 1, made again, is different: it has other fields, dtypes or shapes"}};
    bt_engine *engine = engine_of(NONE);
    world.changed = cases[_i].changed;
    world.how = cases[_i].how;
    levels_expect_error(engine, ": get_batch is not pure: batch ", cases[_i].words, "bt_host_uniform(bt_seed(self)",
                        NULL);
}
END_TEST

START_TEST(batches_have_no_end)
{
    bt_engine *engine = engine_of(NONE);
    world.changed = 5;
    world.how = "end";
    levels_expect_error(engine, "lower, get_batch: it returned BT_DONE for batch 5, but its batches must not end",
                        "valid_batches", NULL);
}
END_TEST

START_TEST(batches_in_between_are_made_once)
{
    bt_engine *engine = engine_of(NONE);
    levels_run(engine);
    ck_assert_int_eq(world.made[5], 2); /* one for each level */
    ck_assert_int_eq(world.made[9], 4);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("purity");
    TCase *tests = tcase_create("again");
    tcase_add_loop_test(tests, what_is_traced, 0, 5);
    tcase_add_loop_test(tests, all_is_well, 0, 3);
    tcase_add_test(tests, functions_of_bt_eval);
    tcase_add_test(tests, functions_without_a_problem);
    tcase_add_loop_test(tests, batches, 0, 5);
    tcase_add_test(tests, batches_have_no_end);
    tcase_add_test(tests, batches_in_between_are_made_once);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
