/* Work on a device: done late and in order, in memory that the host cannot touch. Covers what the host sets between
 * runs or lends to one, and how failures are reported. Expected values come from loops on the host. */
#include "support/far.h"
#include "support/scene.h"

#include "runtime/evaluate.h"
#include "runtime/settle.h"
#include "runtime/store.h"
#include "support/suite.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static scene s;
static bt_instance *instance;
static bt_phase *phase;

static void setup(void)
{
    scene_begin(&s, BT_F64);
    instance = bt_instance_new(far_backend(), 1);
    phase = bt_phase_new(instance, "lower", "step");
    ck_assert_msg(phase != NULL, "%s", bt_error());
    far_forget();
}

static void teardown(void)
{
    bt_phase_free(phase);
    bt_instance_free(instance);
    scene_free(&s);
    bt_error_clear();
}

static bt_var *number(const char *name, bool mailed)
{
    bt_var *var = scene_own(&s, bt_var_new(BT_RUN, BT_BUFFERS, "lower", name, (bt_array){.dtype = BT_F64}));
    var->mailed = mailed;
    return var;
}

static void plan(void)
{
    scene_end(&s);
    ck_assert_msg(bt_phase_add(phase, s.graph, 0, "part") == 0, "%s", bt_error());
    EXPECT_OK(bt_phase_plan(phase));
}

static void run(void)
{
    bt_phase_begin(phase);
    EXPECT_OK(bt_part_run(phase, 0));
    bt_phase_end(phase);
}

#define FORGETS 0.999

/* sum becomes 0.999 sum + x: shows the x of each run, and their order. */
static bt_var *record_sum(bt_tensor *x)
{
    bt_var *sum = number("sum", false);
    bt_graph_assign(s.graph, sum, bt_add(bt_mul(bt_trace_read(sum), FORGETS), x));
    return sum;
}

enum { RUNS = 500 }; /* more than there are slots, and less than the device's patience */

/* ---- the mail ---- */

START_TEST(each_run_sees_the_numbers_of_its_moment)
{
    bt_var *x = number("x", true), *y = number("y", true);
    bt_var *sum = record_sum(bt_sub(bt_trace_read(x), bt_trace_read(y)));
    double expected = 0;
    plan();
    for (int i = 0; i < RUNS; i++) {
        EXPECT_OK(bt_store_put(instance, x, 0, i));
        if (i % 3 == 0)
            EXPECT_OK(bt_store_put(instance, y, 0, i * i));
        run();
        expected = expected * FORGETS + (i - (i - i % 3) * (i - i % 3));
    }
    double found;
    EXPECT_OK(bt_store_get(instance, x, 0, &found)); /* the host's own numbers need no wait */
    ck_assert_double_eq(found, RUNS - 1);
    ck_assert_int_eq(bt_queue_waits(instance->queue), 0);
    EXPECT_VAR(sum, 0, expected);
    ck_assert_int_eq(bt_queue_waits(instance->queue), 1);
}
END_TEST

/* One copy for each run, and none if nothing has changed. */
START_TEST(the_mail_goes_once)
{
    bt_var *x = number("x", true), *y = number("y", true);
    record_sum(bt_sub(bt_trace_read(x), bt_trace_read(y)));
    plan();
    run();
    far_forget();
    for (int i = 1; i <= 10; i++) {
        EXPECT_OK(bt_store_put(instance, x, 0, i));
        EXPECT_OK(bt_store_put(instance, y, 0, 2 * i));
        run();
        run();
        EXPECT_OK(bt_store_put(instance, x, 0, i));
        run();
    }
    ck_assert_int_eq(far_counted().copies, 10);
}
END_TEST

START_TEST(the_numbers_of_the_mail_are_the_hosts)
{
    bt_var *x = number("x", true);
    bt_graph_assign(s.graph, x, bt_add(bt_trace_read(x), 1));
    scene_end(&s);
    ck_assert_int_eq(bt_phase_add(phase, s.graph, 0, "part"), -1);
    ck_assert_ptr_nonnull(strstr(bt_error(), "x is set by the host alone, but a program sets it"));
}
END_TEST

/* Variables are created and freed, more than the block has places. */
START_TEST(places_are_given_back)
{
    for (int round = 0; round < 3; round++) {
        bt_var *vars[600];
        for (int i = 0; i < 600; i++) {
            vars[i] = bt_var_new(BT_RUN, BT_BUFFERS, "", "x", (bt_array){.dtype = BT_F64});
            vars[i]->mailed = true;
            EXPECT_OK(bt_var_settle(vars[i], instance->queue));
            var_put(vars[i], 0, round + i);
        }
        for (int i = 0; i < 600; i++)
            ck_assert_double_eq(var_get(vars[i], 0), round + i);
        ck_assert_ptr_nonnull(bt_queue_mirror(instance->queue, vars[0]->data));
        ck_assert_ptr_null(bt_queue_mirror(instance->queue, vars[599]->data));
        for (int i = 0; i < 600; i++)
            bt_var_free(vars[i]);
    }
}
END_TEST

