/* Chains of matrix products: the same values, multiplied in the cheapest order. Checked against plain loops, product
 * counts by hand, and a search through every way to set the parentheses. */
#include "support/random_graph.h"

#include "ops/define.h"
#include "runtime/phase.h"
#include "support/suite.h"
#include "support/vars.h"
#include "transform/grad.h"
#include "transform/reassociate.h"
#include "transform/simplify.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static scene s;
static bt_graph *lowered, *shorter;
static double saved;

static void setup(void)
{
    scene_begin(&s, BT_F64);
    lowered = shorter = NULL;
}

static void teardown(void)
{
    bt_graph_free(lowered);
    bt_graph_free(shorter);
    scene_free(&s);
    bt_error_clear();
}

static void reassociate(void)
{
    scene_end(&s);
    bt_compile_options options = bt_compile_defaults(&bt_backend_cpu()->kernels, 1);
    lowered = bt_compile_lowered(s.graph, &options);
    ck_assert_msg(lowered != NULL, "%s", bt_error());
    EXPECT_OK(bt_reassociate(lowered, &shorter, &saved));
    ck_assert((shorter != NULL) == (saved > 0));
    if (shorter)
        EXPECT_OK(bt_graph_verify(shorter, "reassociate"));
}

static void outputs(bt_tensor *const *x, int count)
{
    for (int i = 0; i < count; i++)
        bt_graph_output(s.graph, x[i]);
    reassociate();
}
#define OUTPUTS(...)                                                                                                   \
    outputs((bt_tensor *const[]){__VA_ARGS__}, (int)(sizeof((bt_tensor *const[]){__VA_ARGS__}) / sizeof(bt_tensor *)))

static bool is_product(const bt_node *node) { return node->op == &bt_op_dot || node->op == &bt_op_linear; }

/* The multiplications of the graph's products, with their costs by the model. */
static double multiplications(const bt_graph *graph)
{
    double sum = 0;
    for (int64_t n = 0; n < graph->node_count; n++) {
        const bt_node *node = graph->nodes[n];
        if (is_product(node))
            sum += (double)bt_tensor_count(node->out) * (double)node->in[0]->dims[node->in[0]->rank - 1];
    }
    return sum;
}

static double cost(const bt_graph *graph)
{
    double sum = 0;
    for (int64_t n = 0; n < graph->node_count; n++) {
        const bt_tensor *y = graph->nodes[n]->out;
        if (is_product(graph->nodes[n])) {
            const bt_tensor *a = graph->nodes[n]->in[0];
            sum += bt_product_cost(y->dtype, y->rank == 3 ? y->dims[0] : 1, y->dims[y->rank - 2], a->dims[a->rank - 1],
                                   y->dims[y->rank - 1]);
        }
    }
    return sum;
}

static int products(const bt_graph *graph) { return count_op(graph, &bt_op_dot) + count_op(graph, &bt_op_linear); }

/* Compares the outputs of the shorter graph with those of the original, by plain loops. */
static void expect_same_values(void)
{
    interpreter *before = interpret(lowered), *after = interpret(shorter);
    ck_assert_int_eq(lowered->output_count, shorter->output_count);
    for (int64_t o = 0; o < lowered->output_count; o++) {
        const double *x = interpreter_value(before, lowered->outputs[o]),
                     *y = interpreter_value(after, shorter->outputs[o]);
        ck_assert_int_eq(lowered->outputs[o]->batch_axis, shorter->outputs[o]->batch_axis);
        expect_values(__FILE__, __LINE__, y, x, bt_tensor_count(lowered->outputs[o]), 1e-12);
    }
    interpreter_free(before);
    interpreter_free(after);
}

static bt_tensor *matrix(const char *name, bt_dtype dtype, int64_t groups, int64_t rows, int64_t columns)
{
    const int64_t many[] = {groups, rows, columns, BT_END};
    bt_var *var = scene_var(&s, name, dtype, NULL, groups ? many : many + 1);
    for (int64_t i = 0, count = bt_array_count((bt_array){.rank = 2, .dims = {(groups ? groups : 1) * rows, columns}});
         i < count; i++)
        var_put(var, i, bt_host_uniform(11, (uint64_t)s.count, (uint64_t)i) - 0.5);
    return bt_trace_read(var);
}

