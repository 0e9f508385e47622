/* Ops that move values, and gather and scatter_add, against the plain loops; the plain loops against known results. */
#include "tests/backend/compare.h"

#include "support/on_device.h"
#include "support/suite.h"
#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_I32, BT_I64, BT_U8, BT_BOOL};
static const enum layout layouts[] = {PLAIN, TURNED, SLICED, LOOSE, SPREAD, ONE};

static operand operand_of(bt_dtype dtype, int rank, const int64_t *dims, enum layout layout)
{
    operand o = {.dtype = dtype, .rank = rank, .layout = layout, .low = 0, .high = dtype == BT_BOOL ? 2 : 100};
    for (int d = 0; d < rank; d++)
        o.dims[d] = dims[d];
    return o;
}

static const int64_t shapes[][5] = {{0},          {1, 1},    {1, 130},       {1, 0},          {2, 3, 5},
                                    {2, 100, 70}, {2, 0, 4}, {3, 17, 3, 20}, {4, 2, 3, 4, 5}, {2, 16, 64}};

START_TEST(copies)
{
    static const bt_op *const ops[] = {&bt_op_copy, &bt_op_detach, &bt_op_stop, &bt_op_alias, &bt_op_reshape};
    for (int o = 0; o < BT_COUNT_OF(ops); o++)
        for (int s = 0; s < BT_COUNT_OF(shapes); s++)
            for (int l = 0; l < 36; l++) {
                trial t = {.op = ops[o], .inputs = 1, .outputs = 1, .seed = (uint64_t)l};
                t.in[0] = t.out[0] = operand_of(dtypes[l / 6], (int)shapes[s][0], shapes[s] + 1, layouts[l % 6]);
                t.out[0].layout = PLAIN;
                if (ops[o] == &bt_op_reshape) { /* to one axis */
                    int64_t count = 1;
                    for (int d = 0; d < t.in[0].rank; d++)
                        count *= t.in[0].dims[d];
                    t.out[0].rank = 1;
                    t.out[0].dims[0] = count;
                }
                t.alias[0] = layouts[l % 6] == PLAIN;
                compare_fast(&t);
            }
}
END_TEST

/* Squares of every size that vectors transpose, and the remainders at the edges. */
START_TEST(turns)
{
    for (int d = 0; d < 2; d++)
        for (int64_t rows = 1; rows < 38; rows++)
            for (int64_t columns = 1; columns < 70; columns += columns < 36 ? 1 : 16) {
                const int64_t dims[] = {rows, columns};
                trial t = {.op = &bt_op_copy, .inputs = 1, .outputs = 1, .seed = (uint64_t)(rows + columns)};
                t.in[0] = t.out[0] = operand_of(dtypes[d], 2, dims, TURNED);
                t.out[0].layout = PLAIN;
                compare_fast(&t);
            }
    for (int l = 0; l < 6; l++) { /* with axes in between, and into parts of a result */
        const int64_t dims[] = {20, 3, 2, 40};
        bt_range_attr pad = {l % 4, 1, dims[l % 4] + 3};
        trial t = {.op = l < 2 ? &bt_op_copy : &bt_op_pad, .attr = l < 2 ? NULL : &pad, .inputs = 1, .outputs = 1};
        t.in[0] = t.out[0] = operand_of(dtypes[l], 4, dims, TURNED);
        t.out[0].layout = PLAIN;
        t.out[0].dims[pad.axis] = l < 2 ? dims[pad.axis] : pad.to;
        compare_fast(&t);
    }
}
END_TEST

START_TEST(permutes)
{
    static const int64_t orders[][5] = {{2, 1, 0},       {3, 2, 0, 1}, {3, 1, 0, 2}, {4, 3, 1, 2, 0},
                                        {4, 0, 2, 1, 3}, {1, 0},       {0}};
    for (int s = 0; s < BT_COUNT_OF(shapes); s++)
        for (int o = 0; o < BT_COUNT_OF(orders); o++)
            for (int l = 0; l < 36 && orders[o][0] == shapes[s][0]; l++) {
                bt_shape_attr attr = {.rank = shapes[s][0]};
                trial t = {.op = &bt_op_permute, .attr = &attr, .inputs = 1, .outputs = 1, .seed = (uint64_t)l};
                t.in[0] = t.out[0] = operand_of(dtypes[l / 6], (int)shapes[s][0], shapes[s] + 1, layouts[l % 6]);
                t.out[0].layout = PLAIN;
                for (int d = 0; d < attr.rank; d++) {
                    attr.axes[d] = orders[o][1 + d];
                    t.out[0].dims[d] = t.in[0].dims[attr.axes[d]];
                }
                compare_fast(&t);
            }
}
END_TEST

