/* Philox against the known answers of its authors; the random kernels against their definition and their
 * distributions. */
#include "tests/backend/compare.h"

#include "ops/random.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* From the kat_vectors of Random123 (Salmon, Moraes, Dror, Shaw). */
START_TEST(known_answers)
{
    static const uint32_t cases[][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
         0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
         0x24126ea1},
    };
    for (int c = 0; c < BT_COUNT_OF(cases); c++) {
        const uint32_t *v = cases[c];
        bt_philox block = bt_philox4x32((bt_philox){{v[0], v[1], v[2], v[3]}}, v[4], v[5]);
        uint64_t key = (uint64_t)v[5] << 32 | v[4], record = (uint64_t)v[3] << 32 | v[2];
        bt_philox word = bt_random_word(key, v[1], (int64_t)record, v[0]);
        for (int i = 0; i < 4; i++) {
            ck_assert_uint_eq(block.word[i], v[6 + i]);
            ck_assert_uint_eq(word.word[i], v[6 + i]);
        }
    }
}
END_TEST

static const double records[] = {7, 0, -1, 1099511627776.0};
static const int64_t counts[] = {0, 1, 3, 4, 5, 127, 128, 129, 1000, 70000};

static trial random_trial(const bt_op *op, const bt_random_attr *attr, int record)
{
    trial t = {.op = op, .attr = attr, .inputs = 1, .outputs = 1};
    t.out[0] = (operand){.dtype = attr->dtype, .rank = 1, .dims = {attr->dims[0]}};
    operand scalar = {.dtype = BT_I64, .values = &records[record], .value_count = 1};
    if (op == &bt_op_dropout) {
        t.inputs = 2;
        t.in[0] = t.out[0];
        t.in[0].low = -3;
        t.in[0].high = 3;
        t.alias[0] = 1;
    }
    t.in[t.inputs - 1] = scalar;
    return t;
}

START_TEST(streams)
{
    static const bt_op *const ops[] = {&bt_op_uniform, &bt_op_normal, &bt_op_dropout};
    for (int way = 0; way < BT_COUNT_OF(counts) * 8; way++) {
        bt_random_attr attr = {.dtype = way & 1 ? BT_F64 : BT_F32, .rank = 1, .dims = {counts[way / 8]}};
        attr.key = 0x123456789abcdef0 * (uint64_t)way;
        attr.site = (uint32_t)way * 2654435761U;
        attr.probability = way & 2 ? 0.3 : 0;
        attr.first = way & 4 ? 1000003 : 0;
        trial t = random_trial(ops[_i], &attr, way % 4);
        t.bits = attr.dtype == BT_F32;
        if (ops[_i] == &bt_op_normal) /* in f32: near 1, the radius has only 24 bits */
            t.absolute = way & 1 ? 1e-14 : 1e-3;
        if (ops[_i] == &bt_op_dropout)
            t.relative = way & 1 ? 1e-15 : 2e-7;
        compare_fast(&t);
    }
}
END_TEST

/* Arbitrary numbers, and non-finite ones. */
START_TEST(filters)
{
    static const double values[] = {1.01, -2.003, INFINITY, 3e38, NAN, -INFINITY, 0, -0.0, 1e-40, 0.1, -7.7};
    static const enum layout layouts[] = {PLAIN, TURNED, SLICED, SPREAD};
    for (int way = 0; way < 32; way++) {
        const bt_stochastic_attr rounds = {.key = 99, .site = 5, .first = way & 1 ? 7 : 0};
        bt_random_attr drops = {.dtype = way & 1 ? BT_F64 : BT_F32, .rank = 2, .dims = {30, 37}, .key = 3};
        trial t = {.op = &bt_op_stochastic_round, .attr = &rounds, .inputs = 2, .outputs = 1};
        t.in[0] = t.out[0] = (operand){.dtype = BT_F32, .rank = 2, .dims = {30, 37}};
        t.in[0].layout = layouts[way / 8];
        t.in[0].values = values;
        t.in[0].value_count = BT_COUNT_OF(values);
        t.in[1] = (operand){.dtype = BT_I64, .values = &records[way % 4], .value_count = 1};
        t.out[0].dtype = way & 2 ? BT_BF16 : way & 4 ? BT_F16 : BT_F32;
        t.bits = t.in[0].layout == PLAIN;
        compare(&t);
        drops.probability = 0.25;
        drops.first = rounds.first;
        t.op = &bt_op_dropout;
        t.attr = &drops;
        t.in[0].dtype = t.out[0].dtype = drops.dtype;
        t.relative = way & 1 ? 1e-15 : 2e-7;
        t.bits = !(way & 1);
        compare(&t);
    }
}
END_TEST

