/* Softmax, cross-entropy, layer_norm and their derivatives against the plain loops, and the plain loops against
 * formulas. */
#include "tests/backend/compare.h"

#include "support/on_device.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t shapes[][4] = {{1, 1},       {1, 10},       {1, 700},      {2, 100, 10},  {2, 7, 1},
                                    {2, 3, 1300}, {2, 0, 4},     {2, 4, 0},     {3, 5, 3, 17}, {3, 2, 6, 1},
                                    {2, 513, 3},  {2, 3000, 50}, {2, 300, 128}, {2, 2, 13001}};
static const enum layout layouts[] = {PLAIN, LOOSE, SPREAD, TURNED, SLICED, INNER};

static operand operand_of(bt_dtype dtype, const int64_t *shape, enum layout layout, double low, double high)
{
    operand o = {.dtype = dtype, .rank = (int)shape[0], .layout = layout, .low = low, .high = high};
    for (int d = 0; d < o.rank; d++)
        o.dims[d] = shape[1 + d];
    return o;
}

static const double special[] = {1,   2,    3,   INFINITY, 4, -INFINITY, 0, 1, NAN, 2, 3,
                                 300, -300, 1e4, 1,        1, 2,         3, 5, 8,   13};

START_TEST(softmaxes)
{
    static const bt_op *const ops[] = {&bt_op_softmax, &bt_op_log_softmax, &bt_op_softmax_grad};
    for (int s = 0; s < BT_COUNT_OF(shapes); s++)
        for (int axis = 0; axis < shapes[s][0]; axis++)
            for (int way = 0; way < 48; way++) {
                bt_axis_attr attr = {.axis = axis};
                bt_dtype dtype = way & 1 ? BT_F64 : BT_F32;
                enum layout first = layouts[way / 2 % 6];
                trial t = {
                    .op = ops[_i], .attr = &attr, .inputs = _i == 2 ? 2 : 1, .outputs = 1, .seed = (uint64_t)way};
                t.in[0] = operand_of(dtype, shapes[s], first, -4, way < 12 ? 4 : 90);
                t.in[1] = operand_of(dtype, shapes[s], layouts[way / 8], -1, 1);
                t.out[0] = operand_of(dtype, shapes[s], PLAIN, 0, 0);
                t.relative = dtype == BT_F32 ? 1e-5 : 1e-13; /* for exp(x - max): the rounding of x */
                t.absolute = (dtype == BT_F32 ? 1e-6 : 1e-13) * (_i == 2 ? 3000 : _i == 1 ? 1 : 1e-30);
                t.alias[0] = first == PLAIN;
                if (way >= 24 && _i < 2) {
                    t.in[0].values = special;
                    t.in[0].value_count = BT_COUNT_OF(special);
                }
                compare(&t);
                if (axis == shapes[s][0] - 1 && first == PLAIN && way < 16)
                    compare_fast(&t);
            }
}
END_TEST

START_TEST(cross_entropies)
{
    for (int s = 0; s < BT_COUNT_OF(shapes); s++)
        for (int way = 0; way < 48 && shapes[s][0] == 2; way++) {
            bt_dtype dtype = way & 1 ? BT_F64 : BT_F32;
            int64_t n[] = {1, shapes[s][1]}, classes = shapes[s][2];
            trial t = {.op = _i ? &bt_op_cross_entropy_grad : &bt_op_cross_entropy, .inputs = 2 + _i, .outputs = 1};
            t.seed = (uint64_t)way;
            t.in[0] = operand_of(dtype, shapes[s], layouts[way / 4 % 6], -8, 8);
            t.in[1] = operand_of(way & 2 ? BT_I64 : BT_I32, n, way & 8 ? SLICED : PLAIN, 0, (double)classes);
            t.in[2] = operand_of(dtype, n, way & 16 ? ONE : PLAIN, -1, 1);
            t.out[0] = operand_of(dtype, _i ? shapes[s] : n, PLAIN, 0, 0);
            t.relative = dtype == BT_F32 ? 1e-6 : 1e-14;
            t.absolute = dtype == BT_F32 ? 2e-6 : 1e-14;
            t.alias[0] = _i && layouts[way / 4 % 6] == PLAIN;
            if (!classes)
                continue;
            if (way >= 24) {
                t.in[0].values = special;
                t.in[0].value_count = BT_COUNT_OF(special);
            }
            compare(&t);
            if (layouts[way / 4 % 6] == PLAIN)
                compare_fast(&t);
        }
}
END_TEST

