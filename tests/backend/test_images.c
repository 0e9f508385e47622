/* Moments, products and combinations of channels, pooling and resampling: fast kernels against the plain loops, for
 * sizes with several blocks and remainders, and few, many and odd numbers of channels; the same bits on any number of
 * threads. */
#include "tests/backend/compare.h"

#include "support/on_device.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static trial trial_of(const bt_op *op, const void *attr, bt_dtype dtype, const bt_array *in, int inputs)
{
    trial t = {.op = op, .attr = attr, .inputs = inputs, .outputs = bt_op_outputs(op, inputs), .seed = 7};
    bt_array given[17] = {{0}}, out[BT_MAX_OUTPUTS];
    memcpy(given, in, (size_t)inputs * sizeof *in);
    ck_assert_msg(op->infer(attr, given, out) == BT_OK, "%s", bt_error());
    for (int i = 0; i < inputs + t.outputs; i++) {
        bt_array shape = i < inputs ? in[i] : out[i - inputs];
        operand *o = i < inputs ? &t.in[i] : &t.out[i - inputs];
        *o = (operand){.dtype = shape.dtype, .rank = shape.rank, .low = -1, .high = 1};
        memcpy(o->dims, shape.dims, sizeof o->dims);
    }
    t.absolute = dtype == BT_F32 ? 3e-6 : 1e-13;
    t.relative = dtype == BT_F32 ? 1e-6 : 1e-14;
    return t;
}

static bt_array array4(bt_dtype dtype, const int64_t *dims)
{
    bt_array x = {.dtype = dtype, .rank = 4};
    memcpy(x.dims, dims, 4 * sizeof *dims);
    return x;
}

static bt_array channels_of(bt_array x, int64_t lead)
{
    bt_array c = {.dtype = x.dtype, .rank = (int)lead + 1, .dims = {x.dims[0]}};
    c.dims[lead] = x.dims[3];
    return c;
}

static const int64_t sizes[][5] = {
    /* lead, n, h, w, c */
    {0, 1, 40, 41, 16},   {0, 5, 37, 16, 3}, {0, 1, 33, 9, 64}, {0, 1, 12, 10, 131}, {0, 1, 1, 35, 2100},
    {0, 1, 140, 1000, 1}, {1, 3, 8, 21, 8},  {1, 40, 3, 3, 5},  {1, 2, 40, 41, 7},   {0, 1, 1, 1, 33},
    {1, 4, 1, 1, 40},     {0, 7, 9, 3, 17},  {1, 0, 3, 3, 4},
};

/* For operands with one number per channel. */
static const enum layout layouts[] = {PLAIN, ONE, SLICED, TURNED, SPREAD, LOOSE};

START_TEST(test_sums_of_channels)
{
    for (int d = 0; d < 2; d++) {
        bt_dtype dtype = d ? BT_F64 : BT_F32;
        bt_array x = array4(dtype, sizes[_i] + 1), c = channels_of(x, sizes[_i][0]);
        double rows = (double)(x.dims[1] * x.dims[2] * (sizes[_i][0] ? 1 : x.dims[0]));
        bt_channel_attr moments = {.lead = sizes[_i][0]}, dot = {.lead = sizes[_i][0], .terms = 1, .centred = 1};
        bt_channel_attr plain = {.lead = sizes[_i][0], .terms = 1};
        trial t = trial_of(&bt_op_channel_moments, &moments, dtype, &x, 1);
        compare_fast(&t);
        t.in[0].low = 99; /* far from zero: stable sums lose no precision */
        t.in[0].high = 100;
        compare_fast(&t);
        t = trial_of(&bt_op_channel_dot, &dot, dtype, (bt_array[]){x, x, c}, 3);
        t.absolute *= rows / 4;
        compare_fast(&t);
        for (int l = 0; l < BT_COUNT_OF(layouts); l++) {
            t.in[2].layout = layouts[l];
            compare_fast(&t);
        }
        t = trial_of(&bt_op_channel_dot, &plain, dtype, (bt_array[]){x, x}, 2);
        t.absolute *= rows / 4;
        compare_fast(&t);
    }
}
END_TEST

