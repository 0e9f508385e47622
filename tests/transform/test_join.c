/* Joining: one graph that does the work of two that run in sequence, or none if they must stay separate. */
#include "support/scene.h"

#include "runtime/variable.h"
#include "support/suite.h"
#include "transform/join.h"
#include <check.h>
#include <stdlib.h>

static scene first, second;
static bt_graph *joined;
static bt_var *block, *left, *right, *out;

/* A block of six with two windows, and two more variables, known to both graphs. */
static void setup(void)
{
    scene_begin(&first, BT_F64);
    block = scene_var(&first, "block", BT_F64, NUMBERS(1, 2, 3, 4, 5, 6), (const int64_t[]){6, BT_END});
    out = scene_var(&first, "out", BT_F64, NULL, (const int64_t[]){6, BT_END});
    left = scene_own(&first, bt_var_window(block, 0, "left", (bt_array){.dtype = BT_F64, .rank = 2, .dims = {2, 2}}));
    right = scene_own(
        &first, bt_var_window(block, 4 * sizeof(double), "right", (bt_array){.dtype = BT_F64, .rank = 1, .dims = {2}}));
    joined = NULL;
}

static void teardown(void)
{
    bt_graph_free(joined);
    scene_free(&second);
    scene_free(&first);
    bt_error_clear();
}

static void then(void)
{
    scene_end(&first);
    scene_begin(&second, BT_F64);
}

static void join(const bt_var *last)
{
    scene_end(&second);
    EXPECT_OK(bt_join(first.graph, second.graph, last, &joined));
    if (joined)
        EXPECT_OK(bt_graph_verify(joined, "join"));
}

static void join_and_run(const bt_var *last)
{
    join(last);
    ck_assert_ptr_nonnull(joined);
    free(run_once(joined));
}

static bt_tensor *read(bt_var *var) { return bt_trace_read(var); }
static void assign(scene *s, bt_var *var, bt_tensor *value) { bt_graph_assign(s->graph, var, value); }

START_TEST(what_was_assigned_is_read)
{
    assign(&first, block, bt_mul(read(block), 10));
    then();
    assign(&second, out, bt_add(read(block), 1));
    join_and_run(NULL);
    EXPECT_VAR(out, 1e-15, 11, 21, 31, 41, 51, 61);
    EXPECT_VAR(block, 1e-15, 10, 20, 30, 40, 50, 60);
}
END_TEST

START_TEST(windows_make_up_the_whole)
{
    assign(&first, right, bt_mul(read(right), 10));
    assign(&first, left, bt_transpose(read(left)));
    then();
    assign(&second, out, bt_add(read(block), 1));
    join_and_run(NULL);
    EXPECT_VAR(out, 1e-15, 2, 4, 3, 5, 51, 61);
    EXPECT_VAR(block, 1e-15, 1, 3, 2, 4, 50, 60);
}
END_TEST

START_TEST(a_window_of_the_whole)
{
    assign(&first, block, bt_mul(read(block), 10));
    then();
    bt_tensor *x = bt_concat(0, (bt_reshape)(bt_transpose(read(left)), (const int64_t[]){-1, BT_END}), read(right));
    assign(&second, out, x);
    join_and_run(NULL);
    EXPECT_VAR(out, 1e-15, 10, 30, 20, 40, 50, 60);
}
END_TEST

/* Only a part of the variable is assigned, the rest keeps its value: this stays two programs. */
START_TEST(a_part_is_not_enough)
{
    assign(&first, left, bt_transpose(read(left)));
    then();
    assign(&second, out, read(block));
    join(NULL);
    ck_assert_ptr_null(joined);
    EXPECT_OK(bt_error_status());
}
END_TEST

START_TEST(assigns_that_overlap)
{
    assign(&first, left, bt_transpose(read(left)));
    then();
    assign(&second, block, bt_exp(read(out)));
    join(_i ? block : NULL);
    ck_assert((joined != NULL) == _i); /* without the first, nothing prevents it */
}
END_TEST

/* The second graph's assign to the same variable wins; the first graph reads the initial value. */
START_TEST(both_assign)
{
    assign(&first, out, bt_mul(read(block), 2));
    then();
    assign(&second, out, bt_add(read(out), read(block)));
    assign(&second, block, bt_zeros_like(read(block)));
    join_and_run(NULL);
    EXPECT_VAR(out, 1e-15, 3, 6, 9, 12, 15, 18);
    EXPECT_VAR(block, 1e-15, 0, 0, 0, 0, 0, 0);
}
END_TEST

START_TEST(the_last_reader)
{
    assign(&first, left, bt_mul(read(left), 10));
    assign(&first, right, bt_mul(read(right), 10));
    then();
    assign(&second, out, bt_add(read(block), 1));
    join(block);
    ck_assert_ptr_nonnull(joined);
    ck_assert_int_eq(joined->assign_count, 1);
    free(run_once(joined));
    EXPECT_VAR(out, 1e-15, 11, 21, 31, 41, 51, 61);
    EXPECT_VAR(block, 1e-15, 1, 2, 3, 4, 5, 6);
}
END_TEST

START_TEST(results_of_both)
{
    bt_graph_output(first.graph, bt_mul(read(right), 2));
    then();
    bt_graph_output(second.graph, bt_mul(read(right), 3));
    join(NULL);
    ck_assert_ptr_nonnull(joined);
    EXPECT_RUN(joined, 1e-15, 10, 12, 15, 18);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("join");
    TCase *tests = tcase_create("two graphs");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_was_assigned_is_read);
    tcase_add_test(tests, windows_make_up_the_whole);
    tcase_add_test(tests, a_window_of_the_whole);
    tcase_add_test(tests, a_part_is_not_enough);
    tcase_add_loop_test(tests, assigns_that_overlap, 0, 2);
    tcase_add_test(tests, both_assign);
    tcase_add_test(tests, the_last_reader);
    tcase_add_test(tests, results_of_both);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
