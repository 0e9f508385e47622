/* Work done in place: an update directly in its variable, a value over one that dies; and what must not be. The arena's
 * bytes show how many places there are; the values show that none was reused too early. */
#include "support/scene.h"

#include "runtime/evaluate.h"
#include "runtime/variable.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static scene s;
static bt_instance *instance;
static bt_phase *phase;

static void setup(void)
{
    scene_begin(&s, BT_F64);
    instance = bt_instance_new(bt_backend_cpu(), 1);
    /* each step separately: for joined steps see tests/compile/test_rows.c and test_chains.c */
    instance->options.rows = instance->options.chain = false;
    phase = bt_phase_new(instance, "test", "in place");
}

static void teardown(void)
{
    bt_phase_free(phase);
    bt_instance_free(instance);
    scene_free(&s);
    bt_error_clear();
}

static int copies(const bt_program *program)
{
    int count = 0;
    for (int64_t i = 0; i < program->step_count; i++)
        count += program->steps[i].call.op == &bt_op_copy;
    return count;
}

/* The number of places of this many bytes in the arena, each 64 bytes or a multiple. */
static void expect_places(size_t places, size_t bytes) { ck_assert_uint_eq(phase->arena, places * bt_align_up(bytes)); }

/* ---- in variables ---- */

START_TEST(an_update_in_its_variable)
{
    bt_tensor *w = VECTOR(&s, "w", 1, 2), *g = VECTOR(&s, "g", 10, 20);
    bt_graph_assign(s.graph, s.vars[0], bt_sub(w, bt_mul(0.5, g)));
    const bt_program *program = scene_run_in(&s, phase);
    ck_assert_int_eq(copies(program), 0);
    ck_assert_ptr_eq(phase->entries[0].bound->calls[program->step_count - 1].out[0].data, s.vars[0]->data);
    expect_places(1, 16); /* 0.5 g */
    EXPECT_VAR(s.vars[0], 0, -4, -8);
}
END_TEST

/* w is read after the sum to be assigned to it: the sum is stored separately until the end. */
START_TEST(not_while_the_old_value_is_wanted)
{
    bt_tensor *w = VECTOR(&s, "w", 1, 2), *g = VECTOR(&s, "g", 10, 20), *next = bt_add(w, g);
    bt_graph_assign(s.graph, s.vars[0], next);
    bt_graph_output(s.graph, bt_mul(bt_exp(next), w));
    const bt_program *program = scene_run_in(&s, phase);
    ck_assert_int_eq(copies(program), 1);
    EXPECT_VAR(s.vars[0], 0, 11, 22);
    bt_array result = bt_phase_result(phase, 0, 0);
    EXPECT_VALUES(result.data, 1e-15, exp(11), 2 * exp(22));
}
END_TEST

/* w + transposed w: the second view of the same bytes has another order. */
START_TEST(not_under_two_different_looks)
{
    bt_tensor *w = MATRIX(&s, "w", 2, 2, 1, 2, 3, 4), *v = MATRIX(&s, "v", 2, 2, 1, 2, 3, 4);
    bt_graph_assign(s.graph, s.vars[0], bt_add(w, bt_permute(w, 1, 0)));
    bt_graph_assign(s.graph, s.vars[1], bt_add(bt_broadcast_like(bt_slice(v, 0, 0, 1), v), v)); /* a row of it */
    scene_run_in(&s, phase);
    EXPECT_VAR(s.vars[0], 0, 2, 5, 5, 8);
    EXPECT_VAR(s.vars[1], 0, 2, 4, 4, 6);
}
END_TEST

/* Two equal views count as one: w w in its own bytes. */
START_TEST(under_the_same_look_twice)
{
    bt_tensor *w = VECTOR(&s, "w", 3, 4);
    bt_graph_assign(s.graph, s.vars[0], bt_mul(w, w));
    const bt_program *program = scene_run_in(&s, phase);
    ck_assert_int_eq(copies(program), 0);
    ck_assert_uint_eq(phase->arena, 0);
    EXPECT_VAR(s.vars[0], 0, 9, 16);
}
END_TEST

