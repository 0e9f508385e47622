/* Ops along one axis, compared with the CPU's kernels for lines, which ops.kernels compares with plain loops: merged
 * runs, chunks, ties, and places shared by many values. */
#include "tests/backend/compare.h"

#include "support/on_device.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    int rank;
    int64_t dims[3];
    int axis;
} shape;
static const shape shapes[] = {
    {1, {1}, 0},    {1, {33}, 0},       {1, {1024}, 0},     {1, {1025}, 0},       {1, {13001}, 0},     {2, {5, 7}, 1},
    {2, {5, 7}, 0}, {2, {70, 3}, 1},    {2, {3, 2100}, 1},  {2, {2100, 3}, 0},    {2, {2, 5000}, 1},   {2, {0, 5}, 1},
    {2, {5, 0}, 0}, {3, {3, 40, 5}, 1}, {3, {4, 3, 50}, 0}, {3, {2, 1500, 3}, 1}, {3, {2, 3, 1500}, 2}};
static const enum layout layouts[] = {PLAIN, TURNED, SLICED, LOOSE, SPREAD};

static operand operand_of(bt_dtype dtype, const shape *s, int64_t size, enum layout layout)
{
    operand o = {.dtype = dtype, .rank = s->rank, .layout = layout, .low = -3, .high = 3};
    memcpy(o.dims, s->dims, sizeof s->dims);
    o.dims[s->axis] = size;
    return o;
}

static const double ties[] = {3, 1, 3, 2, -1, 0, 3, -1, -2, 7, 1};
static const double wild[] = {3, 1, 3, 2, -INFINITY, -0.0, NAN, 3, NAN, INFINITY, -1, 0};

START_TEST(orders)
{
    static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_I32, BT_I64};
    for (int i = 0; i < BT_COUNT_OF(shapes); i++)
        for (int way = 0; way < 12 * BT_COUNT_OF(layouts); way++) {
            const shape *s = &shapes[i];
            const int64_t size = s->dims[s->axis], some = way / 2 % 6 < 3 ? size : way / 2 % 6 < 5 ? size / 3 : 3;
            bt_sort_attr attr = {.axis = s->axis, .count = some < size ? some : size, .descending = way & 1};
            trial t = {.op = &bt_op_argsort, .attr = &attr, .inputs = 1, .outputs = 1, .seed = (uint64_t)way};
            t.in[0] = operand_of(dtypes[_i], s, size, layouts[way / 12]);
            t.out[0] = operand_of(BT_I32, s, attr.count, PLAIN);
            if (way / 2 % 3 && (_i < 2 || way / 2 % 3 == 1)) {
                t.in[0].values = way / 2 % 3 == 1 ? ties : wild;
                t.in[0].value_count = way / 2 % 3 == 1 ? BT_COUNT_OF(ties) : BT_COUNT_OF(wild);
            }
            if (size)
                compare_fast(&t);
        }
}
END_TEST

START_TEST(running_sums)
{
    static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_I32, BT_I64};
    static const double large[] = {2147483647, 5, -7, 2147483000, -2147483648.0};
    for (int i = 0; i < BT_COUNT_OF(shapes); i++)
        for (int way = 0; way < 2 * BT_COUNT_OF(layouts); way++) {
            const shape *s = &shapes[i];
            bt_cumsum_attr attr = {.axis = s->axis, .reverse = way & 1};
            trial t = {.op = &bt_op_cumsum, .attr = &attr, .inputs = 1, .outputs = 1, .seed = (uint64_t)way};
            t.in[0] = operand_of(dtypes[_i], s, s->dims[s->axis], layouts[way / 2]);
            t.out[0] = operand_of(dtypes[_i], s, s->dims[s->axis], PLAIN);
            if (_i > 1) {
                t.in[0].values = large;
                t.in[0].value_count = BT_COUNT_OF(large);
            } else {
                t.absolute = _i ? 1e-10 : 1e-6;
                t.relative = _i ? 1e-12 : 1e-7;
            }
            compare_fast(&t);
        }
}
END_TEST

/* With `size` places in x; the index has the shape. */
START_TEST(places)
{
    for (int i = 0; i < BT_COUNT_OF(shapes); i++)
        for (int way = 0; way < 12 * BT_COUNT_OF(layouts); way++) {
            static const int64_t sizes[] = {1, 7, 3000};
            const shape *s = &shapes[i];
            const int64_t size = sizes[way / 4 % 3];
            const bt_dtype dtype = way & 1 ? BT_F64 : BT_F32;
            bt_axis_attr axis = {s->axis};
            bt_places_attr attr = {s->axis, size};
            trial t = {.inputs = 2, .outputs = 1, .seed = (uint64_t)way};
            operand index = operand_of(way & 2 ? BT_I64 : BT_I32, s, s->dims[s->axis], layouts[way / 12]);
            index.low = 0;
            index.high = (double)size;
            t.op = _i ? &bt_op_put_along : &bt_op_take_along;
            t.attr = _i ? (const void *)&attr : &axis;
            t.in[_i ? 0 : 1] = index;
            t.in[_i ? 1 : 0] = operand_of(dtype, s, _i ? s->dims[s->axis] : size, layouts[(way + way / 12) % 5]);
            t.out[0] = operand_of(dtype, s, _i ? size : s->dims[s->axis], PLAIN);
            compare_fast(&t); /* sums have the same bits, too: they are added in one order */
        }
}
END_TEST

/* An index out of range is reported when the host waits, with the CPU's message; nothing is read or written there. */
START_TEST(wild_places)
{
    static const int64_t values[] = {5, -1, INT64_MAX, INT64_MIN};
    const bt_backend *device = device_backend();
    for (int w = 0; device && w < 2 * BT_COUNT_OF(values); w++) {
        const bool put = w & 1;
        int64_t index[] = {0, 1, 2, values[w / 2], 4, 3};
        float x[15] = {0}, y[15];
        char scratch[256];
        bt_view at = {(char *)index, BT_I64, 2, {2, 3}, {3, 1}}, few = {(char *)x, BT_F32, 2, {2, 3}, {3, 1}};
        bt_view many = {(char *)(put ? y : x), BT_F32, 2, {5, 3}, {3, 1}}, result = few;
        bt_view taken[] = {many, at}, given[] = {at, few};
        bt_axis_attr axis = {0};
        bt_places_attr places = {0, 5};
        result.data = (char *)y;
        bt_call call = {.op = put ? &bt_op_put_along : &bt_op_take_along, .inputs = 2, .outputs = 1, .threads = 1};
        call.attr = put ? (const void *)&places : &axis;
        call.in = put ? given : taken;
        call.out = put ? &many : &result;
        call.scratch = scratch;
        const host_span spans[] = {
            {(char *)x, sizeof x}, {(char *)y, sizeof y}, {(char *)index, sizeof index}, {scratch, sizeof scratch}};
        const bt_kernel_impl *kernel = kernel_named(device->kernels.list(), call.op, "");
        ck_assert(!kernel->scratch || kernel->scratch(&call) <= sizeof scratch);
        ck_assert_int_eq(run_on_device(device, kernel, &call, spans, 4), BT_ERROR_DATA);
        ck_assert_ptr_nonnull(strstr(bt_error(), ": element 3 of the indices [2, 3] is "));
        ck_assert_ptr_nonnull(strstr(bt_error(), "expected 0 to 4"));
        bt_error_clear();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("along");
    TCase *tcase = tcase_create("kernels");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, orders, 0, 4);
    tcase_add_loop_test(tcase, running_sums, 0, 4);
    tcase_add_loop_test(tcase, places, 0, 2);
    tcase_add_test(tcase, wild_places);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