static bt_tensor *f32(const char *name, int64_t rows, int64_t columns)
{
    return matrix(name, BT_F32, 0, rows, columns);
}
static bt_tensor *f64(const char *name, int64_t rows, int64_t columns)
{
    return matrix(name, BT_F64, 0, rows, columns);
}

/* ---- known chains ---- */

/* The chain of six in Cormen et al., "Introduction to Algorithms", section 15.2, with twenty times its sizes: 15,125
 * products, ((A1 (A2 A3)) ((A4 A5) A6)), whatever the original order. */
START_TEST(textbook_chain)
{
    static const int64_t d[] = {30, 35, 15, 5, 10, 20, 25};
    bt_tensor *a[6], *y;
    for (int i = 0; i < 6; i++)
        a[i] = f32("a", 20 * d[i], 20 * d[i + 1]);
    if (_i == 0) { /* from the left, from the right, in pairs */
        y = a[0];
        for (int i = 1; i < 6; i++)
            y = bt_dot(y, a[i]);
    } else if (_i == 1) {
        y = a[5];
        for (int i = 4; i >= 0; i--)
            y = bt_dot(a[i], y);
    } else {
        y = bt_dot(bt_dot(a[0], a[1]), bt_dot(bt_dot(a[2], a[3]), bt_dot(a[4], a[5])));
    }
    OUTPUTS(y);
    ck_assert_ptr_nonnull(shorter);
    ck_assert_double_eq(multiplications(shorter), 8000.0 * 15125);
    ck_assert_int_eq(products(shorter), 5);
}
END_TEST

/* (A B) C, for which A (B C) is a tenth of the work: both products, or one of them, belong to a level with tf32. */
START_TEST(products_of_two_precisions)
{
    s.trace.tag.low = BT_TF32;
    bt_tensor *a = f32("a", 200, 10), *b = f32("b", 10, 200), *c = f32("c", 200, 10), *ab = bt_dot(a, b);
    s.trace.tag.low = _i ? BT_F32 : BT_TF32;
    OUTPUTS(bt_dot(ab, c));
    ck_assert((shorter != NULL) == (_i == 0));
    for (int64_t n = 0; shorter && n < shorter->node_count; n++)
        if (is_product(shorter->nodes[n]))
            ck_assert(shorter->nodes[n]->tag.low == BT_TF32);
}
END_TEST

/* Z (X^T d) of a layer, as in the upper gradient and product: v = d^T X by weight, then the layer with v as weight. */
static void layer(int64_t rows, int64_t inputs, int64_t hidden, bt_dtype dtype)
{
    bt_tensor *x = matrix("x", dtype, 0, rows, inputs), *z = matrix("z", dtype, 0, rows, inputs),
              *d = matrix("d", dtype, 0, rows, hidden);
    bt_tensor *v = bt_dot(bt_transpose(d), x), *bias = bt_sum_axis(d, 0, false);
    OUTPUTS(bt_linear(z, v, bias, false));
}

START_TEST(a_large_layer)
{
    layer(100, 784, 500, _i ? BT_F32 : BT_F64);
    ck_assert_ptr_nonnull(shorter);
    ck_assert_double_eq(multiplications(lowered), 2.0 * 100 * 784 * 500);
    ck_assert_double_eq(multiplications(shorter), 100.0 * 784 * 100 + 100.0 * 100 * 500);
    ck_assert_int_eq(count_op(shorter, &bt_op_linear), 1); /* the bias is still added within the product */
}
END_TEST

START_TEST(values_of_a_layer)
{
    layer(9, 150, 120, BT_F64);
    ck_assert_ptr_nonnull(shorter);
    expect_same_values();
}
END_TEST

