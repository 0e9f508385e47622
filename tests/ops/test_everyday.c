/* Everyday functions against plain loops in C: values, and first and second derivatives by finite differences of the
 * loops; einsum against a loop over all letters; error messages. */
#include "interpret.h"
#include "test_trace.h"

#include "ops/ops.h"
#include "runtime/evaluate.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>


static void begin(void) { trace_open(BT_F64); }

static void end(void) { trace_close(); }

/* ---- scalar functions of 12 numbers, as tensors and as loops ---- */

enum { N = 12 };
static const double numbers[N] = {0.7, -1.3, 2.1, 0.4, 1.9, -0.6, -2.2, 1.1, 0.2, -0.9, 1.6, -1.7};
static const double weights[N] = {1.5, -0.4, 0.8, 2.2, -1.1, 0.3, 0.9, -1.9, 0.6, 1.2, -0.7, 0.5};

static bt_tensor *as(bt_tensor *x, int64_t a, int64_t b) { return bt_reshape(x, a, b); }

/* sum w y^3, with as many w as y has elements */
static bt_tensor *weighed(bt_tensor *y)
{
    int64_t count = bt_tensor_count(y);
    bt_tensor *flat = bt_reshape(y, -1);
    return bt_sum(bt_mul(bt_constant(BT_ARRAY(weights, count)), bt_mul(flat, bt_square(flat))));
}

static double weighed_plain(const double *y, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += weights[i] * y[i] * y[i] * y[i];
    return sum;
}

