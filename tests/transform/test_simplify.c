/* Simplifying: equal nodes are merged, constants folded, dead nodes dropped; values, effects and the order of results
 * stay. */
#include "support/random_graph.h"

#include "support/suite.h"
#include "transform/grad.h"
#include "transform/simplify.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static scene s;
static bt_graph *simple;

static void setup(void)
{
    scene_begin(&s, BT_F64);
    simple = NULL;
}

static void teardown(void)
{
    bt_graph_free(simple);
    scene_free(&s);
    bt_error_clear();
}

static void simplify(bool final)
{
    scene_end(&s);
    simple = bt_simplify(s.graph, final);
    ck_assert_msg(simple != NULL, "%s", bt_error());
    EXPECT_OK(bt_graph_verify(simple, "simplify"));
}

static void outputs(bt_tensor *const *x, int count)
{
    for (int i = 0; i < count; i++)
        bt_graph_output(s.graph, x[i]);
    simplify(true);
}
#define OUTPUTS(...)                                                                                                   \
    outputs((bt_tensor *const[]){__VA_ARGS__}, (int)(sizeof((bt_tensor *const[]){__VA_ARGS__}) / sizeof(bt_tensor *)))

/* ---- merging ---- */

START_TEST(equal_nodes_are_merged)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2, 3), *a[2];
    for (int i = 0; i < 2; i++) {
        bt_tensor *part = bt_slice(bt_exp(x), 0, 1, 3);
        a[i] = bt_softmax(bt_mul(part, bt_constant(BT_ARRAY(((double[]){5, 7}), 2))), 0);
    }
    OUTPUTS(a[0], a[1], bt_softmax(a[0], 0));
    ck_assert_int_eq(simple->node_count, 7); /* x, exp, slice, constant, mul, softmax, softmax */
    ck_assert_ptr_eq(simple->outputs[0], simple->outputs[1]);
}
END_TEST

START_TEST(nodes_that_differ_somewhere_are_not)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2, 3), *y = VECTOR(&s, "y", 1, 2, 3); /* equal values are not enough */
    static const double values[] = {5, 7, 0}, others[] = {5, 7, -0.0};
    OUTPUTS(bt_exp(x), bt_exp(y), bt_log(x), bt_slice(x, 0, 0, 2), bt_slice(x, 0, 1, 3), bt_sub(x, y), bt_sub(y, x),
            bt_constant(BT_ARRAY(values, 3)), bt_constant(BT_ARRAY(others, 3)), bt_constant(BT_ARRAY(values, 3, 1)));
    ck_assert_int_eq(simple->node_count, 2 + 10);
}
END_TEST

/* Products of tf32 and of f32 stay separate; other ops of such levels are merged. */
START_TEST(products_of_two_precisions)
{
    bt_tensor *x = MATRIX(&s, "x", 2, 2, 1, 2, 3, 4), *y[4];
    for (int i = 0; i < 4; i++) {
        s.trace.tag.low = i % 2 ? BT_TF32 : BT_F32;
        y[i] = bt_exp(bt_dot(bt_tanh(x), x));
    }
    OUTPUTS(y[0], y[1], y[2], y[3]);
    ck_assert_int_eq(count_op(simple, &bt_op_tanh), 1);
    ck_assert_int_eq(count_op(simple, &bt_op_dot), 2);
    ck_assert_int_eq(count_op(simple, &bt_op_exp), 2);
}
END_TEST

/* More than can all be in their own place in a hash table. */
START_TEST(many_nodes_that_differ_in_attributes)
{
    enum { COUNT = 400 };
    bt_tensor *x = bt_trace_read(scene_var(&s, "x", BT_F64, NULL, (const int64_t[]){COUNT, BT_END}));
    for (int i = 0; i < COUNT; i++)
        bt_graph_output(s.graph, bt_slice(x, 0, i, i + 1));
    simplify(true);
    ck_assert_int_eq(count_op(simple, &bt_op_slice), COUNT);
}
END_TEST

static bt_tensor *uniform(bt_tensor *record, uint64_t key, uint32_t site)
{
    bt_random_attr attr = {.dtype = BT_F64, .rank = 1, .dims = {4}, .key = key, .site = site};
    return BT_RECORD(&bt_op_uniform, &attr, record);
}

