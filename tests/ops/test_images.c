/* Norms over channels, pooling and resampling: values, gradients and Hessian-vector products against PyTorch, with the
 * kernels that actually run; ties and NaN; error messages. */
#include "golden_images.h"
#include "interpret.h"
#include "test_trace.h"

#include "ops/ops.h"
#include "runtime/evaluate.h"
#include "runtime/variable.h"
#include "support/suite.h"
#include "support/vars.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 3 };

static bt_var *vars[4 * INPUTS];
static int var_count;

static void begin(void)
{
    trace_open(BT_F64);
    var_count = 0;
}

static void end(void)
{
    trace_close();
    for (int i = 0; i < var_count; i++)
        bt_var_free(vars[i]);
}

/* A variable: sin(factor i + phase) + more; or, whole = 2, integers below twice that. */
static bt_tensor *numbers(bt_dtype dtype, int rank, const int64_t *dims, double factor, double phase, double more,
                          double whole)
{
    bt_array shape = {.dtype = dtype, .rank = rank};
    memcpy(shape.dims, dims, (size_t)rank * sizeof *dims);
    bt_var *var = bt_var_new(BT_RUN, BT_BUFFERS, "", "x", shape);
    ck_assert_ptr_nonnull(var);
    vars[var_count++] = var;
    for (int64_t i = 0; i < bt_array_count(shape); i++) {
        double x = sin(factor * (double)i + phase) + more;
        var_put(var, i, whole > 0 ? floor(whole * x) : x);
    }
    return bt_graph_read(graph, var);
}

static double *values_of(bt_tensor *const *tensors, int count, int64_t *total)
{
    bt_array results[16];
    *total = 0;
    for (int i = 0; i < count; i++) {
        ck_assert_msg(!bt_poisoned(tensors[i]), "%s", graph->message);
        bt_graph_output(graph, tensors[i]);
        *total += bt_tensor_count(tensors[i]);
    }
    double *values = calloc((size_t)*total + 1, sizeof *values), *next = values;
    ck_assert_ptr_nonnull(values);
    for (int i = 0; i < count; i++) {
        results[i] = bt_tensor_array(tensors[i]);
        results[i].dtype = BT_F64;
        results[i].data = next;
        next += bt_tensor_count(tensors[i]);
    }
    ck_assert_msg(bt_evaluate(graph, results) == BT_OK, "%s", bt_error());
    return values;
}

/* ---- PyTorch's values: see golden_images.py ---- */

static bt_tensor *batch_norm(bt_tensor **x) { return bt_batch_norm(x[0], 1, x[1], x[2], 1e-3, NULL, NULL); }
static bt_tensor *batch_norm_of_groups(bt_tensor **x) { return bt_batch_norm(x[0], 2, x[1], x[2], 1e-3, NULL, NULL); }
static bt_tensor *group_norm(bt_tensor **x) { return bt_group_norm(x[0], 2, x[1], x[2], 1e-3); }
static bt_tensor *instance_norm(bt_tensor **x) { return bt_group_norm(x[0], 2, x[1], x[2], 1e-3); }
static bt_tensor *max_pool(bt_tensor **x) { return bt_max_pool2d(x[0], 3, 2, 1); }
static bt_tensor *avg_pool(bt_tensor **x) { return bt_avg_pool2d(x[0], 3, 2, 1); }
static bt_tensor *adaptive_avg_pool(bt_tensor **x) { return bt_adaptive_avg_pool2d(x[0], 3, 2); }
static bt_tensor *adaptive_max_pool(bt_tensor **x) { return bt_adaptive_max_pool2d(x[0], 3, 2); }
static bt_tensor *nearest(bt_tensor **x) { return bt_upsample_nearest(x[0], 5, 3); }
static bt_tensor *bilinear(bt_tensor **x) { return bt_upsample_bilinear(x[0], 5, 3); }
static bt_tensor *bilinear_smaller(bt_tensor **x) { return bt_upsample_bilinear(x[0], 2, 3); }