static bt_tensor *min_rows(bt_tensor *x) { return weighed(bt_min(as(x, 3, 4), 1)); }
static double min_rows_plain(const double *x)
{
    double y[3];
    for (int r = 0; r < 3; r++) {
        y[r] = x[4 * r];
        for (int c = 1; c < 4; c++)
            y[r] = fmin(y[r], x[4 * r + c]);
    }
    return weighed_plain(y, 3);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bt_tensor *sort_rows(bt_tensor *x) { return weighed(bt_sort(as(x, 3, 4), -1, true)); }
static double sort_rows_plain(const double *x)
{
    double y[N];
    for (int r = 0; r < 3; r++) {
        double row[4];
        memcpy(row, x + 4 * r, sizeof row);
        qsort(row, 4, sizeof *row, ascending);
        for (int c = 0; c < 4; c++)
            y[4 * r + c] = row[3 - c];
    }
    return weighed_plain(y, N);
}

static bt_tensor *top_columns(bt_tensor *x) { return weighed(bt_topk(as(x, 6, 2), 3, 0, NULL)); }
static double top_columns_plain(const double *x)
{
    double y[6];
    for (int c = 0; c < 2; c++) {
        double column[6];
        for (int r = 0; r < 6; r++)
            column[r] = x[2 * r + c];
        qsort(column, 6, sizeof *column, ascending);
        for (int r = 0; r < 3; r++)
            y[2 * r + c] = column[5 - r];
    }
    return weighed_plain(y, 6);
}

static const int32_t places[6] = {2, 0, 2, 3, 1, 1};
static bt_tensor *taken(bt_tensor *x)
{
    return weighed(bt_take_along(as(x, 3, 4), bt_constant(BT_ARRAY(places, 3, 2)), 1));
}
static double taken_plain(const double *x)
{
    double y[6];
    for (int i = 0; i < 6; i++)
        y[i] = x[i / 2 * 4 + places[i]];
    return weighed_plain(y, 6);
}

static bt_tensor *running(bt_tensor *x) { return weighed(bt_cumsum(as(x, 4, 3), 0)); }
static double running_plain(const double *x)
{
    double y[N];
    for (int i = 0; i < N; i++)
        y[i] = x[i] + (i >= 3 ? y[i - 3] : 0);
    return weighed_plain(y, N);
}

static double spread_plain(const double *x, int step, int count) /* sum of squared deviations / (count - 1) */
{
    double mean = 0, sum = 0;
    for (int i = 0; i < count; i++)
        mean += x[i * step] / count;
    for (int i = 0; i < count; i++)
        sum += (x[i * step] - mean) * (x[i * step] - mean);
    return sum / (count - 1);
}

static bt_tensor *variance_columns(bt_tensor *x) { return weighed(bt_variance(as(x, 4, 3), 0, BT_KEEP)); }
static double variance_columns_plain(const double *x)
{
    double y[3];
    for (int c = 0; c < 3; c++)
        y[c] = spread_plain(x + c, 3, 4);
    return weighed_plain(y, 3);
}

static bt_tensor *deviation_rows(bt_tensor *x) { return weighed(bt_std(as(x, 3, 4), 1)); }
static double deviation_rows_plain(const double *x)
{
    double y[3];
    for (int r = 0; r < 3; r++)
        y[r] = sqrt(spread_plain(x + 4 * r, 1, 4));
    return weighed_plain(y, 3);
}

static bt_tensor *norm_rows(bt_tensor *x) { return weighed(bt_norm(as(x, 3, 4), 1)); }
static double norm_rows_plain(const double *x)
{
    double y[3];
    for (int r = 0; r < 3; r++) {
        double sum = 0;
        for (int c = 0; c < 4; c++)
            sum += x[4 * r + c] * x[4 * r + c];
        y[r] = sqrt(sum);
    }
    return weighed_plain(y, 3);
}

static bt_tensor *mse(bt_tensor *x)
{
    return weighed(bt_mse(bt_slice(as(x, 4, 3), 1, 0, 2), bt_slice(as(x, 4, 3), 1, 1, 3)));
}
static double mse_plain(const double *x)
{
    double y[4];
    for (int r = 0; r < 4; r++)
        y[r] = (pow(x[3 * r] - x[3 * r + 1], 2) + pow(x[3 * r + 1] - x[3 * r + 2], 2)) / 2;
    return weighed_plain(y, 4);
}

static bt_tensor *divergence(bt_tensor *x)
{
    bt_tensor *rows = as(x, 4, 3), *log_q = bt_log_softmax(bt_slice(rows, 0, 0, 2), 1);
    return weighed(bt_kl_div(log_q, bt_softmax(bt_slice(rows, 0, 2, 4), 1)));
}
static void softmax_plain(const double *x, double *p)
{
    double sum = exp(x[0]) + exp(x[1]) + exp(x[2]);
    for (int i = 0; i < 3; i++)
        p[i] = exp(x[i]) / sum;
}
static double divergence_plain(const double *x)
{
    double y[2] = {0, 0}, q[3], p[3];
    for (int r = 0; r < 2; r++) {
        softmax_plain(x + 3 * r, q);
        softmax_plain(x + 6 + 3 * r, p);
        for (int c = 0; c < 3; c++)
            y[r] += p[c] * log(p[c] / q[c]);
    }
    return weighed_plain(y, 2);
}

static bt_tensor *products(bt_tensor *x)
{
    bt_tensor *a = bt_reshape(x, 2, 2, 3), *b = bt_reshape(bt_slice(x, 0, 3, 9), 2, 3);
    return weighed(bt_einsum("nij,kj->ink", a, b));
}
static double products_plain(const double *x)
{
    double y[8] = {0};
    for (int i = 0; i < 2; i++)
        for (int n = 0; n < 2; n++)
            for (int k = 0; k < 2; k++)
                for (int j = 0; j < 3; j++)
                    y[(i * 2 + n) * 2 + k] += x[(n * 2 + i) * 3 + j] * x[3 + k * 3 + j];
    return weighed_plain(y, 8);
}

static const struct function {
    const char *name;
    bt_tensor *(*tensor)(bt_tensor *x);
    double (*plain)(const double *x);
} functions[] = {
    {"min", min_rows, min_rows_plain},
    {"sort", sort_rows, sort_rows_plain},
    {"topk", top_columns, top_columns_plain},
    {"take_along", taken, taken_plain},
    {"cumsum", running, running_plain},
    {"variance", variance_columns, variance_columns_plain},
    {"std", deviation_rows, deviation_rows_plain},
    {"norm", norm_rows, norm_rows_plain},
    {"mse", mse, mse_plain},
    {"kl_div", divergence, divergence_plain},
    {"einsum", products, products_plain},
};

/* plain at x + a e_i + b weights */
static double moved(const struct function *f, int i, double a, double b)
{
    double x[N];
    for (int k = 0; k < N; k++)
        x[k] = numbers[k] + b * weights[k] + (k == i ? a : 0);
    return f->plain(x);
}

/* The error is of fourth order in the step, by Richardson extrapolation. */
static double slope(const struct function *f, int i, double h)
{
    double wide = (moved(f, i, h, 0) - moved(f, i, -h, 0)) / (2 * h);
    double narrow = (moved(f, i, h / 2, 0) - moved(f, i, -h / 2, 0)) / h;
    return (4 * narrow - wide) / 3;
}

static double bend(const struct function *f, int i, double h)
{
    double result[2];
    for (int k = 0; k < 2; k++, h /= 2)
        result[k] = (moved(f, i, h, h) - moved(f, i, h, -h) - moved(f, i, -h, h) + moved(f, i, -h, -h)) / (4 * h * h);
    return (4 * result[1] - result[0]) / 3;
}

START_TEST(test_functions_and_their_derivatives)
{
    const struct function *f = &functions[_i];
    bt_tensor *x = bt_constant(BT_ARRAY(numbers, N)), *v = bt_constant(BT_ARRAY(weights, N)), *y = f->tensor(x);
    bt_tensor *first = bt_grad(y, x), *second = bt_grad(bt_sum(bt_mul(first, v)), x);
    ck_assert_msg(!bt_poisoned(second), "%s: %s", f->name, graph->message);
    double value, gradient[N], curvature[N];
    bt_array results[] = {BT_ARRAY(&value), BT_ARRAY(gradient, N), BT_ARRAY(curvature, N)};
    bt_graph_output(graph, y);
    bt_graph_output(graph, first);
    bt_graph_output(graph, second);
    ck_assert_msg(bt_evaluate(graph, results) == BT_OK, "%s: %s", f->name, bt_error());
    ck_assert_msg(fabs(value - f->plain(numbers)) <= 1e-12 * fmax(1, fabs(value)), "%s is %.15g, expected %.15g",
                  f->name, value, f->plain(numbers));
    for (int i = 0; i < N; i++) {
        double expected = slope(f, i, 2e-3), bent = bend(f, i, 4e-3);
        ck_assert_msg(fabs(gradient[i] - expected) <= 1e-7 * fmax(1, fabs(expected)),
                      "%s: gradient[%d] %.12g, not %.9g", f->name, i, gradient[i], expected);
        ck_assert_msg(fabs(curvature[i] - bent) <= 1e-5 * fmax(1, fabs(bent)), "%s: second[%d] %.12g, not %.9g",
                      f->name, i, curvature[i], bent);
    }
}
END_TEST

/* ---- einsum against a loop over all letters ---- */

enum { SIZES = 128 };

static int64_t offset(const char *letters, size_t count, const int64_t *at, const int64_t *sizes)
{
    int64_t place = 0;
    for (size_t i = 0; i < count; i++)
        place = place * sizes[(unsigned char)letters[i]] + at[(unsigned char)letters[i]];
    return place;
}

/* "ab,bc" with "ac": out[...] for every assignment of the letters. */
static void every_letter(const char *operands, const char *result, double *const *values, const int64_t *sizes,
                         double *out)
{
    char all[SIZES] = "";
    for (const char *c = operands; *c; c++)
        if (*c != ',' && !strchr(all, *c))
            all[strlen(all)] = *c;
    int64_t total = 1, at[SIZES] = {0};
    for (const char *c = all; *c; c++)
        total *= sizes[(unsigned char)*c];
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i;
        for (const char *c = all; *c; c++) {
            at[(unsigned char)*c] = rest % sizes[(unsigned char)*c];
            rest /= sizes[(unsigned char)*c];
        }
        double product = 1;
        const char *from = operands;
        for (int k = 0; from; k++) {
            const char *comma = strchr(from, ',');
            product *= values[k][offset(from, comma ? (size_t)(comma - from) : strlen(from), at, sizes)];
            from = comma ? comma + 1 : NULL;
        }
        out[offset(result, strlen(result), at, sizes)] += product;
    }
}

