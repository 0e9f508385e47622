/* tests/cuda/test_convolution.c: convolutions by cuDNN: the chosen plan, its requirements, and its results. */
#include "backend/cuda/convolution.h"

#include "support/on_device.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 2, H = 5, W = 4, IN = 6, OUT = 8, K = 3, MOST = 1 << 14, ROOM = MOST - 64 };

typedef struct scene {
    bt_conv_attr attr;
    bt_view in[2], out;
    bt_call call;
} scene;

static bt_view dense(bt_dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (bt_view){.dtype = dtype, .rank = 4, .dims = {a, b, c, d}, .strides = {b * c * d, c * d, d, 1}};
}

/* Stride 2 along the height. */
static void begin(scene *s, const bt_op *op, bt_dtype dtype, int64_t groups)
{
    const bt_view x = dense(dtype, N, H, W, IN), w = dense(dtype, K, K, IN / groups, OUT);
    const bt_view y = dense(dtype, N, 3, W, OUT);
    *s = (scene){.attr = {.stride = {2, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = groups}};
    s->attr.size[0] = op == &bt_op_conv_dx ? H : op == &bt_op_conv_dw ? K : 0;
    s->attr.size[1] = op == &bt_op_conv_dx ? W : op == &bt_op_conv_dw ? K : 0;
    s->in[0] = op == &bt_op_conv_dx ? y : x;
    s->in[1] = op == &bt_op_conv_dw ? y : w;
    s->out = op == &bt_op_conv_dx ? x : op == &bt_op_conv_dw ? w : y;
    s->call =
        (bt_call){.op = op, .attr = &s->attr, .inputs = 2, .outputs = 1, .in = s->in, .out = &s->out, .threads = 1};
}

static const bt_op *const ops[] = {&bt_op_conv, &bt_op_conv_dx, &bt_op_conv_dw};
static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_BF16, BT_F16};

static const bt_kernel_impl *by_cudnn(const scene *s)
{
    const bt_kernel_impl *kernel = bt_kernel_choose(&bt_backend_cuda()->kernels, &s->call);
    return kernel && strstr(kernel->name, ".cudnn") ? kernel : NULL;
}

/* Of the allowed engines, number 28 has the smallest workspace. f64 and 16 bits may use tensor cores, which engine 67,
 * the first one, does. */
START_TEST(the_plan)
{
    for (int o = 0; o < BT_COUNT_OF(ops); o++)
        for (int d = 0; d < BT_COUNT_OF(dtypes); d++) {
            scene s;
            begin(&s, ops[o], dtypes[d], 1);
            const bt_kernel_impl *kernel = by_cudnn(&s);
            const bt_cuda_conv_plan *plan = bt_cuda_conv_planned(&s.call, bt_dtype_half(dtypes[d]));
            const size_t weights = (size_t)(K * K * IN * OUT) * bt_dtype_size(dtypes[d]);
            ck_assert(kernel && plan && plan == bt_cuda_conv_planned(&s.call, bt_dtype_half(dtypes[d])));
            ck_assert_int_eq(plan->notes & bt_cuda_conv_forbidden(dtypes[d], false), 0);
            const int64_t engine = dtypes[d] != BT_F32 ? 67 : 28;
            const int64_t workspace = engine == 67 ? 131 : ops[o] == &bt_op_conv_dx ? 0 : 40 * IN;
            ck_assert_int_eq(plan->engine, engine);
            ck_assert_int_eq(plan->workspace, workspace);
            ck_assert_uint_eq(kernel->scratch(&s.call), workspace ? bt_align_up(weights) + (size_t)workspace : weights);
        }
}
END_TEST

/* With tf32: tensor cores, if the operands have the layout that they need. */
START_TEST(with_tf32)
{
    scene s;
    begin(&s, &bt_op_conv, BT_F32, 1);
    s.call.tag.low = BT_TF32;
    ck_assert(by_cudnn(&s));
    ck_assert_int_eq(bt_cuda_conv_planned(&s.call, true)->engine, 67);
    ck_assert_int_eq(bt_cuda_conv_planned(&s.call, false)->engine, 28);
    s.call.tag.low = BT_F32;
    ck_assert_int_eq(bt_cuda_conv_planned(&s.call, true)->engine, 28);
}
END_TEST

