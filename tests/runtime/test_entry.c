/* A program sees every variable as it was at entry, whatever it assigns, and its outputs remain valid to the end. */
#include "support/scene.h"

#include "runtime/evaluate.h"
#include "runtime/variable.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static scene s;

static void setup(void) { scene_begin(&s, BT_F64); }

static void teardown(void)
{
    scene_free(&s);
    bt_error_clear();
}

static void assign(int var, bt_tensor *value) { bt_graph_assign(s.graph, s.vars[var], value); }

static void run(void)
{
    scene_end(&s);
    free(run_once(s.graph));
}

START_TEST(swapped)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2), *y = VECTOR(&s, "y", 3, 4);
    assign(0, y);
    assign(1, x);
    run();
    EXPECT_VAR(s.vars[0], 0, 3, 4);
    EXPECT_VAR(s.vars[1], 0, 1, 2);
}
END_TEST

START_TEST(in_a_ring)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2), *y = VECTOR(&s, "y", 3, 4), *z = VECTOR(&s, "z", 5, 6);
    assign(0, bt_neg(y));
    assign(1, z);
    assign(2, bt_reshape(bt_reshape(x, 1, 2), 2));
    run();
    EXPECT_VAR(s.vars[0], 0, -3, -4);
    EXPECT_VAR(s.vars[1], 0, 5, 6);
    EXPECT_VAR(s.vars[2], 0, 1, 2);
}
END_TEST

/* x := y; y := exp(x): the old x. */
START_TEST(one_after_the_other)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2), *y = VECTOR(&s, "y", 3, 4);
    assign(0, bt_mul(y, 10));
    assign(1, bt_exp(x));
    run();
    EXPECT_VAR(s.vars[0], 0, 30, 40);
    EXPECT_VAR(s.vars[1], 1e-15, exp(1), exp(2));
}
END_TEST

START_TEST(views_of_itself)
{
    bt_tensor *turned = MATRIX(&s, "turned", 2, 2, 1, 2, 3, 4), *rolled = VECTOR(&s, "rolled", 1, 2, 3, 4);
    bt_tensor *spread = VECTOR(&s, "spread", 1, 2, 3), *backwards = VECTOR(&s, "backwards", 1, 2, 3);
    bt_tensor *oblong = MATRIX(&s, "oblong", 2, 3, 1, 2, 3, 4, 5, 6), *same = VECTOR(&s, "same", 7, 8);
    assign(0, bt_permute(turned, 1, 0));
    assign(1, bt_concat(0, bt_slice(rolled, 0, 1, 4), bt_slice(rolled, 0, 0, 1)));
    assign(2, bt_broadcast(bt_at(spread, 1), 1, (const int64_t[]){3}, NULL));
    assign(3, bt_concat(0, bt_slice(backwards, 0, 2, 3), bt_slice(backwards, 0, 1, 2), bt_slice(backwards, 0, 0, 1)));
    assign(4, bt_reshape(bt_permute(oblong, 1, 0), 2, 3)); /* the same number of bytes in another order */
    assign(5, same);
    run();
    EXPECT_VAR(s.vars[0], 0, 1, 3, 2, 4);
    EXPECT_VAR(s.vars[1], 0, 2, 3, 4, 1);
    EXPECT_VAR(s.vars[2], 0, 2, 2, 2);
    EXPECT_VAR(s.vars[3], 0, 3, 2, 1);
    EXPECT_VAR(s.vars[4], 0, 1, 4, 2, 5, 3, 6);
    EXPECT_VAR(s.vars[5], 0, 7, 8);
}
END_TEST

/* The value for x is computed early, and the old x is read afterwards. */
START_TEST(the_old_value_read_later)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2), *y = VECTOR(&s, "y", 3, 4);
    bt_tensor *next = bt_mul(x, 10), *later = bt_add(bt_exp(next), x);
    assign(0, next);
    assign(1, bt_add(y, later));
    bt_graph_output(s.graph, bt_mul(x, 1000));
    bt_graph_output(s.graph, x);
    scene_end(&s);
    EXPECT_RUN(s.graph, 0, 1000, 2000, 1, 2);
    EXPECT_VAR(s.vars[0], 0, 10, 20);
    EXPECT_VAR(s.vars[1], 1e-15, 3 + exp(10) + 1, 4 + exp(20) + 2);
}
END_TEST

START_TEST(one_value_for_several)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2), *y = VECTOR(&s, "y", 3, 4), *sum = bt_add(x, y);
    scene_var(&s, "z", BT_F64, NULL, (const int64_t[]){2, BT_END});
    for (int i = 0; i < 3; i++)
        assign(i, sum);
    bt_graph_output(s.graph, sum);
    bt_graph_output(s.graph, bt_sub(sum, x));
    scene_end(&s);
    EXPECT_RUN(s.graph, 0, 4, 6, 3, 4);
    for (int i = 0; i < 3; i++)
        EXPECT_VAR(s.vars[i], 0, 4, 6);
}
END_TEST

