/* The optimisers' updates against the plain loops, also in place, and the plain loops against numbers worked out by
 * hand. */
#include "tests/backend/compare.h"

#include "support/on_device.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t sizes[] = {0, 1, 7, 8, 33, 1000, 40000};

static operand array(bt_dtype dtype, int64_t n, double low, double high)
{
    return (operand){.dtype = dtype, .rank = 1, .dims = {n}, .low = low, .high = high};
}

static operand scalar(bt_dtype dtype, const double *value)
{
    return (operand){.dtype = dtype, .values = value, .value_count = 1};
}

static const double truth[] = {1, 0, 0.1, 0.9, 0.25, 0.01, 0.001, 0.999, 1e-8, 3, 1};
enum { YES, NO, LR, MOMENTUM, DAMPENING, DECAY, SMALL_LR, BETA2, EPS, COUNT, FIRST_COUNT };

/* ok is true or false; m is NaN before the first step, which must not matter. */
START_TEST(sgd)
{
    for (int s = 0; s < BT_COUNT_OF(sizes); s++)
        for (int way = 0; way < 64; way++) {
            if (device_backend() && sizes[s] > 33 && way % 5) /* slow if the processor is the device */
                continue;
            bt_dtype dtype = way & 1 ? BT_F64 : BT_F32;
            bt_sgd_attr attr = {.nesterov = way >> 1 & 1};
            static const double nan[] = {NAN};
            bool ok = way & 4, first = way & 8, decays = way & 16;
            trial t = {.op = &bt_op_sgd_update, .attr = &attr, .inputs = 9, .outputs = 2, .seed = (uint64_t)way};
            for (int i = 0; i < 3; i++)
                t.in[i] = array(dtype, sizes[s], -1, 1);
            if (first && ok)
                t.in[2].values = nan, t.in[2].value_count = 1;
            t.in[3] = scalar(BT_BOOL, &truth[ok ? YES : NO]);
            t.in[4] = scalar(dtype, &truth[LR]);
            t.in[5] = scalar(dtype, &truth[MOMENTUM]);
            t.in[6] = scalar(dtype, &truth[way & 32 ? DAMPENING : NO]);
            t.in[7] = scalar(dtype, &truth[decays ? DECAY : NO]);
            t.in[8] = scalar(BT_BOOL, &truth[first ? YES : NO]);
            t.out[0] = t.out[1] = array(dtype, sizes[s], 0, 0);
            t.alias[0] = 1;
            t.alias[1] = 3;
            t.absolute = dtype == BT_F32 ? 3e-7 : 5e-16;
            t.bits = dtype == BT_F32;
            compare_fast(&t);
            t.alias[0] = 2; /* p' stored over the gradient */
            compare_fast(&t);
            if (way >= 32)
                continue;
            t = (trial){.op = &bt_op_sgd_plain_update, .inputs = 5, .outputs = 1, .seed = (uint64_t)way};
            t.in[0] = t.in[1] = t.out[0] = array(dtype, sizes[s], -1, 1);
            t.in[2] = scalar(BT_BOOL, &truth[ok ? YES : NO]);
            t.in[3] = scalar(dtype, &truth[LR]);
            t.in[4] = scalar(dtype, &truth[decays ? DECAY : NO]);
            t.alias[0] = 1;
            t.absolute = dtype == BT_F32 ? 1.5e-7 : 3e-16;
            t.bits = dtype == BT_F32;
            compare_fast(&t);
            t.alias[0] = 2;
            compare_fast(&t);
        }
}
END_TEST

