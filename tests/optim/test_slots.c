/* Slots of any shape and dtype, for all parameters or only some: values, bytes, what is refused. */
#include "plain.h"

#include "nn/module.h"
#include "optim/optim.h"
#include "support/suite.h"
#include "support/vars.h"
#include <check.h>
#include <math.h>
#include <string.h>

/* ---- a mean square for each row of a matrix, in another dtype; none for a vector; a bit for each, and a counter
 * ---- */

enum { ROW, SEEN, TIMES };

static bt_array rowwise_slot(int slot, bt_array param, const double *hypers)
{
    static const bt_array none = {.rank = 1};
    (void)hypers;
    switch (slot) {
    case ROW:
        return param.rank < 2 ? none : (bt_array){.dtype = BT_F64, .rank = 1, .dims = {param.dims[0]}};
    case SEEN: {
        bt_array seen = param;
        seen.dtype = BT_BOOL;
        return seen;
    }
    default:
        return (bt_array){.dtype = BT_I32};
    }
}

/* An element moves once its gradient has been positive; vectors follow their gradient, divided by the counter. */
static bt_tensor *rowwise_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    bt_tensor *lr = bt_hyper(rule, "lr"), *step = bt_mul(lr, grad);
    bt_tensor *times = bt_add(bt_slot(rule, "times"), 1);
    bt_tensor *seen = bt_greater(bt_add(bt_slot(rule, "seen"), bt_greater(grad, 0)), 0);
    bt_slot_set(rule, "times", times);
    bt_slot_set(rule, "seen", seen);
    if (!bt_has_slot(rule, "row"))
        return bt_sub(param, bt_div(bt_where(seen, step, 0), bt_as(times, param->dtype)));
    bt_tensor *row = bt_add(bt_mul(0.9, bt_slot(rule, "row")), bt_mul(0.1, bt_mean(bt_square(grad), 1)));
    bt_slot_set(rule, "row", row);
    return bt_sub(param, bt_where(seen, bt_div(step, bt_unsqueeze(bt_sqrt(row), 1)), 0));
}

static const bt_optimizer_def rowwise = {
    .name = "rowwise",
    .hypers = {{"lr", 0.01, 0, 10, "", BT_HYPER_REAL}},
    .slots = {[ROW] = "row", [SEEN] = "seen", [TIMES] = "times"},
    .update = rowwise_update,
    .slot = rowwise_slot,
};

START_TEST(values_of_thirty_steps)
{
    plain_training training = plain_training_new(bt_optimizer_of(&rowwise));
    plain_state state;
    double noise[PLAIN_SIZE], grad[PLAIN_SIZE], found[PLAIN_SIZE], row[2] = {0};
    bool seen[PLAIN_SIZE] = {false};
    plain_start(&state);
    for (int step = 1; step <= 30; step++) {
        plain_noise(step, noise);
        plain_grad(&state, noise, grad);
        for (int r = 0; r < 2; r++) {
            double mean = 0;
            for (int c = 0; c < 3; c++)
                mean += grad[3 * r + c] * grad[3 * r + c] / 3;
            row[r] = 0.9 * row[r] + 0.1 * mean;
        }
        for (int i = 0; i < PLAIN_SIZE; i++) {
            seen[i] |= grad[i] > 0;
            if (seen[i])
                state.p[i] -= 0.01 * grad[i] / (i < 6 ? sqrt(row[i / 3]) : step);
        }
        plain_step(&training, noise);
        plain_assert_close(plain_found(&training, found), &state, "rowwise", step);
    }
    const bt_block *blocks = training.optimizer->blocks;
    ck_assert_ptr_nonnull(blocks[ROW].windows[0]);
    ck_assert_ptr_null(blocks[ROW].windows[1]);
    ck_assert_uint_eq(blocks[ROW].windows[0]->bytes, 2 * sizeof(double));
    ck_assert_uint_eq(blocks[SEEN].windows[0]->bytes + blocks[SEEN].windows[1]->bytes, PLAIN_SIZE);
    ck_assert_uint_eq(blocks[TIMES].windows[1]->bytes, sizeof(int32_t));
    ck_assert_int_eq(*(const int32_t *)(void *)var_near(blocks[TIMES].windows[1]), 30);
    plain_training_free(&training);
    ck_assert_uint_eq(bt_live_bytes(), 0);
}
END_TEST

/* ---- errors in `slot` and `update` ---- */

static bt_array negative(int slot, bt_array param, const double *hypers)
{
    (void)slot, (void)hypers;
    param.dims[0] = -1;
    return param;
}

static bt_array nowhere(int slot, bt_array param, const double *hypers)
{
    (void)slot, (void)hypers;
    param.rank = 1;
    param.dims[0] = 0;
    return param;
}

static bt_array short_of_one(int slot, bt_array param, const double *hypers)
{
    (void)slot, (void)hypers;
    param.dims[0] += 1;
    return param;
}

static bt_tensor *asks_anyway(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    (void)grad;
    bt_slot_set(rule, "row", param);
    return param;
}

START_TEST(faults_are_explained)
{
    static const struct {
        bt_array (*slot)(int slot, bt_array param, const double *hypers);
        const char *message;
    } faults[] = {
        {negative, "optimizer rowwise: `slot` returned an impossible shape or dtype for the slot \"row\" of a"},
        {nowhere, "optimizer rowwise has no slot \"row\"; it has: none"},
        {short_of_one, "the slot \"row\" is [3, 3], but its new value is [2, 3]"},
    };
    bt_optimizer_def mine = rowwise;
    mine.slots[1] = NULL;
    mine.slot = faults[_i].slot;
    mine.update = asks_anyway;
    plain_training training = plain_training_new(bt_optimizer_of(&mine));
    double noise[PLAIN_SIZE] = {0}, loss;
    bt_batch *batch = bt_batch_new();
    bt_batch_set(batch, "noise", BT_ARRAY(noise, PLAIN_SIZE));
    training.function = plain_function(&training);
    ck_assert_int_ne(bt_function_run(training.function, batch, BT_ARRAY(&loss)), BT_OK);
    ck_assert_msg(strstr(bt_error(), faults[_i].message) != NULL, "%s", bt_error());
    bt_batch_free(batch);
    plain_training_free(&training);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slots");
    TCase *tests = tcase_create("slots");
    tcase_add_test(tests, values_of_thirty_steps);
    tcase_add_loop_test(tests, faults_are_explained, 0, 3);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