START_TEST(test_combinations_of_channels)
{
    static const double special[] = {1, -2, NAN, 3, 0, -0.0, INFINITY, -1, 5, -4, 0.5};
    for (int way = _i % 3; way < 16; way += 3) {
        bt_dtype dtype = way & 1 ? BT_F64 : BT_F32;
        bt_array x = array4(dtype, sizes[_i] + 1), c = channels_of(x, sizes[_i][0]), in[16];
        bt_channel_attr attr = {.lead = sizes[_i][0], .terms = 1 + way / 4, .shifted = way & 1, .relu = way >> 1 & 1};
        attr.gated = !attr.relu && way & 4;
        attr.centred = (uint32_t)(way * 5 & ((1 << attr.terms) - 1));
        attr.scaled = (uint32_t)(way * 3 & ((1 << attr.terms) - 1));
        bt_channel_inputs at = bt_channel_inputs_of(&attr);
        for (int i = 0; i < at.count; i++)
            in[i] = c;
        for (int k = 0; k < attr.terms; k++)
            in[at.x[k]] = x;
        if (attr.gated)
            in[at.gate] = x;
        trial t = trial_of(&bt_op_channel_mix, &attr, dtype, in, at.count);
        t.alias[0] = 1;
        if (attr.relu || attr.gated) {
            operand *o = &t.in[attr.gated ? at.gate : 0];
            o->values = special;
            o->value_count = BT_COUNT_OF(special);
        }
        for (int l = 0; l < BT_COUNT_OF(layouts); l++) {
            for (int k = 0, next = l; k <= attr.terms; k++) { /* each with a different layout */
                int some[] = {k < attr.terms ? at.centre[k] : at.shift, k < attr.terms ? at.scale[k] : -1};
                for (int i = 0; i < 2; i++)
                    if (some[i] >= 0)
                        t.in[some[i]].layout = layouts[next++ % BT_COUNT_OF(layouts)];
            }
            compare_fast(&t);
        }
    }
}
END_TEST

/* 16-bit values are computed in f32, and summed in double. */
START_TEST(test_channels_of_16_bits)
{
    static const bt_channel_attr mixes[] = {{.lead = 0, .terms = 1, .centred = 1, .scaled = 1, .shifted = 1},
                                            {.lead = 0, .terms = 2, .centred = 1, .scaled = 3, .gated = 1}};
    const bt_dtype stored[] = {BT_BF16, BT_F16};
    for (int way = 0; way < 2 * BT_COUNT_OF(mixes); way++) {
        const bt_dtype dtype = stored[way % 2];
        bt_channel_attr attr = mixes[way / 2], dot = {.lead = sizes[_i][0], .terms = 1, .centred = 1};
        bt_array x = array4(BT_F32, sizes[_i] + 1), c = channels_of(x, sizes[_i][0]), in[16];
        attr.lead = sizes[_i][0];
        const bt_channel_inputs at = bt_channel_inputs_of(&attr);
        for (int i = 0; i < at.count; i++)
            in[i] = i == at.x[0] || i == at.x[1] || i == at.gate ? x : c;
        trial t[] = {trial_of(&bt_op_channel_moments, &(bt_channel_attr){.lead = attr.lead}, BT_F32, &x, 1),
                     trial_of(&bt_op_channel_dot, &dot, BT_F32, (bt_array[]){x, x, c}, 3),
                     trial_of(&bt_op_channel_mix, &attr, BT_F32, in, at.count)};
        for (int k = 0; k < BT_COUNT_OF(t); k++) {
            t[k].relative = dtype == BT_BF16 ? 0x1p-7 : 0x1p-10;
            t[k].absolute = 1e-5;
            for (int i = 0; i < t[k].inputs; i++) /* the coefficients of a mix keep their dtype */
                t[k].in[i].dtype = k == 2 && t[k].in[i].rank < 4 && way / 2 ? BT_F32 : dtype;
            for (int o = 0; o < t[k].outputs; o++)
                t[k].out[o].dtype = dtype;
            compare(&t[k]);
        }
    }
}
END_TEST

