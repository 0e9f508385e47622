/* What is fused into a matrix product, and what must not be; the values are those of plain loops over the original
 * graph. */
#include "support/random_graph.h"

#include "ops/define.h"
#include "runtime/phase.h"
#include "support/suite.h"
#include "support/vars.h"
#include "transform/fuse.h"
#include <check.h>

static scene s;
static bt_graph *lowered, *fused;

static void setup(void)
{
    scene_begin(&s, BT_F64);
    lowered = fused = NULL;
}

static void teardown(void)
{
    bt_graph_free(lowered);
    bt_graph_free(fused);
    scene_free(&s);
    bt_error_clear();
}

static void fuse(void)
{
    bt_compile_options options = bt_compile_defaults(&bt_backend_cpu()->kernels, 1);
    lowered = bt_compile_lowered(s.graph, &options);
    ck_assert_msg(lowered != NULL, "%s", bt_error());
    EXPECT_OK(bt_fuse(lowered, &fused));
    if (!fused)
        return;
    EXPECT_OK(bt_graph_verify(fused, "fuse"));
    interpreter *before = interpret(lowered), *after = interpret(fused);
    ck_assert_int_eq(lowered->output_count, fused->output_count);
    for (int64_t o = 0; o < lowered->output_count; o++)
        expect_values(__FILE__, __LINE__, interpreter_value(after, fused->outputs[o]),
                      interpreter_value(before, lowered->outputs[o]), bt_tensor_count(lowered->outputs[o]), 1e-12);
    interpreter_free(before);
    interpreter_free(after);
}

static void outputs(bt_tensor *const *x, int count)
{
    for (int i = 0; i < count; i++)
        bt_graph_output(s.graph, x[i]);
    scene_end(&s);
    fuse();
}
#define OUTPUTS(...)                                                                                                   \
    outputs((bt_tensor *const[]){__VA_ARGS__}, (int)(sizeof((bt_tensor *const[]){__VA_ARGS__}) / sizeof(bt_tensor *)))

static bt_tensor *matrix(int64_t rows, int64_t columns)
{
    bt_var *var = scene_var(&s, "x", BT_F64, NULL, (const int64_t[]){rows, columns, BT_END});
    for (int64_t i = 0; i < rows * columns; i++)
        var_put(var, i, bt_host_uniform(12, (uint64_t)s.count, (uint64_t)i) - 0.5);
    return bt_trace_read(var);
}

static void expect_counts(int adding, int dots, int sums, int products)
{
    ck_assert_ptr_nonnull(fused);
    ck_assert_int_eq(count_op(fused, &bt_op_dot_add), adding);
    ck_assert_int_eq(count_op(fused, &bt_op_dot), dots);
    ck_assert_int_eq(count_op(fused, &bt_op_add), sums);
    ck_assert_int_eq(count_op(fused, &bt_op_mul), products);
}

/* ---- sums ---- */

START_TEST(a_sum)
{
    bt_tensor *x = matrix(3, 5), *y = bt_dot(matrix(3, 4), bt_transpose(matrix(5, 4)));
    OUTPUTS(_i ? bt_add(y, x) : bt_add(x, y));
    expect_counts(1, 0, 0, 0);
}
END_TEST

START_TEST(a_sum_with_a_factor)
{
    bt_tensor *x = bt_mul(SCALAR(&s, "f", 0.3), matrix(3, 5));
    OUTPUTS(bt_add(x, bt_dot(matrix(3, 4), matrix(4, 5))));
    expect_counts(1, 0, 0, 0);
}
END_TEST

START_TEST(a_factor_that_others_need)
{
    bt_tensor *x = bt_mul(SCALAR(&s, "f", 0.3), matrix(3, 5));
    OUTPUTS(bt_add(x, bt_dot(matrix(3, 4), matrix(4, 5))), x);
    expect_counts(1, 0, 0, 1);
}
END_TEST

START_TEST(two_products)
{
    bt_tensor *a = bt_dot(matrix(3, 4), matrix(4, 5)), *b = bt_dot(matrix(3, 6), matrix(6, 5));
    OUTPUTS(_i ? bt_add(b, a) : bt_add(a, b));
    expect_counts(1, 1, 0, 0);
}
END_TEST

/* A product with other readers is computed anyway; if the other product has only this reader, the sum is fused with
 * that one. */
START_TEST(a_product_that_others_need)
{
    bt_tensor *a = bt_dot(matrix(3, 4), matrix(4, 5)), *b = bt_dot(matrix(3, 6), matrix(6, 5));
    if (_i) {
        OUTPUTS(bt_add(b, a), a);
        expect_counts(1, 1, 0, 0);
    } else {
        OUTPUTS(bt_add(matrix(3, 5), a), a);
        ck_assert_ptr_null(fused);
    }
}
END_TEST