static const struct sums {
    const char *operands, *result;
    bool arrow;
} equations[] = {
    {"ij,jk", "ik", true},    {"ij,jk", "ik", false},      {"i,i", "i", true},
    {"i,i", "", false},       {"i,j", "ij", true},         {"ii", "i", true},
    {"ii", "", false},        {"ij", "ji", true},          {"ij", "", true},
    {"nij,nkj", "nik", true}, {"ij,jk,kl", "li", true},    {"iij,j", "i", true},
    {"abc,cd,bd", "a", true}, {"ij,ij", "", true},         {"i,", "i", true},
    {"bi,bj", "bij", true},   {"nhqd,nhkd", "nhqk", true}, {"bcad,e", "ea", true},
    {"ba", "ab", false},      {"iii", "i", true},          {"aB,Bc", "aBc", true},
};

START_TEST(test_einsum)
{
    const struct sums *s = &equations[_i];
    int64_t sizes[SIZES];
    for (int c = 0; c < SIZES; c++)
        sizes[c] = 2 + c % 3;
    double *values[4] = {NULL}, expected[256] = {0};
    bt_tensor *operands[5] = {NULL};
    const char *from = s->operands;
    for (int k = 0; from; k++) {
        const char *comma = strchr(from, ',');
        size_t rank = comma ? (size_t)(comma - from) : strlen(from);
        int64_t dims[BT_MAX_RANK + 1], count = 1;
        for (size_t i = 0; i < rank; i++)
            count *= dims[i] = sizes[(unsigned char)from[i]];
        dims[rank] = BT_END;
        values[k] = calloc((size_t)count, sizeof(double));
        ck_assert_ptr_nonnull(values[k]);
        for (int64_t i = 0; i < count; i++)
            values[k][i] = bt_host_uniform(3, (uint64_t)k, (uint64_t)i) - 0.5;
        operands[k] = bt_constant(bt_array_of(BT_F64, values[k], dims));
        from = comma ? comma + 1 : NULL;
    }
    char text[64];
    strcat(strcat(strcpy(text, s->operands), s->arrow ? " -> " : ""), s->arrow ? s->result : "");
    bt_tensor *y = (bt_einsum)(text, operands);
    ck_assert_msg(!bt_poisoned(y), "%s: %s", text, graph->message);
    ck_assert_int_eq(y->rank, (int)strlen(s->result));
    for (int i = 0; i < y->rank; i++)
        ck_assert_int_eq(y->dims[i], sizes[(unsigned char)s->result[i]]);
    every_letter(s->operands, s->result, values, sizes, expected);
    interpreter *in = interpreter_new(graph);
    interpreter_run(in);
    for (int64_t i = 0; i < bt_tensor_count(y); i++)
        ck_assert_msg(fabs(interpreter_value(in, y)[i] - expected[i]) < 1e-12, "%s: [%lld] is %.15g, not %.15g", text,
                      (long long)i, interpreter_value(in, y)[i], expected[i]);
    interpreter_free(in);
    for (int k = 0; k < 4; k++)
        free(values[k]);
}
END_TEST