/* Here the 100 x 100 products of examples cost more than the gradient. */
START_TEST(a_small_layer)
{
    layer(100, 784, 32, _i ? BT_F32 : BT_F64);
    ck_assert_ptr_null(shorter);
}
END_TEST

/* (A B) c with a column c: two passes over A and B. */
START_TEST(products_with_a_vector)
{
    OUTPUTS(bt_dot(bt_dot(f64("a", 60, 70), f64("b", 70, 80)), f64("c", 80, 1)));
    ck_assert_ptr_nonnull(shorter);
    ck_assert_double_eq(multiplications(shorter), 70 * 80 + 60 * 70);
    expect_same_values();
}
END_TEST

/* ((A B)^T C^T)^T = C A B, and relu with its bias at the end. */
START_TEST(through_transposes)
{
    bt_tensor *a = f64("a", 150, 9), *b = f64("b", 9, 140), *c = f64("c", 5, 150);
    bt_tensor *ab = bt_transpose(bt_dot(a, b));
    bt_tensor *bias = bt_sum_axis(f64("d", 1, 140), 0, false);
    OUTPUTS(bt_transpose(bt_dot(ab, bt_transpose(c))), bt_linear(f64("e", 5, 150), ab, bias, true));
    ck_assert_ptr_nonnull(shorter);
    ck_assert_double_eq(multiplications(shorter), 2 * (5.0 * 150 * 9 + 5.0 * 9 * 140));
    expect_same_values();
}
END_TEST

START_TEST(many_matrices)
{
    bt_tensor *a = matrix("a", BT_F64, 3, 80, 4), *b = matrix("b", BT_F64, 3, 4, 90),
              *c = matrix("c", BT_F64, 3, 6, 90);
    OUTPUTS(bt_dot(bt_dot(a, b), bt_transpose(c)));
    ck_assert_ptr_nonnull(shorter);
    ck_assert_double_eq(multiplications(shorter), 3 * (4.0 * 90 * 6 + 80.0 * 4 * 6));
    expect_same_values();
}
END_TEST

/* Permutations other than a transpose end a chain. */
START_TEST(other_permutations)
{
    bt_tensor *ab = bt_dot(matrix("a", BT_F64, 60, 60, 1), matrix("b", BT_F64, 60, 1, 60));
    OUTPUTS(bt_dot((bt_permute)(ab, (const int64_t[]){2, 0, 1, BT_END}), matrix("c", BT_F64, 60, 60, 2)));
    ck_assert_ptr_null(shorter);
}
END_TEST

START_TEST(sizes_of_nothing)
{
    static const int64_t sizes[][4] = {{0, 200, 200, 200}, {200, 0, 200, 3}, {200, 200, 0, 200}, {200, 3, 200, 0},
                                       {1, 1, 1, 1},       {300, 1, 300, 1}, {1, 300, 1, 300}};
    const int64_t *d = sizes[_i];
    OUTPUTS(bt_dot(bt_dot(f64("a", d[0], d[1]), f64("b", d[1], d[2])), f64("c", d[2], d[3])));
    if (shorter)
        expect_same_values();
    ck_assert(_i != 5 || shorter); /* (a b) c of a column, a row and a column */
    ck_assert(_i != 4 || !shorter);
}
END_TEST

/* More factors than are considered together. */
START_TEST(a_long_chain)
{
    bt_tensor *y = f64("a", 60, 60);
    for (int i = 0; i < 30; i++)
        y = bt_dot(y, f64("a", 60, 60));
    OUTPUTS(bt_dot(y, f64("x", 60, 1)));
    ck_assert_ptr_nonnull(shorter);
    ck_assert_double_lt(multiplications(shorter), multiplications(lowered) * 0.7);
    expect_same_values();
}
END_TEST

/* ---- products with other readers ---- */

/* (A B) C is cheapest as A (B C), unless A B is needed anyway. */
START_TEST(shared_product)
{
    bt_tensor *ab = bt_dot(f64("a", 150, 150), f64("b", 150, 150));
    bt_tensor *y = bt_dot(ab, f64("c", 150, 100));
    if (_i)
        OUTPUTS(y, bt_exp(ab));
    else
        OUTPUTS(y);
    ck_assert((shorter != NULL) == !_i);
}
END_TEST

