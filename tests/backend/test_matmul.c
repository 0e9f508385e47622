/* Matrix products against the plain loops, and the plain loops against a known product. */
#include "tests/backend/compare.h"

#include "support/on_device.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static operand matrix(bt_dtype dtype, int64_t batch, int64_t rows, int64_t columns, enum layout layout)
{
    operand o = {.dtype = dtype, .rank = 2, .dims = {rows, columns}, .layout = layout, .low = -1, .high = 1};
    if (batch)
        o = (operand){
            .dtype = dtype, .rank = 3, .dims = {batch, rows, columns}, .layout = layout, .low = -1, .high = 1};
    return o;
}

/* The rounding error of a sum of k products of numbers up to 1: k additions to a sum of about sqrt(k). */
static double error_of(bt_dtype dtype, int64_t k) { return (dtype == BT_F32 ? 0x1p-23 : 0x1p-52) * (2 + (double)k); }

static void dot(bt_dtype dtype, int64_t batch, int64_t m, int64_t n, int64_t k, enum layout a, enum layout b)
{
    trial t = {.op = &bt_op_dot,
               .inputs = 2,
               .outputs = 1,
               .absolute = error_of(dtype, k),
               .relative = error_of(dtype, k) / 4,
               .seed = (uint64_t)(m + n + k)};
    t.in[0] = matrix(dtype, batch, m, k, a);
    t.in[1] = matrix(dtype, batch, k, n, b);
    t.out[0] = matrix(dtype, batch, m, n, PLAIN);
    compare_fast(&t);
}

static const enum layout layouts[] = {PLAIN, TURNED, SLICED, LOOSE, SPREAD, ONE};

START_TEST(small)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 5, 8, 13, 17};
    bt_dtype dtype = _i ? BT_F64 : BT_F32;
    for (int i = 0; i < 8 * 8 * 8; i++)
        for (int l = 0; l < 9; l++)
            dot(dtype, 0, sizes[i % 8], sizes[i / 8 % 8], sizes[i / 64], layouts[l % 3], layouts[l / 3]);
}
END_TEST

START_TEST(odd_layouts)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {1, 40, 33}, {40, 1, 33}, {40, 33, 1}, {20, 37, 50}, {3, 300, 9}};
    bt_dtype dtype = _i ? BT_F64 : BT_F32;
    for (int s = 0; s < BT_COUNT_OF(sizes); s++)
        for (int l = 0; l < 36; l++)
            for (int64_t batch = 0; batch < 4; batch += 3)
                dot(dtype, batch, sizes[s][0], sizes[s][1], sizes[s][2], layouts[l % 6], layouts[l / 6]);
}
END_TEST

/* Matrix times vector, from both sides: all numbers of rows up to more than four vectors, all remainders of k, and
 * enough products for sums of partial sums. */
START_TEST(vectors)
{
    bt_dtype dtype = _i ? BT_F64 : BT_F32;
    const int64_t step = device_backend() ? 9 : 1; /* whose lanes differ */
    for (int64_t m = 1; m < 70; m += step)
        for (int64_t k = m % 3; k < 80; k += 1 + m % 5) {
            dot(dtype, 0, m, 1, k, m & 1 ? TURNED : PLAIN, PLAIN);
            dot(dtype, 0, m, 1, k, m & 1 ? PLAIN : TURNED, PLAIN);
            dot(dtype, 0, 1, m, k, PLAIN, m & 1 ? TURNED : PLAIN);
        }
    for (int64_t m = 1; m < 40; m += 3 * step)
        for (int64_t k = 250; k < 530; k += 11)
            for (int turned = 0; turned < 2; turned++)
                dot(dtype, 0, m, 1, k, turned ? TURNED : LOOSE, PLAIN);
}
END_TEST