START_TEST(broadcasts)
{
    static const struct {
        int rank;
        int64_t dims[4], axes[4];
        int out;
        int64_t to[4];
    } cases[] = {
        {0, {0}, {0}, 2, {3, 4}},       {1, {5}, {1}, 2, {3, 5}},          {1, {5}, {0}, 2, {5, 300}},
        {2, {1, 6}, {0, 1}, 2, {7, 6}}, {2, {7, 1}, {0, 1}, 2, {7, 600}},  {2, {2, 3}, {0, 2}, 4, {2, 5, 3, 4}},
        {1, {1}, {0}, 1, {0}},          {2, {3, 4}, {1, 2}, 3, {6, 3, 4}},
    };
    for (int c = 0; c < BT_COUNT_OF(cases); c++)
        for (int l = 0; l < 36; l++) {
            bt_shape_attr attr = {.rank = cases[c].out};
            trial t = {.op = &bt_op_broadcast, .attr = &attr, .inputs = 1, .outputs = 1, .seed = (uint64_t)l};
            t.in[0] = operand_of(dtypes[l / 6], cases[c].rank, cases[c].dims, layouts[l % 6]);
            t.out[0] = operand_of(dtypes[l / 6], cases[c].out, cases[c].to, PLAIN);
            memcpy(attr.dims, cases[c].to, sizeof cases[c].to);
            memcpy(attr.axes, cases[c].axes, sizeof cases[c].axes);
            compare_fast(&t);
        }
}
END_TEST

START_TEST(parts)
{
    for (int s = 0; s < BT_COUNT_OF(shapes); s++)
        for (int axis = 0; axis < shapes[s][0]; axis++)
            for (int l = 0; l < 36; l++) {
                int64_t size = shapes[s][1 + axis], from = size / 3, to = size - size / 4;
                bt_range_attr slice = {axis, from, to}, pad = {axis, 2, size + 5}, concat = {axis, 3, 3 * size};
                trial t = {.op = &bt_op_slice, .attr = &slice, .inputs = 1, .outputs = 1, .seed = (uint64_t)l};
                t.in[0] = t.out[0] = operand_of(dtypes[l / 6], (int)shapes[s][0], shapes[s] + 1, layouts[l % 6]);
                t.out[0].layout = PLAIN;
                t.out[0].dims[axis] = to - from;
                compare_fast(&t);
                t.op = &bt_op_pad;
                t.attr = &pad;
                t.out[0].dims[axis] = size + 5;
                compare_fast(&t);
                t.op = &bt_op_concat;
                t.attr = &concat;
                t.inputs = 3;
                t.in[1] = t.in[2] = t.in[0];
                t.in[1].layout = PLAIN;
                t.in[2].dims[axis] = 1;
                t.out[0].dims[axis] = 2 * size + 1;
                compare_fast(&t);
            }
}
END_TEST

START_TEST(indices)
{
    static const double rows[] = {3, 0, 0, 4, 1, 3};
    for (int l = 0; l < 24; l++)
        for (int wide = 0; wide < 2; wide++)
            for (int inner = 0; inner < 3; inner++) {
                const int64_t dims[] = {5, inner ? 7 : 0, 3}, many[] = {1, 6, 0};
                operand index = {
                    .dtype = wide ? BT_I64 : BT_I32, .rank = 1, .dims = {6}, .values = rows, .value_count = 6};
                trial t = {.op = &bt_op_gather, .inputs = 2, .outputs = 1, .seed = (uint64_t)l};
                t.in[0] = operand_of(dtypes[l / 4], 1 + inner, dims, layouts[l % 4]);
                t.in[1] = index;
                t.out[0] = operand_of(dtypes[l / 4], 1 + inner, dims, PLAIN);
                t.out[0].dims[0] = 6;
                compare(&t);
                if (l % 4 == PLAIN)
                    compare_fast(&t);
                if (l / 4 > 3) /* scatter_add takes numbers */
                    continue;
                bt_rows_attr attr = {.rows = 5};
                t.op = &bt_op_scatter_add;
                t.attr = &attr;
                t.in[1] = operand_of(dtypes[l / 4], 1 + inner, dims, layouts[l % 4]);
                t.in[1].dims[0] = many[1];
                t.in[0] = index;
                t.out[0].dims[0] = 5;
                compare(&t);
            }
}
END_TEST

