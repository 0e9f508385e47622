/* Products of bf16 numbers by special instructions, against the plain loops in double on the same numbers: sums are in
 * f32, 16-bit results are at most one unit off. */
#include "tests/backend/compare.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

#define BF16(rank_, ...)                                                                                               \
    {                                                                                                                  \
        .dtype = BT_BF16, .rank = (rank_), .dims = {__VA_ARGS__}, .low = -1, .high = 1                                 \
    }
#define F32(rank_, ...)                                                                                                \
    {                                                                                                                  \
        .dtype = BT_F32, .rank = (rank_), .dims = {__VA_ARGS__}, .low = -1, .high = 1                                  \
    }

/* The v4b kernel and the amx kernel must both accept the call, or both leave it to others. `sums`: the number of
 * products. */
static void check(trial *t, int64_t sums, bool taken)
{
    t->relative = t->out[0].dtype == BT_F32 ? 0x1p-20 : 0x1p-7;
    t->absolute = (double)sums * 0x1p-24;
    ck_assert_int_gt(compare(t), 0);
    for (int i = 3; isas[i]; i++)
        ck_assert_msg(!bt_cpu_kernels(isas[i]) || takes(t, isas[i], ".pairs") == taken, "%s: %s", t->op->name, isas[i]);
}

static const struct shape { /* images; inner, outer channels; window; padding */
    int64_t n, high, wide, inner, outer, window[2], padding[2];
} shapes[] = {
    {3, 8, 8, 64, 64, {3, 3}, {1, 1}},  {5, 9, 7, 16, 16, {3, 3}, {1, 1}},   {2, 32, 32, 16, 16, {3, 3}, {1, 1}},
    {4, 6, 5, 3, 16, {3, 3}, {1, 1}},   {3, 7, 6, 32, 10, {1, 1}, {0, 0}},   {2, 9, 11, 12, 40, {3, 5}, {0, 2}},
    {2, 5, 40, 8, 70, {1, 3}, {0, 1}},  {1, 12, 12, 20, 36, {5, 3}, {2, 0}}, {2, 3, 3, 16, 6, {3, 3}, {0, 0}},
    {40, 4, 4, 31, 17, {2, 2}, {1, 1}},
};

/* Loop index: shape. */
START_TEST(convolutions)
{
    const struct shape *s = &shapes[_i];
    const int64_t high = s->high + 2 * s->padding[0] - s->window[0] + 1;
    const int64_t wide = s->wide + 2 * s->padding[1] - s->window[1] + 1;
    bt_conv_attr attr = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    memcpy(attr.padding, s->padding, sizeof attr.padding);
    bt_conv_attr back = attr, window = attr;
    back.size[0] = s->high;
    back.size[1] = s->wide;
    memcpy(window.size, s->window, sizeof window.size);
    const operand x = BF16(4, s->n, s->high, s->wide, s->inner), y = BF16(4, s->n, high, wide, s->outer),
                  w = BF16(4, s->window[0], s->window[1], s->inner, s->outer);
    const int64_t taps = s->window[0] * s->window[1];
    trial forward = {.op = &bt_op_conv, .attr = &attr, .inputs = 2, .outputs = 1, .in = {x, w}, .out = {y}};
    trial to_x = {.op = &bt_op_conv_dx, .attr = &back, .inputs = 2, .outputs = 1, .in = {y, w}, .out = {x}};
    trial to_w = {.op = &bt_op_conv_dw, .attr = &window, .inputs = 2, .outputs = 1, .in = {x, y}, .out = {w}};
    to_w.out[0].dtype = BT_F32;
    for (int layout = 0; layout < 2; layout++) { /* the images as part of a larger array */
        forward.in[0].layout = to_x.in[0].layout = to_w.in[0].layout = to_w.in[1].layout = layout ? LOOSE : PLAIN;
        check(&forward, taps * s->inner, true);
        check(&to_x, taps * s->outer, true);
        check(&to_w, s->n * high * wide, true);
        forward.out[0].dtype = to_x.out[0].dtype = BT_F32;
    }
    trial biased = forward;
    biased.op = &bt_op_conv_bias;
    biased.inputs = 3;
    biased.in[2] = (operand)F32(1, s->outer);
    check(&biased, taps * s->inner, true);
}
END_TEST

