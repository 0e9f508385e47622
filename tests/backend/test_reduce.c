/* Reductions against the plain loops: every set of axes, different layouts, empty arrays, NaN. */
#include "tests/backend/compare.h"

#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

static const int64_t shapes[][5] = {{0},           {1, 1},         {1, 37},       {1, 0},
                                    {2, 4, 3},     {2, 3, 200},    {2, 200, 3},   {2, 0, 5},
                                    {2, 5, 0},     {3, 3, 4, 5},   {3, 7, 1, 33}, {4, 2, 3, 4, 5},
                                    {2, 131, 150}, {3, 2, 65, 40}, {2, 2, 13001}, {3, 5, 601, 3}};

static trial reduction(const bt_op *op, bt_dtype dtype, const int64_t *shape, const bt_reduce_attr *attr,
                       enum layout layout)
{
    trial t = {.op = op, .attr = attr, .inputs = 1, .outputs = 1};
    t.in[0] = (operand){.dtype = dtype, .rank = (int)shape[0], .layout = layout, .low = -1, .high = 2};
    t.out[0] = (operand){.dtype = op == &bt_op_argmax ? BT_I32 : dtype};
    for (int d = 0; d < t.in[0].rank; d++) {
        t.in[0].dims[d] = shape[1 + d];
        if (!(attr->axes >> d & 1))
            t.out[0].dims[t.out[0].rank++] = shape[1 + d];
        else if (attr->keep)
            t.out[0].dims[t.out[0].rank++] = 1;
    }
    return t;
}

static void all_axes(const bt_op *op, bt_dtype dtype, double relative, double absolute)
{
    static const enum layout layouts[] = {PLAIN, TURNED, SLICED, LOOSE, SPREAD, ONE, INNER};
    for (int s = 0; s < BT_COUNT_OF(shapes); s++)
        for (uint32_t axes = 0; axes < 1U << shapes[s][0]; axes++)
            for (int l = 0; l < BT_COUNT_OF(layouts); l++) {
                bt_reduce_attr attr = {.axes = axes, .keep = (uint32_t)(s & 1)};
                trial t = reduction(op, dtype, shapes[s], &attr, layouts[l]);
                t.relative = relative;
                t.absolute = absolute;
                t.seed = axes * 100 + (unsigned)l;
                compare_fast(&t);
            }
}

START_TEST(sums)
{
    if (_i)
        all_axes(&bt_op_sum, BT_F64, 1e-12, 1e-12); /* for the plain loop itself, where all elements are one number */
    else
        all_axes(&bt_op_sum, BT_F32, 2e-6, 1e-5);
}
END_TEST

START_TEST(maxima) { all_axes(&bt_op_max, _i ? BT_F64 : BT_F32, 0, 0); }
END_TEST

/* A single axis, with ties, NaN and infinities. */
START_TEST(places)
{
    static const double values[] = {3, 1, 3, 2, -INFINITY, 0, NAN, 3, NAN, INFINITY, -1};
    for (int s = 0; s < BT_COUNT_OF(shapes); s++)
        for (int axis = 0; axis < shapes[s][0]; axis++)
            for (int way = 0; way < 16; way++) {
                static const enum layout layouts[] = {PLAIN, TURNED, SLICED, LOOSE};
                bt_reduce_attr attr = {.axes = 1U << axis};
                trial t = reduction(&bt_op_argmax, way & 1 ? BT_F64 : BT_F32, shapes[s], &attr, layouts[way / 4]);
                t.in[0].values = values;
                t.in[0].value_count = way & 2 ? 11 : 6;
                if (shapes[s][1 + axis])
                    compare_fast(&t);
            }
}
END_TEST

START_TEST(not_finite)
{
    static const double values[] = {1, -2, INFINITY, 3, 0.5, NAN, 2, -INFINITY, 7, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5};
    for (int s = 0; s < BT_COUNT_OF(shapes); s++)
        for (uint32_t axes = 1; axes < 1U << shapes[s][0]; axes++)
            for (int way = 0; way < 8; way++) {
                bt_reduce_attr attr = {.axes = axes};
                trial t = reduction(way & 2 ? &bt_op_sum : &bt_op_max, way & 1 ? BT_F64 : BT_F32, shapes[s], &attr,
                                    way & 4 ? TURNED : PLAIN);
                t.in[0].values = values;
                t.in[0].value_count = BT_COUNT_OF(values);
                compare_fast(&t);
            }
}
END_TEST

static void launch(bt_call *call)
{
    const bt_kernel_impl *kernel = bt_kernel_choose(&bt_backend_cpu()->kernels, call);
    ck_assert(kernel && !kernel->plain && kernel->prepare(call) == BT_OK);
    ck_assert(kernel->launch(call) == BT_OK);
    kernel->release(call);
}