/* ---- memory lent to a run ---- */

/* The host overwrites its batch as soon as it is bound and the run is launched, as a loader does. */
START_TEST(batches_are_landed)
{
    bt_array shape = {.dtype = BT_F64, .rank = 1, .dims = {3}};
    bt_var *batch = scene_own(&s, bt_var_new(BT_EXTERNAL, BT_BATCH, "lower", "batch", shape));
    bt_var *sum = record_sum(bt_sum(bt_mul(bt_trace_read(batch), bt_trace_read(batch))));
    double expected = 0, memory[2][3];
    plan();
    for (int i = 0; i < RUNS; i++) {
        double *at = memory[i % 5 == 0]; /* the same memory, and other memory */
        for (int k = 0; k < 3; k++)
            at[k] = i + 0.25 * k;
        bt_store_point(batch, at);
        run();
        expected = expected * FORGETS + at[0] * at[0] + at[1] * at[1] + at[2] * at[2];
        memset(at, 0xff, sizeof memory[0]);
    }
    ck_assert_int_eq(bt_queue_waits(instance->queue), 0);
    EXPECT_VAR(sum, 1e-12, expected);
}
END_TEST

START_TEST(a_batch_is_landed_once)
{
    bt_var *batch = scene_own(&s, bt_var_new(BT_EXTERNAL, BT_BATCH, "", "batch", (bt_array){.dtype = BT_F64}));
    double value = 3;
    bt_var *sum = record_sum(bt_trace_read(batch));
    plan();
    bt_store_point(batch, &value);
    far_forget();
    run();
    run();
    ck_assert_int_eq(far_counted().copies, 1);
    EXPECT_VAR(sum, 0, 3 * FORGETS + 3);
}
END_TEST

/* A foreign variable placed inside one of the device's. */
START_TEST(laid_within_another)
{
    bt_var *rows = scene_var(&s, "rows", BT_F64, NUMBERS(1, 2, 4, 8), (const int64_t[]){4, BT_END});
    bt_var *row = scene_own(&s, bt_var_new(BT_EXTERNAL, BT_BATCH, "", "row", (bt_array){.dtype = BT_F64}));
    bt_var *sum = record_sum(bt_trace_read(row));
    plan();
    for (int i = 0; i < 4; i++) {
        EXPECT_OK(bt_store_lay(instance, row, rows, (size_t)i * sizeof(double)));
        run();
    }
    ck_assert_int_eq(bt_queue_waits(instance->queue), 0);
    EXPECT_VAR(sum, 1e-15, ((FORGETS + 2) * FORGETS + 4) * FORGETS + 8);
}
END_TEST

/* ---- memory ---- */

START_TEST(the_host_cannot_touch_it)
{
    bt_var *sum = record_sum(SCALAR(&s, "a", 2));
    plan();
    run();
    EXPECT_VAR(sum, 0, 2);
    int ends[2];
    const char near = 1;
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], &near, 1), 1); /* asks the system: a sanitizer may catch the signal */
    ck_assert_int_eq(write(ends[1], sum->data, 1), -1);
    ck_assert_int_eq(errno, EFAULT);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* Values of variables move to the device, and variables that a phase must zero are zero there. */
START_TEST(values_go_along)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2, 3), *constant = bt_constant(BT_ARRAY(NUMBERS(10, 20, 30), 3));
    bt_graph_output(s.graph, bt_add(bt_exp(bt_sub(x, x)), constant));
    bt_graph_output(s.graph, bt_mul(x, x));
    plan();
    run();
    EXPECT_VALUES(bt_phase_result(phase, 0, 0).data, 0, 11, 21, 31);
    EXPECT_VALUES(bt_phase_result(phase, 0, 1).data, 0, 1, 4, 9);
}
END_TEST

START_TEST(two_instances_with_one_variable)
{
    bt_var *x = number("x", true), *sum = record_sum(bt_trace_read(x));
    plan();
    bt_instance *other = bt_instance_new(far_backend(), 1);
    bt_phase *second = bt_phase_new(other, "upper", "step");
    ck_assert_msg(bt_phase_add(second, s.graph, 0, "part") == 0, "%s", bt_error());
    EXPECT_OK(bt_phase_plan(second));
    double expected = 0;
    for (int i = 0; i < 20; i++) {
        bt_phase *turn = i % 3 ? phase : second;
        EXPECT_OK(bt_store_put(NULL, x, 0, i * i));
        bt_phase_begin(turn);
        EXPECT_OK(bt_phase_run(turn, 0));
        bt_phase_end(turn);
        expected = expected * FORGETS + i * i;
    }
    bt_phase_free(second);
    bt_instance_free(other);
    EXPECT_VAR(sum, 0, expected);
}
END_TEST