/* Many rows, many columns, many indices for one row, many for few; small integers, whose sums are exact in any
 * order. */
START_TEST(sums_of_rows)
{
    static const struct {
        int64_t rows, indices, columns;
    } sizes[] = {{200, 300, 3},  {5, 400, 1100},  {70, 6000, 2}, {3, 9000, 40},
                 {130, 4200, 1}, {8200, 9000, 1}, {0, 0, 4},     {4, 0, 2}};
    static double at[9000], values[997];
    for (int i = 0; i < BT_COUNT_OF(values); i++)
        values[i] = i * 7 % 31 - 15;
    for (int s = 0; s < BT_COUNT_OF(sizes); s++)
        for (int way = 0; way < 8; way++) {
            const int64_t n = sizes[s].indices, inner[] = {n, sizes[s].columns};
            bt_rows_attr attr = {.rows = sizes[s].rows};
            for (int64_t i = 0; i < n; i++) /* within one group of rows, or anywhere */
                at[i] = (double)(way & 4 ? i * i % 7 % attr.rows : (i * 7919 + i / 3) % attr.rows);
            trial t = {.op = &bt_op_scatter_add, .attr = &attr, .inputs = 2, .outputs = 1};
            t.in[0] = (operand){.dtype = way & 1 ? BT_I64 : BT_I32, .rank = 1, .dims = {n}, .layout = PLAIN};
            t.in[0].values = at;
            t.in[0].value_count = BT_COUNT_OF(at);
            t.in[1] = operand_of(way & 1 ? BT_F32 : BT_F64, 2, inner, way & 2 ? TURNED : PLAIN);
            t.in[1].values = values;
            t.in[1].value_count = BT_COUNT_OF(values);
            t.out[0] = operand_of(t.in[1].dtype, 2, inner, PLAIN);
            t.out[0].dims[0] = attr.rows;
            compare(&t);
        }
}
END_TEST

START_TEST(hot)
{
    static const int64_t dims[] = {7, 30};
    for (int way = 0; way < 24; way++)
        for (int rank = 0; rank < 3; rank++) {
            bt_one_hot_attr attr = {.classes = 1 + way, .dtype = way & 1 ? BT_F64 : BT_F32};
            trial t = {.op = &bt_op_one_hot, .attr = &attr, .inputs = 1, .outputs = 1, .seed = (uint64_t)way};
            t.in[0] = operand_of(way & 2 ? BT_I64 : BT_I32, rank, dims, layouts[way / 4]);
            t.in[0].high = (double)attr.classes;
            t.out[0] = operand_of((bt_dtype)attr.dtype, rank, dims, PLAIN);
            t.out[0].dims[t.out[0].rank++] = attr.classes;
            compare(&t);
        }
}
END_TEST

static bt_status launch(const bt_kernel_impl *kernel, bt_call *call)
{
    bt_status status = kernel->prepare ? kernel->prepare(call) : BT_OK;
    status = status == BT_OK ? kernel->launch(call) : status;
    if (kernel->release)
        kernel->release(call);
    return status;
}

/* An index out of range is an error that names it, and nothing is read or written there. */
START_TEST(wild_indices)
{
    static const int64_t wild[] = {5, -1, INT64_MAX, INT64_MIN};
    float x[10] = {0}, y[4];
    for (int w = 0; w < BT_COUNT_OF(wild); w++)
        for (const bt_kernel_impl *const *kernel = bt_backend_cpu()->kernels.list(); *kernel; kernel++) {
            int64_t index[] = {0, wild[w]};
            bt_view at = {(char *)index, BT_I64, 1, {2}, {1}}, table = {(char *)x, BT_F32, 2, {5, 2}, {2, 1}};
            bt_view rows = {(char *)y, BT_F32, 2, {2, 2}, {2, 1}}, gathered[] = {table, at}, added[] = {at, rows};
            bt_rows_attr attr = {.rows = 5};
            bt_call call = {.op = (*kernel)->op, .attr = &attr, .inputs = 2, .outputs = 1, .threads = 1};
            if (call.op != &bt_op_gather && call.op != &bt_op_scatter_add)
                continue;
            call.in = call.op == &bt_op_gather ? gathered : added;
            call.out = call.op == &bt_op_gather ? &rows : &table;
            bt_error_clear();
            ck_assert_int_eq(launch(*kernel, &call), BT_ERROR_DATA);
            ck_assert_ptr_nonnull(strstr(bt_error(), "expected 0 to 4"));
        }
    bt_error_clear();
}
END_TEST

