/* Elementwise kernels against the plain loops: shapes, layouts, in place, special values; and the plain loops against
 * the C library's functions. */
#include "tests/backend/compare.h"

#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

static const int64_t shapes[][5] = {
    {0}, /* a scalar */
    {1, 0},      {1, 1},      {1, 7},       {1, 33},      {1, 1000},       {2, 3, 5},   {2, 17, 64}, {2, 5, 0},
    {2, 1, 130}, {2, 70, 35}, {3, 2, 3, 4}, {3, 4, 1, 9}, {4, 2, 3, 4, 5}, {2, 300, 1}, {2, 16, 16},
};

static operand operand_of(bt_dtype dtype, const int64_t *shape, enum layout layout, double low, double high)
{
    operand o = {.dtype = dtype, .rank = (int)shape[0], .layout = layout, .low = low, .high = high};
    for (int d = 0; d < o.rank; d++)
        o.dims[d] = shape[1 + d];
    return o;
}

static const double special[] = {0,    -0.0,  1,     -1,      NAN,      INFINITY, -INFINITY, 1e-40, -1e-40,
                                 1e38, -1e38, 88.5,  -87.5,   -103,     -104,     89,        20,    -20,
                                 5.5,  -5.5,  1e-20, 0.62499, 0.625001, 0.999999, 1.000001,  -0.5,  1e7,
                                 -1e9, 3e5,   -2e5,  710,     -745,     -746,     1e-300,    1e300};

static const struct unary {
    const bt_op *op;
    double low, high, relative, absolute; /* for f32 */
} unaries[] = {
    {&bt_op_neg, -5, 5, 0, 0},
    {&bt_op_abs, -5, 5, 0, 0},
    {&bt_op_sign, -5, 5, 0, 0},
    {&bt_op_square, -5, 5, 0, 0},
    {&bt_op_sqrt, 0, 50, 0, 0},
    {&bt_op_exp, -100, 88, 2.5e-7, 2e-45},
    {&bt_op_log, 0, 5, 2.5e-7, 1e-45},
    {&bt_op_log1p, -0.99, 3, 3e-7, 0},
    {&bt_op_sin, -100, 100, 2e-7, 1e-14},
    {&bt_op_cos, -100, 100, 2e-7, 1e-14},
    {&bt_op_tanh, -6, 6, 3.5e-7, 1e-45},
    {&bt_op_erf, -5, 5, 3e-7, 1e-45},
    {&bt_op_sigmoid, -100, 50, 3e-7, 3e-45},
    {&bt_op_relu, -5, 5, 0, 0},
    {&bt_op_step, -5, 5, 0, 0},
    {&bt_op_floor, -5, 5, 0, 0},
    {&bt_op_isfinite, -5, 5, 0, 0},
    {&bt_op_softplus, -90, 20, 3.5e-7, 3e-45},
    {&bt_op_gelu, -5, 5, 1e-6, 2e-8},
    {&bt_op_gelu_slope, -5, 5, 1e-6, 1e-7},
    {&bt_op_gelu_tanh, -5, 5, 3e-6, 1e-44},
    {&bt_op_expm1, -5, 5, 3e-7, 1e-45},
    {&bt_op_sinh, -5, 5, 5e-7, 1e-45},
    {&bt_op_cosh, -5, 5, 5e-7, 0},
    {&bt_op_atan, -5, 5, 3e-7, 1e-45},
};

static trial unary_trial(const struct unary *u, bt_dtype dtype, const int64_t *shape, enum layout layout)
{
    bool finite = u->op == &bt_op_isfinite;
    trial t = {.op = u->op, .inputs = 1, .outputs = 1, .relative = u->relative, .absolute = u->absolute};
    t.bits = dtype == BT_F32;
    t.in[0] = operand_of(dtype, shape, layout, u->low, u->high);
    t.out[0] = operand_of(finite ? BT_BOOL : dtype, shape, PLAIN, 0, 0);
    t.alias[0] = layout == PLAIN && !finite;
    if (dtype == BT_F64 && u->relative > 0) {
        t.relative = 1e-15;
        t.absolute = u->op == &bt_op_gelu_slope ? 2e-16 : 0; /* its two terms cancel at -0.75 */
    }
    return t;
}