START_TEST(adam)
{
    for (int s = 0; s < BT_COUNT_OF(sizes); s++)
        for (int way = 0; way < 32; way++) {
            if (device_backend() && sizes[s] > 33 && way % 5)
                continue;
            bt_dtype dtype = way & 1 ? BT_F64 : BT_F32;
            bt_adam_attr attr = {.decoupled = way >> 1 & 1};
            trial t = {.op = &bt_op_adam_update, .attr = &attr, .inputs = 11, .outputs = 3, .seed = (uint64_t)way};
            for (int i = 0; i < 4; i++)
                t.in[i] = array(dtype, sizes[s], i == 3 ? 0 : -1, 1);
            t.in[4] = scalar(BT_BOOL, &truth[way & 4 ? YES : NO]);
            t.in[5] = scalar(dtype, &truth[SMALL_LR]);
            t.in[6] = scalar(dtype, &truth[MOMENTUM]);
            t.in[7] = scalar(dtype, &truth[BETA2]);
            t.in[8] = scalar(dtype, &truth[EPS]);
            t.in[9] = scalar(dtype, &truth[way & 8 ? DECAY : NO]);
            t.in[10] = scalar(dtype, &truth[way & 16 ? COUNT : FIRST_COUNT]);
            for (int o = 0; o < 3; o++)
                t.out[o] = array(dtype, sizes[s], 0, 0);
            t.alias[0] = 1;
            t.alias[1] = 3;
            t.alias[2] = 4;
            t.absolute = dtype == BT_F32 ? 3e-7 : 5e-16;
            t.bits = dtype == BT_F32;
            compare_fast(&t);
            t.alias[0] = 2;
            compare_fast(&t);
        }
}
END_TEST

static trial eight_trial(const bt_op *op, bt_dtype dtype, int64_t n, int slots, bool ok)
{
    static const double numbers[] = {0.001, 0.9, 0.99, 0.01, 0.01, 3};
    trial t = {.op = op, .outputs = 1 + 2 * slots, .alias = {1, 3, 4, 5, 6}};
    const int64_t blocks = bt_codes_blocks(n);
    t.in[t.inputs++] = array(dtype, n, -1, 1);
    t.in[t.inputs++] = t.out[0] = array(dtype, n, -1, 1);
    for (int s = 0; s < slots; s++) {
        t.in[t.inputs++] = t.out[1 + 2 * s] = array(BT_U8, n, 0, 256);
        t.in[t.inputs++] = t.out[2 + 2 * s] = array(BT_F32, blocks, 0.01, 1);
    }
    t.in[t.inputs++] = scalar(BT_BOOL, &truth[ok ? YES : NO]);
    for (int i = 0; i < (slots > 1 ? 6 : 4); i++)
        t.in[t.inputs++] = scalar(dtype, &numbers[i]);
    t.bits = dtype == BT_F32;
    t.relative = t.absolute = 1e-12;
    return t;
}

/* In f32 rounding may move a number across the boundary to the next code, so only a device with the processor's bits is
 * tested. */
START_TEST(eight)
{
    static const int64_t many[] = {0, 1, 255, 256, 257, 3000, 524800};
    for (int s = 0; s < BT_COUNT_OF(many); s++)
        for (int way = device_backend() ? 0 : 4; way < 8; way++) {
            const bt_dtype dtype = way & 4 ? BT_F64 : BT_F32;
            const bt_adam_attr attr = {.decoupled = way & 1};
            if (many[s] > 100000 && way != 2) /* more blocks than a device has at a time: slow */
                continue;
            trial t = eight_trial(&bt_op_lion8bit_update, dtype, many[s], 1, way & 2);
            compare_fast(&t);
            t = eight_trial(&bt_op_adam8bit_update, dtype, many[s], 2, way & 2);
            t.attr = &attr;
            compare_fast(&t);
            t = (trial){.op = &bt_op_scales, .inputs = 1, .outputs = 1};
            t.in[0] = array(dtype, many[s], -3, 2);
            t.out[0] = array(BT_F32, bt_codes_blocks(many[s]), 0, 0);
            compare(&t);
        }
}
END_TEST