/* Here it is cheaper not to use it, although it exists. */
START_TEST(shared_and_still_left_aside)
{
    bt_tensor *ab = bt_dot(f64("a", 150, 8), f64("b", 8, 150));
    OUTPUTS(bt_dot(ab, f64("c", 150, 150)), ab);
    ck_assert_ptr_nonnull(shorter);
    ck_assert_double_eq(multiplications(shorter), 3 * 8.0 * 150 * 150);
    expect_same_values();
}
END_TEST

/* If two products use it, but neither gains from it, it disappears. */
START_TEST(shared_by_products_alone)
{
    bt_tensor *ab = bt_dot(f64("a", 150, 8), f64("b", 8, 150));
    OUTPUTS(bt_dot(ab, f64("c", 150, 150)), bt_dot(bt_transpose(ab), f64("d", 150, 150)));
    ck_assert_ptr_nonnull(shorter);
    ck_assert_double_eq(multiplications(shorter), 4 * 8.0 * 150 * 150);
    expect_same_values();
}
END_TEST

/* A part of a chain that exists already: A B C D with B C known only costs the rest. */
START_TEST(shared_part)
{
    bt_tensor *bc = bt_dot(f64("b", 120, 120), f64("c", 120, 120)), *a = f64("a", 120, 120), *d = f64("d", 120, 2);
    OUTPUTS(bt_dot(bt_dot(a, bc), d), bc);
    ck_assert_ptr_nonnull(shorter);
    ck_assert_double_eq(multiplications(shorter), 120.0 * 120 * 120 + 2 * 120.0 * 120 * 2);
    ck_assert_int_eq(products(shorter), 3);
    expect_same_values();
}
END_TEST

/* ---- random chains ---- */

static uint64_t seed, drawn;
static int64_t draw(int64_t below) { return (int64_t)(bt_host_uniform(seed, 5, drawn++) * (double)below); }

/* Factors from .. to with random sizes d, multiplied in random order, sometimes through a transpose. */
static bt_tensor *random_product(const int64_t *d, int from, int to)
{
    if (from == to)
        return draw(3) ? f64("a", d[from], d[from + 1]) : bt_transpose(f64("a", d[from + 1], d[from]));
    int cut = from + (int)draw(to - from);
    bt_tensor *a = random_product(d, from, cut), *b = random_product(d, cut + 1, to);
    return draw(3) ? bt_dot(a, b) : bt_transpose(bt_dot(bt_transpose(b), bt_transpose(a)));
}

/* The minimum cost of factors from .. to over all orders. */
static double least(const int64_t *d, int from, int to)
{
    double best = from == to ? 0 : INFINITY;
    for (int cut = from; cut < to; cut++)
        best = fmin(best, least(d, from, cut) + least(d, cut + 1, to) +
                              bt_product_cost(BT_F64, 1, d[from], d[cut + 1], d[to + 1]));
    return best;
}

/* The result for a graph of one chain: the minimum cost, or unchanged if the gain is below a tenth. */
START_TEST(random_chain)
{
    static const int64_t sizes[] = {0, 1, 2, 9, 33, 50, 70, 110};
    int64_t d[8];
    seed = (uint64_t)_i + 1;
    drawn = 0;
    int count = 3 + (int)draw(4);
    for (int k = 0; k <= count; k++)
        d[k] = sizes[k == 0 || draw(12) ? 1 + draw(7) : 0];
    OUTPUTS(random_product(d, 0, count - 1));
    double now = cost(lowered), best = least(d, 0, count - 1);
    ck_assert_int_eq(shorter != NULL, best < 0.9 * now);
    if (!shorter)
        return;
    ck_assert_double_eq_tol(cost(shorter), best, 1e-6 * best);
    ck_assert_double_eq_tol(saved, now - best, 1e-6 * now);
    expect_same_values();
}
END_TEST