/* On a device the error appears when the host waits; nothing is accessed out of bounds. */
START_TEST(wild_far)
{
    static const int64_t wild[] = {5, -1, INT64_MAX, INT64_MIN};
    const bt_backend *device = device_backend();
    for (int w = 0; device && w < 3 * BT_COUNT_OF(wild); w++) {
        static const bt_op *const ops[] = {&bt_op_gather, &bt_op_scatter_add, &bt_op_one_hot};
        const bt_op *op = ops[w / BT_COUNT_OF(wild)];
        int64_t index[] = {0, wild[w % BT_COUNT_OF(wild)]};
        float x[10] = {0}, y[10] = {0};
        bt_view at = {(char *)index, BT_I64, 1, {2}, {1}}, table = {(char *)x, BT_F32, 2, {5, 2}, {2, 1}};
        bt_view rows = {(char *)y, BT_F32, 2, {2, op == &bt_op_one_hot ? 5 : 2}, {op == &bt_op_one_hot ? 5 : 2, 1}};
        bt_view gathered[] = {table, at}, added[] = {at, rows};
        bt_rows_attr sum = {.rows = 5};
        bt_one_hot_attr hot_attr = {.classes = 5, .dtype = BT_F32};
        bt_call call = {.op = op, .inputs = op == &bt_op_one_hot ? 1 : 2, .outputs = 1, .threads = 1};
        call.attr = op == &bt_op_one_hot ? (const void *)&hot_attr : &sum;
        call.in = op == &bt_op_gather ? gathered : added;
        call.out = op == &bt_op_scatter_add ? &table : &rows;
        const host_span spans[] = {{(char *)x, sizeof x}, {(char *)y, sizeof y}, {(char *)index, sizeof index}};
        ck_assert_int_eq(run_on_device(device, kernel_named(device->kernels.list(), op, ""), &call, spans, 3),
                         BT_ERROR_DATA);
        ck_assert_ptr_nonnull(strstr(bt_error(), ": element 1 of the indices [2] is "));
        ck_assert_ptr_nonnull(strstr(bt_error(), "expected 0 to 4"));
        bt_error_clear();
    }
}
END_TEST

START_TEST(known)
{
    float x[] = {1, 2, 3, 4, 5, 6}, y[12];
    const float transposed[] = {1, 4, 2, 5, 3, 6}, padded[] = {0, 1, 2, 3, 0, 0, 4, 5, 6, 0}, spread[] = {1, 1, 4, 4};
    bt_view in = {(char *)x, BT_F32, 2, {2, 3}, {3, 1}}, out = {(char *)y, BT_F32, 2, {3, 2}, {2, 1}};
    bt_shape_attr permute = {.rank = 2, .axes = {1, 0}}, broadcast = {.rank = 2, .dims = {2, 2}, .axes = {0, 1}};
    bt_range_attr pad = {1, 1, 5};
    bt_call call = {
        .op = &bt_op_permute, .attr = &permute, .inputs = 1, .outputs = 1, .in = &in, .out = &out, .threads = 1};
    ck_assert(launch(kernel_named(bt_cpu_kernels(""), call.op, ""), &call) == BT_OK &&
              !memcmp(y, transposed, sizeof transposed));
    call.op = &bt_op_pad;
    call.attr = &pad;
    out = (bt_view){(char *)y, BT_F32, 2, {2, 5}, {5, 1}};
    ck_assert(launch(kernel_named(bt_cpu_kernels(""), call.op, ""), &call) == BT_OK &&
              !memcmp(y, padded, sizeof padded));
    call.op = &bt_op_broadcast;
    call.attr = &broadcast;
    in.dims[1] = 1;
    out = (bt_view){(char *)y, BT_F32, 2, {2, 2}, {2, 1}};
    ck_assert(launch(kernel_named(bt_cpu_kernels(""), call.op, ""), &call) == BT_OK &&
              !memcmp(y, spread, sizeof spread));
}
END_TEST