/* The same mask recorded twice is merged; a different site, key or batch record is not. */
START_TEST(random_ops)
{
    bt_tensor *record = bt_trace_read(scene_var(&s, "record", BT_I64, NUMBERS(1), (const int64_t[]){BT_END}));
    bt_tensor *other = bt_trace_read(scene_var(&s, "other", BT_I64, NUMBERS(1), (const int64_t[]){BT_END}));
    OUTPUTS(uniform(record, 1, 2), uniform(record, 1, 2), uniform(record, 1, 3), uniform(record, 2, 2),
            uniform(other, 1, 2));
    ck_assert_int_eq(count_op(simple, &bt_op_uniform), 4);
    ck_assert_ptr_eq(simple->outputs[0], simple->outputs[1]);
    double *values = run_once(simple);
    ck_assert_mem_eq(values, values + 4, 32);
    ck_assert_mem_ne(values, values + 8, 32);
    ck_assert_mem_ne(values, values + 12, 32);
    free(values);
}
END_TEST

START_TEST(effects_stay)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2, 3);
    bt_check(bt_greater(x, 0), "positive");
    bt_check(bt_greater(x, 0), "positive");
    bt_tensor *a = bt_print(x, "x"), *b = bt_print(x, "x");
    bt_graph_output(s.graph, bt_exp(a)); /* b is not used */
    ck_assert_ptr_ne(a, b);
    simplify(true);
    ck_assert_int_eq(count_op(simple, &bt_op_check), 2);
    ck_assert_int_eq(count_op(simple, &bt_op_print), 2);
    ck_assert_int_eq(count_op(simple, &bt_op_greater), 1);
}
END_TEST

START_TEST(inputs_that_are_not_bound_differ)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2, 3);
    OUTPUTS(bt_exp(bt_graph_placeholder(s.graph, x)), bt_exp(bt_graph_placeholder(s.graph, x)));
    ck_assert_int_eq(simple->node_count, 4);
}
END_TEST

START_TEST(the_batch_axis_survives)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2, 3), *a = bt_exp(x), *b = bt_exp(x);
    b->batch_axis = 0;
    OUTPUTS(a, b);
    ck_assert_int_eq(simple->node_count, 2);
    ck_assert_int_eq(simple->outputs[0]->batch_axis, 0);
}
END_TEST

/* ---- folding ---- */

START_TEST(constants_are_folded)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2, 3);
    bt_tensor *three = bt_exp(bt_log(bt_number(3, BT_F64))), *seven = bt_add(bt_mul(bt_ones_like(x), 2), 5);
    OUTPUTS(bt_mul(x, seven), bt_add(x, bt_tanh(bt_neg(bt_zeros_like(x)))), bt_pow(x, bt_sub(three, 2)));
    ck_assert_int_eq(count_op(simple, &bt_op_add), 0);
    ck_assert_int_eq(count_op(simple, &bt_op_tanh), 0);
    ck_assert_int_eq(count_op(simple, &bt_op_exp), 0);
    ck_assert_int_eq(count_op(simple, &bt_op_mul), 1);
    EXPECT_RUN(simple, 1e-15, 7, 14, 21, 1, 2, 3, 1, 2, 3);
}
END_TEST

/* The results of folding are folded in turn: a sum of one number repeated is a product, and that is a number. */
START_TEST(sums_of_constants)
{
    bt_tensor *x = MATRIX(&s, "x", 2, 3, 1, 2, 3, 4, 5, 6), *three = bt_full_like(x, 3);
    OUTPUTS(bt_add(x, bt_sum(three, 0, BT_KEEP)), bt_mul(x, bt_sum(three)), bt_sum(three, 1));
    ck_assert(count_op(simple, &bt_op_sum) == 0 && count_op(simple, &bt_op_mul) == 1);
    EXPECT_RUN(simple, 0, 7, 8, 9, 10, 11, 12, 18, 36, 54, 72, 90, 108, 9, 9);
}
END_TEST