/* ---- special values ---- */

static void expect(int line, bt_tensor *x, const double *expected, int count)
{
    ck_assert_msg(!bt_poisoned(x), "line %d: %s", line, graph->message);
    double *found = calloc((size_t)count + 1, sizeof *found);
    bt_array result = bt_tensor_array(x);
    ck_assert_ptr_nonnull(found);
    ck_assert_int_eq(bt_tensor_count(x), count);
    result.dtype = BT_F64;
    result.data = found;
    bt_graph_output(graph, x);
    ck_assert_msg(bt_evaluate(graph, &result) == BT_OK, "line %d: %s", line, bt_error());
    for (int i = 0; i < count; i++)
        ck_assert_msg(found[i] == expected[i] || fabs(found[i] - expected[i]) < 1e-12 ||
                          (isnan(found[i]) && isnan(expected[i])),
                      "line %d: [%d] is %.15g, expected %.15g", line, i, found[i], expected[i]);
    free(found);
    end();
    begin();
}

#define EXPECT(x, ...)                                                                                                 \
    expect(__LINE__, (x), (const double[]){__VA_ARGS__}, (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))
#define VECTOR(type, ...) bt_constant(BT_ARRAY(((type[]){__VA_ARGS__}), sizeof((type[]){__VA_ARGS__}) / sizeof(type)))
#define F64(...)          VECTOR(double, __VA_ARGS__)
#define I32(...)          VECTOR(int32_t, __VA_ARGS__)