/* A product reads all of w for each element. */
START_TEST(not_by_an_op_that_looks_around)
{
    bt_tensor *w = MATRIX(&s, "w", 2, 2, 1, 2, 3, 4), *v = VECTOR(&s, "v", 1, 2, 4);
    bt_graph_assign(s.graph, s.vars[0], bt_dot(w, w));
    bt_graph_assign(s.graph, s.vars[1], bt_softmax(v, 0));
    scene_run_in(&s, phase);
    EXPECT_VAR(s.vars[0], 0, 7, 10, 15, 22);
    double sum = exp(1) + exp(2) + exp(4);
    EXPECT_VAR(s.vars[1], 1e-15, exp(1) / sum, exp(2) / sum, exp(4) / sum);
}
END_TEST

/* A value that does not depend on w can be computed in it by any op, if w is not read later. */
START_TEST(by_any_op_where_the_old_value_is_gone)
{
    bt_tensor *a = MATRIX(&s, "a", 2, 2, 1, 2, 3, 4), *w = MATRIX(&s, "w", 2, 2, 0, 0, 0, 0);
    bt_tensor *sum = bt_sum(w);
    bt_graph_assign(s.graph, s.vars[1], bt_dot(a, bt_add(a, sum)));
    const bt_program *program = scene_run_in(&s, phase);
    ck_assert_int_eq(copies(program), 0);
    EXPECT_VAR(s.vars[1], 0, 7, 10, 15, 22);
}
END_TEST

START_TEST(an_output_stays_outside)
{
    bt_tensor *w = VECTOR(&s, "w", 1, 2), *next = bt_exp(w);
    bt_graph_assign(s.graph, s.vars[0], next);
    bt_graph_output(s.graph, next);
    scene_run_in(&s, phase);
    bt_array result = bt_phase_result(phase, 0, 0);
    ck_assert_ptr_ne(result.data, s.vars[0]->data);
    EXPECT_VAR(s.vars[0], 1e-15, exp(1), exp(2));
    EXPECT_VALUES(result.data, 1e-15, exp(1), exp(2));
}
END_TEST

/* A window is updated in place, after its block has been read. */
START_TEST(a_window_of_a_block)
{
    bt_var *block = scene_var(&s, "block", BT_F64, NUMBERS(1, 2, 3, 4), (const int64_t[]){4, BT_END});
    bt_array pair = {.dtype = BT_F64, .rank = 1, .dims = {2}};
    bt_var *low = scene_own(&s, bt_var_window(block, 0, "low", pair));
    bt_var *high = scene_own(&s, bt_var_window(block, 16, "high", pair));
    bt_tensor *scale = bt_sum(bt_trace_read(block));
    bt_graph_assign(s.graph, low, bt_mul(bt_trace_read(low), scale));
    bt_graph_assign(s.graph, high, bt_mul(bt_trace_read(high), scale));
    const bt_program *program = scene_run_in(&s, phase);
    ck_assert_int_eq(copies(program), 0);
    EXPECT_VAR(block, 0, 10, 20, 30, 40);
}
END_TEST

/* p', m' and v' of an update are written directly to p, m and v. */
START_TEST(all_of_an_update)
{
    bt_tensor *p = VECTOR(&s, "p", 1, 2), *m = VECTOR(&s, "m", 0, 0), *v = VECTOR(&s, "v", 0, 0),
              *g = VECTOR(&s, "g", 10, -20), *ok = bt_greater(bt_number(1, BT_F64), 0);
    bt_adam_attr attr = {0};
    bt_tensor *one = bt_number(1, BT_F64), *lr = bt_number(0.5, BT_F64), *beta1 = bt_number(0.9, BT_F64),
              *beta2 = bt_number(0.999, BT_F64), *eps = bt_number(1e-8, BT_F64), *zero = bt_number(0, BT_F64);
    bt_node *node = BT_RECORD(&bt_op_adam_update, &attr, p, g, m, v, ok, lr, beta1, beta2, eps, zero, one)->node;
    for (int i = 0; i < 3; i++)
        bt_graph_assign(s.graph, s.vars[i], &node->out[i]);
    const bt_program *program = scene_run_in(&s, phase);
    ck_assert_int_eq(copies(program), 0);
    EXPECT_VAR(s.vars[0], 1e-8, 0.5, 2.5); /* the first step of Adam: lr, opposite to the sign of g */
    EXPECT_VAR(s.vars[1], 1e-15, 1, -2);
    EXPECT_VAR(s.vars[2], 1e-15, 0.1, 0.4);
}
END_TEST