/* ---- copies ---- */

/* Before and after each run, kept in rows: nothing waits, and a number of the mail is copied with its current value. */
START_TEST(copies_do_not_wait)
{
    bt_var *x = number("x", true), *sum = record_sum(bt_trace_read(x));
    bt_var *rows = scene_var(&s, "rows", BT_F64, NULL, (const int64_t[]){100, 2, BT_END});
    double expected[200], at = 0;
    plan();
    for (int i = 0; i < 100; i++) {
        EXPECT_OK(bt_store_put(instance, x, 0, 7 * i));
        EXPECT_OK(bt_store_move(instance, rows, 16 * (size_t)i, x, 0, 8));
        run();
        EXPECT_OK(bt_store_move(instance, rows, 16 * (size_t)i + 8, sum, 0, 8));
        at = at * FORGETS + 7 * i;
        expected[2 * i] = 7 * i;
        expected[2 * i + 1] = at;
    }
    EXPECT_OK(bt_store_clear(instance, sum));
    ck_assert_int_eq(bt_queue_waits(instance->queue), 0);
    expect_var(__FILE__, __LINE__, rows, expected, 200, 0);
    EXPECT_VAR(sum, 0, 0);
}
END_TEST

/* ---- failures ---- */

static bt_var *labels;

/* sum += x[labels] */
static bt_var *record_gather(void)
{
    bt_array shape = {.dtype = BT_I64, .rank = 1, .dims = {2}};
    labels = scene_own(&s, bt_var_new(BT_RUN, BT_BUFFERS, "", "labels", shape));
    return record_sum(bt_sum(bt_gather(VECTOR(&s, "x", 1, 2, 4), bt_trace_read(labels))));
}

START_TEST(a_failure_is_told_when_the_host_waits)
{
    bt_var *sum = record_gather();
    plan();
    var_put(labels, 1, 2);
    run();
    EXPECT_VAR(sum, 0, 5);
    var_put(labels, 1, 3);
    run(); /* fails, but nobody knows yet */
    run();
    EXPECT_OK(bt_error_status());
    double found;
    ck_assert_int_eq(bt_store_get(instance, sum, 0, &found), BT_ERROR_DATA);
    ck_assert_msg(strncmp(bt_error(), "lower, step, part: ", 19) == 0 && strstr(bt_error(), "gather: element 1 of") &&
                      strstr(bt_error(), "is 3; expected 0 to 2"),
                  "%s", bt_error());
    bt_error_clear();
    EXPECT_VAR(sum, 0, 5); /* later work was not done; and the error is reported once */
    var_put(labels, 1, 0);
    run();
    EXPECT_OK(bt_queue_wait(instance->queue));
    EXPECT_VAR(sum, 0, 5 * FORGETS + 2);
}
END_TEST

/* A pending failure of the thread is not lost through a failure on the device, and vice versa. */
START_TEST(a_failure_before_it)
{
    record_gather();
    plan();
    var_put(labels, 0, -1);
    run();
    bt_fail(BT_ERROR_FILE, "the disk is full");
    bt_queue_settle(instance->queue);
    ck_assert_str_eq(bt_error(), "the disk is full");
    bt_error_clear();
    ck_assert_int_eq(bt_queue_wait(instance->queue), BT_ERROR_DATA);
    ck_assert_ptr_nonnull(strstr(bt_error(), "is -1; expected 0 to 2"));
}
END_TEST

/* A program is only freed once the device is done with it; its failure is still reported. */
START_TEST(a_failure_of_a_program_that_is_gone)
{
    record_gather();
    plan();
    var_put(labels, 0, 9);
    run();
    bt_phase_free(phase);
    phase = NULL;
    ck_assert_int_eq(bt_queue_wait(instance->queue), BT_ERROR_DATA);
    ck_assert_ptr_nonnull(strstr(bt_error(), "lower, step, part: gather: element 0 of"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue");
    TCase *tests = tcase_create("queue");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, each_run_sees_the_numbers_of_its_moment);
    tcase_add_test(tests, the_mail_goes_once);
    tcase_add_test(tests, the_numbers_of_the_mail_are_the_hosts);
    tcase_add_test(tests, places_are_given_back);
    tcase_add_test(tests, batches_are_landed);
    tcase_add_test(tests, a_batch_is_landed_once);
    tcase_add_test(tests, laid_within_another);
    tcase_add_test(tests, the_host_cannot_touch_it);
    tcase_add_test(tests, values_go_along);
    tcase_add_test(tests, two_instances_with_one_variable);
    tcase_add_test(tests, copies_do_not_wait);
    tcase_add_test(tests, a_failure_is_told_when_the_host_waits);
    tcase_add_test(tests, a_failure_before_it);
    tcase_add_test(tests, a_failure_of_a_program_that_is_gone);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