#define GOLDEN(name, ...)                                                                                              \
    {                                                                                                                  \
#name, name, golden_##name, BT_COUNT_OF(golden_##name), __VA_ARGS__                                            \
    }

static const struct {
    const char *name;
    bt_tensor *(*function)(bt_tensor **x);
    const double *golden;
    int count, inputs;
    int64_t dims[4];
    bool hessian;
    double whole;
} goldens[] = {
    GOLDEN(batch_norm, 3, {2, 3, 2, 3}, true, 0),         GOLDEN(batch_norm_of_groups, 3, {4, 1, 2, 3}, true, 0),
    GOLDEN(group_norm, 3, {2, 2, 2, 4}, true, 0),         GOLDEN(instance_norm, 3, {2, 3, 2, 2}, false, 0),
    GOLDEN(max_pool, 1, {1, 5, 4, 2}, true, 2),           GOLDEN(avg_pool, 1, {1, 5, 4, 2}, false, 0),
    GOLDEN(adaptive_avg_pool, 1, {1, 5, 3, 2}, false, 0), GOLDEN(adaptive_max_pool, 1, {1, 5, 3, 2}, false, 0),
    GOLDEN(nearest, 1, {1, 3, 2, 2}, false, 0),           GOLDEN(bilinear, 1, {1, 3, 2, 2}, false, 0),
    GOLDEN(bilinear_smaller, 1, {1, 5, 4, 1}, false, 0),
};

START_TEST(test_golden)
{
    const int inputs = goldens[_i].inputs;
    for (int d = 0; d < 2; d++) {
        bt_dtype dtype = d ? BT_F32 : BT_F64;
        bt_tensor *x[INPUTS], *all[16], *along = NULL;
        int count = 0;
        int64_t total;
        for (int i = 0; i < inputs; i++)
            x[i] = numbers(dtype, i ? 1 : 4, i ? &goldens[_i].dims[3] : goldens[_i].dims, 1.3, 0.5 + i,
                           i == 1 ? 1.5 : 0, goldens[_i].whole);
        bt_tensor *y = all[count++] = goldens[_i].function(x);
        ck_assert_msg(!bt_poisoned(y), "%s", graph->message);
        bt_tensor *u = numbers(dtype, y->rank, y->dims, 0.7, 0.2, 0, 0), *loss = bt_sum(bt_mul(u, bt_square(y)));
        for (int i = 0; i < inputs; i++) {
            bt_tensor *g = all[count++] = bt_grad(loss, x[i]);
            bt_tensor *v = numbers(dtype, x[i]->rank, x[i]->dims, 1.1, 0.3 + i, 0, 0);
            along = bt_accumulate(along, bt_sum(bt_mul(g, v)));
        }
        for (int i = 0; i < inputs && goldens[_i].hessian; i++)
            all[count++] = bt_grad(along, x[i]);
        double *found = values_of(all, count, &total), scale = 1;
        ck_assert_int_eq(total, goldens[_i].count);
        for (int e = 0; e < total; e++)
            scale = fmax(scale, fabs(goldens[_i].golden[e]));
        for (int e = 0; e < total; e++)
            ck_assert_msg(fabs(found[e] - goldens[_i].golden[e]) <= (d ? 3e-6 : 1e-13) * scale,
                          "%s, %s, [%d]: found %.17g, expected %.17g", goldens[_i].name, bt_dtype_name(dtype), e,
                          found[e], goldens[_i].golden[e]);
        free(found);
        end();
        begin();
    }
}
END_TEST