/* Loop index: the layout of the operands. */
START_TEST(products)
{
    static const enum layout layouts[][2] = {{PLAIN, PLAIN},   {TURNED, PLAIN},  {PLAIN, TURNED},
                                             {TURNED, TURNED}, {SLICED, SLICED}, {LOOSE, LOOSE}};
    static const int64_t sizes[][3] = {{640, 64, 30},  {37, 33, 150},  {16, 16, 16},
                                       {70, 2500, 20}, {300, 48, 129}, {1000, 50, 17}};
    for (int i = 0; i < BT_COUNT_OF(sizes); i++)
        for (int to = 0; to < 2; to++) {
            const int64_t m = sizes[i][0], k = sizes[i][1], n = sizes[i][2];
            trial dot = {.op = &bt_op_dot,
                         .inputs = 2,
                         .outputs = 1,
                         .in = {BF16(2, m, k), BF16(2, k, n)},
                         .out = {BF16(2, m, n)}};
            dot.in[0].layout = layouts[_i][0];
            dot.in[1].layout = layouts[_i][1];
            dot.out[0].dtype = to ? BT_F32 : BT_BF16;
            check(&dot, k, true);
            bt_linear_attr relu = {.activation = to};
            trial linear = dot;
            linear.op = &bt_op_linear;
            linear.attr = &relu;
            linear.inputs = 3;
            linear.in[1] = (operand)BF16(2, n, k);
            linear.in[1].layout = layouts[_i][1];
            linear.in[2] = (operand)F32(1, n);
            linear.in[2].dtype = to ? BT_BF16 : BT_F32;
            check(&linear, k, true);
            trial add = dot;
            add.op = &bt_op_dot_add;
            add.inputs = 4;
            add.in[2] = (operand)F32(2, m, n);
            add.in[3] = (operand)F32(0, 0);
            add.out[0].dtype = BT_F32;
            add.alias[0] = 3;
            check(&add, k, true);
        }
}
END_TEST

START_TEST(many_products)
{
    trial three = {.op = &bt_op_dot,
                   .inputs = 2,
                   .outputs = 1,
                   .in = {BF16(3, 60, 30, 20), BF16(3, 60, 20, 40)},
                   .out = {BF16(3, 60, 30, 40)}};
    check(&three, 20, true);
    trial four = {.op = &bt_op_dot,
                  .inputs = 2,
                  .outputs = 1,
                  .in = {BF16(4, 5, 3, 200, 32), BF16(4, 5, 3, 32, 200)},
                  .out = {BF16(4, 5, 3, 200, 200)}};
    check(&four, 32, true);
}
END_TEST

/* Calls that the instructions do not support: strides, groups, other dtypes. */
START_TEST(others)
{
    const bt_conv_attr strides = {.stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1},
                       groups = {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 2};
    trial conv = {.op = &bt_op_conv,
                  .attr = &strides,
                  .inputs = 2,
                  .outputs = 1,
                  .in = {BF16(4, 3, 8, 8, 16), BF16(4, 3, 3, 16, 32)},
                  .out = {BF16(4, 3, 4, 4, 32)}};
    check(&conv, 200, false);
    conv.attr = &groups;
    conv.in[1] = (operand)BF16(4, 3, 3, 8, 32);
    conv.out[0] = (operand)BF16(4, 3, 8, 8, 32);
    check(&conv, 200, false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backend: bf16");
    TCase *tests = tcase_create("bf16");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, convolutions, 0, BT_COUNT_OF(shapes));
    tcase_add_loop_test(tests, products, 0, 6);
    tcase_add_test(tests, many_products);
    tcase_add_test(tests, others);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