/* Moments; other keys, sites and records give other numbers. */
START_TEST(laws)
{
    enum { COUNT = 1 << 18 };
    bool f64 = _i & 1, is_normal = _i & 2;
    char *data = bt_alloc_aligned(COUNT * 8);
    int64_t record = 3;
    ck_assert_ptr_nonnull(data);
    bt_random_attr attr = {.dtype = f64 ? BT_F64 : BT_F32, .rank = 1, .dims = {COUNT}, .key = 99, .site = 5};
    bt_view in = {(char *)&record, BT_I64, 0, {0}, {0}}, out = {data, attr.dtype, 1, {COUNT}, {1}};
    bt_call call = {.op = is_normal ? &bt_op_normal : &bt_op_uniform,
                    .attr = &attr,
                    .inputs = 1,
                    .outputs = 1,
                    .in = &in,
                    .out = &out,
                    .threads = 1};
    double first = 0, sum = 0, squares = 0, fourth = 0, neighbours = 0, center = is_normal ? 0 : 0.5, last = 0;
    for (int change = 0; change < 4; change++) {
        attr.key += change == 1 ? (uint64_t)1 << 32 : 0;
        attr.site += change == 2;
        record += change == 3 ? (int64_t)1 << 32 : 0;
        ck_assert(bt_kernel_choose(&bt_backend_cpu()->kernels, &call)->launch(&call) == BT_OK);
        double now = bt_get(attr.dtype, data, 17);
        ck_assert(change == 0 || now < first || now > first);
        first = now;
    }
    for (int i = 0; i < COUNT; i++) {
        double x = bt_get(attr.dtype, data, i) - center;
        ck_assert(is_normal || (x >= -0.5 && x < 0.5));
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
        neighbours += x * last;
        last = x;
    }
    double variance = is_normal ? 1 : 1.0 / 12, kurtosis = is_normal ? 3 : 1.0 / 80; /* five standard errors each */
    double error = 5 / sqrt((double)COUNT);
    ck_assert_double_eq_tol(sum / COUNT, 0, error * sqrt(variance));
    ck_assert_double_eq_tol(squares / COUNT, variance, error * sqrt(kurtosis - variance * variance));
    ck_assert_double_eq_tol(fourth / COUNT, kurtosis, is_normal ? error * sqrt(96.0) : error * 0.02);
    ck_assert_double_eq_tol(neighbours / COUNT, 0, error * variance);
    bt_free_aligned(data);
}
END_TEST

START_TEST(dropped)
{
    enum { COUNT = 1 << 18 };
    static float x[COUNT], y[COUNT];
    int64_t record = 3, kept = 0;
    bt_random_attr attr = {.dtype = BT_F32, .rank = 1, .dims = {COUNT}, .key = 99, .site = 5, .probability = 0.25};
    bt_view in[] = {{(char *)x, BT_F32, 1, {COUNT}, {1}}, {(char *)&record, BT_I64, 0, {0}, {0}}};
    bt_view out = {(char *)y, BT_F32, 1, {COUNT}, {1}};
    bt_call call = {
        .op = &bt_op_dropout, .attr = &attr, .inputs = 2, .outputs = 1, .in = in, .out = &out, .threads = 2};
    for (int i = 0; i < COUNT; i++)
        x[i] = 3;
    ck_assert(bt_kernel_choose(&bt_backend_cpu()->kernels, &call)->launch(&call) == BT_OK);
    for (int i = 0; i < COUNT; i++) {
        float u = bt_random_f32(99, 5, 3, (uint64_t)i);
        ck_assert((u >= 0.25F) == (y[i] > 0));
        ck_assert(y[i] > 0 ? fabs((double)y[i] - 4) < 1e-6 : y[i] >= 0);
        kept += y[i] > 0;
    }
    ck_assert_double_eq_tol((double)kept / COUNT, 0.75, 5 * sqrt(0.1875 / COUNT));
}
END_TEST