/* The maximum is the first in row order; among NaN, the last; never the padding. */
START_TEST(test_largest_is_pytorchs)
{
    static const float x[] = {1, 3, 3, /**/ 2, 3, 1, /**/ NAN, 0, NAN}, low[] = {-INFINITY, -INFINITY};
    int64_t total;
    bt_tensor *image = bt_constant(BT_ARRAY(x, 1, 3, 3, 1)), *lowest = bt_constant(BT_ARRAY(low, 1, 1, 2, 1));
    bt_tensor *y = bt_max_pool2d(image, 2, 1, 0), *z = bt_max_pool2d(image, 3, 3, 1),
              *w = bt_max_pool2d(lowest, 2, 2, 1);
    bt_tensor *all[] = {y, &y->node->out[1], z, &z->node->out[1], w, &w->node->out[1]};
    static const double expected[] = {3, 3, NAN, NAN, 1, 1, 6, 8, 3, 1, -INFINITY, -INFINITY, 0, 1};
    double *found = values_of(all, 6, &total);
    ck_assert_int_eq(total, BT_COUNT_OF(expected));
    for (int i = 0; i < total; i++)
        ck_assert_msg(isnan(expected[i]) ? isnan(found[i]) : found[i] == expected[i], "[%d] is %g, expected %g", i,
                      found[i], expected[i]);
    free(found);
}
END_TEST

/* Statistics are those of the rows; batch norm with given statistics is the same; without scale and shift these are 1
 * and 0. */
START_TEST(test_batch_norm_of_statistics)
{
    static const int64_t dims[] = {3, 2, 2, 5}, one = 5;
    bt_tensor *x = numbers(BT_F64, 4, dims, 1.7, 0.1, 3, 0), *mean, *variance;
    bt_tensor *scale = numbers(BT_F64, 1, &one, 0.3, 0.2, 1, 0), *shift = numbers(BT_F64, 1, &one, 0.4, 0, 0, 0);
    bt_tensor *y = bt_batch_norm(x, 1, scale, shift, 0.1, &mean, &variance);
    bt_tensor *plain = bt_batch_norm(x, 1, NULL, NULL, 0.1, NULL, NULL), *all[4];
    int64_t total;
    all[0] = bt_sub(mean, bt_mean(x, 0, 1, 2));
    all[1] = bt_sub(variance, bt_mean(bt_square(bt_sub(x, bt_mean(x, 0, 1, 2))), 0, 1, 2));
    all[2] = bt_sub(y, bt_batch_norm_fixed(x, mean, variance, scale, shift, 0.1));
    all[3] = bt_sub(y, bt_add(bt_mul(plain, scale), shift));
    double *found = values_of(all, 4, &total);
    for (int i = 0; i < total; i++)
        ck_assert_msg(fabs(found[i]) <= 1e-14, "[%d] differs by %g", i, found[i]);
    free(found);
}
END_TEST

/* Each group of adjacent rows separately, against plain loops. */
START_TEST(test_batch_norm_of_groups)
{
    enum { N = 8, PIXELS = 3, C = 5, ROOM = N * PIXELS * C };
    static const int64_t dims[] = {N, PIXELS, C};
    const int64_t groups = (int64_t)1 << _i, values = N / groups * PIXELS;
    bt_tensor *all[3];
    int64_t total;
    all[0] = bt_batch_norm(numbers(BT_F64, 3, dims, 1.7, 0.1, 3, 0), groups, NULL, NULL, 0.1, &all[1], &all[2]);
    double *found = values_of(all, 3, &total), *mean = found + ROOM, *variance = mean + groups * C;
    ck_assert_int_eq(total, ROOM + 2 * groups * C);
    for (int64_t g = 0; g < groups; g++)
        for (int64_t c = 0; c < C; c++) {
            double m = 0, v = 0;
            for (int64_t i = g * values; i < (g + 1) * values; i++)
                m += (sin(1.7 * (double)(i * C + c) + 0.1) + 3) / (double)values;
            for (int64_t i = g * values; i < (g + 1) * values; i++)
                v += pow(sin(1.7 * (double)(i * C + c) + 0.1) + 3 - m, 2) / (double)values;
            ck_assert_double_eq_tol(mean[g * C + c], m, 1e-14);
            ck_assert_double_eq_tol(variance[g * C + c], v, 1e-14);
            for (int64_t i = g * values; i < (g + 1) * values; i++)
                ck_assert_double_eq_tol(found[i * C + c],
                                        (sin(1.7 * (double)(i * C + c) + 0.1) + 3 - m) / sqrt(v + 0.1), 1e-13);
        }
    free(found);
}
END_TEST