/* Parts of a line that are all -infinity, as with masks; and whole lines. */
START_TEST(masked)
{
    enum { SIZE = 13001 };
    static double values[3 * SIZE];
    const int64_t shape[] = {2, 3, SIZE}, n[] = {1, 3};
    for (int i = 0; i < 3 * SIZE; i++)
        values[i] = i < SIZE / 2 || i >= 2 * SIZE || (i > SIZE + 30 && i < 2 * SIZE - 5) ? -INFINITY : i % 17 * 0.25;
    for (int way = 0; way < 8; way++) {
        static const bt_op *const ops[] = {&bt_op_softmax, &bt_op_log_softmax, &bt_op_cross_entropy,
                                           &bt_op_cross_entropy_grad};
        const bt_dtype dtype = way & 1 ? BT_F64 : BT_F32;
        static const double labels[] = {8000, 3, 0};
        bt_axis_attr attr = {.axis = 1};
        trial t = {.op = ops[way / 2], .attr = &attr, .inputs = way < 4 ? 1 : way < 6 ? 2 : 3, .outputs = 1};
        t.in[0] = operand_of(dtype, shape, PLAIN, 0, 0);
        t.in[0].values = values;
        t.in[0].value_count = BT_COUNT_OF(values);
        t.in[1] = operand_of(BT_I32, n, PLAIN, 0, 0);
        t.in[1].values = labels;
        t.in[1].value_count = BT_COUNT_OF(labels);
        t.in[2] = operand_of(dtype, n, PLAIN, -1, 1);
        t.out[0] = operand_of(dtype, ops[way / 2] == &bt_op_cross_entropy ? n : shape, PLAIN, 0, 0);
        t.relative = dtype == BT_F32 ? 1e-6 : 1e-13;
        t.absolute = dtype == BT_F32 ? 1e-6 : 1e-13;
        compare_fast(&t);
    }
}
END_TEST

START_TEST(wild_labels)
{
    static const int64_t wild[] = {3, -1, INT64_MAX, INT64_MIN};
    double x[6] = {0}, y[6], g[2] = {1, 1};
    for (int w = 0; w < BT_COUNT_OF(wild); w++)
        for (const bt_kernel_impl *const *kernel = bt_backend_cpu()->kernels.list(); *kernel; kernel++) {
            int64_t label[] = {0, wild[w]};
            bool grad = (*kernel)->op == &bt_op_cross_entropy_grad;
            bt_view in[] = {{(char *)x, BT_F64, 2, {2, 3}, {3, 1}},
                            {(char *)label, BT_I64, 1, {2}, {1}},
                            {(char *)g, BT_F64, 1, {2}, {1}}};
            bt_view out = {(char *)y, BT_F64, 1 + grad, {2, 3}, {grad ? 3 : 1, 1}};
            bt_call call = {.op = (*kernel)->op, .inputs = 2 + grad, .outputs = 1, .in = in, .out = &out, .threads = 1};
            if ((!grad && call.op != &bt_op_cross_entropy) || !bt_kernel_accepts(*kernel, &call))
                continue;
            bt_error_clear();
            ck_assert_int_eq((*kernel)->launch(&call), BT_ERROR_DATA);
            ck_assert_ptr_nonnull(strstr(bt_error(), "element 1 of the indices [2]"));
        }
    bt_error_clear();
}
END_TEST