/* Every width of the last panel, every height of the last tile, several chunks of k, packed and not. */
START_TEST(edges)
{
    bt_dtype dtype = _i ? BT_F64 : BT_F32;
    for (int64_t n = 1; n < 70; n++)
        dot(dtype, 0, 1 + n % 31, n, 7, n & 1 ? PLAIN : TURNED, n & 2 ? PLAIN : TURNED);
    for (int64_t n = 1; n < 41; n++) /* long enough for vectors along k */
        dot(dtype, 0, 1 + n % 9, n, 64 + n, n & 1 ? PLAIN : LOOSE, n & 2 ? PLAIN : TURNED);
    for (int64_t m = 1; m < 32; m++)
        dot(dtype, 0, m, 50, 9, m & 1 ? PLAIN : TURNED, m & 2 ? PLAIN : TURNED);
}
END_TEST

/* Few columns: tiles of five, and transposed products, in one block and in several, the last one long. */
START_TEST(heads)
{
    static const int64_t rows[] = {63, 100, 321};
    bt_dtype dtype = _i ? BT_F64 : BT_F32;
    for (int64_t n = 2; n < 15; n += n < 8 ? 3 : 1)
        for (int r = 0; r < BT_COUNT_OF(rows); r++)
            for (int way = 0; way < 4; way++)
                dot(dtype, 0, rows[r], n, 62 + n, way & 1 ? TURNED : PLAIN, way & 2 ? TURNED : PLAIN);
    for (int way = 0; way < 4; way++)
        dot(dtype, 2, 70, 10, 1500, way & 1 ? TURNED : PLAIN, way & 2 ? TURNED : PLAIN);
}
END_TEST

START_TEST(large)
{
    static const int64_t sizes[][3] = {{70, 90, 1000},  {300, 270, 400}, {129, 256, 512}, {1000, 10, 200},
                                       {10, 1000, 200}, {1, 2000, 1500}, {2000, 1, 1500}, {390, 350, 600},
                                       {200, 180, 0},   {200, 180, 3}};
    bt_dtype dtype = _i & 1 ? BT_F64 : BT_F32;
    const int64_t *size = sizes[_i / 2];
    for (int l = 0; l < 4; l++)
        dot(dtype, 0, size[0], size[1], size[2], layouts[l % 2], layouts[l / 2]);
    dot(dtype, 0, size[0], size[1], size[2], LOOSE, LOOSE);
}
END_TEST

START_TEST(batches)
{
    static const enum layout some[] = {PLAIN, TURNED, SPREAD};
    for (int wide = 0; wide < 2; wide++)
        for (int l = 0; l < 9; l++) {
            bt_dtype dtype = wide ? BT_F64 : BT_F32;
            dot(dtype, 5, 12, 20, 8, some[l % 3], some[l / 3]);
            dot(dtype, 0 + 1, 12, 20, 8, some[l % 3], some[l / 3]);
            dot(dtype, 9, 64, 60, 70, some[l % 3], some[l / 3]); /* large enough for two threads */
        }
}
END_TEST

START_TEST(linear)
{
    static const int64_t sizes[][3] = {{1, 1, 1},      {1, 10, 100}, {100, 1, 20},   {100, 20, 1},
                                       {7, 5, 3},      {33, 40, 17}, {100, 10, 100}, {100, 100, 784},
                                       {90, 200, 500}, {0, 3, 4},    {4, 3, 0}};
    bt_dtype dtype = _i & 1 ? BT_F64 : BT_F32;
    for (int s = 0; s < BT_COUNT_OF(sizes); s++)
        for (int way = 0; way < 16; way++) {
            bt_linear_attr attr = {.activation = way & 1};
            int64_t n = sizes[s][0], out = sizes[s][1], in = sizes[s][2];
            trial t = {
                .op = &bt_op_linear, .attr = &attr, .inputs = way & 2 ? 3 : 2, .outputs = 1, .seed = (uint64_t)way};
            t.in[0] = matrix(dtype, 0, n, in, way & 4 ? TURNED : PLAIN);
            t.in[1] = matrix(dtype, 0, out, in, way & 8 ? TURNED : PLAIN);
            t.in[2] = (operand){.dtype = dtype, .rank = 1, .dims = {out}, .low = -1, .high = 1};
            t.out[0] = matrix(dtype, 0, n, out, PLAIN);
            t.absolute = error_of(dtype, in);
            compare_fast(&t);
        }
}
END_TEST

/* All variants of writing a tile, several chunks of k, addends that must be copied first, threads over rows and over
 * columns. */
