/* Elementwise functions that are compositions of others, against the C library's, with first and second derivatives by
 * finite differences; rearrangement, logic and linear algebra against numbers worked out by hand. */
#include "interpret.h"
#include "test_trace.h"

#include "ops/ops.h"
#include "runtime/evaluate.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double silu(double x) { return x / (1 + exp(-x)); }
static double mish(double x) { return x * tanh(log1p(exp(x))); }
static double log_sigmoid(double x) { return -log1p(exp(-x)); }
static double logit(double x) { return log(x / (1 - x)); }
static double elu(double x) { return x > 0 ? x : 0.7 * expm1(x); }
static bt_tensor *elu_tensor(bt_tensor *x) { return bt_elu(x, 0.7); }
static double selu(double x) { return 1.0507009873554804934 * (x > 0 ? x : 1.6732632423543772848 * expm1(x)); }
static double leaky(double x) { return x > 0 ? x : 0.1 * x; }
static bt_tensor *leaky_tensor(bt_tensor *x) { return bt_leaky_relu(x, 0.1); }
static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static const struct function {
    const char *name;
    bt_tensor *(*tensor)(bt_tensor *x);
    double (*plain)(double x);
    double low, high;
} functions[] = {
    {"silu", bt_silu, silu, -4, 4},
    {"mish", bt_mish, mish, -4, 4},
    {"log_sigmoid", bt_log_sigmoid, log_sigmoid, -4, 4},
    {"logit", bt_logit, logit, 0.1, 0.9},
    {"elu", elu_tensor, elu, 0.1, 3},
    {"elu below", elu_tensor, elu, -3, -0.1},
    {"selu", bt_selu, selu, -3, -0.1},
    {"leaky_relu", leaky_tensor, leaky, 0.1, 3},
    {"leaky_relu below", leaky_tensor, leaky, -3, -0.1},
    {"gelu_tanh", bt_gelu_tanh, gelu_tanh, -4, 4},
    {"tan", bt_tan, tan, -1.2, 1.2},
    {"asin", bt_asin, asin, -0.9, 0.9},
    {"acos", bt_acos, acos, -0.9, 0.9},
    {"asinh", bt_asinh, asinh, 0.01, 3},
    {"asinh below", bt_asinh, asinh, -3, -0.01},
    {"acosh", bt_acosh, acosh, 1.2, 4},
    {"atanh", bt_atanh, atanh, -0.9, 0.9},
    {"expm1", bt_expm1, expm1, -2, 2},
    {"sinh", bt_sinh, sinh, -2, 2},
    {"cosh", bt_cosh, cosh, -2, 2},
    {"atan", bt_atan, atan, -3, 3},
};

enum { N = 11 };

static double slope(const struct function *f, double x, double h)
{
    double wide = (f->plain(x + h) - f->plain(x - h)) / (2 * h);
    double narrow = (f->plain(x + h / 2) - f->plain(x - h / 2)) / h;
    return (4 * narrow - wide) / 3;
}

static double bend(const struct function *f, double x, double h)
{
    return (f->plain(x + h) - 2 * f->plain(x) + f->plain(x - h)) / (h * h);
}

START_TEST(test_values_and_derivatives)
{
    const struct function *f = &functions[_i];
    double x[N], y[3][N];
    for (int i = 0; i < N; i++)
        x[i] = f->low + (f->high - f->low) * i / (N - 1);
    trace_open(BT_F64);
    bt_tensor *in = bt_constant(BT_ARRAY(x, N)), *out = f->tensor(in), *first = bt_grad(bt_sum(out), in);
    bt_tensor *results[] = {out, first, bt_grad(bt_sum(first), in)};
    for (int r = 0; r < 3; r++) {
        ck_assert_msg(!bt_poisoned(results[r]), "%s: %s", f->name, graph->message);
        bt_graph_output(graph, results[r]);
    }
    bt_array arrays[] = {BT_ARRAY(y[0], N), BT_ARRAY(y[1], N), BT_ARRAY(y[2], N)};
    ck_assert_msg(bt_evaluate(graph, arrays) == BT_OK, "%s", bt_error());
    for (int i = 0; i < N; i++) {
        double expected[] = {f->plain(x[i]), slope(f, x[i], 1e-3), bend(f, x[i], 2e-4)};
        double within[] = {1e-13, 1e-7, 1e-4};
        for (int r = 0; r < 3; r++)
            ck_assert_msg(fabs(y[r][i] - expected[r]) <= within[r] * (1 + fabs(expected[r])),
                          "%s, derivative %d at %g: %.15g, expected %.15g", f->name, r, x[i], y[r][i], expected[r]);
    }
    trace_close();
}
END_TEST