/* Rounds to one of the two neighbours, decided by the lower half of the word that uniform has there: as bits and as
 * f32, on one thread and on two. */
START_TEST(stochastically_rounded)
{
    enum { COUNT = 70001 };
    static float x[COUNT], wide[COUNT];
    static uint16_t y[2][COUNT];
    int64_t updates = 3;
    bt_stochastic_attr attr = {.key = 99, .site = 5};
    bt_view in[] = {{(char *)x, BT_F32, 1, {COUNT}, {1}}, {(char *)&updates, BT_I64, 0, {0}, {0}}}, out;
    bt_call call = {.op = &bt_op_stochastic_round, .attr = &attr, .inputs = 2, .outputs = 1, .in = in, .out = &out};
    for (int i = 0; i < COUNT; i++)
        x[i] = (i % 2 ? -1 : 1) * (1 + (float)i / COUNT);
    x[100] = INFINITY, x[101] = -INFINITY, x[102] = NAN, x[103] = bt_f32_of(0x7f800001); /* as produced by a kernel */
    for (int way = 0; way < 3; way++) {
        call.threads = 1 + way % 2;
        out = way < 2 ? (bt_view){(char *)y[way], BT_BF16, 1, {COUNT}, {1}}
                      : (bt_view){(char *)wide, BT_F32, 1, {COUNT}, {1}};
        ck_assert(bt_kernel_choose(&bt_backend_cpu()->kernels, &call)->launch(&call) == BT_OK);
    }
    for (int i = 0; i < COUNT; i++) {
        uint32_t bits, random = bt_random_word(99, 5, 3, (uint64_t)i / 4).word[i % 4];
        memcpy(&bits, &x[i], sizeof bits);
        uint32_t due = (bits >> 16) + ((bits & 0xffff) + (random & 0xffff) > 0xffff);
        ck_assert_uint_eq(y[0][i], isfinite(x[i]) ? due : bt_bf16_of(x[i]));
        ck_assert_uint_eq(y[0][i], y[1][i]);
        memcpy(&bits, &wide[i], sizeof bits);
        ck_assert_uint_eq(bits, (uint32_t)y[0][i] << 16);
    }
}
END_TEST

/* Of the 65,536 values of r, as many round up as the lower half says, so the mean is exact. For every 31st number all
 * values are tried, for the others only those at the threshold. */
START_TEST(as_many_round_up)
{
    for (uint32_t low = 0; low < 65536; low++) {
        float x = bt_f32_of(0x3fa50000 | low);
        uint32_t up = 0;
        for (uint32_t r = 0; low % 31 == 0 && r < 65536; r++)
            up += bt_random_bf16(x, r | r << 16) == 0x3fa6;
        ck_assert_uint_eq(up, low % 31 == 0 ? low : 0);
        ck_assert(bt_random_bf16(x, 65535 - low) == 0x3fa5);
        ck_assert(low == 0 || bt_random_bf16(x, 0xabcd0000 | (65536 - low)) == 0x3fa6);
        ck_assert(low == 0 || bt_random_bf16(-x, 65536 - low) == 0xbfa6); /* away from 0 */
    }
    static const uint32_t far[] = {0x7f800000, 0xff800000, 0x7f800001, 0xffffffff, 0x7fc00000};
    for (int i = 0; i < BT_COUNT_OF(far); i++)
        ck_assert_uint_eq(bt_random_bf16(bt_f32_of(far[i]), 0xffff), bt_bf16_of(bt_f32_of(far[i])));
    ck_assert_uint_eq(bt_random_bf16(bt_f32_of(0x7f7fffff), 1), 0x7f80); /* no bf16 is larger than the largest f32 */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("random");
    TCase *tcase = tcase_create("kernels");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, known_answers);
    tcase_add_loop_test(tcase, streams, 0, 3);
    tcase_add_test(tcase, filters);
    tcase_add_loop_test(tcase, laws, 0, 4);
    tcase_add_test(tcase, dropped);
    tcase_add_test(tcase, stochastically_rounded);
    tcase_add_test(tcase, as_many_round_up);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
