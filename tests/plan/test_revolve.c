/* Revolve's schedule against a dynamic programme over all schedules: for up to 40 steps and 8 states the closed form is
 * the minimum number of repeated steps, and following the splits repeats exactly as many. */
#include "plan/revolve.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>

enum { STEPS = 40, STATES = 8 };

/* The number of steps, including the first pass to the last state: keep the state after k steps, go back through the
 * rest with one state fewer, then through the k steps with all states. */
static int64_t fewest(int steps, int states)
{
    static int64_t known[STEPS + 1][STATES + 1];
    if (steps <= 1)
        return 0;
    if (states == 1)
        return steps * (steps - 1) / 2;
    if (known[steps][states])
        return known[steps][states];
    int64_t least = INT64_MAX;
    for (int k = 1; k < steps; k++) {
        int64_t made = k + fewest(steps - k, states - 1) + fewest(k, states);
        least = made < least ? made : least;
    }
    return known[steps][states] = least;
}

START_TEST(closed_form)
{
    for (int steps = 1; steps <= STEPS; steps++)
        for (int states = 1; states <= STATES; states++)
            ck_assert_msg(bt_revolve_again(steps, states) == fewest(steps, states) - (steps - 1), "%d steps, %d states",
                          steps, states);
}
END_TEST

/* With a stack of kept states: at most `states` of them, and as many steps as the closed form says. */
static int64_t walk(int steps, int states)
{
    int kept[STATES], count = 1;
    int64_t made = 0;
    kept[0] = 0;
    for (int step = steps - 1; step >= 0; step--) {
        while (kept[count - 1] > step)
            count--;
        while (kept[count - 1] < step) {
            int rest = step - kept[count - 1] + 1;
            int64_t split = bt_revolve_split(rest, states - count + 1);
            ck_assert(split >= 1 && split < rest);
            made += split;
            if (count == states)
                break; /* available, but not kept */
            kept[count] = kept[count - 1] + (int)split;
            count++;
        }
    }
    return made;
}

START_TEST(splits)
{
    for (int steps = 1; steps <= STEPS; steps++)
        for (int states = 1; states <= STATES; states++)
            ck_assert_int_eq(walk(steps, states), fewest(steps, states));
}
END_TEST

/* The published values: total steps. */
START_TEST(published)
{
    static const int64_t cases[][3] = {{10, 3, 15},    {10, 5, 13},      {100, 10, 222},  {100, 14, 184},
                                       {100, 44, 154}, {1000, 10, 3636}, {1000, 31, 2439}};
    for (int i = 0; i < BT_COUNT_OF(cases); i++)
        ck_assert_int_eq(bt_revolve_again(cases[i][0], cases[i][1]) + cases[i][0] - 1, cases[i][2]);
    ck_assert_int_eq(bt_revolve_again(1000000000, 1000000000), 0);
    ck_assert_int_eq(bt_revolve_split(1000000000, 1), 999999999);
    ck_assert_int_gt(bt_revolve_again(1000000000, 1), 1000000000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan.revolve");
    TCase *tests = tcase_create("revolve");
    tcase_add_test(tests, closed_form);
    tcase_add_test(tests, splits);
    tcase_add_test(tests, published);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
