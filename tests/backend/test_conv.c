/* Convolutions against the plain loops: every kernel of every instruction set, on one thread and two. */
#include "tests/backend/compare.h"

#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

enum { Y, X, FORWARD = 0, TO_X, TO_W, WITH_BIAS };

typedef struct size {
    int64_t n, image[2], in, window[2], out, stride[2], padding[2], dilation[2], groups;
} size;

static operand images(bt_dtype dtype, int64_t n, int64_t height, int64_t width, int64_t channels, enum layout layout)
{
    return (operand){
        .dtype = dtype, .rank = 4, .dims = {n, height, width, channels}, .layout = layout, .low = -1, .high = 1};
}

static int64_t grid(const size *s, int a)
{
    return (s->image[a] + 2 * s->padding[a] - (s->window[a] - 1) * s->dilation[a] - 1) / s->stride[a] + 1;
}

static void check_one(const size *s, int which, bt_dtype dtype, enum layout first, enum layout second)
{
    static const bt_op *const ops[] = {&bt_op_conv, &bt_op_conv_dx, &bt_op_conv_dw, &bt_op_conv_bias};
    bt_conv_attr attr = {.stride = {s->stride[Y], s->stride[X]},
                         .padding = {s->padding[Y], s->padding[X]},
                         .dilation = {s->dilation[Y], s->dilation[X]},
                         .groups = s->groups};
    int64_t terms = s->window[Y] * s->window[X];
    if (which == TO_X) {
        attr.size[Y] = s->image[Y];
        attr.size[X] = s->image[X];
        terms *= s->out / s->groups;
    } else if (which == TO_W) {
        attr.size[Y] = s->window[Y];
        attr.size[X] = s->window[X];
        terms = s->n * grid(s, Y) * grid(s, X);
    } else {
        terms *= s->in / s->groups;
    }
    trial t = {.op = ops[which],
               .attr = &attr,
               .inputs = which == WITH_BIAS ? 3 : 2,
               .outputs = 1,
               .seed = (uint64_t)(terms + which)};
    operand x = images(dtype, s->n, s->image[Y], s->image[X], s->in, which == TO_X ? PLAIN : first);
    operand w = images(dtype, s->window[Y], s->window[X], s->in / s->groups, s->out, which == TO_W ? PLAIN : second);
    operand g = images(dtype, s->n, grid(s, Y), grid(s, X), s->out,
                       which == TO_X   ? first
                       : which == TO_W ? second
                                       : PLAIN);
    t.in[0] = which == TO_X ? g : x;
    t.in[1] = which == TO_W ? g : w;
    t.in[2] = (operand){.dtype = dtype, .rank = 1, .dims = {s->out}, .low = -1, .high = 1};
    t.out[0] = which == TO_X ? x : which == TO_W ? w : g;
    t.absolute = (dtype == BT_F64 ? 0x1p-52 : 0x1p-23) * (2 + (double)terms);
    t.relative = t.absolute / 4 + (dtype == BT_BF16 ? 0x1p-7 : dtype == BT_F16 ? 0x1p-10 : 0);
    if (terms && s->image[Y] && !bt_dtype_half(dtype)) /* empty sums are left to the plain loops */
        compare_fast(&t);
    else
        compare(&t);
}

static void check_size(const size *s, enum layout first, enum layout second)
{
    for (int which = FORWARD; which <= WITH_BIAS; which++)
        for (int wide = 0; wide < 2; wide++)
            check_one(s, which, wide ? BT_F64 : BT_F32, first, second);
}

static size plain_size(int64_t n, int64_t image, int64_t in, int64_t out, int64_t window)
{
    return (size){n, {image, image}, in, {window, window}, out, {1, 1}, {window / 2, window / 2}, {1, 1}, 1};
}

/* Numbers of channels around every panel width, and of pixels around every tile height. */
START_TEST(channels)
{
    for (int64_t c = 1; c < 36; c += c < 18 ? 1 : 5) {
        size s = plain_size(1, 3, c, 37 - c, 3);
        check_size(&s, PLAIN, PLAIN);
    }
}
END_TEST

/* Few output channels, from whole vectors of input channels. */
START_TEST(narrow)
{
    for (int i = 0; i < 5 * 4; i++) {
        size s = plain_size(2, 5, i % 5 + 1, 16 * (i / 5 % 2 + 1), 3);
        s.stride[Y] = i / 10 + 1;
        s.groups = i % 5 == 3 ? 2 : 1;
        check_one(&s, TO_X, i % 2 ? BT_F64 : BT_F32, i % 3 ? PLAIN : LOOSE, i % 4 ? PLAIN : TURNED);
        int64_t in = s.in;
        s.in = s.out;
        s.out = in;
        check_one(&s, i % 2 ? FORWARD : WITH_BIAS, i % 4 < 2 ? BT_F64 : BT_F32, i % 3 ? PLAIN : LOOSE, PLAIN);
    }
}
END_TEST