/* On a device the error appears when the host waits. */
START_TEST(wild_labels_far)
{
    static const int64_t wild[] = {3, -1, INT64_MAX, INT64_MIN};
    const bt_backend *device = device_backend();
    for (int w = 0; device && w < 2 * BT_COUNT_OF(wild); w++) {
        const bool grad = w & 1;
        double x[6] = {0}, y[6], g[2] = {1, 1};
        int64_t label[] = {0, wild[w / 2]};
        bt_view in[] = {{(char *)x, BT_F64, 2, {2, 3}, {3, 1}},
                        {(char *)label, BT_I64, 1, {2}, {1}},
                        {(char *)g, BT_F64, 1, {2}, {1}}};
        bt_view out = {(char *)y, BT_F64, 1 + grad, {2, 3}, {grad ? 3 : 1, 1}};
        bt_call call = {.op = grad ? &bt_op_cross_entropy_grad : &bt_op_cross_entropy, .inputs = 2 + grad};
        call.outputs = call.threads = 1;
        call.in = in;
        call.out = &out;
        const host_span spans[] = {
            {(char *)x, sizeof x}, {(char *)y, sizeof y}, {(char *)g, sizeof g}, {(char *)label, sizeof label}};
        ck_assert_int_eq(run_on_device(device, kernel_named(device->kernels.list(), call.op, ""), &call, spans, 4),
                         BT_ERROR_DATA);
        ck_assert_ptr_nonnull(strstr(bt_error(), "element 1 of the indices [2]"));
        ck_assert_ptr_nonnull(strstr(bt_error(), "expected 0 to 2"));
        bt_error_clear();
    }
}
END_TEST

/* One number for each row of the shape. */
static operand row_numbers(bt_dtype dtype, const int64_t *shape, double low, double high)
{
    operand o = operand_of(dtype, shape, PLAIN, low, high);
    o.dims[o.rank - 1] = 1;
    return o;
}

START_TEST(layer_norms)
{
    for (int s = 0; s < BT_COUNT_OF(shapes); s++)
        for (int way = 0; way < 24; way++) {
            bt_dtype dtype = way & 1 ? BT_F64 : BT_F32;
            bt_eps_attr attr = {.eps = 1e-5};
            int64_t f[] = {1, shapes[s][shapes[s][0]]};
            trial t = {.op = &bt_op_layer_norm, .attr = &attr, .inputs = 3, .outputs = 3, .seed = (uint64_t)way};
            t.in[0] = operand_of(dtype, shapes[s], layouts[way / 2 % 6], 2, 5);
            t.in[1] = operand_of(dtype, f, way & 2 ? ONE : PLAIN, -1, 1);
            t.in[2] = operand_of(dtype, f, PLAIN, -1, 1);
            t.out[0] = operand_of(dtype, shapes[s], PLAIN, 0, 0);
            t.out[1] = t.out[2] = row_numbers(dtype, shapes[s], 0, 0);
            t.absolute = dtype == BT_F32 ? 1e-5 : 1e-13;
            t.alias[0] = t.in[0].layout == PLAIN;
            if (f[1] == 1 || (shapes[s][0] == 1 && t.in[0].layout == SPREAD)) /* rounding, divided by sqrt(eps) */
                t.absolute *= 100;
            compare(&t);
            if (t.in[0].layout == PLAIN && t.in[1].layout == PLAIN)
                compare_fast(&t);
        }
}
END_TEST

START_TEST(layer_norm_derivatives)
{
    static const bt_op *const ops[] = {&bt_op_layer_norm_grad, &bt_op_layer_norm_dot};
    for (int s = 0; s < BT_COUNT_OF(shapes); s++)
        for (int way = 0; way < 24; way++) {
            bt_dtype dtype = way & 1 ? BT_F64 : BT_F32;
            int64_t f[] = {1, shapes[s][shapes[s][0]]};
            trial t = {.op = ops[_i], .inputs = 4, .outputs = 1, .seed = (uint64_t)way};
            if (!f[1])
                continue;
            t.in[0] = operand_of(dtype, shapes[s], layouts[way / 2 % 6], -2, 2);
            t.in[1] = row_numbers(dtype, shapes[s], -1, 1);
            t.in[2] = row_numbers(dtype, shapes[s], 0.5, 2);
            t.in[3] = operand_of(dtype, shapes[s], layouts[way / 3 % 6], -1, 1);
            t.out[0] = operand_of(dtype, _i ? f : shapes[s], PLAIN, 0, 0);
            t.absolute = dtype == BT_F32 ? (_i ? 1e-3 : 1e-5) : _i ? 1e-10 : 1e-11;
            t.alias[0] = _i ? 0 : t.in[3].layout == PLAIN ? 4 : t.in[0].layout == PLAIN;
            compare(&t);
            if (t.in[0].layout == PLAIN && t.in[3].layout == PLAIN)
                compare_fast(&t);
        }
}
END_TEST