/* 16-bit operands with another layout: no workspace is reserved. */
START_TEST(the_other_plan)
{
    scene s;
    begin(&s, &bt_op_conv, BT_BF16, 1);
    ck_assert(by_cudnn(&s));
    ck_assert_int_eq(bt_cuda_conv_planned(&s.call, false)->engine, 0);
    ck_assert_int_eq(bt_cuda_conv_planned(&s.call, false)->workspace, 0);
}
END_TEST

/* Plain loops need no workspace, but still do not replace a plan that ranks before them. */
START_TEST(not_the_last_resort)
{
    scene s;
    begin(&s, &bt_op_conv, BT_F32, 1);
    s.attr.dilation[0] = 2;
    s.attr.padding[0] = 2;
    ck_assert(by_cudnn(&s));
    ck_assert_int_eq(bt_cuda_conv_planned(&s.call, false)->engine, 28);
    ck_assert_int_eq(bt_cuda_conv_planned(&s.call, false)->workspace, 1 << 17);
}
END_TEST

/* Only the fallback heuristics have an engine; or there is none. */
START_TEST(fallback_and_nothing)
{
    scene s;
    begin(&s, &bt_op_conv_dw, BT_F32, 2);
    ck_assert(by_cudnn(&s));
    ck_assert_int_eq(bt_cuda_conv_planned(&s.call, false)->engine, 0);
    begin(&s, &bt_op_conv, BT_F32, 1);
    s.attr.padding[0] = K;
    s.out = dense(BT_F32, N, (H + 2 * K - K) / 2 + 1, W, OUT);
    ck_assert(!by_cudnn(&s));
    ck_assert_str_eq(bt_error(), "");
}
END_TEST

START_TEST(what_is_not_for_it)
{
    scene s;
    begin(&s, &bt_op_conv, BT_F32, 1);
    s.in[1].dtype = BT_BF16;
    ck_assert(!by_cudnn(&s));
    begin(&s, &bt_op_conv, BT_F32, 1);
    s.in[0].strides[3] = 2;
    ck_assert(!by_cudnn(&s));
    begin(&s, &bt_op_conv, BT_F32, 1);
    s.in[0].dims[0] = s.out.dims[0] = 0;
    ck_assert(!by_cudnn(&s));
}
END_TEST

START_TEST(missing)
{
    scene s;
    setenv("FAKE_CUDNN", "absent", 1);
    begin(&s, &bt_op_conv, BT_F32, 1);
    ck_assert(!by_cudnn(&s));
    ck_assert_ptr_nonnull(strstr(bt_backend_cuda()->isa(), "without cuDNN"));
}
END_TEST

/* ---- results ---- */

static double value(int64_t i, int which) { return (double)((i * 7 + which * 5) % 13 - 6) / 8; }

static void fill(const bt_view *view, char *memory, int which)
{
    int64_t count = 1;
    for (int d = 0; d < view->rank; d++)
        count *= view->dims[d];
    for (int64_t i = 0; i < count; i++)
        bt_put(view->dtype, memory, i, value(i, which));
}

static int64_t at(const bt_view *v, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return a * v->strides[0] + b * v->strides[1] + c * v->strides[2] + d * v->strides[3];
}

/* Adds all products of the convolution to their outputs; multiples of 1/16 are exact. */
static void expect(const scene *s, double *sums)
{
    const bt_cuda_conv_views v = bt_cuda_conv_views_of(&s->call);
    const int64_t inner = IN / s->attr.groups, each = OUT / s->attr.groups;
    for (int64_t e = 0; e < (int64_t)N * 3 * W * OUT * K * K * inner; e++) {
        const int64_t m = e % inner, kx = e / inner % K, ky = e / inner / K % K, o = e / inner / K / K % OUT;
        const int64_t j = e / inner / K / K / OUT % W, i = e / inner / K / K / OUT / W % 3;
        const int64_t n = e / inner / K / K / OUT / W / 3, row = 2 * i - 1 + ky, column = j - 1 + kx;
        if (row < 0 || row >= H || column < 0 || column >= W)
            continue;
        const int64_t x = at(v.x, n, row, column, o / each * inner + m), w = at(v.w, ky, kx, m, o);
        const int64_t y = at(v.y, n, i, j, o);
        const int64_t first = s->call.op == &bt_op_conv_dx ? y : x, second = s->call.op == &bt_op_conv_dw ? y : w;
        sums[s->call.op == &bt_op_conv      ? y
             : s->call.op == &bt_op_conv_dx ? x
                                            : w] += value(first, 0) * value(second, 1);
    }
}