static void expect_mistake(bt_tensor *x, const char *message)
{
    ck_assert(bt_poisoned(x) && x);
    ck_assert_msg(graph->status != BT_OK && strcmp(graph->message, message) == 0, "message \"%s\"", graph->message);
    end();
    begin();
}

static bt_tensor *image(int64_t height, int64_t width)
{
    return numbers(BT_F32, 4, (const int64_t[]){1, height, width, 2}, 1, 0, 0, 0);
}

START_TEST(test_mistakes)
{
    static const int64_t flat[] = {4, 6}, three = 3, two = 2;
#define MISTAKE(call, message) expect_mistake((call), (message))
    MISTAKE(bt_max_pool2d(image(4, 4), 2, 2, 2),
            "max_pool2d: padding 2, must be 0 to 1, half of the window: some windows would see no pixel otherwise");
    MISTAKE(bt_avg_pool2d(image(4, 4), 0, 2, 0), "avg_pool2d: window 0 with stride 2, both must be 1 to 2147483647");
    MISTAKE(bt_avg_pool2d(image(4, 2), 3, 1, 0), "avg_pool2d: width 2 with padding 0 is smaller than the window, 3");
    MISTAKE(bt_adaptive_max_pool2d(image(4, 4), 2, 0),
            "adaptive_max_pool2d: width 0 of the result, must be 1 to 2147483647");
    MISTAKE(bt_adaptive_avg_pool2d(image(0, 4), 2, 2),
            "adaptive_avg_pool2d: the images have height 0, must be at least 1");
    MISTAKE(bt_max_pool2d(numbers(BT_F32, 2, flat, 1, 0, 0, 0), 2, 2, 0),
            "max_pool2d: x is [4, 6], must be images, [n, height, width, channels]");
    MISTAKE(bt_upsample_bilinear(image(2, 2), 4, 0),
            "upsample_bilinear: to 4 x 0 pixels, both must be 1 to 2147483647");
    MISTAKE(bt_upsample_nearest(NULL, 4, 4), "upsample_nearest: an operand is NULL");
    MISTAKE(bt_batch_norm(image(2, 2), 1, numbers(BT_F32, 1, &three, 1, 0, 0, 0), NULL, 0.1, NULL, NULL),
            "batch_norm: scale is [3], must be [2], the channels of x [1, 2, 2, 2]");
    MISTAKE(bt_batch_norm(numbers(BT_F32, 1, &two, 1, 0, 0, 0), 1, NULL, NULL, 0.1, NULL, NULL),
            "batch_norm: x is [2], must be [n, ..., channels]");
    MISTAKE(bt_batch_norm(image(0, 2), 1, NULL, NULL, 0.1, NULL, NULL),
            "channel_norm: [1, 0, 2, 2] has no rows after its 0 leading axes, so there is no mean");
    MISTAKE(bt_batch_norm(NULL, 2, NULL, NULL, 0.1, NULL, NULL), "batch_norm: an operand is NULL");
    MISTAKE(bt_group_norm(image(2, 2), 3, NULL, NULL, 0.1),
            "group_norm: the 2 channels cannot be divided into 3 groups");
    MISTAKE(bt_group_norm(image(2, 2), 1, NULL, NULL, -1), "group_norm: eps is -1, must be at least 0");
#undef MISTAKE
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops: images");
    TCase *images = tcase_create("images");
    tcase_add_checked_fixture(images, begin, end);
    tcase_add_loop_test(images, test_golden, 0, BT_COUNT_OF(goldens));
    tcase_add_test(images, test_largest_is_pytorchs);
    tcase_add_test(images, test_batch_norm_of_statistics);
    tcase_add_loop_test(images, test_batch_norm_of_groups, 0, 4);
    tcase_add_test(images, test_mistakes);
    suite_add_tcase(suite, images);
    return run_suite(suite);
}
