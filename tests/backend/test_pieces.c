/* Calls with 16-bit operands and results, in several chunks: against the plain loops, which compute in double and round
 * once. Sums over chunks are in f32. */
#include "tests/backend/compare.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

#define HALF(dtype_, rank_, ...)                                                                                       \
    {                                                                                                                  \
        .dtype = (dtype_), .rank = (rank_), .dims = {__VA_ARGS__}, .low = -1, .high = 1                                \
    }

/* Loop index: bf16, f16. */
static bt_dtype half(int i) { return i ? BT_F16 : BT_BF16; }

static void close_to(trial *t, int i, double sums)
{
    t->relative = i ? 0x1p-10 : 0x1p-7;
    t->absolute = sums;
    ck_assert_int_gt(compare(t), 0);
}

START_TEST(convolutions)
{
    const bt_dtype h = half(_i);
    const bt_conv_attr attr = {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1},
                       back = {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1, .size = {16, 16}},
                       window = {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1, .size = {3, 3}};
    trial forward = {.op = &bt_op_conv,
                     .attr = &attr,
                     .inputs = 2,
                     .outputs = 1,
                     .in = {HALF(h, 4, 11, 16, 16, 16), HALF(h, 4, 3, 3, 16, 32)},
                     .out = {HALF(h, 4, 11, 16, 16, 32)}};
    close_to(&forward, _i, 1e-5);
    trial to_x = {.op = &bt_op_conv_dx,
                  .attr = &back,
                  .inputs = 2,
                  .outputs = 1,
                  .in = {HALF(h, 4, 11, 16, 16, 32), HALF(BT_F32, 4, 3, 3, 16, 32)},
                  .out = {HALF(h, 4, 11, 16, 16, 16)}};
    close_to(&to_x, _i, 1e-5);
    trial to_w = {.op = &bt_op_conv_dw,
                  .attr = &window,
                  .inputs = 2,
                  .outputs = 1,
                  .in = {HALF(h, 4, 11, 16, 16, 16), HALF(h, 4, 11, 16, 16, 32)},
                  .out = {HALF(BT_F32, 4, 3, 3, 16, 32)}};
    close_to(&to_w, _i, 1e-3);
}
END_TEST

START_TEST(products)
{
    const bt_dtype h = half(_i);
    trial one = {.op = &bt_op_dot,
                 .inputs = 2,
                 .outputs = 1,
                 .in = {HALF(h, 2, 818, 70), HALF(h, 2, 70, 90)},
                 .out = {HALF(h, 2, 818, 90)}};
    close_to(&one, _i, 1e-5);
    one.in[0].layout = one.in[1].layout = TURNED;
    one.out[0].dtype = BT_F32;
    close_to(&one, _i, 1e-5);
    trial many = {.op = &bt_op_dot,
                  .inputs = 2,
                  .outputs = 1,
                  .in = {HALF(h, 3, 60, 30, 20), HALF(h, 3, 60, 20, 40)},
                  .out = {HALF(h, 3, 60, 30, 40)}};
    close_to(&many, _i, 1e-5);
}
END_TEST

/* Row by row: 300 rows of 1,000 make five chunks. */
START_TEST(losses)
{
    enum { ROWS = 300, CLASSES = 1000 };
    const bt_dtype h = half(_i);
    const bt_axis_attr last = {.axis = 1};
    const operand logits = HALF(h, 2, ROWS, CLASSES),
                  label = {.dtype = BT_I32, .rank = 1, .dims = {ROWS}, .high = CLASSES};
    trial loss = {
        .op = &bt_op_cross_entropy, .inputs = 2, .outputs = 1, .in = {logits, label}, .out = {HALF(BT_F32, 1, ROWS)}};
    close_to(&loss, _i, 1e-5);
    trial back = {.op = &bt_op_cross_entropy_grad,
                  .inputs = 3,
                  .outputs = 1,
                  .in = {logits, label, HALF(BT_F32, 1, ROWS)},
                  .out = {logits}};
    close_to(&back, _i, 1e-5);
    trial softmax = {.op = &bt_op_softmax, .attr = &last, .inputs = 1, .outputs = 1, .in = {logits}, .out = {logits}};
    close_to(&softmax, _i, 1e-5);
    softmax.op = &bt_op_log_softmax;
    close_to(&softmax, _i, 1e-5);
    for (uint32_t axes = 1; axes <= 2; axes++) {
        const bt_reduce_attr attr = {.axes = axes};
        trial sum = {.op = &bt_op_sum,
                     .attr = &attr,
                     .inputs = 1,
                     .outputs = 1,
                     .in = {logits},
                     .out = {HALF(BT_F32, 1, axes == 1 ? CLASSES : ROWS)}};
        close_to(&sum, _i, 1e-4);
    }
}
END_TEST