START_TEST(algebra)
{
    bt_tensor *x = VECTOR(&s, "x", 2, 3), *y = bt_exp(x);
    bt_tensor *cases[] = {bt_mul(y, 1),
                          bt_mul(1, y),
                          bt_add(y, 0),
                          bt_add(bt_zeros_like(y), y),
                          bt_sub(y, 0),
                          bt_div(y, 1),
                          bt_neg(bt_neg(y)),
                          bt_mul(-1, bt_neg(y)),
                          bt_pow(y, bt_ones_like(y)),
                          bt_where(bt_greater(x, 0), y, y),
                          bt_reshape(bt_reshape(y, 1, 2), 2),
                          bt_permute(bt_permute(bt_reshape(y, 2, 1), 1, 0), 1, 0),
                          bt_slice(bt_concat(0, x, y), 0, 2, 4),
                          bt_slice(bt_pad_axis(y, 0, 1, 4), 0, 1, 3),
                          bt_sub(bt_zeros_like(y), y)};
    outputs(cases, BT_COUNT_OF(cases));
    for (int i = 0; i < BT_COUNT_OF(cases) - 1; i++) {
        const bt_tensor *found = simple->outputs[i];
        if (found->rank == 2) /* [2, 1]: another view of y */
            found = found->node->in[0];
        ck_assert_msg(found->node->op == &bt_op_exp, "case %d: %s", i, found->node->op->name);
    }
    ck_assert_ptr_eq(simple->outputs[BT_COUNT_OF(cases) - 1]->node->op, &bt_op_neg);
    ck_assert_int_eq(count_op(simple, &bt_op_exp), 1);
}
END_TEST

/* An expression that is zero only if the other operand is finite stays. */
START_TEST(zero_times_anything_stays)
{
    bt_tensor *x = VECTOR(&s, "x", INFINITY, NAN, 3);
    OUTPUTS(bt_mul(x, 0), bt_sub(x, x), bt_div(x, x));
    EXPECT_RUN(simple, 0, NAN, NAN, 0, NAN, NAN, 0, NAN, NAN, 1);
}
END_TEST

/* One number that is folded in two ways and broadcast is merged. */
START_TEST(folded_numbers_are_merged)
{
    bt_tensor *x = MATRIX(&s, "x", 2, 2, 1, 2, 3, 4);
    OUTPUTS(bt_mul(x, bt_mul(bt_full_like(x, 2), 3)), bt_mul(x, 6), bt_mul(x, bt_sub(bt_full_like(x, 7), 1)));
    ck_assert_int_eq(simple->node_count, 4); /* x, 6, repeated, mul */
    EXPECT_RUN(simple, 0, 6, 12, 18, 24, 6, 12, 18, 24, 6, 12, 18, 24);
}
END_TEST

START_TEST(single_precision_is_rounded)
{
    bt_tensor *x = bt_trace_read(scene_var(&s, "x", BT_F32, NUMBERS(1), (const int64_t[]){1, BT_END}));
    OUTPUTS(bt_mul(x, bt_mul(bt_full_like(x, 0.1), 3)));
    EXPECT_RUN(simple, 0, (double)(0.1F * 3.0F));
}
END_TEST

/* ---- dropping and keeping ---- */

START_TEST(dead_nodes_are_dropped)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2), *z = VECTOR(&s, "z", 1, 2), *y = bt_exp(x);
    bt_sum(bt_exp(z));
    OUTPUTS(y);
    ck_assert_int_eq(simple->node_count, 2);
}
END_TEST

START_TEST(assigns_and_outputs_are_kept)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2), *y = VECTOR(&s, "y", 3, 4), *a = bt_mul(x, 1), *b = bt_exp(y), *c = bt_exp(y);
    bt_graph_assign(s.graph, s.vars[0], b);
    bt_graph_assign(s.graph, s.vars[1], a);
    bt_tensor *results[] = {c, x, b, a, bt_number(4, BT_F64), x};
    outputs(results, 6);
    ck_assert(simple->assign_count == 2 && simple->output_count == 6);
    ck_assert(simple->assigns[0].var == s.vars[0] && simple->assigns[1].var == s.vars[1]);
    ck_assert_ptr_eq(simple->assigns[0].value, simple->outputs[0]);
    ck_assert_ptr_eq(simple->outputs[2], simple->outputs[0]);
    ck_assert_ptr_eq(simple->assigns[1].value->node->op, &bt_op_read);
    EXPECT_RUN(simple, 1e-15, exp(3), exp(4), 1, 2, exp(3), exp(4), 1, 2, 4, 1, 2);
    EXPECT_VAR(s.vars[0], 1e-15, exp(3), exp(4));
    EXPECT_VAR(s.vars[1], 0, 1, 2);
}
END_TEST

START_TEST(identities_go_only_at_the_end)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2);
    bt_graph_output(s.graph, bt_mul(bt_detach(bt_exp(x)), bt_mul(bt_alias(x), bt_stop(x))));
    simplify(false);
    ck_assert(count_op(simple, &bt_op_detach) == 1 && count_op(simple, &bt_op_alias) == 1);
    ck_assert_int_eq(count_op(simple, &bt_op_stop), 1);
    bt_graph *last = bt_simplify(simple, true);
    ck_assert_int_eq(last->node_count, 4); /* x, exp, mul, mul */
    EXPECT_RUN(last, 1e-15, exp(1), 4 * exp(2));
    bt_graph_free(last);
}
END_TEST