START_TEST(adding)
{
    static const int64_t sizes[][3] = {{1, 1, 1},      {1, 10, 100},   {10, 1, 7},   {5, 6, 1},
                                       {7, 5, 3},      {33, 40, 17},   {12, 16, 40}, {20, 64, 800},
                                       {64, 100, 20},  {100, 10, 100}, {5, 3, 0},    {0, 3, 4},
                                       {130, 270, 50}, {10, 600, 260}, {7, 9, 900},  {400, 333, 9}};
    bt_dtype dtype = _i & 1 ? BT_F64 : BT_F32;
    for (int s = 0; s < BT_COUNT_OF(sizes); s++)
        for (int way = 0; way < 8; way++) {
            int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            trial t = {.op = &bt_op_dot_add, .inputs = 4, .outputs = 1, .seed = (uint64_t)way};
            t.in[0] = matrix(dtype, 0, m, k, way & 1 ? TURNED : PLAIN);
            t.in[1] = matrix(dtype, 0, k, n, way & 2 ? TURNED : PLAIN);
            t.in[2] = matrix(dtype, 0, m, n, PLAIN);
            t.in[3] = (operand){.dtype = dtype, .low = -2, .high = 2};
            t.out[0] = matrix(dtype, 0, m, n, PLAIN);
            t.absolute = error_of(dtype, k + 2);
            t.alias[0] = way ? 0 : 3;
            compare_fast(&t);
        }
}
END_TEST

/* NaN and infinity reach exactly the elements that depend on them; relu lets NaN pass. */
START_TEST(not_finite)
{
    for (int turned = 0; turned < 4; turned++)
        for (int relu = 0; relu < 2; relu++) {
            static double values[40 * 30];
            bt_linear_attr attr = {.activation = relu};
            for (int i = 0; i < 40 * 30; i++)
                values[i] = i % 7 - 3;
            values[5] = NAN;
            values[100] = INFINITY;
            trial t = {.op = &bt_op_linear, .attr = &attr, .inputs = 3, .outputs = 1, .absolute = 1e-3};
            t.in[0] = matrix(BT_F32, 0, 40, 30, turned & 1 ? TURNED : PLAIN);
            t.in[0].values = values;
            t.in[0].value_count = 40 * 30;
            t.in[1] = matrix(BT_F32, 0, 21, 30, turned & 2 ? TURNED : PLAIN);
            t.in[2] = (operand){.dtype = BT_F32, .rank = 1, .dims = {21}, .low = -1, .high = 1};
            t.out[0] = matrix(BT_F32, 0, 40, 21, PLAIN);
            compare_fast(&t);
        }
}
END_TEST

/* The plain loops themselves: (i + 1) x (j + 1), with sums that are easy to check. */
START_TEST(known)
{
    double a[] = {1, 2, 3, 4, 5, 6}, b[] = {7, 8, 9, 10, 11, 12}, c[4];
    const double expected[] = {58, 64, 139, 154};
    bt_view in[] = {{(char *)a, BT_F64, 2, {2, 3}, {3, 1}}, {(char *)b, BT_F64, 2, {3, 2}, {2, 1}}};
    bt_view out = {(char *)c, BT_F64, 2, {2, 2}, {2, 1}};
    bt_call call = {.op = &bt_op_dot, .inputs = 2, .outputs = 1, .in = in, .out = &out, .threads = 1};
    ck_assert(kernel_named(bt_cpu_kernels(""), &bt_op_dot, ".reference")->launch(&call) == BT_OK);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq(c[i], expected[i]);
}
END_TEST