/* The message has the row within the call, not within a chunk. */
START_TEST(wild_label)
{
    enum { ROWS = 300, CLASSES = 1000 };
    static uint16_t x[ROWS * CLASSES];
    static int32_t label[ROWS];
    static float y[ROWS];
    const bt_kernel_impl *kernel = kernel_named(bt_cpu_kernels("generic"), &bt_op_cross_entropy, ".pieces");
    bt_view in[] = {{(char *)x, BT_BF16, 2, {ROWS, CLASSES}, {CLASSES, 1}}, {(char *)label, BT_I32, 1, {ROWS}, {1}}};
    bt_view out = {(char *)y, BT_F32, 1, {ROWS}, {1}};
    bt_call call = {.op = &bt_op_cross_entropy, .inputs = 2, .outputs = 1, .in = in, .out = &out, .threads = 1};
    label[ROWS - 2] = CLASSES;
    ck_assert(kernel && bt_kernel_accepts(kernel, &call));
    call.scratch = malloc(kernel->scratch(&call));
    ck_assert_int_eq(kernel->prepare(&call), BT_OK);
    ck_assert_int_eq(kernel->launch(&call), BT_ERROR_DATA);
    ck_assert_msg(strstr(bt_error(), "element 298 of the indices [300]") != NULL, "%s", bt_error());
    kernel->release(&call);
    free(call.scratch);
    bt_error_clear();
}
END_TEST

START_TEST(channels)
{
    const bt_dtype h = half(_i);
    const bt_channel_attr lead = {.lead = 0}, centred = {.lead = 0, .terms = 1, .centred = 1},
                          norm = {.lead = 0, .terms = 2, .centred = 1, .scaled = 1, .shifted = 1, .relu = 1};
    trial moments = {.op = &bt_op_channel_moments,
                     .attr = &lead,
                     .inputs = 1,
                     .outputs = 2,
                     .in = {HALF(h, 4, 21, 16, 16, 19)},
                     .out = {HALF(BT_F32, 1, 19), HALF(BT_F32, 1, 19)}};
    moments.in[0].low = 3;
    moments.in[0].high = 4;
    moments.relative = moments.absolute = 1e-6;
    ck_assert_int_gt(compare(&moments), 0);
    trial dot = {.op = &bt_op_channel_dot,
                 .attr = &centred,
                 .inputs = 3,
                 .outputs = 2,
                 .in = {HALF(h, 4, 21, 16, 16, 19), HALF(h, 4, 21, 16, 16, 19), HALF(BT_F32, 1, 19)},
                 .out = {HALF(BT_F32, 1, 19), HALF(BT_F32, 1, 19)}};
    close_to(&dot, _i, 1e-2);
    trial mix = {.op = &bt_op_channel_mix,
                 .attr = &norm,
                 .inputs = 5,
                 .outputs = 1,
                 .in = {HALF(h, 4, 21, 16, 16, 19), HALF(BT_F32, 1, 19), HALF(BT_F32, 1, 19),
                        HALF(h, 4, 21, 16, 16, 19), HALF(BT_F32, 1, 19)},
                 .out = {HALF(h, 4, 21, 16, 16, 19)},
                 .alias = {1}};
    close_to(&mix, _i, 1e-6);
}
END_TEST

START_TEST(elements)
{
    const bt_dtype h = half(_i);
    static const enum layout layouts[] = {PLAIN, TURNED, SLICED, SPREAD};
    for (int l = 0; l < BT_COUNT_OF(layouts); l++) {
        trial one = {
            .op = &bt_op_gelu, .inputs = 1, .outputs = 1, .in = {HALF(h, 2, 130, 301)}, .out = {HALF(h, 2, 130, 301)}};
        one.in[0].layout = layouts[l];
        close_to(&one, _i, 1e-6);
        trial two = {.op = &bt_op_mul,
                     .inputs = 2,
                     .outputs = 1,
                     .in = {HALF(h, 2, 130, 301), HALF(BT_F32, 2, 130, 301)},
                     .out = {HALF(h, 2, 130, 301)}};
        two.in[1].layout = layouts[l];
        close_to(&two, _i, 1e-6);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backend: pieces");
    TCase *tests = tcase_create("pieces");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, convolutions, 0, 2);
    tcase_add_loop_test(tests, products, 0, 2);
    tcase_add_loop_test(tests, channels, 0, 2);
    tcase_add_loop_test(tests, losses, 0, 2);
    tcase_add_test(tests, wild_label);
    tcase_add_loop_test(tests, elements, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