/* ---- by hand ---- */

static void expect(int line, bt_tensor *x, const double *expected, int count)
{
    ck_assert_msg(!bt_poisoned(x), "line %d: %s", line, graph->message);
    double found[64];
    bt_array result = bt_tensor_array(x);
    ck_assert_int_eq(bt_tensor_count(x), count);
    result.dtype = BT_F64;
    result.data = found;
    bt_graph_output(graph, x);
    ck_assert_msg(bt_evaluate(graph, &result) == BT_OK, "line %d: %s", line, bt_error());
    for (int i = 0; i < count; i++)
        ck_assert_msg(found[i] == expected[i] || fabs(found[i] - expected[i]) < 1e-12,
                      "line %d: [%d] is %.15g, not %.15g", line, i, found[i], expected[i]);
    trace_close();
    trace_open(BT_F64);
}

#define EXPECT(x, ...)                                                                                                 \
    expect(__LINE__, (x), (const double[]){__VA_ARGS__}, (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))
#define F64(...) bt_constant(BT_ARRAY(((double[]){__VA_ARGS__}), sizeof((double[]){__VA_ARGS__}) / sizeof(double)))

static bt_tensor *matrix(void) { return bt_reshape(F64(1, 2, 3, 4, 5, 6), 2, 3); }

START_TEST(test_arrangements)
{
    trace_open(BT_F64);
    EXPECT(bt_flip(matrix(), 0), 4, 5, 6, 1, 2, 3);
    EXPECT(bt_flip(matrix(), -1), 3, 2, 1, 6, 5, 4);
    EXPECT(bt_roll(matrix(), 1, 1), 3, 1, 2, 6, 4, 5);
    EXPECT(bt_roll(matrix(), -4, 1), 2, 3, 1, 5, 6, 4);
    EXPECT(bt_pad(matrix(), 1, 1, 2), 0, 1, 2, 3, 0, 0, 0, 4, 5, 6, 0, 0);
    EXPECT(bt_tril(matrix(), 0), 1, 0, 0, 4, 5, 0);
    EXPECT(bt_tril(matrix(), 1), 1, 2, 0, 4, 5, 6);
    EXPECT(bt_triu(matrix(), 1), 0, 2, 3, 0, 0, 6);
    EXPECT(bt_triu(matrix(), 0), 1, 2, 3, 0, 5, 6);
    EXPECT(bt_arange(3), 0, 1, 2);
    EXPECT(bt_eye(2), 1, 0, 0, 1);
    EXPECT(bt_stack(0, F64(1, 2), F64(3, 4)), 1, 2, 3, 4);
    EXPECT(bt_stack(-1, F64(1, 2), F64(3, 4)), 1, 3, 2, 4);
    EXPECT(bt_expand(F64(1, 2), 3, 2), 1, 2, 1, 2, 1, 2);
    EXPECT(bt_expand(bt_unsqueeze(F64(1, 2), 1), 2, 2), 1, 1, 2, 2);
    EXPECT(bt_prod(matrix(), 1), 6, 120);
    trace_close();
}
END_TEST

/* Each is the product of the others, also if some are zero. */
START_TEST(test_derivative_of_a_product)
{
    trace_open(BT_F64);
    bt_tensor *x = F64(2, 0, 5, 3, -1);
    EXPECT(bt_grad(bt_prod(x, 0), x), 0, -30, 0, 0, 0);
    trace_close();
}
END_TEST

