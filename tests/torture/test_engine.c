/* A whole run of two levels in which every allocation fails in turn: an error with a message, no crash, no leak. */
#include "failing.h"

#include "base/base.h"
#include "engine/session/front.h"
#include "support/suite.h"
#include <betty/betty.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bt_dataset *points(bt_problem *self)
{
    (void)self;
    double x[12 * 2];
    int64_t label[12];
    for (int i = 0; i < 24; i++)
        x[i] = (double)(i * 7 % 11) / 11;
    for (int i = 0; i < 12; i++)
        label[i] = i % 3;
    bt_dataset *data = bt_dataset_new(12);
    bt_dataset_add(data, "x", BT_ARRAY(x, 12, 2));
    bt_dataset_add(data, "label", BT_ARRAY(label, 12));
    return bt_dataset_label_noise(data, 0.25, bt_seed(self));
}

static bt_module *net(bt_problem *self)
{
    (void)self;
    bt_module *layers = bt_nn_mlp(bt_relu, 2, 4, 3), *dropout = bt_nn_dropout(0.1);
    if (layers && dropout)
        return bt_nn_sequential(layers, dropout);
    bt_module_free(layers); /* a list that ends early would not take both */
    bt_module_free(dropout);
    return NULL;
}

static bt_module *penalty(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(-2));
}

static bt_tensor *loss(bt_problem *problem, const bt_batch *batch)
{
    return bt_mean(bt_cross_entropy(bt_forward(problem, bt_field(batch, "x")), bt_field(batch, "label")));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *strength = bt_exp(bt_param(bt_peer(self, "upper"), "value"));
    bt_tensor *size = bt_sum(bt_square(bt_params(self)));
    bt_metric(self, "size", size);
    return bt_add(loss(self, batch), bt_mul(strength, size));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch) { return loss(bt_peer(self, "lower"), batch); }

static bt_tensor *accuracy(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *logits = bt_forward(self, bt_field(batch, "x"));
    bt_metric(self, "accuracy", bt_accuracy(logits, bt_field(batch, "label")));
    return bt_mean(bt_cross_entropy(logits, bt_field(batch, "label")));
}

static const bt_problem_def lower = {.name = "lower",
                                     .configure_train_data = points,
                                     .configure_valid_data = points,
                                     .configure_module = net,
                                     .training_step = lower_step,
                                     .validation_step = accuracy};
static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = points, .configure_module = penalty, .training_step = upper_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

static const char *const settings[][2] = {{"engine.train_iters", "4"},
                                          {"engine.valid_step", "2"},
                                          {"engine.threads", "1"},
                                          {"dependencies.u2l", "upper > lower"},
                                          {"dependencies.l2u", "lower > upper"},
                                          {"lower.cg_iterations", "2"},
                                          {"lower.nystrom_rank", "2"},
                                          {"lower.penalty_iterations", "2"},
                                          {"lower.itd_spacing", "2"},
                                          {"lower.batch_size", "5"},
                                          {"lower.product_batches", "all"},
                                          {"lower.unroll_steps", "2"},
                                          {"lower.optimizer", "sgd"},
                                          {"lower.momentum", "0.9"},
                                          {"upper.optimizer", "adam"},
                                          {"upper.batch_size", "12"}};

/* The first one fails at every allocation, the others, which have much in common, at fewer. */
static const struct {
    const char *type, *warm_start, *micros;
    int stride;
} methods[] = {{"cg", "false", "1", 1},       {"cg", "true", "1", 13},       {"sama", "false", "1", 13},
               {"nystrom", "false", "1", 13}, {"penalty", "false", "1", 13}, {"itd", "false", "1", 13},
               {"cg", "true", "3", 13},       {"penalty", "false", "3", 13}, {"itd", "false", "3", 13}};

static bt_status run(int method, double *metric)
{
    bt_engine *engine = bt_engine_new();
    bt_status status = engine ? bt_engine_use(engine, &parts, NULL) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = bt_engine_set(engine, "lower.type", "%s", methods[method].type);
    if (status == BT_OK)
        status = bt_engine_set(engine, "lower.cg_warm_start", "%s", methods[method].warm_start);
    if (status == BT_OK)
        status = bt_engine_set(engine, "lower.gradient_accumulation", "%s", methods[method].micros);
    for (size_t i = 0; i < sizeof settings / sizeof *settings && status == BT_OK; i++)
        status = bt_engine_set(engine, settings[i][0], "%s", settings[i][1]);
    if (status == BT_OK)
        status = bt_engine_run(engine);
    if (status == BT_OK)
        *metric = bt_engine_metric(engine, "lower.valid.loss");
    bt_engine_free(engine);
    return status;
}