/* Other layouts must be accepted by some kernel, too. */
START_TEST(layouts)
{
    static const enum layout some[] = {TURNED, SLICED, SPREAD, ONE};
    for (int l = 0; l < BT_COUNT_OF(some); l++) {
        trial t = {.op = &bt_op_sgd_plain_update, .inputs = 5, .outputs = 1, .absolute = 1e-6};
        t.in[0] = (operand){.dtype = BT_F32, .rank = 2, .dims = {5, 7}, .low = -1, .high = 1};
        t.out[0] = t.in[1] = t.in[0];
        t.in[1].layout = some[l];
        t.in[2] = scalar(BT_BOOL, &truth[YES]);
        t.in[3] = scalar(BT_F32, &truth[LR]);
        t.in[4] = scalar(BT_F32, &truth[DECAY]);
        compare(&t);
    }
}
END_TEST

static bt_view number(double *x) { return (bt_view){.data = (char *)x, .dtype = BT_F64}; }

static void run_plain(const bt_op *op, const void *attr, bt_view *in, int inputs, bt_view *out, int outputs)
{
    bt_call call = {.op = op, .attr = attr, .inputs = inputs, .outputs = outputs, .in = in, .out = out, .threads = 1};
    ck_assert(kernel_named(bt_cpu_kernels(""), op, ".reference")->launch(&call) == BT_OK);
}

START_TEST(by_hand)
{
    /* p = 2, g = 1, m = 4, lr 0.5, momentum 0.5, dampening 0.25, decay 0.5: g is 2, m' = 2 + 1.5, p' = 2 - 1.75;
     * Nesterov: 2 - 0.5 (2 + 1.75); at first m' = 2, p' = 1 */
    double p = 2, g = 1, m = 4, v = 3, lr = 0.5, half = 0.5, quarter = 0.25, t = 1, eps = 1, new[3];
    uint8_t yes = 1, no = 0;
    bt_view flag = {.data = (char *)&yes, .dtype = BT_BOOL}, first = {.data = (char *)&no, .dtype = BT_BOOL};
    bt_view out[] = {number(&new[0]), number(&new[1]), number(&new[2])};
    bt_view in[] = {number(&p),    number(&g),       number(&m),    flag, number(&lr),
                    number(&half), number(&quarter), number(&half), first};
    bt_sgd_attr classic = {0}, nesterov = {1};
    run_plain(&bt_op_sgd_update, &classic, in, 9, out, 2);
    ck_assert(fabs(new[0] - 0.25) < 1e-15 && fabs(new[1] - 3.5) < 1e-15);
    run_plain(&bt_op_sgd_update, &nesterov, in, 9, out, 2);
    ck_assert(fabs(new[0] - 0.125) < 1e-15 && fabs(new[1] - 3.5) < 1e-15);
    no = 1;
    run_plain(&bt_op_sgd_update, &classic, in, 9, out, 2);
    ck_assert(fabs(new[0] - 1) < 1e-15 && fabs(new[1] - 2) < 1e-15);
    yes = 0;
    run_plain(&bt_op_sgd_update, &classic, in, 9, out, 2);
    ck_assert(fabs(new[0] - 2) < 1e-15 && fabs(new[1] - 4) < 1e-15);
    yes = 1;
    /* Adam, t = 1, both betas 0.5, no decay: m' = 2.5, corrected 5; v' = 2, corrected 4, root 2; p' = 2 - 0.5 * 5 / 3
     */
    double none = 0;
    bt_view adam[] = {number(&p),    number(&g),    number(&m),   number(&v),    flag,      number(&lr),
                      number(&half), number(&half), number(&eps), number(&none), number(&t)};
    bt_adam_attr coupled = {0}, decoupled = {1};
    run_plain(&bt_op_adam_update, &coupled, adam, 11, out, 3);
    ck_assert(fabs(new[0] - (2 - 2.5 / 3)) < 1e-15 && fabs(new[1] - 2.5) < 1e-15 && fabs(new[2] - 2) < 1e-15);
    none = 0.5; /* decoupled: p is first 2 - 0.5 * 0.5 * 2 = 1.5 */
    run_plain(&bt_op_adam_update, &decoupled, adam, 11, out, 3);
    ck_assert(fabs(new[0] - (1.5 - 2.5 / 3)) < 1e-15 && fabs(new[1] - 2.5) < 1e-15);
    /* coupled: g is 2, m' = 3, corrected 6; v' = 3.5, corrected 7 */
    run_plain(&bt_op_adam_update, &coupled, adam, 11, out, 3);
    ck_assert(fabs(new[0] - (2 - 3 / (sqrt(7) + 1))) < 1e-15 && fabs(new[2] - 3.5) < 1e-15);
}
END_TEST