/* On the tested device, or on the processor. */
static bt_status launch_there(bt_call *call, void *in, size_t in_bytes, void *out, size_t out_bytes)
{
    const bt_backend *device = device_backend();
    const bt_backend *backend = device ? device : bt_backend_cpu();
    const bt_kernel_impl *kernel = bt_kernel_choose(&backend->kernels, call);
    const host_span spans[] = {{in, in_bytes}, {out, out_bytes}};
    ck_assert_ptr_nonnull(kernel);
    if (!device)
        return launch(kernel, call);
    bt_status status = kernel->prepare ? kernel->prepare(call) : BT_OK;
    status = status == BT_OK ? run_on_device(device, kernel, call, spans, 2) : status;
    if (kernel->release)
        kernel->release(call);
    return status;
}

/* The output of print, after anything that a sanitizer may write. */
static void print_there(bt_call *call, float *x, float *y, size_t bytes, char *text, size_t room)
{
    char path[] = "/tmp/bt_print_XXXXXX";
    int file = mkstemp(path), before = dup(STDERR_FILENO);
    ck_assert(file >= 0 && before >= 0);
    dup2(file, STDERR_FILENO);
    bt_status status = launch_there(call, x, bytes, y, bytes);
    dup2(before, STDERR_FILENO);
    ck_assert(status == BT_OK);
    memset(text, 0, room);
    ck_assert(pread(file, text, room - 1, 0) > 0);
    close(file);
    close(before);
    unlink(path);
}

/* print writes the values and returns them; check fails with a message that names the first bad one. */
START_TEST(looks_inside)
{
    float x[] = {1.5F, -2, 3, 4, NAN, 6}, y[6];
    uint8_t truth[1000], all = 7;
    char text[1024];
    bt_text_attr label = {"weights"};
    bt_view in = {(char *)x, BT_F32, 2, {2, 3}, {1, 2}}, out = {(char *)y, BT_F32, 2, {2, 3}, {3, 1}};
    bt_call call = {
        .op = &bt_op_print, .attr = &label, .inputs = 1, .outputs = 1, .in = &in, .out = &out, .threads = 1};
    print_there(&call, x, y, sizeof x, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "weights: f32 [2, 3] = [[1.5, 3, nan],\n [-2, 4, 6]]\n"));
    ck_assert(y[1] > 2.9F && y[1] < 3.1F);
    in.strides[0] = 3, in.strides[1] = 1;
    print_there(&call, x, y, sizeof x, text, sizeof text);
    ck_assert_str_eq(text, "weights: f32 [2, 3] = [[1.5, -2, 3],\n [4, nan, 6]]\n");
    ck_assert(y[1] < -1.9F && y[1] > -2.1F);

    call.op = &bt_op_check;
    out = (bt_view){(char *)&all, BT_BOOL, 0, {0}, {0}};
    for (int wide = 0; wide < 2; wide++) { /* contiguous, and every other element */
        memset(truth, 1, sizeof truth);
        in = (bt_view){(char *)truth, BT_BOOL, 1, {wide ? 500 : 1000}, {wide ? 2 : 1}};
        all = 7;
        ck_assert(launch_there(&call, truth, sizeof truth, &all, 1) == BT_OK && all == 1);
        truth[998] = truth[700] = truth[701] = 0;
        truth[wide ? 11 : 999] = 0; /* one that is skipped, or that comes later */
        ck_assert_int_eq(launch_there(&call, truth, sizeof truth, &all, 1), BT_ERROR_NUMERIC);
        ck_assert_ptr_nonnull(strstr(bt_error(), wide ? "check failed: weights (element 350 of [500] is false)"
                                                      : "check failed: weights (element 700 of [1000] is false)"));
        bt_error_clear();
    }
    in = (bt_view){(char *)truth, BT_BOOL, 1, {0}, {1}};
    all = 7;
    ck_assert(launch_there(&call, truth, sizeof truth, &all, 1) == BT_OK && all == 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("move");
    TCase *tcase = tcase_create("kernels");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, known);
    tcase_add_test(tcase, copies);
    tcase_add_test(tcase, turns);
    tcase_add_test(tcase, permutes);
    tcase_add_test(tcase, broadcasts);
    tcase_add_test(tcase, parts);
    tcase_add_test(tcase, indices);
    tcase_add_test(tcase, sums_of_rows);
    tcase_add_test(tcase, hot);
    tcase_add_test(tcase, wild_indices);
    tcase_add_test(tcase, wild_far);
    tcase_add_test(tcase, looks_inside);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