/* A derivative taken after simplifying equals one taken before. */
START_TEST(derivatives_stay)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2);
    bt_tensor *y = bt_sum(bt_mul(bt_mul(x, bt_detach(bt_mul(x, 1))), bt_mul(bt_exp(x), bt_exp(x))));
    bt_graph_output(s.graph, y);
    simplify(false);
    bt_trace trace;
    bt_trace_begin(&trace, simple, BT_TRAIN, BT_F64);
    bt_tensor *leaf = bt_graph_read(simple, s.vars[0]);
    bt_graph_output(simple, bt_grad(simple->outputs[0], leaf));
    bt_trace_end(&trace);
    double e = exp(2), f = exp(4);
    EXPECT_RUN(simple, 1e-15, e + 4 * f, e + 2 * e, 2 * f + 8 * f);
}
END_TEST

START_TEST(nothing)
{
    simplify(true);
    ck_assert(simple->node_count == 0 && simple->output_count == 0);
}
END_TEST

/* ---- random graphs ---- */

static char *dump(const bt_graph *graph)
{
    bt_text text = {0};
    bt_graph_dump(graph, &text);
    return text.data;
}

START_TEST(values_are_preserved)
{
    teardown();
    random_graph(&s, (uint64_t)_i + 1000, BT_F64, 60, _i % 2 ? RANDOM_COMPOSITES | RANDOM_GRADIENTS : RANDOM_ASSIGNS);
    simplify(_i % 4 < 2);
    ck_assert_int_le(simple->node_count, s.graph->node_count);
    interpreter *before = interpret(s.graph), *after = interpret(simple);
    ck_assert_int_eq(simple->output_count, s.graph->output_count);
    for (int64_t o = 0; o < simple->output_count; o++)
        expect_values(__FILE__, __LINE__, interpreter_value(after, simple->outputs[o]),
                      interpreter_value(before, s.graph->outputs[o]), bt_tensor_count(simple->outputs[o]), 1e-12);
    ck_assert_int_eq(simple->assign_count, s.graph->assign_count);
    for (int64_t a = 0; a < simple->assign_count; a++)
        expect_values(__FILE__, __LINE__, interpreter_value(after, simple->assigns[a].value),
                      interpreter_value(before, s.graph->assigns[a].value), bt_tensor_count(s.graph->assigns[a].value),
                      1e-12);
    interpreter_free(before);
    interpreter_free(after);
}
END_TEST

/* A second pass finds nothing more. */
START_TEST(a_second_time_changes_nothing)
{
    teardown();
    random_graph(&s, (uint64_t)_i + 2000, BT_F64, 60, RANDOM_COMPOSITES | RANDOM_GRADIENTS | RANDOM_ASSIGNS);
    simplify(true);
    bt_graph *again = bt_simplify(simple, true);
    char *first = dump(simple), *second = dump(again);
    ck_assert_str_eq(first, second);
    bt_free(first);
    bt_free(second);
    bt_graph_free(again);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("simplify");
    TCase *tests = tcase_create("simplify");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, equal_nodes_are_merged);
    tcase_add_test(tests, nodes_that_differ_somewhere_are_not);
    tcase_add_test(tests, products_of_two_precisions);
    tcase_add_test(tests, many_nodes_that_differ_in_attributes);
    tcase_add_test(tests, random_ops);
    tcase_add_test(tests, effects_stay);
    tcase_add_test(tests, inputs_that_are_not_bound_differ);
    tcase_add_test(tests, the_batch_axis_survives);
    tcase_add_test(tests, constants_are_folded);
    tcase_add_test(tests, sums_of_constants);
    tcase_add_test(tests, algebra);
    tcase_add_test(tests, zero_times_anything_stays);
    tcase_add_test(tests, folded_numbers_are_merged);
    tcase_add_test(tests, single_precision_is_rounded);
    tcase_add_test(tests, dead_nodes_are_dropped);
    tcase_add_test(tests, assigns_and_outputs_are_kept);
    tcase_add_test(tests, identities_go_only_at_the_end);
    tcase_add_test(tests, derivatives_stay);
    tcase_add_test(tests, nothing);
    tcase_add_loop_test(tests, values_are_preserved, 0, 100);
    tcase_add_loop_test(tests, a_second_time_changes_nothing, 0, 50);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