/* ---- in the arena ---- */

START_TEST(a_chain_takes_one_place)
{
    bt_tensor *x = VECTOR(&s, "x", 0.5, 0.25), *y = x;
    for (int i = 0; i < 6; i++)
        y = bt_tanh(bt_exp(bt_neg(y)));
    bt_graph_output(s.graph, y);
    scene_run_in(&s, phase);
    expect_places(1, 16);
    double a = 0.5, b = 0.25;
    for (int i = 0; i < 6; i++) {
        a = tanh(exp(-a));
        b = tanh(exp(-b));
    }
    EXPECT_VALUES(bt_phase_result(phase, 0, 0).data, 1e-15, a, b);
}
END_TEST

START_TEST(not_over_a_value_that_lives)
{
    bt_tensor *x = VECTOR(&s, "x", 0.5, 0.25), *y = bt_exp(x), *z = bt_tanh(y);
    bt_graph_output(s.graph, bt_mul(bt_sin(z), y));
    scene_run_in(&s, phase);
    expect_places(2, 16);
    EXPECT_VALUES(bt_phase_result(phase, 0, 0).data, 1e-15, sin(tanh(exp(0.5))) * exp(0.5),
                  sin(tanh(exp(0.25))) * exp(0.25));
}
END_TEST

/* A result stored over another value still counts as a result: the last step must not overwrite it. */
START_TEST(not_over_a_result)
{
    bt_tensor *x = VECTOR(&s, "x", 0.5, 0.25), *y = bt_neg(bt_exp(x));
    bt_graph_output(s.graph, y);
    bt_graph_output(s.graph, bt_tanh(y));
    scene_run_in(&s, phase);
    expect_places(2, 16);
    EXPECT_VALUES(bt_phase_result(phase, 0, 0).data, 1e-15, -exp(0.5), -exp(0.25));
    EXPECT_VALUES(bt_phase_result(phase, 0, 1).data, 1e-15, -tanh(exp(0.5)), -tanh(exp(0.25)));
}
END_TEST

/* y + transposed y, y - a part of y repeated, y over a slice of itself: all need a second place. */
START_TEST(not_over_a_value_seen_in_another_way)
{
    bt_tensor *x = MATRIX(&s, "x", 2, 2, 1, 2, 3, 4), *y = bt_mul(x, 2), *z = bt_add(y, bt_permute(y, 1, 0));
    bt_tensor *t = bt_sub(z, bt_broadcast_like(bt_slice(z, 1, 1, 2), z));
    bt_graph_output(s.graph, bt_add(t, 0.5));
    scene_run_in(&s, phase);
    ck_assert_uint_ge(phase->arena, 128);
    EXPECT_VALUES(bt_phase_result(phase, 0, 0).data, 0, 4 - 10 + 0.5, 0.5, 10 - 16 + 0.5, 0.5);
}
END_TEST

START_TEST(not_over_one_of_another_size)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2, 3, 4, 5, 6, 7, 8, 9), *half = bt_slice(bt_exp(x), 0, 0, 4);
    bt_graph_output(s.graph, bt_neg(half)); /* the first four of nine */
    bt_graph_output(s.graph, bt_as(bt_greater(bt_mul(x, 2), 4), BT_F64));
    scene_run_in(&s, phase);
    EXPECT_VALUES(bt_phase_result(phase, 0, 0).data, 1e-15, -exp(1), -exp(2), -exp(3), -exp(4));
    EXPECT_VALUES(bt_phase_result(phase, 0, 1).data, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1);
}
END_TEST

