/* Which values are offloaded: compared with all possible sets. */
#include "plan/away.h"
#include "support/suite.h"

#include <betty/betty.h>
#include <string.h>

enum { STEPS = 12, MOST = 9 };

static uint64_t seed, next;
static int64_t draw(int64_t below) { return (int64_t)(bt_host_uniform(seed, 4, next++) * (double)below); }

static size_t peak_of(const size_t *there)
{
    size_t peak = 0;
    for (int s = 0; s < STEPS; s++)
        peak = there[s] > peak ? there[s] : peak;
    return peak;
}

/* The peak with the values away whose bits are set. */
static size_t peak_with(const bt_absence *absences, int count, const size_t *there, unsigned away)
{
    size_t left[STEPS];
    memcpy(left, there, sizeof left);
    for (int i = 0; i < count; i++)
        for (int64_t s = absences[i].from; (away >> i & 1) && s <= absences[i].to; s++)
            left[s] -= absences[i].bytes;
    return peak_of(left);
}

START_TEST(the_least_of_all_sets)
{
    bt_absence absences[MOST];
    size_t there[STEPS], least = SIZE_MAX, left[STEPS];
    seed = (uint64_t)_i;
    next = 0;
    const int count = (int)draw(MOST + 1);
    for (int s = 0; s < STEPS; s++)
        there[s] = (size_t)draw(20);
    for (int i = 0; i < count; i++) {
        const int64_t from = draw(STEPS), to = from + draw(STEPS - from);
        absences[i] = (bt_absence){.bytes = (size_t)(1 + draw(8)), .from = from, .to = to};
        for (int64_t s = from; s <= to; s++)
            there[s] += absences[i].bytes;
    }
    for (unsigned away = 0; away < 1U << count; away++) {
        const size_t peak = peak_with(absences, count, there, away);
        least = peak < least ? peak : least;
    }
    memcpy(left, there, sizeof left);
    ck_assert_int_eq(bt_away_choose(absences, count, left, STEPS), BT_OK);
    unsigned chosen = 0;
    for (int i = 0; i < count; i++)
        chosen |= absences[i].chosen ? 1U << i : 0;
    ck_assert_uint_eq(peak_with(absences, count, there, chosen), least);
    ck_assert_uint_eq(peak_of(left), least);
}
END_TEST

/* One long absence instead of two short ones, and none that does not help. */
START_TEST(few_go)
{
    bt_absence absences[] = {{10, 2, 3, false}, {10, 6, 7, false}, {10, 1, 8, false}, {10, 10, 11, false}};
    size_t there[STEPS] = {0, 0, 50, 50, 0, 0, 50, 50, 0, 0, 30, 30};
    there[2] = there[3] = there[6] = there[7] = 20;
    there[1] = there[4] = there[5] = there[8] = 10;
    there[10] = there[11] = 10;
    size_t kept[STEPS];
    memcpy(kept, there, sizeof kept);
    kept[0] = there[0] = 10; /* nothing can be away here */
    ck_assert_int_eq(bt_away_choose(absences, 4, kept, STEPS), BT_OK);
    ck_assert(absences[2].chosen && !absences[0].chosen && !absences[1].chosen && !absences[3].chosen);
    for (int s = 0; s < STEPS; s++)
        ck_assert_uint_eq(kept[s], there[s] - (s >= 1 && s <= 8 ? 10U : 0));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("away");
    TCase *tests = tcase_create("away");
    tcase_add_loop_test(tests, the_least_of_all_sets, 0, 300);
    tcase_add_test(tests, few_go);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