START_TEST(test_special_values)
{
    EXPECT(bt_argsort(F64(2, NAN, -INFINITY, 2, INFINITY), 0, false), 2, 0, 3, 4, 1);
    EXPECT(bt_argsort(F64(2, NAN, -INFINITY, 2, INFINITY), 0, true), 1, 4, 0, 3, 2);
    EXPECT(bt_argsort(F64(0, -0.0, 0), 0, true), 0, 1, 2);
    EXPECT(bt_argsort(VECTOR(int64_t, 5, INT64_MIN, INT64_MAX, -1), 0, false), 1, 3, 0, 2);
    EXPECT(bt_sort(VECTOR(uint8_t, 200, 3, 100), 0, false), 3, 100, 200);
    EXPECT(bt_min(VECTOR(int32_t, 5, INT32_MIN, 7)), INT32_MIN);
    EXPECT(bt_min(F64(3, NAN, 1)), NAN);
    EXPECT(bt_argmin(F64(3, -1, 2, -1), 0), 1);
    EXPECT(bt_argmin(I32(3, INT32_MIN, 2), -1), 1);
    EXPECT(bt_cumsum(I32(3, -1, 2), 0), 3, 2, 4);
    EXPECT(bt_one_hot(I32(2, 0), 3), 0, 0, 1, 1, 0, 0);
    EXPECT(bt_mse(F64(1, 2), I32(3, 1)), 4, 1);
    EXPECT(bt_norm(F64(3, 4)), 5);
    EXPECT(bt_norm(F64(-2)), 2);
    bt_tensor *index, *top = bt_topk(F64(1, 7, 7, 3), 3, -1, &index);
    EXPECT(bt_concat(0, top, bt_as(index, BT_F64)), 7, 7, 3, 1, 2, 3);
    /* Where the root is 0 its derivatives are 0; a target of 0 counts as 0, whatever the prediction. */
    bt_tensor *x = F64(0, 0);
    EXPECT(bt_grad(bt_norm(x), x), 0, 0);
    x = F64(2, 2, 2);
    EXPECT(bt_grad(bt_sum(bt_grad(bt_std(x), x)), x), 0, 0, 0);
    bt_tensor *log_q = bt_reshape(F64(-INFINITY, 0), 1, 2), *p = bt_reshape(F64(0, 1), 1, 2);
    bt_tensor *loss = bt_kl_div(log_q, p);
    EXPECT(bt_concat(1, bt_unsqueeze(loss, 0), bt_grad(bt_sum(loss), log_q), bt_grad(bt_sum(loss), p)), 0, 0, -1, 0, 1);
    /* Ties: the first one gets the whole derivative. */
    x = F64(5, 5, 1);
    EXPECT(bt_grad(bt_sum(bt_topk(x, 1, 0, NULL)), x), 1, 0, 0);
}
END_TEST