/* Two values that both die in one step: each output may take one of them, never both the same. */
START_TEST(two_outputs_take_two_places)
{
    bt_tensor *p = bt_mul(VECTOR(&s, "p", 1, 2), 2), *m = bt_mul(VECTOR(&s, "m", 1, 1), 3),
              *g = bt_mul(VECTOR(&s, "g", 10, 20), 1.5), *ok = bt_greater(bt_number(1, BT_F64), 0);
    bt_sgd_attr attr = {0};
    bt_tensor *lr = bt_number(1, BT_F64), *zero = bt_number(0, BT_F64), *half = bt_number(0.5, BT_F64);
    bt_node *node =
        BT_RECORD(&bt_op_sgd_update, &attr, p, g, m, ok, lr, half, zero, zero, bt_less(lr, 0))->node; /* m' = m/2 + g */
    bt_graph_output(s.graph, node->out);
    bt_graph_output(s.graph, &node->out[1]);
    scene_run_in(&s, phase);
    EXPECT_VALUES(bt_phase_result(phase, 0, 0).data, 0, 2 - 16.5, 4 - 31.5);
    EXPECT_VALUES(bt_phase_result(phase, 0, 1).data, 0, 16.5, 31.5);
}
END_TEST

/* The derivative of softmax from its output, assigned over either operand: correct, or not done in place. */
START_TEST(softmax_backward_over_its_operands)
{
    for (int over = 0; over < 2; over++) {
        if (over) {
            teardown();
            setup();
        }
        bt_tensor *y = VECTOR(&s, "y", 0.2, 0.3, 0.5), *g = VECTOR(&s, "g", 1, 10, 100);
        bt_axis_attr attr = {0};
        bt_graph_assign(s.graph, s.vars[over], BT_RECORD(&bt_op_softmax_grad, &attr, y, g));
        scene_run_in(&s, phase);
        double mean = 0.2 * 1 + 0.3 * 10 + 0.5 * 100;
        EXPECT_VAR(s.vars[over], 1e-15, 0.2 * (1 - mean), 0.3 * (10 - mean), 0.5 * (100 - mean));
    }
}
END_TEST

/* A normalised layer over its own input, and its gradients over theirs. */
START_TEST(layer_norm_over_its_operands)
{
    double expected[2][3];
    for (int way = 0; way < 2; way++) {
        if (way) {
            teardown();
            setup();
        }
        bt_tensor *x = MATRIX(&s, "x", 1, 3, 1, 2, 6), *scale = VECTOR(&s, "scale", 1, 2, 3),
                  *shift = VECTOR(&s, "shift", 0, 0, 1), *u = MATRIX(&s, "u", 1, 3, 1, 10, 100);
        bt_tensor *y = bt_layer_norm(x, scale, shift, 1e-5), *g = bt_grad(bt_sum(bt_mul(y, u)), x);
        int target[] = {0, 3}; /* y over x, dx over u; or both elsewhere */
        if (way)
            for (int i = 0; i < 2; i++)
                bt_graph_assign(s.graph, s.vars[target[i]], i ? g : y);
        else
            for (int i = 0; i < 2; i++)
                bt_graph_output(s.graph, i ? g : y);
        scene_run_in(&s, phase);
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 3; k++) {
                double found = way ? var_get(s.vars[target[i]], k) : ((double *)bt_phase_result(phase, 0, i).data)[k];
                if (way)
                    ck_assert_double_eq_tol(found, expected[i][k], 1e-13);
                else
                    expected[i][k] = found;
            }
    }
    double deviation = sqrt(14 / 3.0 + 1e-5);
    ck_assert_double_eq_tol(expected[0][2], 3 * 3 / deviation + 1, 1e-14);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("in_place");
    TCase *tests = tcase_create("in_place");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, an_update_in_its_variable);
    tcase_add_test(tests, not_while_the_old_value_is_wanted);
    tcase_add_test(tests, not_under_two_different_looks);
    tcase_add_test(tests, under_the_same_look_twice);
    tcase_add_test(tests, not_by_an_op_that_looks_around);
    tcase_add_test(tests, by_any_op_where_the_old_value_is_gone);
    tcase_add_test(tests, an_output_stays_outside);
    tcase_add_test(tests, a_window_of_a_block);
    tcase_add_test(tests, all_of_an_update);
    tcase_add_test(tests, a_chain_takes_one_place);
    tcase_add_test(tests, not_over_a_value_that_lives);
    tcase_add_test(tests, not_over_a_result);
    tcase_add_test(tests, not_over_a_value_seen_in_another_way);
    tcase_add_test(tests, not_over_one_of_another_size);
    tcase_add_test(tests, two_outputs_take_two_places);
    tcase_add_test(tests, softmax_backward_over_its_operands);
    tcase_add_test(tests, layer_norm_over_its_operands);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