/* Columns times a long vector: the last part, a short one, is summed as if it were the only part. */
START_TEST(threads_do_not_matter_to_vectors)
{
    enum { MOST = 150, LONG = 30000 };
    float *a = bt_alloc(sizeof *a * MOST * LONG), *x = bt_alloc(sizeof *x * LONG), y[2][MOST];
    ck_assert(a && x);
    for (int i = 0; i < MOST * LONG; i++)
        a[i] = (float)(i % 1013 * 7919 % 1009) / 1009 - 0.5F;
    for (int i = 0; i < LONG; i++)
        x[i] = (float)(i % 2011 * 10007 % 2003) / 2003 - 0.5F;
    for (const char *const *isa = isas; *isa; isa++)
        for (int64_t m = 65; m <= MOST && bt_cpu_kernels(*isa); m++)
            for (int threads = 1; threads < 5; threads++) {
                bt_view in[] = {{(char *)a, BT_F32, 2, {m, LONG}, {1, m}}, {(char *)x, BT_F32, 2, {LONG, 1}, {1, 1}}};
                bt_view out = {(char *)y[threads > 1], BT_F32, 2, {m, 1}, {1, 1}};
                bt_call call = {.op = &bt_op_dot, .inputs = 2, .outputs = 1, .in = in, .out = &out, .threads = threads};
                const bt_kernel_impl *kernel = kernel_named(bt_cpu_kernels(*isa), &bt_op_dot, "blocked");
                ck_assert(kernel->prepare(&call) == BT_OK && kernel->launch(&call) == BT_OK);
                kernel->release(&call);
                ck_assert(threads == 1 || memcmp(y[0], y[1], (size_t)m * sizeof(float)) == 0);
            }
    bt_free(a);
    bt_free(x);
}
END_TEST

/* Every element is summed in the same order, for any number of threads. */
static void same_with_threads(const char *isa, int64_t m, int64_t k, int64_t n, bool turned)
{
    enum { MOST = 3000 * 300 };
    static float a[MOST], b[300 * 250], c[2][200 * 250];
    for (int64_t i = 0; i < m * k; i++)
        a[i] = (float)(i * 7919 % 1009) / 1009 - 0.5F;
    for (int64_t i = 0; i < k * n; i++)
        b[i] = (float)(i * 10007 % 2003) / 2003 - 0.5F;
    for (int threads = 1; threads < 6; threads++) {
        bt_view in[] = {{(char *)a, BT_F32, 2, {m, k}, {k, 1}}, {(char *)b, BT_F32, 2, {k, n}, {1, k}}};
        bt_view out = {(char *)c[threads > 1], BT_F32, 2, {m, n}, {n, 1}};
        bt_call call = {.op = &bt_op_dot, .inputs = 2, .outputs = 1, .in = in, .out = &out, .threads = threads};
        const bt_kernel_impl *kernel = kernel_named(bt_cpu_kernels(isa), &bt_op_dot, "blocked");
        if (turned) {
            in[0].strides[0] = 1;
            in[0].strides[1] = m;
        }
        call.scratch = bt_alloc_aligned(kernel->scratch(&call));
        ck_assert(kernel->prepare(&call) == BT_OK && kernel->launch(&call) == BT_OK);
        kernel->release(&call);
        bt_free_aligned(call.scratch);
        ck_assert_msg(threads == 1 || memcmp(c[0], c[1], (size_t)(m * n) * sizeof(float)) == 0, "%s, %d threads", isa,
                      threads);
    }
}

START_TEST(threads_do_not_matter)
{
    for (const char *const *isa = isas; *isa; isa++) {
        if (!bt_cpu_kernels(*isa))
            continue;
        same_with_threads(*isa, 200, 300, 250, false);
        same_with_threads(*isa, 3000, 300, 10, false);
        same_with_threads(*isa, 3000, 300, 10, true);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("matmul");
    TCase *tcase = tcase_create("kernels");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, known);
    tcase_add_loop_test(tcase, small, 0, 2);
    tcase_add_loop_test(tcase, odd_layouts, 0, 2);
    tcase_add_loop_test(tcase, vectors, 0, 2);
    tcase_add_loop_test(tcase, edges, 0, 2);
    tcase_add_loop_test(tcase, heads, 0, 2);
    tcase_add_loop_test(tcase, large, 0, 20);
    tcase_add_test(tcase, batches);
    tcase_add_loop_test(tcase, linear, 0, 2);
    tcase_add_loop_test(tcase, adding, 0, 2);
    tcase_add_test(tcase, not_finite);
    tcase_add_test(tcase, threads_do_not_matter);
    tcase_add_test(tcase, threads_do_not_matter_to_vectors);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
