/* tests/engine/test_check_batches.c: checks of exact methods over micro-batches, with skipped levels, and with vectors
 * that the step's programs no longer read, or never read.
 *
 * The losses are smooth and their derivatives are the library's own, so every part must agree with its finite
 * differences. */
#include "levels.h"

#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 10, SIZE = 3 };

static bt_dataset *rows(bt_problem *self, uint64_t stream)
{
    double x[ROWS * SIZE], y[ROWS];
    for (int i = 0; i < ROWS; i++) {
        y[i] = bt_host_uniform(bt_seed(self), stream, (uint64_t)i);
        for (int j = 0; j < SIZE; j++)
            x[i * SIZE + j] = bt_host_uniform(bt_seed(self), stream + 1, (uint64_t)(i * SIZE + j));
    }
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, ROWS, SIZE));
    bt_dataset_add(data, "y", BT_ARRAY(y, ROWS));
    return data;
}

static bt_dataset *some_rows(bt_problem *self) { return rows(self, 10); }
static bt_dataset *other_rows(bt_problem *self) { return rows(self, 20); }

static bt_module *line(bt_problem *self) { return (void)self, bt_nn_linear(SIZE, 1); }
static bt_module *vector(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(-1), SIZE + 1); }

static bt_tensor *fit(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *guess = bt_squeeze(bt_forward(self, bt_field(batch, "x")), 1);
    return bt_mean(bt_mse(guess, bt_field(batch, "y")));
}

/* Each weight has its own penalty, and one that can be switched off; they also scale the loss of the rows. */
static bt_tensor *model_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *own = bt_exp(bt_forward(bt_peer(self, "penalty"))), *most = bt_exp(bt_forward(bt_peer(self, "floor")));
    bt_tensor *sizes = bt_mul(bt_add(own, most), bt_square(bt_params(self)));
    return bt_add(bt_mul(bt_sum(own), fit(self, batch)), bt_sum(sizes));
}

static bt_tensor *judge_step(bt_problem *self, const bt_batch *batch) { return fit(bt_peer(self, "model"), batch); }

/* penalty is between model and floor. */
static bt_tensor *penalty_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *away = bt_sub(bt_forward(self), bt_forward(bt_peer(self, "floor")));
    return bt_add(judge_step(self, batch), bt_sum(bt_square(away)));
}

static const bt_problem_def model = {
    .name = "model", .configure_train_data = some_rows, .configure_module = line, .training_step = model_step};
static const bt_problem_def penalty = {
    .name = "penalty", .configure_train_data = other_rows, .configure_module = vector, .training_step = penalty_step};
static const bt_problem_def floor_of_all = {
    .name = "floor", .configure_train_data = some_rows, .configure_module = vector, .training_step = judge_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&floor_of_all, &penalty, &model}};

static const char *const settings[] = {
    "",
    "engine.levels = penalty, model\n",
    "model.type = penalty\n",
    "model.type = penalty\npenalty.type = penalty\nengine.levels = penalty, model\n",
    "penalty.gradient_accumulation = 2\n",
    "floor.gradient_accumulation = 2\n",
    "floor.gradient_accumulation = 2\nmodel.type = penalty\n",
    "model.gradient_accumulation = 2\n",
    "model.gradient_accumulation = 3\nmodel.product_batches = all\nmodel.batch_size = 4\n",
    "model.gradient_accumulation = 2\npenalty.gradient_accumulation = 2\n",
    "model.gradient_accumulation = 2\nmodel.type = itd\n",
    "model.gradient_accumulation = 2\nmodel.type = itd\npenalty.gradient_accumulation = 2\npenalty.type = itd\n",
};

enum { COUNT = sizeof settings / sizeof *settings };

START_TEST(what_must_be_exact)
{
    char lines[800];
    snprintf(lines, sizeof lines,
             "dependencies.u2l = floor > penalty, floor > model, penalty > model\n"
             "dependencies.l2u = model > penalty, penalty > floor\nmodel.type = cg\npenalty.type = cg\n"
             "model.lr = 0.1\nmodel.unroll_steps = 4\nmodel.batch_size = 5\npenalty.batch_size = 5\nfloor.batch_size = "
             "5\n%s",
             settings[_i % COUNT]);
    if (_i >= COUNT)
        setenv("BETTY_PLAN", "off", 1); /* values that are dead, or not alive yet, have no memory at all */
    bt_engine *engine = levels_engine(&parts, NULL, lines);
    bt_check_result *result = bt_engine_check(engine, NULL, 2);
    ck_assert_msg(result != NULL, "%s", bt_error());
    for (int64_t i = 0; i < result->count; i++) {
        const bt_check_level_result *level = &result->levels[i];
        ck_assert_msg(level->verdict != BT_DISAGREES && level->verdict != BT_UNDECIDED, "%s", level->text);
        ck_assert_int_ge((int)level->part_count, 3);
        for (int64_t k = 0; k < level->part_count; k++)
            ck_assert_msg(level->parts[k].error < 1e-5, "%s: %g", level->parts[k].name, level->parts[k].error);
    }
    bt_check_result_free(result);
    bt_engine_free(engine);
    unsetenv("BETTY_PLAN");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("parts");
    tcase_add_loop_test(tests, what_must_be_exact, 0, 2 * COUNT);
    Suite *suite = suite_create("check over micro-batches");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