/* Long lines use merge sort, short ones and small selections insertion sort: all agree with qsort. */
START_TEST(test_long_lines)
{
    static double x[3 * 1000];
    static const int64_t counts[] = {1, 31, 32, 33, 500, 1000};
    for (int i = 0; i < BT_COUNT_OF(x); i++)
        x[i] = floor(400 * bt_host_uniform(5, 1, (uint64_t)i));
    for (int k = 0; k < BT_COUNT_OF(counts); k++) {
        bt_tensor *top = bt_topk(bt_constant(BT_ARRAY(x, 3, 1000)), counts[k], 1, NULL);
        static double found[3 * 1000], row[1000];
        bt_array result = BT_ARRAY(found, 3, counts[k]);
        bt_graph_output(graph, top);
        ck_assert_int_eq(bt_evaluate(graph, &result), BT_OK);
        for (int r = 0; r < 3; r++) {
            memcpy(row, x + 1000 * r, sizeof row);
            qsort(row, 1000, sizeof *row, ascending);
            for (int64_t i = 0; i < counts[k]; i++)
                ck_assert_double_eq(found[r * counts[k] + i], row[999 - i]);
        }
        end();
        begin();
    }
}
END_TEST

/* ---- errors ---- */

static void expect_mistake(int line, bt_tensor *x, const char *message)
{
    ck_assert_msg(bt_poisoned(x) && x != NULL, "line %d: no poison", line);
    ck_assert_msg(graph->status != BT_OK && strcmp(graph->message, message) == 0, "line %d: message \"%s\"", line,
                  graph->message ? graph->message : "");
    end();
    begin();
}

#define MISTAKE(x, message) expect_mistake(__LINE__, (x), (message))

START_TEST(test_mistakes)
{
    MISTAKE(bt_min(bt_constant(BT_ARRAY(numbers, 2, 0)), 1),
            "min: [2, 0] has no elements along axis 1, so there is no smallest");
    MISTAKE(bt_std(F64(1)), "std: [1] has 1 element along the axes; a spread needs at least 2");
    MISTAKE(bt_variance(bt_reshape(F64(1, 2), 2, 1), 1),
            "variance: [2, 1] has 1 element along the axes; a spread needs at least 2");
    MISTAKE(bt_sort(F64(1, 2), 1, false), "sort: axis 1 of [2], which has 1 axes");
    MISTAKE(bt_topk(F64(1, 2), 3, 0, NULL), "topk: the 3 largest along axis 0 of [2], which has only 2");
    MISTAKE(bt_take_along(F64(1, 2), bt_reshape(I32(0, 1), 2, 1), 0),
            "take_along: [2] with the index [2, 1]; both must have the same shape except along axis 0");
    MISTAKE(bt_take_along(F64(1, 2), F64(0, 1), 0), "take_along: the index is f64, must be of integers");
    MISTAKE(bt_cumsum(F64(1, 2), -2), "cumsum: axis -2 of [2], which has 1 axes");
    MISTAKE(bt_one_hot(F64(1, 2), 3), "one_hot: the index is f64, must be of integers");
    MISTAKE(bt_one_hot(I32(1, 2), 0), "one_hot: 0 classes, must be at least 1");
    MISTAKE(bt_mse(bt_reshape(F64(1, 2), 2, 1), F64(1, 2)),
            "mse: prediction [2, 1] with target [2], must be of one shape; bt_squeeze, bt_unsqueeze or bt_reshape one "
            "of them");
    MISTAKE(bt_kl_div(F64(1, 2), F64(1)), "kl_div: log_prediction [2] with target [1], must be of one shape, [..., "
                                          "classes]");
    MISTAKE(bt_einsum("ij,jk->ik", bt_reshape(F64(1, 2), 2, 1), F64(1)),
            "einsum \"ij,jk->ik\": 2 letters for operand 2, which is [1]");
    MISTAKE(bt_einsum("i,i", F64(1, 2), F64(1)),
            "einsum \"i,i\": the letter i has size 2, but size 1 in operand 2, [1]");
    MISTAKE(bt_einsum("i", F64(1), F64(1)), "einsum \"i\": the equation has fewer operands than the call, which has 2");
    MISTAKE(bt_einsum("i,j", F64(1)), "einsum \"i,j\": the equation has more operands than the call, which has 1");
    MISTAKE(bt_einsum("i->k", F64(1)), "einsum \"i->k\": the result has the letter k, which no operand has");
    MISTAKE(bt_einsum("i->ii", F64(1)), "einsum \"i->ii\": the result has the letter i, which occurs twice");
    MISTAKE(bt_einsum("...i", F64(1)), "einsum \"...i\": \"...\" is not supported; name each axis by a letter");
}
END_TEST

