/* How many threads a call gets: determined by its work, and always the same. */
#include "compile/work.h"
#include "ops/ops.h"

#include "support/suite.h"
#include <check.h>

static bt_view matrix(int64_t rows, int64_t columns, int64_t stride)
{
    return (bt_view){.dtype = BT_F32, .rank = 2, .dims = {rows, columns}, .strides = {stride ? columns : 0, 1}};
}

static bt_call product(bt_view views[3], int64_t m, int64_t k, int64_t n)
{
    views[0] = matrix(m, k, 1);
    views[1] = matrix(k, n, 1);
    views[2] = matrix(m, n, 1);
    return (bt_call){.op = &bt_op_dot, .inputs = 2, .outputs = 1, .in = views, .out = views + 2};
}

static bt_call copy(bt_view views[2], int64_t rows, bool repeated)
{
    views[0] = matrix(rows, 1024, !repeated);
    views[1] = matrix(rows, 1024, 1);
    return (bt_call){.op = &bt_op_copy, .inputs = 1, .outputs = 1, .in = views, .out = views + 1};
}

START_TEST(work_of_products)
{
    bt_view views[3];
    bt_call small = product(views, 10, 40, 40);
    ck_assert_double_eq(bt_call_flops(&small), 2.0 * 10 * 40 * 40);
    ck_assert_double_eq(bt_call_bytes(&small), 4.0 * (10 * 40 + 40 * 40 + 10 * 40));
    ck_assert_int_eq(bt_call_threads(&small, 64), 1);
    bt_call large = product(views, 100, 784, 100); /* 15.68 million, and 4 times 667,200 bytes */
    ck_assert_int_eq(bt_call_threads(&large, 1), 1);
    ck_assert_int_eq(bt_call_threads(&large, 2), 2);
    ck_assert_int_eq(bt_call_threads(&large, 1000), 4);
    bt_call huge = product(views, 4096, 4096, 4096);
    ck_assert_int_eq(bt_call_threads(&huge, 1024), 1024);
}
END_TEST

START_TEST(work_of_copies)
{
    bt_view views[2], few[2];
    bt_call little = copy(few, 8, false), much = copy(views, 1024, false);
    ck_assert_int_eq(bt_call_threads(&little, 8), 1);
    ck_assert_double_ge(bt_call_bytes(&much), 8.0 * 1024 * 1024);
    ck_assert_int_eq(bt_call_threads(&much, 8), 8);
    bt_call again = copy(views, 1024, true); /* reads one row */
    ck_assert_double_eq(bt_call_bytes(&again), 4.0 * 1024 * 1025);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("work");
    TCase *tests = tcase_create("work");
    tcase_add_test(tests, work_of_products);
    tcase_add_test(tests, work_of_copies);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