START_TEST(integers)
{
    int64_t x[] = {INT64_MAX, 2, 3, -4, 9007199254740993, 6}, sums[3], most[2];
    int32_t where[2];
    bt_view in = {(char *)x, BT_I64, 2, {2, 3}, {3, 1}}, out = {(char *)sums, BT_I64, 1, {3}, {1}};
    bt_reduce_attr first = {.axes = 1}, last = {.axes = 2};
    bt_call call = {.op = &bt_op_sum, .attr = &first, .inputs = 1, .outputs = 1, .in = &in, .out = &out, .threads = 1};
    launch(&call);
    ck_assert_int_eq(sums[0], INT64_MAX - 4);
    ck_assert_int_eq(sums[1], 9007199254740995);
    ck_assert_int_eq(sums[2], 9);
    call.op = &bt_op_max;
    call.attr = &last;
    out = (bt_view){(char *)most, BT_I64, 1, {2}, {1}};
    launch(&call);
    ck_assert_int_eq(most[0], INT64_MAX);
    ck_assert_int_eq(most[1], 9007199254740993);
    call.op = &bt_op_argmax;
    out = (bt_view){(char *)where, BT_I32, 1, {2}, {1}};
    launch(&call);
    ck_assert(where[0] == 0 && where[1] == 1);
}
END_TEST

START_TEST(integers_of_any_layout)
{
    static const enum layout layouts[] = {PLAIN, TURNED, SLICED, LOOSE, SPREAD, ONE};
    static const double values[] = {3, -7, 2147483647, 0, 2147483647, -2147483648.0, 5};
    for (int s = 0; s < BT_COUNT_OF(shapes); s++)
        for (uint32_t axes = 1; axes < 1U << shapes[s][0]; axes++)
            for (int way = 0; way < 4 * BT_COUNT_OF(layouts); way++) {
                bt_reduce_attr attr = {.axes = axes};
                bt_dtype dtype = way & 1 ? BT_I32 : BT_I64;
                trial t = reduction(way & 2 ? &bt_op_sum : &bt_op_max, dtype, shapes[s], &attr, layouts[way / 4]);
                t.relative = t.absolute = 0;
                t.in[0].values = values;
                t.in[0].value_count = BT_COUNT_OF(values);
                t.out[0].dtype = dtype;
                compare_fast(&t);
                if (axes & (axes - 1))
                    continue;
                t = reduction(&bt_op_argmax, dtype, shapes[s], &attr, layouts[way / 4]);
                t.in[0].values = values;
                t.in[0].value_count = BT_COUNT_OF(values);
                if (shapes[s][1 + __builtin_ctz(axes)])
                    compare_fast(&t);
            }
}
END_TEST

START_TEST(norms)
{
    static const enum layout layouts[] = {PLAIN, TURNED, SLICED, LOOSE, SPREAD, ONE};
    for (int s = 0; s < BT_COUNT_OF(shapes); s++)
        for (int l = 0; l < BT_COUNT_OF(layouts); l++)
            for (int wide = 0; wide < 2; wide++) {
                bt_reduce_attr all = {.axes = ~0U};
                trial t = reduction(&bt_op_norm_square, wide ? BT_F64 : BT_F32, shapes[s], &all, layouts[l]);
                t.relative = wide ? 1e-12 : 6e-8;
                compare_fast(&t);
            }
}
END_TEST

/* Many small numbers and a large one: sequential f32 additions would lose them. */
START_TEST(long_sums)
{
    enum { COUNT = 1 << 20 };
    float *x = bt_alloc_aligned(COUNT * sizeof *x), sum;
    ck_assert_ptr_nonnull(x);
    for (int i = 0; i < COUNT; i++)
        x[i] = 0.1F;
    for (const char *const *isa = isas; *isa; isa++)
        for (int turned = 0; turned < 2 && bt_cpu_kernels(*isa); turned++) {
            bt_view in = {(char *)x, BT_F32, 2, {COUNT / 4, 4}, {4, 1}}, out = {(char *)&sum, BT_F32, 0, {0}, {0}};
            float sums[4];
            bt_reduce_attr attr = {.axes = turned ? 1 : 3};
            if (turned)
                out = (bt_view){(char *)sums, BT_F32, 1, {4}, {1}};
            bt_call call = {
                .op = &bt_op_sum, .attr = &attr, .inputs = 1, .outputs = 1, .in = &in, .out = &out, .threads = 1};
            const bt_kernel_impl *kernel = kernel_named(bt_cpu_kernels(*isa), &bt_op_sum, ".vector");
            ck_assert(kernel->prepare(&call) == BT_OK && kernel->launch(&call) == BT_OK);
            kernel->release(&call);
            double expected = (double)0.1F * COUNT / (turned ? 4 : 1);
            ck_assert_double_eq_tol((double)(turned ? sums[3] : sum) / expected, 1, 1e-6);
        }
    bt_free_aligned(x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reduce");
    TCase *tcase = tcase_create("kernels");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, sums, 0, 2);
    tcase_add_loop_test(tcase, maxima, 0, 2);
    tcase_add_test(tcase, places);
    tcase_add_test(tcase, not_finite);
    tcase_add_test(tcase, integers);
    tcase_add_test(tcase, integers_of_any_layout);
    tcase_add_test(tcase, norms);
    tcase_add_test(tcase, long_sums);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
