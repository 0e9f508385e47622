/* Choosing kernels: the first that accepts the call, or none. */
#include "ops/ops.h"
#include "runtime/backend.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static bool short_ones(const bt_call *call) { return call->in[0].dims[0] < 4; }
static bool dense_ones(const bt_call *call) { return call->in[0].strides[0] == 1; }

static const bt_kernel_impl quick = {.op = &bt_op_exp, .name = "quick", .accepts = short_ones},
                            plain = {.op = &bt_op_exp, .name = "plain", .accepts = dense_ones},
                            other = {.op = &bt_op_neg, .name = "other"};

static const bt_kernel_impl *const *kernels(void)
{
    static const bt_kernel_impl *const list[] = {&quick, &other, &plain, NULL};
    return list;
}

static const bt_kernel_table table = {.device = "test", .list = kernels};

static const bt_kernel_impl *choose(const bt_op *op, int64_t count, int64_t stride)
{
    bt_view in = {.dtype = BT_F64, .rank = 1, .dims = {count}, .strides = {stride}};
    bt_call call = {.op = op, .inputs = 1, .in = &in};
    return bt_kernel_choose(&table, &call);
}

START_TEST(the_first_that_accepts)
{
    ck_assert_ptr_eq(choose(&bt_op_exp, 3, 1), &quick);
    ck_assert_ptr_eq(choose(&bt_op_exp, 3, 2), &quick);
    ck_assert_ptr_eq(choose(&bt_op_exp, 5, 1), &plain);
    ck_assert_ptr_null(choose(&bt_op_exp, 5, 2));
    ck_assert_ptr_eq(choose(&bt_op_neg, 5, 2), &other); /* it accepts everything */
    ck_assert_ptr_null(choose(&bt_op_log, 3, 1));
}
END_TEST

START_TEST(what_a_backend_knows)
{
    bt_call call = {.op = &bt_op_exp};
    ck_assert(bt_kernel_known(&table, &bt_op_exp) && bt_kernel_known(&table, &bt_op_neg));
    ck_assert(!bt_kernel_known(&table, &bt_op_log));
    ck_assert(!bt_kernel_known(NULL, &bt_op_exp) && !bt_kernel_known(&table, NULL));
    ck_assert(!bt_kernel_choose(NULL, &call) && !bt_kernel_choose(&table, NULL));
}
END_TEST

/* The CPU has a kernel for every op except leaves, views, and ops with a body to fall back on. */
START_TEST(the_cpu_knows_every_primitive)
{
    const bt_backend *cpu = bt_backend_cpu();
    ck_assert_str_eq(cpu->name, "cpu");
    ck_assert_uint_gt(strlen(cpu->isa()), 0);
    ck_assert_uint_lt(strlen(cpu->isa()), 64);
    for (const bt_op *const *op = bt_op_table; *op; op++) {
        bool leaf = bt_op_flags(*op) & BT_OP_LEAF, view = (*op)->info && (*op)->info->view;
        ck_assert_msg(leaf || view || bt_op_is_composite(*op) || bt_kernel_known(&cpu->kernels, *op), "%s",
                      (*op)->name);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernels");
    TCase *tests = tcase_create("kernels");
    tcase_add_test(tests, the_first_that_accepts);
    tcase_add_test(tests, what_a_backend_knows);
    tcase_add_test(tests, the_cpu_knows_every_primitive);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