/* Operands begin `shift` bytes after an aligned address. */
static void run(scene *s, int64_t shift)
{
    static _Alignas(64) char memory[4][MOST];
    const bt_kernel_impl *kernel = by_cudnn(s);
    ck_assert(kernel && kernel->prepare(&s->call) == BT_OK);
    memset(memory, 0xA5, sizeof memory);
    const size_t scratch = kernel->scratch(&s->call);
    const host_span spans[] = {{memory[0], ROOM}, {memory[1], ROOM}, {memory[2], ROOM}, {memory[3], ROOM}};
    ck_assert_uint_lt(scratch, ROOM);
    s->in[0].data = memory[0] + shift;
    s->in[1].data = memory[1] + shift;
    s->out.data = memory[2] + shift;
    s->call.scratch = memory[3];
    fill(&s->in[0], s->in[0].data, 0);
    fill(&s->in[1], s->in[1].data, 1);
    ck_assert_msg(run_on_device(bt_backend_cuda(), kernel, &s->call, spans, 4) == BT_OK, "%s", bt_error());
    kernel->release(&s->call);
    for (size_t i = scratch; i < ROOM; i++)
        ck_assert_int_eq((unsigned char)memory[3][i], 0xA5);
}

START_TEST(values)
{
    for (int o = 0; o < BT_COUNT_OF(ops); o++)
        for (int d = 0; d < BT_COUNT_OF(dtypes); d++)
            for (int way = 0; way < 4; way++) {
                static double sums[MOST];
                scene s;
                memset(sums, 0, sizeof sums);
                begin(&s, ops[o], dtypes[d], way < 2 ? 1 : 2);
                expect(&s, sums);
                run(&s, way % 2 ? (int64_t)bt_dtype_size(dtypes[d]) : 0);
                const int64_t count = s.out.dims[0] * s.out.strides[0];
                for (int64_t i = 0; i < count; i++) {
                    const double found = bt_get(s.out.dtype, s.out.data, i);
                    const double unit = dtypes[d] == BT_BF16 ? 0x1p-8 : dtypes[d] == BT_F16 ? 0x1p-11 : 0;
                    ck_assert_msg(fabs(found - sums[i]) <= unit * fabs(sums[i]),
                                  "%s %s, way %d: element %lld is %g, not %g", s.call.op->name,
                                  bt_dtype_name(dtypes[d]), way, (long long)i, found, sums[i]);
                }
            }
}
END_TEST

/* ---- for a GPU that is not present ---- */

START_TEST(profiles)
{
    static const char *const wrong[][2] = {
        {"h99", "there is no device profile \"h99\": built in: h100; else give a file"},
        {"/no/such/file.json", "device profile /no/such/file.json cannot be opened: No such file or directory"},
        {"", "a device profile is a name or a file"},
    };
    for (int i = 0; i < BT_COUNT_OF(wrong); i++) {
        ck_assert_int_ne(bt_cuda_profile(wrong[i][0]), BT_OK);
        ck_assert_msg(strstr(bt_error(), wrong[i][1]), "%s", bt_error());
        bt_error_clear();
    }
    ck_assert_int_eq(bt_cuda_profile("h100"), BT_OK);
    ck_assert_str_eq(bt_cuda_card()->name, "NVIDIA H100 80GB HBM3");
    ck_assert_int_eq(bt_cuda_card()->processors, 132);
    ck_assert_int_eq(bt_cuda_card()->capability, 900);
    ck_assert_int_gt(bt_cuda_card()->memory, INT64_C(79) << 30);
}
END_TEST

/* Its plans differ, and cannot be run. */
START_TEST(planned_for_another)
{
    scene s;
    begin(&s, &bt_op_conv, BT_F32, 1);
    const bt_cuda_conv_plan *here = bt_cuda_conv_planned(&s.call, false);
    ck_assert_int_eq(bt_cuda_profile("h100"), BT_OK);
    const bt_cuda_conv_plan *there = bt_cuda_conv_planned(&s.call, false);
    ck_assert(here && there && here != there && here->workspace == there->workspace);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda: convolution");
    TCase *tcase = tcase_create("convolution");
    tcase_add_test(tcase, the_plan);
    tcase_add_test(tcase, with_tf32);
    tcase_add_test(tcase, the_other_plan);
    tcase_add_test(tcase, not_the_last_resort);
    tcase_add_test(tcase, fallback_and_nothing);
    tcase_add_test(tcase, what_is_not_for_it);
    tcase_add_test(tcase, missing);
    tcase_add_test(tcase, values);
    tcase_add_test(tcase, profiles);
    tcase_add_test(tcase, planned_for_another);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