/* Products with vectors have faster kernels; a row added to all rows is a bias; batches of matrices have no such
 * node. */
START_TEST(other_sums)
{
    bt_tensor *y = bt_dot(matrix(4, 6), matrix(6, 5)), *row = VECTOR(&s, "row", 1, 2, 3, 4, 5);
    bt_tensor *many = bt_dot(bt_reshape(matrix(6, 4), 2, 3, 4), bt_reshape(matrix(8, 3), 2, 4, 3));
    OUTPUTS(bt_add(bt_dot(matrix(1, 4), matrix(4, 5)), matrix(1, 5)), bt_add(y, row),
            bt_add(many, bt_reshape(matrix(6, 3), 2, 3, 3)), bt_add(bt_dot(matrix(3, 1), matrix(1, 5)), matrix(3, 5)));
    ck_assert_ptr_null(fused);
}
END_TEST

/* ---- factors ---- */

/* The number of elements of the only product with a scalar. */
static int64_t scaled_elements(void)
{
    ck_assert_ptr_nonnull(fused);
    ck_assert_int_eq(count_op(fused, &bt_op_mul), 1);
    for (int64_t n = 0; n < fused->node_count; n++)
        if (fused->nodes[n]->op == &bt_op_mul)
            return bt_tensor_count(fused->nodes[n]->out);
    return 0;
}

START_TEST(a_factor)
{
    bt_tensor *f = SCALAR(&s, "f", 0.3), *x = matrix(3, 50), *w = matrix(50, 40), *turned = matrix(40, 50);
    switch (_i) {
    case 0:
        OUTPUTS(bt_dot(x, bt_mul(f, w)));
        break;
    case 1:
        OUTPUTS(bt_dot(x, bt_transpose(bt_mul(f, turned))));
        break;
    case 2:
        OUTPUTS(bt_transpose(bt_dot(bt_mul(turned, f), bt_transpose(x))));
        break;
    default:
        OUTPUTS(bt_linear(x, bt_mul(f, turned), bt_mul(f, bt_sum_axis(turned, 1, false)), false));
    }
    ck_assert_int_eq(scaled_elements(), 3 * 40);
}
END_TEST

/* With a single product, the factor moves on into the sum. */
START_TEST(a_factor_of_several)
{
    bt_tensor *f = SCALAR(&s, "f", 0.3), *w = bt_mul(f, matrix(50, 40));
    OUTPUTS(bt_add(bt_dot(matrix(3, 50), w), bt_dot(matrix(3, 40), bt_transpose(bt_dot(matrix(40, 50), w)))));
    ck_assert_int_eq(scaled_elements(), 40 * 40);
    ck_assert_int_eq(count_op(fused, &bt_op_dot_add), 1);
}
END_TEST

START_TEST(other_factors)
{
    bt_tensor *f = SCALAR(&s, "f", 0.3), *x = matrix(3, 50), *w = matrix(40, 50), *b = bt_sum_axis(w, 1, false);
    bt_tensor *needed = bt_mul(f, matrix(50, 40));
    OUTPUTS(bt_linear(x, bt_mul(f, w), bt_mul(f, b), true),   /* relu */
            bt_linear(x, bt_mul(f, w), b, false),             /* not of the bias */
            bt_dot(x, needed), bt_exp(needed),                /* other readers than products */
            bt_dot(matrix(60, 3), bt_mul(f, matrix(3, 70)))); /* the result is larger */
    ck_assert_ptr_null(fused);
}
END_TEST

/* ---- at random ---- */

START_TEST(random_graphs)
{
    scene_free(&s);
    random_graph(&s, (uint64_t)_i + 700, BT_F64, 60, RANDOM_COMPOSITES | RANDOM_GRADIENTS | RANDOM_SMOOTH);
    fuse();
}
END_TEST

START_TEST(nothing)
{
    bt_graph *empty = bt_graph_new(), *none;
    EXPECT_OK(bt_fuse(empty, &none));
    ck_assert_ptr_null(none);
    bt_graph_free(empty);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fuse");
    TCase *tests = tcase_create("products");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, a_sum, 0, 2);
    tcase_add_test(tests, a_sum_with_a_factor);
    tcase_add_test(tests, a_factor_that_others_need);
    tcase_add_loop_test(tests, two_products, 0, 2);
    tcase_add_loop_test(tests, a_product_that_others_need, 0, 2);
    tcase_add_test(tests, other_sums);
    tcase_add_loop_test(tests, a_factor, 0, 4);
    tcase_add_test(tests, a_factor_of_several);
    tcase_add_test(tests, other_factors);
    tcase_add_loop_test(tests, random_graphs, 0, 30);
    tcase_add_test(tests, nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
