/* Random numbers on the host, against the known answers of the Random123 library (kat_vectors, philox4x32 10). */
#include "base/random.h"

#include "base/base.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

START_TEST(known_answers)
{
    /* The first two words of each answer, their upper 53 bits. */
    ck_assert_double_eq(bt_host_uniform(0, 0, 0), (double)(UINT64_C(0x6627e8d5e169c58d) >> 11) * 0x1p-53);
    ck_assert_double_eq(bt_host_uniform(UINT64_MAX, UINT64_MAX, UINT64_MAX),
                        (double)(UINT64_C(0x408f276d41c83b0e) >> 11) * 0x1p-53);
    ck_assert_double_eq(
        bt_host_uniform(UINT64_C(0x299f31d0a4093822), UINT64_C(0x0370734413198a2e), UINT64_C(0x85a308d3243f6a88)),
        (double)(UINT64_C(0xd16cfe0994fdcceb) >> 11) * 0x1p-53);
}
END_TEST

START_TEST(uniform)
{
    enum { N = 20000, CELLS = 20 };
    int64_t cells[CELLS] = {0};
    double sum = 0, products = 0, before = 0;
    for (uint64_t i = 0; i < N; i++) {
        double u = bt_host_uniform(7, 3, i);
        ck_assert(u >= 0 && u < 1);
        cells[(int)(u * CELLS)]++;
        sum += u;
        products += (u - 0.5) * (before - 0.5);
        before = u;
    }
    double chi = 0, expected = (double)N / CELLS;
    for (int k = 0; k < CELLS; k++)
        chi += ((double)cells[k] - expected) * ((double)cells[k] - expected) / expected;
    ck_assert_double_lt(chi, 43.8); /* 19 degrees of freedom, 0.1 % */
    ck_assert_double_lt(fabs(sum / N - 0.5), 4 * sqrt(1.0 / 12 / N));
    ck_assert_double_lt(fabs(products / N), 4.0 / 12 / sqrt(N));
}
END_TEST

START_TEST(below_is_unbiased)
{
    enum { N = 60000 };
    int64_t seen[6] = {0};
    bt_random random = bt_random_begin(1, BT_FOR_PART, 0, 0);
    for (int i = 0; i < N; i++) {
        uint32_t k = bt_random_below(&random, 6);
        ck_assert_uint_lt(k, 6);
        seen[k]++;
    }
    double chi = 0;
    for (int k = 0; k < 6; k++)
        chi += ((double)seen[k] - N / 6.0) * ((double)seen[k] - N / 6.0) / (N / 6.0);
    ck_assert_double_lt(chi, 20.5); /* 5 degrees of freedom, 0.1 % */
    for (int i = 0; i < 10; i++)
        ck_assert_uint_eq(bt_random_below(&random, 1), 0);
    /* With a bound of 3/4 of 2^32, multiples of 3 would be twice as frequent as others without rejection. */
    int64_t threes = 0;
    for (int i = 0; i < N; i++)
        threes += bt_random_below(&random, UINT32_C(0xC0000000)) % 3 == 0;
    ck_assert_double_lt(fabs((double)threes / N - 1.0 / 3), 4 * sqrt(2.0 / 9 / N));
}
END_TEST

START_TEST(every_order_is_as_likely)
{
    enum { N = 24000 };
    int64_t seen[4][4][4] = {{{0}}};
    for (uint64_t k = 0; k < N; k++) {
        int32_t items[4] = {0, 1, 2, 3};
        bt_random random = bt_random_begin(5, BT_FOR_SHUFFLE, 0, k);
        bt_shuffle(items, 4, &random);
        ck_assert_int_eq(items[0] + items[1] + items[2] + items[3], 6);
        seen[items[0]][items[1]][items[2]]++;
    }
    double chi = 0;
    int orders = 0;
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            for (int c = 0; c < 4; c++) {
                bool order = a != b && b != c && a != c;
                orders += order;
                ck_assert(order || seen[a][b][c] == 0);
                if (order)
                    chi += ((double)seen[a][b][c] - N / 24.0) * ((double)seen[a][b][c] - N / 24.0) / (N / 24.0);
            }
    ck_assert_int_eq(orders, 24);
    ck_assert_double_lt(chi, 49.7); /* 23 degrees of freedom, 0.1 % */
}
END_TEST

START_TEST(streams_differ)
{
    const bt_random all[] = {bt_random_begin(1, BT_FOR_SHUFFLE, 0, 0),
                             bt_random_begin(2, BT_FOR_SHUFFLE, 0, 0),
                             bt_random_begin(1, BT_FOR_PART, 0, 0),
                             bt_random_begin(1, BT_FOR_SHUFFLE, 1, 0),
                             bt_random_begin(1, BT_FOR_SHUFFLE, 0, 1),
                             bt_random_begin(1, BT_FOR_SHUFFLE, 0, UINT64_C(1) << 32),
                             bt_random_begin(UINT64_C(1) << 32, BT_FOR_SHUFFLE, 0, 0)};
    for (int a = 0; a < BT_COUNT_OF(all); a++)
        for (int b = 0; b < BT_COUNT_OF(all); b++) {
            int same = 0;
            bt_random one = all[a], two = all[b];
            for (int i = 0; i < 8; i++)
                same += bt_random_below(&one, UINT32_MAX) == bt_random_below(&two, UINT32_MAX);
            ck_assert_int_eq(same, a == b ? 8 : 0);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("random");
    TCase *tests = tcase_create("random");
    tcase_add_test(tests, known_answers);
    tcase_add_test(tests, uniform);
    tcase_add_test(tests, below_is_unbiased);
    tcase_add_test(tests, every_order_is_as_likely);
    tcase_add_test(tests, streams_differ);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