START_TEST(pixels)
{
    for (int64_t side = 1; side < 10; side++) {
        size s = plain_size(side % 3 + 1, side, 3, 18, 3);
        s.image[X] = side + 1;
        check_size(&s, PLAIN, PLAIN);
    }
}
END_TEST

/* Every combination of stride, padding and dilation, on images of odd sizes. */
START_TEST(attributes)
{
    for (int64_t i = 0; i < 3 * 4 * 3 * 3; i++) {
        size s = {.n = 2, .image = {7, 9}, .in = 2, .window = {3, 2}, .out = 3, .groups = 1};
        s.window[X] = i / 36 + 1;
        s.stride[Y] = s.stride[X] = i % 3 + 1;
        s.padding[Y] = i / 3 % 4;
        s.padding[X] = 3 - s.padding[Y];
        s.dilation[Y] = i / 12 % 3 + 1;
        s.dilation[X] = 4 - s.dilation[Y];
        for (int which = FORWARD; which <= TO_W; which++)
            check_one(&s, which, (i + which) % 4 ? BT_F32 : BT_F64, PLAIN, PLAIN);
    }
}
END_TEST

START_TEST(groups)
{
    static const int64_t sizes[][3] = {/* number of groups, channels in and out of each */
                                       {2, 3, 4}, {3, 1, 2}, {2, 17, 1}, {4, 4, 18},
                                       {5, 1, 1}, {8, 1, 1}, {17, 1, 1}, {40, 1, 1}};
    for (int i = 0; i < BT_COUNT_OF(sizes); i++)
        for (int64_t stride = 1; stride < 3; stride++) {
            size s = plain_size(2, 5, sizes[i][0] * sizes[i][1], sizes[i][0] * sizes[i][2], 3);
            s.groups = sizes[i][0];
            s.stride[Y] = s.stride[X] = stride;
            check_size(&s, PLAIN, PLAIN);
        }
}
END_TEST

/* Operands that are views: permuted axes, gaps, one row or one number repeated. */
START_TEST(layouts)
{
    static const enum layout all[] = {PLAIN, TURNED, SLICED, LOOSE, SPREAD, ONE, INNER};
    for (int i = 0; i < 49; i++) /* each with a plain one, and both with the same layout */
        for (int way = 0; way < 3 && (i < 7 || i % 7 == 0 || i % 8 == 0); way++) {
            size s = plain_size(2, 4, way == 1 ? 6 : 5, way == 1 ? 6 : 17, way == 2 ? 1 : 3);
            s.groups = way == 1 ? 6 : 1;
            for (int which = FORWARD; which <= WITH_BIAS; which++)
                check_one(&s, which, (i + which) % 3 ? BT_F32 : BT_F64, all[i % 7], all[i / 7]);
        }
}
END_TEST

/* Images split into chunks, several images in one block, lines, windows as large as the image. */
START_TEST(blocks)
{
    static const size sizes[] = {
        {1, {70, 90}, 16, {3, 3}, 5, {1, 1}, {1, 1}, {1, 1}, 1},
        {1, {75, 90}, 16, {3, 3}, 5, {2, 2}, {1, 1}, {1, 1}, 1},
        {1, {70, 90}, 16, {1, 1}, 5, {1, 1}, {0, 0}, {1, 1}, 1},
        {1, {90, 70}, 20, {2, 2}, 4, {3, 3}, {0, 0}, {2, 2}, 1},
        {700, {2, 2}, 3, {3, 3}, 5, {1, 1}, {1, 1}, {1, 1}, 1},
        {9, {14, 14}, 20, {3, 3}, 17, {1, 1}, {1, 1}, {1, 1}, 1},
        {2, {1, 900}, 8, {1, 5}, 9, {1, 2}, {0, 2}, {1, 1}, 1},
        {1, {1, 9000}, 4, {1, 3}, 2, {1, 1}, {0, 1}, {1, 1}, 1},
        {3, {6, 5}, 7, {6, 5}, 9, {1, 1}, {0, 0}, {1, 1}, 1},
        {1, {8, 8}, 3, {4, 4}, 5, {4, 4}, {0, 0}, {1, 1}, 1},
        {0, {6, 5}, 7, {3, 3}, 9, {1, 1}, {1, 1}, {1, 1}, 1},
        {2, {3, 3}, 0, {3, 3}, 9, {1, 1}, {1, 1}, {1, 1}, 1},
        {2, {3, 3}, 4, {3, 3}, 0, {1, 1}, {1, 1}, {1, 1}, 1},
        {2, {0, 3}, 4, {1, 1}, 3, {1, 1}, {1, 1}, {1, 1}, 1},
        {1, {90, 70}, 64, {3, 3}, 64, {1, 1}, {1, 1}, {1, 1}, 64},
        {3, {6, 5}, 128, {3, 3}, 40, {1, 1}, {1, 1}, {1, 1}, 1},
        {2, {6, 5}, 128, {1, 1}, 160, {1, 1}, {0, 0}, {1, 1}, 1},
        {12, {9, 8}, 8, {5, 5}, 17, {1, 1}, {2, 2}, {1, 1}, 1},
        {12, {9, 8}, 8, {5, 5}, 17, {2, 2}, {2, 2}, {1, 1}, 1},
    };
    for (int which = FORWARD; which <= WITH_BIAS; which++)
        check_one(&sizes[_i], which, (_i + which) % 2 ? BT_F32 : BT_F64, PLAIN, PLAIN);
}
END_TEST