static const int64_t windows[][7] = {
    /* n, h, w, c, window (0: adaptive), stride or height, padding or width */
    {2, 9, 8, 16, 2, 2, 0},   {3, 7, 9, 3, 3, 2, 1},  {2, 8, 8, 64, 3, 1, 1}, {1, 9, 9, 37, 5, 3, 2},
    {2, 6, 7, 1, 2, 3, 0},    {2, 9, 7, 20, 0, 4, 3}, {1, 3, 4, 8, 0, 5, 6},  {40, 8, 8, 33, 8, 8, 0},
    {2, 5, 5, 0, 2, 2, 0},    {0, 5, 5, 4, 2, 2, 1},  {3, 1, 1, 11, 1, 1, 0}, {1, 30, 31, 4, 0, 1, 1},
    {1, 40, 41, 33, 3, 2, 1},
};

static bt_window_attr attr_of(const int64_t *w, bool average)
{
    bt_window_attr attr = {.adaptive = w[4] == 0, .average = average};
    for (int i = 0; i < 2; i++) {
        attr.axis[i] = (bt_window_axis){.size = w[1 + i], .out = w[5 + i]};
        if (w[4])
            attr.axis[i] = (bt_window_axis){w[1 + i], (w[1 + i] + 2 * w[6] - w[4]) / w[5] + 1, w[4], w[5], w[6]};
    }
    return attr;
}

START_TEST(test_windows)
{
    static const double special[] = {1, 3, NAN, 3, -INFINITY, 2, -INFINITY, 3, 3, INFINITY, NAN};
    for (int d = 0; d < 2; d++) {
        bt_dtype dtype = d ? BT_F64 : BT_F32;
        bt_array x = array4(dtype, windows[_i]), small = x, index;
        bt_window_attr sum = attr_of(windows[_i], false), average = attr_of(windows[_i], true);
        bt_pixels_attr pixels = {x.dims[1], x.dims[2]};
        for (int i = 0; i < 2; i++)
            small.dims[1 + i] = sum.axis[i].out;
        index = small;
        index.dtype = BT_I32;
        for (int a = 0; a < 2; a++) {
            trial t = trial_of(&bt_op_window_sum, a ? &average : &sum, dtype, &x, 1);
            t.absolute *= 8;
            compare_fast(&t);
            t = trial_of(&bt_op_window_spread, a ? &average : &sum, dtype, &small, 1);
            compare_fast(&t);
        }
        trial t = trial_of(&bt_op_window_max, &sum, dtype, &x, 1);
        t.absolute = t.relative = 0;
        compare_fast(&t);
        t.in[0].values = special;
        t.in[0].value_count = BT_COUNT_OF(special);
        compare_fast(&t);
        t = trial_of(&bt_op_window_gather, NULL, dtype, (bt_array[]){x, index}, 2);
        t.absolute = t.relative = t.in[1].low = 0;
        t.in[1].high = (double)(x.dims[1] * x.dims[2]);
        compare_fast(&t);
        t = trial_of(&bt_op_window_scatter, &pixels, dtype, (bt_array[]){small, index}, 2);
        t.in[1].low = 0;
        t.in[1].high = (double)(x.dims[1] * x.dims[2]);
        compare_fast(&t);
    }
}
END_TEST

START_TEST(test_resampling)
{
    static const int64_t cases[][5] = {{0, 2, 7, 5, 16}, {1, 3, 8, 3, 3}, {2, 4, 4, 9, 37}, {3, 2, 3, 6, 2}};
    for (int way = 0; way < 8; way++) {
        bt_dtype dtype = way & 1 ? BT_F64 : BT_F32;
        bt_array x = array4(dtype, cases[_i] + 1);
        bt_resample_attr attr = {cases[_i][0], x.dims[cases[_i][0]], 9, way >> 1 & 1, way >> 2};
        if (attr.adjoint)
            x.dims[attr.axis] = attr.to;
        trial t = trial_of(&bt_op_resample, &attr, dtype, &x, 1);
        for (int l = 0; l < 3; l++) { /* part of the channels; one image repeated */
            t.in[0].layout = ((enum layout[]){PLAIN, LOOSE, SPREAD})[l];
            compare_fast(&t);
        }
        t.in[0].layout = INNER;
        compare(&t);
    }
}
END_TEST