START_TEST(unary_shapes)
{
    static const enum layout layouts[] = {PLAIN, TURNED, SLICED, LOOSE, SPREAD, ONE, INNER};
    const struct unary *u = &unaries[_i];
    for (int s = 0; s < BT_COUNT_OF(shapes); s++)
        for (int l = 0; l < BT_COUNT_OF(layouts); l++)
            for (int wide = 0; wide < 2; wide++) {
                trial t = unary_trial(u, wide ? BT_F64 : BT_F32, shapes[s], layouts[l]);
                t.seed = (uint64_t)(s * 100 + l);
                compare_fast(&t);
            }
}
END_TEST

START_TEST(unary_values)
{
    const struct unary *u = &unaries[_i];
    static const int64_t shape[] = {1, 20000};
    for (int wide = 0; wide < 2; wide++) {
        trial t = unary_trial(u, wide ? BT_F64 : BT_F32, shape, PLAIN);
        t.seed = 5;
        compare_fast(&t);
        t.in[0].low = -1; /* a range that is delicate for most functions */
        t.in[0].high = 1;
        if (u->op != &bt_op_log && u->op != &bt_op_sqrt)
            compare_fast(&t);
        t.in[0].values = special;
        t.in[0].value_count = BT_COUNT_OF(special);
        if (!wide && u->op == &bt_op_gelu)
            t.absolute = 1e-7;
        if (u->op == &bt_op_sin || u->op == &bt_op_cos) /* far from 0 the processor uses another method for whole
                                                         * rows */
            t.bits = false;
        compare_fast(&t);
    }
}
END_TEST

START_TEST(integers)
{
    static const bt_op *const ops[] = {&bt_op_neg, &bt_op_abs, &bt_op_sign, &bt_op_square};
    static const double values[] = {0, -1, 1, 7, -7, 2147483647, -2147483648.0};
    static const int64_t expected[4][7] = {{0, 1, -1, -7, 7, -2147483647, INT32_MIN},
                                           {0, 1, 1, 7, 7, 2147483647, INT32_MIN},
                                           {0, -1, 1, 1, -1, 1, -1},
                                           {0, 1, 1, 49, 49, 1, 0}};
    for (int i = 0; i < BT_COUNT_OF(ops); i++) {
        int32_t x[7], y[7];
        for (int j = 0; j < 7; j++)
            x[j] = (int32_t)values[j];
        bt_view in = {(char *)x, BT_I32, 1, {7}, {1}}, out = {(char *)y, BT_I32, 1, {7}, {1}};
        bt_call call = {.op = ops[i], .inputs = 1, .outputs = 1, .in = &in, .out = &out, .threads = 1};
        const bt_kernel_impl *kernel = bt_kernel_choose(&bt_backend_cpu()->kernels, &call);
        ck_assert_ptr_nonnull(kernel);
        ck_assert(strstr(kernel->name, ".vector") && kernel->prepare(&call) == BT_OK);
        ck_assert(kernel->launch(&call) == BT_OK);
        kernel->release(&call);
        for (int j = 0; j < 7; j++)
            ck_assert_int_eq(y[j], expected[i][j]);
    }
}
END_TEST

static const struct binary {
    const bt_op *op;
    double relative;
    bool boolean, integers;
} binaries[] = {
    {&bt_op_add, 0, false, true},     {&bt_op_sub, 0, false, true},       {&bt_op_mul, 0, false, true},
    {&bt_op_div, 0, false, false},    {&bt_op_pow, 1.2e-7, false, false}, {&bt_op_minimum, 0, false, true},
    {&bt_op_maximum, 0, false, true}, {&bt_op_gate, 0, false, false},     {&bt_op_less, 0, true, true},
    {&bt_op_greater, 0, true, true},  {&bt_op_equal, 0, true, true},
};

START_TEST(binary_shapes)
{
    static const enum layout layouts[] = {PLAIN, TURNED, SLICED, SPREAD, ONE};
    const struct binary *b = &binaries[_i];
    for (int s = 0; s < BT_COUNT_OF(shapes); s++)
        for (int l = 0; l < 25; l++)
            for (int dtype = BT_F32; dtype <= (b->integers ? BT_I64 : BT_F64); dtype++) {
                bt_dtype type = dtype == 0 ? BT_F32 : dtype == 1 ? BT_F64 : dtype == 2 ? BT_I32 : BT_I64;
                enum layout first = layouts[l % 5], second = layouts[l / 5];
                trial t = {.op = b->op, .inputs = 2, .outputs = 1, .seed = (uint64_t)(s * 25 + l)};
                t.in[0] = operand_of(type, shapes[s], first, b->op == &bt_op_pow ? 0 : -3, 4);
                t.in[1] = operand_of(type, shapes[s], second, -3, 4);
                t.out[0] = operand_of(b->boolean ? BT_BOOL : type, shapes[s], PLAIN, 0, 0);
                t.relative = b->relative;
                if (!b->boolean)
                    t.alias[0] = first == PLAIN ? 1 : second == PLAIN ? 2 : 0;
                compare_fast(&t);
            }
}
END_TEST