/* Moments without gradients, halved: exact while they are normal numbers, and 0 below; of either sign, for a whole
 * vector and the remainder. Nothing else is written. */
START_TEST(moments_that_fade)
{
    static const double singles[] = {0x1p-125, 0x1p-126, -0x1p-125, -0x1p-126, 0x1p-140, 0x1p-149, 1, 0x1.8p-126};
    static const double doubles[] = {0x1p-1021, 0x1p-1022, -0x1p-1021, -0x1p-1022, 0x1p-1060, 0x1p-1074, 1, 0};
    static const double none[] = {0}, half[] = {0.5}, one[] = {1};
    double p = 0, g = 0, m = -0x1p-1022, v = 0x1p-1022, zero = 0, point5 = 0.5, unit = 1, new[3] = {7, 7, 7};
    uint8_t yes = 1, no = 0;
    bt_view flag = {.data = (char *)&yes, .dtype = BT_BOOL}, first = {.data = (char *)&no, .dtype = BT_BOOL};
    bt_view out[] = {number(&new[0]), number(&new[1]), number(&new[2])};
    bt_view plain[] = {number(&p),      number(&g),    number(&m),    flag, number(&unit),
                       number(&point5), number(&zero), number(&zero), first};
    bt_view adam[] = {number(&p),      number(&g),      number(&m),    number(&v),    flag,         number(&unit),
                      number(&point5), number(&point5), number(&unit), number(&zero), number(&unit)};
    bt_sgd_attr classic = {0};
    bt_adam_attr coupled = {0};
    run_plain(&bt_op_sgd_update, &classic, plain, 9, out, 2);
    ck_assert(new[0] == 0x1p-1023 && new[1] == 0);
    run_plain(&bt_op_adam_update, &coupled, adam, 11, out, 3);
    ck_assert(new[1] == 0 && new[2] == 0);
    m = v = 0x1p-1021;
    run_plain(&bt_op_adam_update, &coupled, adam, 11, out, 3);
    ck_assert(new[1] == 0x1p-1022 && new[2] == 0x1p-1022);
    for (int way = 0; way < 4; way++) {
        const bt_dtype dtype = way & 1 ? BT_F64 : BT_F32;
        const double *const *const values = (const double *const[]){none, none, way & 1 ? doubles : singles};
        trial t = {.op = &bt_op_sgd_update, .attr = &classic, .inputs = 9, .outputs = 2};
        for (int i = 0; i < 3; i++) {
            t.in[i] = array(dtype, 8 * 9 + 5, 0, 0);
            t.in[i].values = values[i];
            t.in[i].value_count = i < 2 ? 1 : 8;
        }
        t.in[3] = scalar(BT_BOOL, one);
        t.in[4] = scalar(dtype, half);
        t.in[5] = scalar(dtype, half);
        t.in[6] = t.in[7] = scalar(dtype, none);
        t.in[8] = scalar(BT_BOOL, none);
        t.out[0] = t.out[1] = array(dtype, 8 * 9 + 5, 0, 0);
        t.alias[1] = way & 2 ? 3 : 0;
        compare_fast(&t);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("update");
    TCase *tcase = tcase_create("kernels");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, by_hand);
    tcase_add_test(tcase, sgd);
    tcase_add_test(tcase, adam);
    tcase_add_test(tcase, eight);
    tcase_add_test(tcase, moments_that_fade);
    tcase_add_test(tcase, layouts);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
