/* A level without trainable parameters is an error at the start, upper or lower, for any reason; and the message names
 * that level. */
#include "levels.h"

#include "support/suite.h"
#include <stdio.h>
#include <string.h>

typedef enum kind { PARAMETERS, EMPTY, BUFFERS } kind;

static const char *const names[] = {"upper", "lower"};
static kind made[2]; /* of upper, lower */

static bt_dataset *data(bt_problem *self)
{
    static const double x[] = {1, 2};
    (void)self;
    bt_dataset *set = bt_dataset_new(2);
    bt_dataset_add(set, "x", BT_ARRAY(x, 2));
    return set;
}

static bt_module *module_of(kind which)
{
    bt_module *module = bt_module_new(NULL);
    if (which == BUFFERS)
        bt_module_add_buffer(module, "w", bt_init_constant(1), 2);
    if (which != PARAMETERS)
        return module;
    bt_module_add_param(module, "w", bt_init_constant(1), 2);
    bt_module_add_param(module, "b", bt_init_constant(1));
    return module;
}

static bt_module *upper_module(bt_problem *self) { return (void)self, module_of(made[0]); }
static bt_module *lower_module(bt_problem *self) { return (void)self, module_of(made[1]); }

/* A part of it that can be read. */
static bt_tensor *value(bt_problem *problem, kind which)
{
    return which == EMPTY ? bt_constant(BT_ARRAY(((double[]){1, 2}), 2)) : bt_param(problem, "w");
}

static bt_tensor *apart(bt_problem *self)
{
    bt_problem *upper = bt_peer(self, "upper"), *lower = bt_peer(self, "lower");
    return bt_sum(bt_square(bt_sub(value(lower, made[1]), value(upper, made[0]))));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch) { return (void)batch, apart(self); }

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_square(value(bt_peer(self, "lower"), made[1])));
}

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = data, .configure_module = upper_module, .training_step = upper_step};
static const bt_problem_def lower = {
    .name = "lower", .configure_train_data = data, .configure_module = lower_module, .training_step = lower_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

static bt_engine *engine_of(const char *more)
{
    char lines[400];
    snprintf(lines, sizeof lines,
             "engine.train_iters = 2\ndependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n%s", more);
    return levels_engine(&parts, NULL, lines);
}

static void expect_blame(const char *more, const char *blamed, const char *reason)
{
    char words[64];
    snprintf(words, sizeof words, "%s has nothing to train", blamed);
    bt_engine *engine = engine_of(more);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_engine_run(engine), BT_ERROR_CONFIG);
    ck_assert_msg(strncmp(bt_error(), words, strlen(words)) == 0, "%s", bt_error());
    ck_assert_msg(strstr(bt_error(), reason) != NULL, "`%s` is not in: %s", reason, bt_error());
    ck_assert_int_eq(bt_engine_steps(engine), 0);
    bt_engine_free(engine);
    bt_error_clear();
}

START_TEST(a_module_without_parameters)
{
    static const struct {
        kind which;
        const char *reason;
    } cases[] = {{EMPTY, "no parameters;"}, {BUFFERS, "no parameters, only buffers;"}};
    int level = _i % 2;
    const char *const methods[] = {"", "lower.type = itd\n"};
    made[0] = made[1] = PARAMETERS;
    made[level] = cases[_i / 2].which;
    for (int m = 0; m < 2; m++)
        expect_blame(methods[m], names[level], cases[_i / 2].reason);
}
END_TEST

START_TEST(parameters_that_are_left_out)
{
    static const char *const lines[] = {"%s.all.params = *\n%s.all.frozen = true\n",
                                        "%s.a.params = w\n%s.a.frozen = true\n%s.b.params = b\n%s.b.frozen = true\n",
                                        "%s.trainable = b\n%s.b.params = b\n%s.b.frozen = true\n"};
    static const char *const reasons[] = {"params = *, frozen = true", "params = w, frozen = true", "] trainable = b"};
    const char *level = names[_i % 2];
    char more[300];
    made[0] = made[1] = PARAMETERS;
    snprintf(more, sizeof more, lines[_i / 2], level, level, level, level);
    expect_blame(more, level, reasons[_i / 2]);
}
END_TEST

START_TEST(one_that_is_trained_is_enough)
{
    made[0] = made[1] = PARAMETERS;
    bt_engine *engine = engine_of("upper.trainable = w\nlower.b.params = b\nlower.b.frozen = true\n");
    levels_run(engine);
    bt_engine_free(engine);
}
END_TEST

/* Problems that take no part in a run need not be trainable. */
START_TEST(a_level_that_is_left_out)
{
    made[0] = BUFFERS;
    made[1] = PARAMETERS;
    bt_engine *engine = engine_of("engine.levels = lower\n");
    levels_run(engine);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nothing_to_train");
    TCase *tc = tcase_create("nothing_to_train");
    tcase_add_loop_test(tc, a_module_without_parameters, 0, 4);
    tcase_add_loop_test(tc, parameters_that_are_left_out, 0, 6);
    tcase_add_test(tc, one_that_is_trained_is_enough);
    tcase_add_test(tc, a_level_that_is_left_out);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