START_TEST(binary_values)
{
    const struct binary *b = &binaries[_i];
    static const double other[] = {0, NAN, 1, -1, INFINITY, 2, -0.0, 3, -INFINITY, 0.5, 1e-40};
    static const int64_t shape[] = {1, 5000};
    for (int wide = 0; wide < 2; wide++) {
        bt_dtype type = wide ? BT_F64 : BT_F32;
        trial t = {.op = b->op, .inputs = 2, .outputs = 1, .relative = b->relative};
        t.in[0] = t.in[1] = operand_of(type, shape, PLAIN, 0, 0);
        t.out[0] = operand_of(b->boolean ? BT_BOOL : type, shape, PLAIN, 0, 0);
        t.in[0].values = special;
        t.in[0].value_count = BT_COUNT_OF(special);
        t.in[1].values = other;
        t.in[1].value_count = BT_COUNT_OF(other);
        if (b->op == &bt_op_pow)
            t.absolute = 1e-44;
        compare_fast(&t);
    }
}
END_TEST

START_TEST(where_all)
{
    static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_I32, BT_I64, BT_U8, BT_BOOL};
    static const enum layout layouts[] = {PLAIN, TURNED, SLICED, SPREAD, ONE};
    for (int s = 0; s < BT_COUNT_OF(shapes); s++)
        for (int l = 0; l < 125; l++) {
            trial t = {.op = &bt_op_where, .inputs = 3, .outputs = 1, .seed = (uint64_t)(s * 125 + l)};
            bt_dtype dtype = dtypes[l % 6];
            t.in[0] = operand_of(BT_BOOL, shapes[s], layouts[l % 5], 0, 2);
            t.in[1] = operand_of(dtype, shapes[s], layouts[l / 5 % 5], 0, 100);
            t.in[2] = operand_of(dtype, shapes[s], layouts[l / 25], 0, 100);
            t.out[0] = operand_of(dtype, shapes[s], PLAIN, 0, 0);
            t.alias[0] = t.in[1].layout == PLAIN ? 2 : t.in[2].layout == PLAIN ? 3 : 0;
            compare_fast(&t);
        }
}
END_TEST

START_TEST(cast_all)
{
    static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_I32, BT_I64, BT_U8, BT_BOOL};
    static const enum layout layouts[] = {PLAIN, TURNED, SLICED, SPREAD, ONE};
    bt_dtype from = dtypes[_i / 6], to = dtypes[_i % 6];
    for (int s = 0; s < BT_COUNT_OF(shapes); s++)
        for (int l = 0; l < BT_COUNT_OF(layouts); l++) {
            bool sign = from != BT_U8 && from != BT_BOOL;
            trial t = {.op = &bt_op_cast, .inputs = 1, .outputs = 1, .seed = (uint64_t)(s * 5 + l)};
            t.in[0] = operand_of(from, shapes[s], layouts[l], sign ? -200 : 0, from == BT_BOOL ? 2 : 250);
            t.out[0] = operand_of(to, shapes[s], PLAIN, 0, 0);
            t.alias[0] = layouts[l] == PLAIN && bt_dtype_size(from) == bt_dtype_size(to);
            compare_fast(&t);
            if (bt_dtype_floats(from) && shapes[s][0] == 1) {
                t.in[0].values = special;
                t.in[0].value_count = BT_COUNT_OF(special);
                compare_fast(&t);
            }
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("elementwise");
    TCase *tcase = tcase_create("kernels");
    tcase_add_loop_test(tcase, unary_shapes, 0, BT_COUNT_OF(unaries));
    tcase_add_loop_test(tcase, unary_values, 0, BT_COUNT_OF(unaries));
    tcase_add_test(tcase, integers);
    tcase_add_loop_test(tcase, binary_shapes, 0, BT_COUNT_OF(binaries));
    tcase_add_loop_test(tcase, binary_values, 0, BT_COUNT_OF(binaries));
    tcase_add_test(tcase, where_all);
    tcase_add_loop_test(tcase, cast_all, 0, 36);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