START_TEST(parts_of_one_value)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2), *y = VECTOR(&s, "y", 3, 4), *both = bt_exp(bt_concat(0, x, y));
    assign(0, bt_slice(both, 0, 2, 4));
    assign(1, bt_slice(both, 0, 0, 2));
    run();
    EXPECT_VAR(s.vars[0], 1e-15, exp(3), exp(4));
    EXPECT_VAR(s.vars[1], 1e-15, exp(1), exp(2));
}
END_TEST

START_TEST(constants_and_nothing)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2);
    bt_var *nothing = scene_var(&s, "nothing", BT_F64, NULL, (const int64_t[]){0, 3, BT_END});
    bt_tensor *none = bt_trace_read(nothing);
    assign(0, bt_constant(BT_ARRAY(((double[]){8, 9}), 2)));
    assign(1, bt_exp(bt_mul(none, 2)));
    bt_graph_output(s.graph, bt_sum(bt_square(none)));
    bt_graph_output(s.graph, none);
    bt_graph_output(s.graph, bt_zeros_like(x));
    bt_graph_output(s.graph, bt_concat(0, bt_reshape(none, 0), x));
    scene_end(&s);
    EXPECT_RUN(s.graph, 0, 0, 0, 0, 1, 2);
    EXPECT_VAR(s.vars[0], 0, 8, 9);
}
END_TEST

/* ---- windows and their block ---- */

static bt_var *block, *window[3];

/* Three windows, of 2, 3 and 2 numbers, each aligned to 64 bytes, with gaps after them. */
static void make_block(void)
{
    static const int64_t sizes[] = {2, 3, 2};
    block = scene_var(&s, "block", BT_F64, NULL, (const int64_t[]){24, BT_END});
    for (int i = 0; i < 3; i++) {
        bt_array shape = {.dtype = BT_F64, .rank = 1, .dims = {sizes[i]}};
        window[i] = scene_own(&s, bt_var_window(block, (size_t)i * 64, "window", shape));
        window[i]->tail = 64 - window[i]->bytes;
        for (int64_t k = 0; k < sizes[i]; k++)
            var_put(window[i], k, 10 * (i + 1) + (double)k);
    }
}

START_TEST(windows_swapped)
{
    make_block();
    bt_tensor *a = bt_trace_read(window[0]), *c = bt_trace_read(window[2]), *all = bt_trace_read(block);
    bt_graph_assign(s.graph, window[0], c);
    bt_graph_assign(s.graph, window[2], bt_neg(a));
    bt_graph_output(s.graph, bt_sum(all)); /* of the old values */
    scene_end(&s);
    EXPECT_RUN(s.graph, 0, 10 + 11 + 20 + 21 + 22 + 30 + 31);
    EXPECT_VAR(window[0], 0, 30, 31);
    EXPECT_VAR(window[1], 0, 20, 21, 22);
    EXPECT_VAR(window[2], 0, -10, -11);
}
END_TEST

START_TEST(a_window_read_through_its_block)
{
    make_block();
    bt_tensor *all = bt_trace_read(block), *a = bt_trace_read(window[0]);
    bt_tensor *next = bt_mul(a, 2), *seen = bt_mul(bt_slice(all, 0, 0, 2), bt_exp(next));
    bt_graph_assign(s.graph, window[0], next);
    bt_graph_assign(s.graph, window[2], bt_slice(all, 0, 1, 3)); /* overlaps window 0 */
    bt_graph_output(s.graph, seen);
    scene_end(&s);
    EXPECT_RUN(s.graph, 1e-15, 10 * exp(20), 11 * exp(22));
    EXPECT_VAR(window[0], 0, 20, 22);
    EXPECT_VAR(window[2], 0, 11, 0);
}
END_TEST

/* Step by step: a single call for everything would read all before it writes. */
START_TEST(the_block_from_its_windows)
{
    bt_instance *instance = bt_instance_new(bt_backend_cpu(), 1);
    bt_phase *phase = bt_phase_new(instance, "test", "steps");
    phase->options.rule = BT_ORDER_WRITTEN;
    phase->options.rows = false;
    make_block();
    bt_tensor *a = bt_trace_read(window[0]), *all = bt_trace_read(block);
    bt_graph_assign(s.graph, block, bt_sub(all, bt_sum(a)));
    bt_graph_output(s.graph, bt_trace_read(window[2]));
    scene_run_in(&s, phase);
    EXPECT_VALUES(bt_phase_result(phase, 0, 0).data, 0, 30, 31);
    EXPECT_VAR(window[1], 0, -1, 0, 1);
    EXPECT_VAR(window[2], 0, 9, 10);
    bt_phase_free(phase);
    bt_instance_free(instance);
}
END_TEST

/* The gap after a window is zero after every program that writes the window, whatever was there. */
START_TEST(gaps_are_cleared)
{
    make_block();
    for (int k = 0; k < 24; k++)
        if (k % 8 >= (k / 8 == 1 ? 3 : 2))
            var_put(block, k, NAN);
    bt_tensor *b = bt_trace_read(window[1]);
    bt_graph_assign(s.graph, window[1], bt_exp(b));
    bt_graph_assign(s.graph, window[2], bt_slice(b, 0, 0, 2)); /* copied, not computed in place */
    run();
    EXPECT_VAR(block, 1e-15, 10, 11, NAN, NAN, NAN, NAN, NAN, NAN, exp(20), exp(21), exp(22), 0, 0, 0, 0, 0, 20, 21, 0,
               0, 0, 0, 0, 0);
}
END_TEST