START_TEST(every_allocation_in_turn)
{
    double expected = 0, found;
    bt_error_clear();
    ck_assert_msg(run(_i, &expected) == BT_OK, "%s", bt_error());
    ck_assert(expected == expected && expected > 0);
    size_t bytes = bt_live_bytes();
    long n = 0, unnoticed = 0, failures = 0;
    for (bool reached = true; reached; n += methods[_i].stride * failing_step(7)) {
        bt_error_clear();
        failing_start(n, false);
        bt_status status = run(_i, &found);
        reached = failing_stop();
        ck_assert_uint_eq(bt_live_bytes(), bytes);
        failures += reached;
        if (status == BT_OK) {
            unnoticed += reached;
            ck_assert_msg(found == expected, "allocation %ld: loss %.17g, not %.17g", n, found, expected);
        } else {
            ck_assert_msg(reached, "%s", bt_error());
            ck_assert_msg(*bt_error(), "allocation %ld: status %d and no message", n, status);
        }
    }
    ck_assert_int_gt(failures, 20);
    ck_assert_msg(unnoticed <= failures / 5, "%ld of %ld failures went unnoticed", unnoticed, failures);
}
END_TEST

/* ---- a check of the hypergradient; rebuilding the hierarchy; a run in several calls with inspections ---- */

static void hear(void *user, bt_line kind, const char *text) { (void)user, (void)kind, (void)text; }

static bt_status look(bt_engine *engine)
{
    enum { PARAMETERS = 2 * 4 + 4 + 4 * 3 + 3 };
    double x[PARAMETERS], value;
    bt_status status = bt_engine_log(engine, hear, NULL);
    if (status == BT_OK)
        status = bt_engine_step(engine);
    if (status == BT_OK)
        status = bt_engine_read(engine, "upper:x.lower", BT_ARRAY(x, PARAMETERS));
    if (status == BT_OK)
        status = bt_engine_read(engine, "upper.value", BT_ARRAY(&value));
    if (status == BT_OK)
        status = bt_engine_write(engine, "upper.value", BT_ARRAY(&value));
    if (status == BT_OK)
        status = bt_engine_set(engine, "engine.train_iters", "2");
    if (status != BT_OK)
        return status;
    bt_memory_table *table = bt_engine_memory(engine);
    bt_check_result *result = table ? bt_engine_check(engine, NULL, 1) : NULL;
    const char *name = result ? bt_engine_name(engine, 0, NULL) : NULL;
    bt_memory_table_free(table);
    bt_check_result_free(result);
    return name ? bt_engine_run(engine) : BT_ERROR_MEMORY;
}

static bt_status answer(bt_engine *engine, int question, FILE *nowhere)
{
    if (question == 0)
        return bt_engine_check_hypergradient(engine, &(bt_checking){.samples = 1, .json = true, .file = nowhere});
    if (question == 2)
        return look(engine);
    bt_problem *self = bt_engine_problem(engine, "upper");
    bt_status status = self ? bt_set_dependency(self, "upper > lower", "lower > upper") : BT_ERROR_MEMORY;
    return status == BT_OK ? bt_engine_run(engine) : status;
}

static bt_status ask(int question)
{
    static const char *const own[][2] = {{"engine.precision", "fp64"},
                                         {"engine.train_iters", "1"},
                                         {"engine.valid_step", "0"},
                                         {"lower.unroll_steps", "1"}};
    bt_engine *engine = bt_engine_new();
    FILE *nowhere = fopen("/dev/null", "w");
    bt_status status = engine && nowhere ? bt_engine_use(engine, &parts, NULL) : BT_ERROR_MEMORY;
    for (size_t i = 0; i < sizeof settings / sizeof *settings && status == BT_OK; i++)
        status = bt_engine_set(engine, settings[i][0], "%s", settings[i][1]);
    for (size_t i = 0; i < sizeof own / sizeof *own && status == BT_OK; i++)
        status = bt_engine_set(engine, own[i][0], "%s", own[i][1]);
    if (status == BT_OK)
        status = answer(engine, question, nowhere);
    bt_engine_free(engine);
    if (nowhere)
        fclose(nowhere);
    return status;
}

START_TEST(questions_in_turn)
{
    bt_error_clear();
    ck_assert_msg(ask(_i) == BT_OK, "%s", bt_error());
    size_t bytes = bt_live_bytes();
    long failures = 0;
    for (long n = _i, reached = true; reached; n += 37 * failing_step(7)) {
        bt_error_clear();
        failing_start(n, false);
        bt_status status = ask(_i);
        reached = failing_stop();
        ck_assert_msg(bt_live_bytes() == bytes, "allocation %ld: %zu bytes are left", n, bt_live_bytes() - bytes);
        ck_assert_msg(status == BT_OK || (reached && *bt_error()), "allocation %ld: status %d: %s", n, status,
                      bt_error());
        failures += reached;
    }
    ck_assert_int_gt(failures, 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine");
    TCase *tests = tcase_create("engine");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, every_allocation_in_turn, 0, (int)(sizeof methods / sizeof *methods));
    tcase_add_loop_test(tests, questions_in_turn, 0, 3);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