/* An invalid index or label ends the run with a message. */
START_TEST(test_places_outside)
{
    double out[6];
    bt_array result = BT_ARRAY(out, 2, 3);
    bt_graph_output(graph, bt_one_hot(I32(0, 3), 3));
    ck_assert_int_eq(bt_evaluate(graph, &result), BT_ERROR_DATA);
    ck_assert_ptr_nonnull(strstr(bt_error(), "one_hot: element 1 of the indices [2] is 3; expected 0 to 2"));
    bt_error_clear();
    end();
    begin();
    result = BT_ARRAY(out, 1);
    bt_graph_output(graph, bt_take_along(F64(1, 2), I32(-1), 0));
    ck_assert_int_eq(bt_evaluate(graph, &result), BT_ERROR_DATA);
    ck_assert_ptr_nonnull(strstr(bt_error(), "take_along: element 0 of the indices [1] is -1; expected 0 to 1"));
    bt_error_clear();
}
END_TEST

/* Which axis of the result is the batch axis. */
START_TEST(test_batch_axis)
{
    bt_tensor *x = bt_reshape(F64(1, 2, 3, 4, 5, 6), 3, 2), *label = I32(0, 1, 1);
    x->batch_axis = label->batch_axis = 0;
    ck_assert_int_eq(bt_sort(x, 1, false)->batch_axis, 0);
    ck_assert_int_eq(bt_sort(x, 0, false)->batch_axis, -1);
    ck_assert_int_eq(bt_topk(x, 1, 1, NULL)->batch_axis, 0);
    ck_assert_int_eq(bt_cumsum(x, 1)->batch_axis, 0);
    ck_assert_int_eq(bt_cumsum(x, 0)->batch_axis, -1);
    ck_assert_int_eq(bt_min(x, 1)->batch_axis, 0);
    ck_assert_int_eq(bt_std(x, 1)->batch_axis, 0);
    ck_assert_int_eq(bt_norm(x)->batch_axis, -1);
    ck_assert_int_eq(bt_mse(x, x)->batch_axis, 0);
    ck_assert_int_eq(bt_kl_div(x, x)->batch_axis, 0);
    ck_assert_int_eq(bt_one_hot(label, 4)->batch_axis, 0);
    ck_assert_int_eq(bt_einsum("ni,ij->nj", x, bt_constant(BT_ARRAY(numbers, 2, 3)))->batch_axis, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops: everyday functions");
    TCase *everyday = tcase_create("everyday");
    tcase_add_checked_fixture(everyday, begin, end);
    tcase_add_loop_test(everyday, test_functions_and_their_derivatives, 0, BT_COUNT_OF(functions));
    tcase_add_loop_test(everyday, test_einsum, 0, BT_COUNT_OF(equations));
    tcase_add_test(everyday, test_special_values);
    tcase_add_test(everyday, test_long_lines);
    tcase_add_test(everyday, test_mistakes);
    tcase_add_test(everyday, test_places_outside);
    tcase_add_test(everyday, test_batch_axis);
    suite_add_tcase(suite, everyday);
    return run_suite(suite);
}