/* ---- outputs ---- */

/* An early output is not overwritten by later steps; an output listed twice appears twice. */
START_TEST(outputs_stay)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2), *early = bt_exp(x), *y = early;
    bt_graph_output(s.graph, early);
    for (int i = 0; i < 5; i++)
        y = bt_tanh(bt_mul(y, 0.5));
    bt_graph_output(s.graph, y);
    bt_graph_output(s.graph, early);
    bt_graph_output(s.graph, bt_permute(bt_reshape(early, 1, 2), 1, 0));
    scene_end(&s);
    double a = exp(1), b = exp(2), c = a, d = b;
    for (int i = 0; i < 5; i++) {
        c = tanh(c / 2);
        d = tanh(d / 2);
    }
    EXPECT_RUN(s.graph, 1e-15, a, b, c, d, a, b, a, b);
}
END_TEST

START_TEST(an_output_of_another_dtype)
{
    bt_tensor *x = VECTOR(&s, "x", 1.5, -2.5);
    bt_graph_output(s.graph, bt_greater(x, 0));
    bt_graph_output(s.graph, bt_as(x, BT_I32));
    scene_end(&s);
    EXPECT_RUN(s.graph, 0, 1, 0, 1, -2);
}
END_TEST

/* ---- errors ---- */

START_TEST(a_poisoned_graph_does_not_run)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2), *y = VECTOR(&s, "y", 1, 2, 3);
    const char *before = bt_trace_push("net.layer1");
    bt_graph_output(s.graph, bt_add(x, y));
    bt_trace_pop(before);
    double room[2];
    bt_array result = BT_ARRAY(room, 2);
    ck_assert_int_eq(bt_evaluate(s.graph, &result), BT_ERROR_SHAPE);
    ck_assert_int_eq(strncmp(bt_error(), "net.layer1: add: shapes [2] and [3] do not match", 42), 0);
}
END_TEST

START_TEST(an_input_that_is_not_bound)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2);
    bt_graph_output(s.graph, bt_add(x, bt_graph_placeholder(s.graph, x)));
    scene_end(&s);
    double room[2];
    bt_array result = BT_ARRAY(room, 2);
    ck_assert_int_eq(bt_evaluate(s.graph, &result), BT_ERROR_INTERNAL);
    ck_assert_str_eq(bt_error(), "a graph cannot run while one of its inputs is unbound");
}
END_TEST

START_TEST(a_check_that_fails)
{
    bt_tensor *x = VECTOR(&s, "x", 1, -2);
    const char *before = bt_trace_push("net.layer1");
    bt_check(bt_greater(x, 0), "x must be positive");
    bt_trace_pop(before);
    assign(0, bt_neg(x));
    scene_end(&s);
    ck_assert_int_eq(bt_evaluate(s.graph, NULL), BT_ERROR_NUMERIC);
    ck_assert_ptr_nonnull(strstr(bt_error(), "net.layer1: "));
    ck_assert_ptr_nonnull(strstr(bt_error(), "x must be positive"));
}
END_TEST

START_TEST(an_index_that_is_not_there)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2);
    bt_tensor *i = bt_trace_read(scene_var(&s, "i", BT_I32, NUMBERS(0, 5), (const int64_t[]){2, BT_END}));
    const char *before = bt_trace_push("net.embed");
    bt_graph_output(s.graph, bt_gather(x, i));
    bt_trace_pop(before);
    scene_end(&s);
    double room[2];
    bt_array result = BT_ARRAY(room, 2);
    ck_assert_int_eq(bt_evaluate(s.graph, &result), BT_ERROR_DATA);
    ck_assert_ptr_nonnull(strstr(bt_error(), "net.embed: "));
    ck_assert_ptr_nonnull(strchr(bt_error(), '5'));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("entry");
    TCase *tests = tcase_create("entry");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, swapped);
    tcase_add_test(tests, in_a_ring);
    tcase_add_test(tests, one_after_the_other);
    tcase_add_test(tests, views_of_itself);
    tcase_add_test(tests, the_old_value_read_later);
    tcase_add_test(tests, one_value_for_several);
    tcase_add_test(tests, parts_of_one_value);
    tcase_add_test(tests, constants_and_nothing);
    tcase_add_test(tests, windows_swapped);
    tcase_add_test(tests, a_window_read_through_its_block);
    tcase_add_test(tests, the_block_from_its_windows);
    tcase_add_test(tests, gaps_are_cleared);
    tcase_add_test(tests, outputs_stay);
    tcase_add_test(tests, an_output_of_another_dtype);
    tcase_add_test(tests, a_poisoned_graph_does_not_run);
    tcase_add_test(tests, an_input_that_is_not_bound);
    tcase_add_test(tests, a_check_that_fails);
    tcase_add_test(tests, an_index_that_is_not_there);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