START_TEST(test_rounding_and_logic)
{
    trace_open(BT_F64);
    EXPECT(bt_rint(F64(0.5, 1.5, 2.5, -0.5, -1.5, 2.4, 2.6, -2.6)), 0, 2, 2, 0, -2, 2, 3, -3);
    EXPECT(bt_ceil(F64(0.1, -0.1, 2, -2.9)), 1, 0, 2, -2);
    EXPECT(bt_not(F64(0, 1, -2)), 1, 0, 0);
    EXPECT(bt_and(F64(0, 1, 2, 0), F64(0, 0, 3, 4)), 0, 0, 1, 0);
    EXPECT(bt_or(F64(0, 1, 2, 0), F64(0, 0, 3, 4)), 0, 1, 1, 1);
    EXPECT(bt_logsumexp(F64(1000, 1000)), 1000 + log(2));
    EXPECT(bt_logsumexp(bt_reshape(F64(0, 0, 0, log(3)), 2, 2), 1, BT_KEEP), log(2), log(4));
    EXPECT(bt_logsumexp(F64(-INFINITY, -INFINITY)), -INFINITY);
    trace_close();
}
END_TEST

START_TEST(test_losses)
{
    trace_open(BT_F64);
    bt_tensor *x = bt_reshape(F64(1, 2, 3, 4), 2, 2), *t = bt_reshape(F64(1.5, 0, 3, 1), 2, 2);
    EXPECT(bt_mae(x, t), 1.25, 1.5);
    x = bt_reshape(F64(1, 2, 3, 4), 2, 2), t = bt_reshape(F64(1.5, 0, 3, 1), 2, 2);
    EXPECT(bt_huber(x, t, 1), (0.125 + 1.5) / 2, 2.5 / 2);
    EXPECT(bt_soft_cross_entropy(bt_reshape(F64(0, log(3)), 1, 2), bt_reshape(F64(0.5, 0.5), 1, 2)),
           -0.5 * (log(0.25) + log(0.75)));
    EXPECT(bt_cosine_similarity(F64(3, 4), F64(4, 3), 0), 0.96);
    EXPECT(bt_cosine_similarity(F64(0, 0), F64(4, 3), 0), 0);
    trace_close();
}
END_TEST

START_TEST(test_linear_algebra)
{
    trace_open(BT_F64);
    EXPECT(bt_linear_solve(bt_reshape(F64(0, 2, 1, 1), 2, 2), F64(4, 5)), 3, 2); /* rows are swapped */
    EXPECT(bt_inverse(bt_reshape(F64(2, 1, 1, 1), 2, 2)), 1, -1, -1, 2);
    EXPECT(bt_logdet(bt_reshape(F64(2, 1, 1, 3, -2, 0, 0, 1), 2, 2, 2)), log(5), log(2));
    EXPECT(bt_logdet(bt_reshape(F64(1, 2, 2, 4), 2, 2)), -INFINITY);
    bt_tensor *x = bt_linear_solve(bt_reshape(F64(1, 2, 2, 4), 2, 2), F64(1, 1));
    double found[2];
    bt_array result = BT_ARRAY(found, 2);
    bt_graph_output(graph, x);
    ck_assert_int_eq(bt_evaluate(graph, &result), BT_ERROR_NUMERIC);
    ck_assert_ptr_nonnull(strstr(bt_error(), "matrix 0 is singular"));
    bt_error_clear();
    trace_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("functions");
    TCase *test = tcase_create("functions");
    tcase_add_loop_test(test, test_values_and_derivatives, 0, BT_COUNT_OF(functions));
    tcase_add_test(test, test_arrangements);
    tcase_add_test(test, test_derivative_of_a_product);
    tcase_add_test(test, test_rounding_and_logic);
    tcase_add_test(test, test_losses);
    tcase_add_test(test, test_linear_algebra);
    suite_add_tcase(suite, test);
    return run_suite(suite);
}