static void run_plain(const bt_op *op, const void *attr, bt_view *in, int inputs, bt_view *out)
{
    bt_call call = {.op = op, .attr = attr, .inputs = inputs, .outputs = 1, .in = in, .out = out, .threads = 1};
    ck_assert(kernel_named(bt_cpu_kernels(""), op, ".reference")->launch(&call) == BT_OK);
}

/* Two classes: softmax is a sigmoid; x = 0, log 3 gives 1/4, 3/4. */
START_TEST(formulas)
{
    double x[] = {0, log(3), 1000, 1000}, y[4], g[] = {2, 10}, ones[] = {2, 3}, shifts[] = {1, -1};
    int32_t label[] = {1, 0};
    bt_axis_attr last = {1};
    bt_eps_attr eps = {0};
    bt_view in[] = {
        {(char *)x, BT_F64, 2, {2, 2}, {2, 1}}, {(char *)label, BT_I32, 1, {2}, {1}}, {(char *)g, BT_F64, 1, {2}, {1}}};
    bt_view out = {(char *)y, BT_F64, 2, {2, 2}, {2, 1}}, losses = {(char *)y, BT_F64, 1, {2}, {1}};
    const double probability[] = {0.25, 0.75, 0.5, 0.5}, gradient[] = {0.5, -0.5, -5, 5};
    run_plain(&bt_op_softmax, &last, in, 1, &out);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(y[i], probability[i], 1e-15);
    run_plain(&bt_op_log_softmax, &last, in, 1, &out);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(y[i], log(probability[i]), 1e-15);
    run_plain(&bt_op_cross_entropy, NULL, in, 2, &losses);
    ck_assert_double_eq_tol(y[0], -log(0.75), 1e-15);
    ck_assert_double_eq_tol(y[1], log(2), 1e-15);
    run_plain(&bt_op_cross_entropy_grad, NULL, in, 3, &out);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(y[i], gradient[i], 1e-14);
    double p[] = {0.25, 0.75}, c[] = {1, 5};
    bt_view pair[] = {{(char *)p, BT_F64, 2, {1, 2}, {2, 1}}, {(char *)c, BT_F64, 2, {1, 2}, {2, 1}}};
    bt_view pair_out = {(char *)y, BT_F64, 2, {1, 2}, {2, 1}};
    run_plain(&bt_op_softmax_grad, &last, pair, 2, &pair_out); /* mean 4: p (c - 4) */
    ck_assert_double_eq_tol(y[0], -0.75, 1e-15);
    ck_assert_double_eq_tol(y[1], 0.75, 1e-15);
    double z[] = {3, 7};
    bt_view norm[] = {{(char *)z, BT_F64, 2, {1, 2}, {2, 1}},
                      {(char *)ones, BT_F64, 1, {2}, {1}},
                      {(char *)shifts, BT_F64, 1, {2}, {1}}};
    double mean, deviation;
    bt_view normed[] = {
        pair_out, {(char *)&mean, BT_F64, 2, {1, 1}, {1, 1}}, {(char *)&deviation, BT_F64, 2, {1, 1}, {1, 1}}};
    run_plain(&bt_op_layer_norm, &eps, norm, 3, normed); /* -1, 1, scaled and shifted */
    ck_assert(mean == 5 && deviation == 2);
    ck_assert_double_eq_tol(y[0], -1, 1e-15);
    ck_assert_double_eq_tol(y[1], 2, 1e-15);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rows");
    TCase *tcase = tcase_create("kernels");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, formulas);
    tcase_add_loop_test(tcase, softmaxes, 0, 3);
    tcase_add_loop_test(tcase, cross_entropies, 0, 2);
    tcase_add_test(tcase, layer_norms);
    tcase_add_loop_test(tcase, layer_norm_derivatives, 0, 2);
    suite_add_tcase(suite, tcase);
    TCase *special_lines = tcase_create("special lines");
    tcase_set_timeout(special_lines, 60);
    tcase_add_test(special_lines, masked);
    tcase_add_test(special_lines, wild_labels);
    tcase_add_test(special_lines, wild_labels_far);
    suite_add_tcase(suite, special_lines);
    return run_suite(suite);
}
