/* The order of a program's steps: the one with the lower peak of bytes, unless something forbids it. Bytes are counted
 * by hand. */
#include "support/scene.h"

#include "runtime/phase.h"
#include "support/suite.h"
#include <check.h>
#include <stdlib.h>

static scene s;
static bt_instance *instance;
static bt_phase *phase;

static void setup(void)
{
    scene_begin(&s, BT_F64);
    instance = bt_instance_new(bt_backend_cpu(), 1);
    instance->options.rows = false;
    phase = bt_phase_new(instance, "test", "order");
}

static void teardown(void)
{
    bt_phase_free(phase);
    bt_instance_free(instance);
    scene_free(&s);
    bt_error_clear();
}

/* x x', 8 x 8 in 512 bytes. */
static bt_tensor *square(bt_tensor *x) { return bt_dot(bt_reshape(x, 8, 1), bt_reshape(x, 1, 8)); }

/* Two wide values that are then summed: in sequence they need the memory of one. */
START_TEST(wide_values_one_after_the_other)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2, 3, 4, 5, 6, 7, 8), *y = VECTOR(&s, "y", 1, 1, 1, 1, 1, 1, 1, 2);
    bt_var *sum = scene_var(&s, "sum", BT_F64, NULL, (const int64_t[]){8, BT_END});
    bt_tensor *one = square(x), *two = square(y);
    bt_graph_assign(s.graph, sum, bt_add(bt_sum(one, 1), bt_sum(two, 1)));
    scene_run_in(&s, phase);
    ck_assert_uint_eq(phase->bound, 512 + 2 * 64); /* a wide value, its sums, and those of the other one */
    EXPECT_VAR(sum, 1e-15, 36 + 9, 72 + 9, 108 + 9, 144 + 9, 180 + 9, 216 + 9, 252 + 9, 288 + 18);
}
END_TEST

/* The original order is the best: nothing is moved. */
START_TEST(a_chain_stays)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2, 3, 4, 5, 6, 7, 8);
    bt_graph_output(s.graph, bt_sum(bt_exp(bt_neg(square(x)))));
    const bt_program *program = scene_run_in(&s, phase);
    static const bt_op *const ops[] = {&bt_op_dot, &bt_op_neg, &bt_op_exp, &bt_op_sum};
    ck_assert_int_eq(program->step_count, BT_COUNT_OF(ops));
    for (int i = 0; i < BT_COUNT_OF(ops); i++)
        ck_assert_ptr_eq(program->steps[i].call.op, ops[i]);
}
END_TEST

/* Readers of a variable stay before its update and read the old value in place, without a copy, although the update
 * alone would be the cheapest step. */
START_TEST(readers_stay_before_the_update)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2, 3, 4, 5, 6, 7, 8), *y = VECTOR(&s, "y", 1, 1, 1, 1, 1, 1, 1, 2);
    bt_tensor *one = square(x), *two = square(y), *old = bt_mul(x, y);
    bt_graph_assign(s.graph, s.vars[0], bt_add(x, 1));
    bt_graph_output(s.graph, bt_add(old, bt_add(bt_sum(one, 1), bt_sum(two, 1))));
    phase->options.rule = BT_ORDER_EARLIEST;
    const bt_program *program = scene_run_in(&s, phase);
    for (int64_t i = 0; i < program->step_count; i++)
        ck_assert_ptr_ne(program->steps[i].call.op, &bt_op_copy);
    EXPECT_VAR(s.vars[0], 0, 2, 3, 4, 5, 6, 7, 8, 9);
    EXPECT_RUN(s.graph, 1e-15, 99, 144, 189, 234, 279, 324, 369, 432); /* again: 45 x + 9; 9 44 + 18 + 18 */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("order");
    TCase *tests = tcase_create("order");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, wide_values_one_after_the_other);
    tcase_add_test(tests, a_chain_stays);
    tcase_add_test(tests, readers_stay_before_the_update);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