/* 16-bit storage, computed in f32. */
START_TEST(of_16_bits)
{
    size s = plain_size(2, 6, 40, 18, 3);
    s.groups = _i < 4 ? 1 : 2;
    check_one(&s, _i % 4, BT_BF16, PLAIN, PLAIN);
    check_one(&s, _i % 4, BT_F16, LOOSE, TURNED);
    s.stride[Y] = s.stride[X] = 2;
    s.groups = _i < 4 ? 1 : 18;
    s.in = 54;
    check_one(&s, _i % 4, BT_BF16, PLAIN, PLAIN);
}
END_TEST

/* NaN and infinity reach exactly the elements that depend on them. */
START_TEST(not_finite)
{
    static double values[2 * 5 * 5 * 3];
    for (int i = 0; i < BT_COUNT_OF(values); i++)
        values[i] = i % 7 - 3;
    values[40] = NAN;
    values[100] = INFINITY;
    bt_conv_attr attr = {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
    trial t = {.op = &bt_op_conv, .attr = &attr, .inputs = 2, .outputs = 1, .absolute = 1e-4};
    t.in[0] = images(BT_F32, 2, 5, 5, 3, PLAIN);
    t.in[0].values = values;
    t.in[0].value_count = BT_COUNT_OF(values);
    t.in[1] = images(BT_F32, 3, 3, 3, 17, PLAIN);
    t.out[0] = images(BT_F32, 2, 5, 5, 17, PLAIN);
    compare_fast(&t);
}
END_TEST

/* Each element is summed in the same order, for any number of threads. */
START_TEST(threads_do_not_matter)
{
    enum { COUNT = 12 * 16 * 16 * 24 };
    static float a[COUNT], b[COUNT], c[2][COUNT];
    for (int i = 0; i < COUNT; i++) {
        a[i] = (float)(i * 7919L % 1009) / 1009 - 0.5F;
        b[i] = (float)(i * 10007L % 2003) / 2003 - 0.5F;
    }
    static const bt_op *const ops[] = {&bt_op_conv, &bt_op_conv_dx, &bt_op_conv_dw};
    bt_view x = {NULL, BT_F32, 4, {12, 16, 16, 24}, {16 * 16 * 24, 16 * 24, 24, 1}};
    bt_view w = {NULL, BT_F32, 4, {3, 3, 24, 24}, {3 * 24 * 24, 24 * 24, 24, 1}};
    const bt_view *shapes[3][3] = {{&x, &w, &x}, {&x, &w, &x}, {&x, &x, &w}};
    for (const char *const *isa = isas; *isa; isa++)
        for (int way = 0; way < 3 * 5 && bt_cpu_kernels(*isa); way++) {
            int which = way / 5, threads = way % 5 + 1;
            bt_conv_attr attr = {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
            attr.size[0] = attr.size[1] = which == TO_X ? 16 : which == TO_W ? 3 : 0;
            bt_view in[] = {*shapes[which][0], *shapes[which][1]}, out = *shapes[which][2];
            bt_call call = {.op = ops[which], .attr = &attr, .inputs = 2, .outputs = 1, .in = in, .out = &out};
            const bt_kernel_impl *kernel = kernel_named(bt_cpu_kernels(*isa), ops[which], "blocked");
            call.threads = threads;
            call.scratch = bt_alloc_aligned(kernel->scratch(&call));
            ck_assert(kernel->prepare(&call) == BT_OK);
            in[0].data = (char *)a;
            in[1].data = (char *)b;
            out.data = (char *)c[threads > 1];
            ck_assert(kernel->launch(&call) == BT_OK);
            kernel->release(&call);
            bt_free_aligned(call.scratch);
            for (int i = 0; threads > 1 && i < out.dims[0] * out.strides[0]; i++)
                if (c[0][i] < c[1][i] || c[0][i] > c[1][i])
                    ck_abort_msg("%s: element %d with %d threads is %.9g, not %.9g", ops[which]->name, i, threads,
                                 (double)c[1][i], (double)c[0][i]);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("convolution");
    TCase *tcase = tcase_create("kernels");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, channels);
    tcase_add_test(tcase, narrow);
    tcase_add_test(tcase, pixels);
    tcase_add_test(tcase, attributes);
    tcase_add_test(tcase, groups);
    tcase_add_test(tcase, layouts);
    tcase_add_loop_test(tcase, blocks, 0, 19);
    tcase_add_loop_test(tcase, of_16_bits, 0, 8);
    tcase_add_test(tcase, not_finite);
    tcase_add_test(tcase, threads_do_not_matter);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