START_TEST(test_wild_pixels)
{
    double x[6] = {0}, y[6];
    const bt_backend *device = device_backend();
    for (const bt_kernel_impl *const *kernel = (device ? device : bt_backend_cpu())->kernels.list(); *kernel;
         kernel++) {
        bool gather = (*kernel)->op == &bt_op_window_gather;
        int32_t index[] = {0, gather ? 6 : -1};
        bt_pixels_attr attr = {2, 3};
        bt_view pixels = {(char *)x, BT_F64, 4, {1, 2, 3, 1}, {6, 3, 1, 1}};
        bt_view places = {(char *)index, BT_I32, 4, {1, 1, 2, 1}, {2, 2, 1, 1}}, small = places;
        small.dtype = BT_F64;
        small.data = (char *)y;
        bt_view in[] = {gather ? pixels : small, places}, out = gather ? small : pixels;
        bt_call call = {
            .op = (*kernel)->op, .attr = &attr, .inputs = 2, .outputs = 1, .in = in, .out = &out, .threads = 1};
        if (!gather && call.op != &bt_op_window_scatter)
            continue;
        memset(y, 0, sizeof y);
        bt_error_clear();
        const host_span spans[] = {{(char *)x, sizeof x}, {(char *)y, sizeof y}, {(char *)index, sizeof index}};
        ck_assert_int_eq(device ? run_on_device(device, *kernel, &call, spans, 3) : (*kernel)->launch(&call),
                         BT_ERROR_DATA);
        ck_assert_ptr_nonnull(strstr(bt_error(), "element 1 of the indices [1, 1, 2, 1]"));
    }
    bt_error_clear();
}
END_TEST

/* 3 x 60 x 60 rows of 12 channels: many blocks, divided among threads. */
START_TEST(test_threads_change_no_bit)
{
    enum { ROWS = 3 * 60 * 60, C = 12 };
    const bt_op *op = _i ? &bt_op_channel_dot : &bt_op_channel_moments;
    bt_channel_attr attr = {.terms = _i};
    float *x = bt_alloc_aligned(ROWS * C * sizeof *x), results[3][2][C];
    ck_assert_ptr_nonnull(x);
    for (int i = 0; i < ROWS * C; i++)
        x[i] = (float)sin(i);
    for (int threads = 1; threads <= 3; threads++) {
        bt_view view = {(char *)x, BT_F32, 2, {ROWS, C}, {C, 1}}, in[] = {view, view}, out[2];
        for (int o = 0; o < 2; o++)
            out[o] = (bt_view){(char *)results[threads - 1][o], BT_F32, 1, {C}, {1}};
        bt_call call = {.op = op, .attr = &attr, .inputs = 1 + _i, .outputs = 2, .in = in, .out = out};
        call.threads = threads;
        const bt_kernel_impl *kernel = kernel_named(bt_backend_cpu()->kernels.list(), op, ".tiles");
        ck_assert(kernel && kernel->accepts(&call));
        call.scratch = bt_alloc_aligned(kernel->scratch(&call));
        ck_assert_ptr_nonnull(call.scratch);
        ck_assert_int_eq(kernel->launch(&call), BT_OK);
        bt_free_aligned(call.scratch);
        ck_assert(memcmp(results[0], results[threads - 1], sizeof results[0]) == 0);
    }
    bt_free_aligned(x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backend: images");
    TCase *images = tcase_create("images");
    tcase_set_timeout(images, 120);
    tcase_add_loop_test(images, test_sums_of_channels, 0, BT_COUNT_OF(sizes));
    tcase_add_loop_test(images, test_combinations_of_channels, 0, BT_COUNT_OF(sizes));
    tcase_add_loop_test(images, test_channels_of_16_bits, 0, BT_COUNT_OF(sizes));
    tcase_add_loop_test(images, test_windows, 0, BT_COUNT_OF(windows));
    tcase_add_loop_test(images, test_resampling, 0, 4);
    tcase_add_test(images, test_wild_pixels);
    tcase_add_loop_test(images, test_threads_change_no_bit, 0, 2);
    suite_add_tcase(suite, images);
    return run_suite(suite);
}
