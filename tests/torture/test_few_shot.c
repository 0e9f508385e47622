/* Few-shot learning in which every allocation fails in turn: a run of unrolled inner loops that restart, each on a task
 * of the upper problem, with an evaluation that adapts; and a single adaptation, which leaves nothing behind. */
#include "failing.h"

#include "engine/session/session.h"
#include "support/vars.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 3 };

static bt_status task(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double x[SIZE];
    (void)self;
    for (int i = 0; i < SIZE; i++)
        x[i] = (double)((index * SIZE + i + (mode == BT_VALID)) * 7 % 11) / 11;
    return bt_batch_set(batch, "x", BT_ARRAY(x, SIZE));
}

static bt_module *numbers(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(0.5), SIZE); }
static bt_tensor *from_meta(bt_problem *self) { return bt_params(bt_peer(self, "meta")); }

static bt_tensor *away(bt_problem *learner, const bt_batch *batch)
{
    return bt_sum(bt_square(bt_tanh(bt_sub(bt_params(learner), bt_field(batch, "x")))));
}

static bt_tensor *meta_step(bt_problem *self, const bt_batch *batch)
{
    bt_metric(self, "away", away(bt_peer(self, "learner"), batch));
    return away(bt_peer(self, "learner"), batch);
}

static void evaluate(bt_problem *self)
{
    bt_problem *learner = bt_peer(self, "learner");
    double value = 0;
    const bt_batch *batch = bt_valid_batch(self, 0);
    if (batch && bt_adapt(learner, batch, 2) == BT_OK) {
        bt_eval(learner, away, batch, BT_ARRAY(&value));
        bt_restore(learner);
    }
    bt_metric(self, "adapted", value);
}

static const bt_problem_def meta = {.name = "meta",
                                    .get_batch = task,
                                    .configure_module = numbers,
                                    .training_step = meta_step,
                                    .validation_end = evaluate};
static const bt_problem_def learner = {
    .name = "learner", .batch_of = "meta", .configure_module = numbers, .start = from_meta, .training_step = away};
static const bt_export parts = {.abi = BT_ABI, .problems = {&meta, &learner}};

static const char *const settings[][2] = {{"engine.train_iters", "6"},
                                          {"engine.valid_step", "3"},
                                          {"engine.threads", "1"},
                                          {"dependencies.u2l", "meta > learner"},
                                          {"dependencies.l2u", "learner > meta"},
                                          {"meta.meta_batch", "2"},
                                          {"learner.type", "itd"},
                                          {"learner.itd_spacing", "2"},
                                          {"learner.unroll_steps", "3"},
                                          {"learner.optimizer", "adam"},
                                          {"learner.lr", "0.1"}};

static bt_status make(bt_engine **engine)
{
    *engine = bt_engine_new();
    bt_status status = *engine ? bt_engine_use(*engine, &parts, NULL) : BT_ERROR_MEMORY;
    for (size_t i = 0; i < sizeof settings / sizeof *settings && status == BT_OK; i++)
        status = bt_engine_set(*engine, settings[i][0], "%s", settings[i][1]);
    return status;
}

static bt_status run(double *metric)
{
    bt_engine *engine;
    bt_status status = make(&engine);
    if (status == BT_OK)
        status = bt_engine_run(engine);
    if (status == BT_OK)
        *metric = bt_engine_metric(engine, "meta.valid.adapted") + bt_engine_metric(engine, "meta.loss");
    bt_engine_free(engine);
    return status;
}

START_TEST(a_run)
{
    double expected = 0, found;
    bt_error_clear();
    ck_assert_msg(run(&expected) == BT_OK, "%s", bt_error());
    ck_assert(expected == expected && expected > 0);
    size_t bytes = bt_live_bytes();
    long failures = 0, unnoticed = 0;
    for (long n = 0, reached = 1; reached; n += 3 * failing_step(7)) {
        bt_error_clear();
        failing_start(n, false);
        bt_status status = run(&found);
        reached = failing_stop();
        ck_assert_uint_eq(bt_live_bytes(), bytes);
        failures += reached;
        unnoticed += reached && status == BT_OK;
        ck_assert_msg(status != BT_OK || found == expected, "allocation %ld: %.17g, not %.17g", n, found, expected);
        ck_assert_msg(status == BT_OK || (reached && *bt_error()), "allocation %ld: status %d, `%s`", n, status,
                      bt_error());
    }
    ck_assert_int_gt(failures, 20);
    ck_assert_msg(unnoticed <= failures / 5, "%ld of %ld failures went unnoticed", unnoticed, failures);
}
END_TEST

/* After an error, an engine only returns that error, so its state is inspected from inside. */
static void look(bt_problem *self, double *values, int64_t *step)
{
    memcpy(values, var_near(self->module->param_block.flat), SIZE * sizeof *values);
    *step = self->steps;
}

START_TEST(an_adaptation)
{
    long failures = 0;
    for (long n = 0, reached = 1; reached; n++) {
        bt_engine *engine;
        double before[SIZE], after[SIZE];
        int64_t step, step_after;
        ck_assert_int_eq(make(&engine), BT_OK);
        ck_assert_msg(bt_engine_setup(engine) == BT_OK, "%s", bt_error());
        bt_problem *self = bt_engine_problem(engine, "learner");
        for (int i = 0; i < 4; i++)
            ck_assert_int_eq(bt_leaf_step(self), BT_OK);
        const bt_batch *batch = bt_valid_batch(bt_engine_problem(engine, "meta"), 0);
        look(self, before, &step);
        failing_start(n, false);
        bt_status status = bt_adapt(self, batch, 2);
        reached = failing_stop();
        failures += status != BT_OK;
        ck_assert_msg(status == BT_OK ? !reached : *bt_error() != 0, "allocation %ld: %s", n, bt_error());
        bt_error_clear();
        if (status == BT_OK)
            ck_assert_int_eq(bt_restore(self), BT_OK);
        look(self, after, &step_after);
        ck_assert_int_eq(step, step_after);
        ck_assert_mem_eq(before, after, sizeof before);
        bt_engine_free(engine);
    }
    ck_assert_int_ge(failures, 4); /* copies of the parameters, of two slots, of the counters */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("few_shot");
    TCase *tests = tcase_create("few_shot");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, a_run);
    tcase_add_test(tests, an_adaptation);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