/* Graphs of products that share parts in all ways: never more expensive, with the same values. */
START_TEST(random_sharing)
{
    static const int64_t sizes[] = {2, 40, 90};
    bt_tensor *pool[24];
    int count = 0;
    seed = (uint64_t)_i + 1;
    drawn = 1000;
    while (count < 6) {
        pool[count] = f64("a", sizes[draw(3)], sizes[draw(3)]);
        count++;
    }
    for (int tries = 0; count < 16 && tries < 200; tries++) {
        bt_tensor *a = pool[draw(count)], *b = pool[draw(count)];
        if (draw(2))
            a = bt_transpose(a);
        if (a->dims[1] == b->dims[0])
            pool[count++] = bt_dot(a, b);
    }
    for (int k = 6; k < count; k++)
        if (k == count - 1 || draw(3) == 0)
            bt_graph_output(s.graph, pool[k]);
    reassociate();
    if (!shorter)
        return;
    ck_assert_double_lt(cost(shorter), cost(lowered));
    ck_assert_double_eq_tol(saved, cost(lowered) - cost(shorter), 1);
    expect_same_values();
}
END_TEST

/* ---- derivatives ---- */

/* A network without activations, its gradients, and their derivative along a direction. */
START_TEST(derivatives)
{
    bt_tensor *w[3] = {f64("w", 70, 90), f64("w", 80, 70), f64("w", 4, 80)}, *x = f64("x", 5, 90), *y = x, *one;
    for (int k = 0; k < 3; k++)
        y = bt_dot(y, bt_transpose(w[k]));
    bt_tensor *loss = bt_sum(bt_square(y)), *g[3], *t[3], *h[3];
    one = bt_number(1, BT_F64);
    bt_vjp(s.graph, &loss, &one, 1, w, 3, g, false);
    for (int k = 0; k < 3; k++)
        t[k] = g[k];
    bt_jvp(s.graph, w, t, 3, g, 3, h, false);
    OUTPUTS(y, g[0], g[1], g[2], h[0], h[1], h[2]);
    ck_assert_ptr_nonnull(shorter);
    ck_assert_double_lt(cost(shorter), 0.9 * cost(lowered));
    expect_same_values();
}
END_TEST

/* Without a chain, the graph is not changed. */
START_TEST(nothing_to_do)
{
    bt_tensor *a = f64("a", 100, 100), *ab = bt_dot(a, f64("b", 100, 100));
    OUTPUTS(bt_dot(bt_exp(ab), a));
    ck_assert_ptr_null(shorter);
    bt_graph *empty = bt_graph_new(), *none;
    EXPECT_OK(bt_reassociate(empty, &none, &saved));
    ck_assert_ptr_null(none);
    bt_graph_free(empty);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reassociate");
    TCase *tests = tcase_create("chains");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, textbook_chain, 0, 3);
    tcase_add_loop_test(tests, products_of_two_precisions, 0, 2);
    tcase_add_loop_test(tests, a_large_layer, 0, 2);
    tcase_add_test(tests, values_of_a_layer);
    tcase_add_loop_test(tests, a_small_layer, 0, 2);
    tcase_add_test(tests, products_with_a_vector);
    tcase_add_test(tests, through_transposes);
    tcase_add_test(tests, many_matrices);
    tcase_add_test(tests, other_permutations);
    tcase_add_loop_test(tests, sizes_of_nothing, 0, 7);
    tcase_add_test(tests, a_long_chain);
    tcase_add_loop_test(tests, shared_product, 0, 2);
    tcase_add_test(tests, shared_and_still_left_aside);
    tcase_add_test(tests, shared_by_products_alone);
    tcase_add_test(tests, shared_part);
    tcase_add_loop_test(tests, random_chain, 0, 40);
    tcase_add_loop_test(tests, random_sharing, 0, 30);
    tcase_add_test(tests, derivatives);
    tcase_add_test(tests, nothing_to_do);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
