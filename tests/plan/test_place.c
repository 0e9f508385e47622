/* Placement: no two live values share a byte, the total is within a small factor of the optimum, and overflowing sizes
 * are errors. */
#include "plan/place.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void setup(void) { bt_error_clear(); }

typedef struct draw {
    uint64_t seed, next;
} draw;

static int64_t below(draw *d, int64_t count)
{
    return (int64_t)(bt_host_uniform(d->seed, 0, d->next++) * (double)count);
}

static void draw_intervals(draw *d, bt_interval *intervals, int64_t count, int64_t steps, int64_t sizes)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t first = below(d, steps), last = first + below(d, steps - first);
        intervals[i] = (bt_interval){.bytes = BT_ALIGN * (size_t)below(d, sizes), .first = first, .last = last};
        intervals[i].offset = SIZE_MAX; /* the placement does not depend on it */
    }
}

static size_t bound_of(const bt_interval *intervals, int64_t count, int64_t *step)
{
    size_t bound;
    ck_assert_int_eq(bt_place_bound(intervals, count, &bound, step), BT_OK);
    return bound;
}

static bool share_a_byte(const bt_interval *a, const bt_interval *b)
{
    return a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* By comparing every pair, and the end of every value. */
static void expect_sound(const bt_interval *intervals, int64_t count, size_t arena)
{
    size_t end = 0;
    bool aligned = true, apart = true;
    for (int64_t i = 0; i < count; i++) {
        aligned &= intervals[i].offset % BT_ALIGN == 0;
        if (intervals[i].offset + intervals[i].bytes > end)
            end = intervals[i].offset + intervals[i].bytes;
        for (int64_t j = 0; j < i; j++)
            apart &= !intervals[i].bytes || !intervals[j].bytes || !share_a_byte(&intervals[i], &intervals[j]);
    }
    ck_assert(aligned && apart);
    ck_assert_uint_eq(end, arena);
}

/* The peak of live bytes, step by step. */
static size_t most_live(const bt_interval *intervals, int64_t count, int64_t steps, int64_t *at)
{
    size_t most = 0;
    *at = 0;
    for (int64_t step = 0; step < steps; step++) {
        size_t live = 0;
        for (int64_t i = 0; i < count; i++)
            if (intervals[i].first <= step && step <= intervals[i].last)
                live += intervals[i].bytes;
        if (live > most) {
            most = live;
            *at = step;
        }
    }
    return most;
}

/* ---- against the optimum ---- */

enum { FEW = 7 };

/* The lowest place for interval i after those before it in the order are placed. */
static size_t lowest(const bt_interval *intervals, const int *order, int before, int i)
{
    size_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int k = 0; k < before; k++) {
            const bt_interval *a = &intervals[order[k]];
            bt_interval b = intervals[i];
            b.offset = at;
            if (b.bytes && a->bytes && share_a_byte(a, &b)) {
                at = a->offset + a->bytes;
                moved = true;
            }
        }
    }
    return at;
}

/* The minimum arena over all orders, each placed lowest first. These include the order of offsets in the optimal
 * placement, which this method can only lower. */
static size_t best(bt_interval *intervals, int *order, int count, int placed, size_t arena, size_t least)
{
    if (placed == count)
        return arena < least ? arena : least;
    for (int k = placed; k < count && arena < least; k++) {
        int swap = order[placed];
        order[placed] = order[k];
        order[k] = swap;
        bt_interval *interval = &intervals[order[placed]];
        interval->offset = lowest(intervals, order, placed, order[placed]);
        size_t end = interval->offset + interval->bytes;
        least = best(intervals, order, count, placed + 1, end > arena ? end : arena, least);
        swap = order[placed];
        order[placed] = order[k];
        order[k] = swap;
    }
    return least;
}

START_TEST(between_the_bound_and_a_factor_of_the_best)
{
    draw d = {.seed = 1};
    int optimal = 0, cases = 150;
    for (int round = 0; round < cases; round++) {
        bt_interval intervals[FEW], copy[FEW];
        int order[FEW], count = 1 + (int)below(&d, FEW);
        int64_t peak, expected_peak;
        size_t arena;
        draw_intervals(&d, intervals, count, 6, 12);
        memcpy(copy, intervals, sizeof copy);
        for (int i = 0; i < count; i++)
            order[i] = i;
        ck_assert_int_eq(bt_place(intervals, count, &arena), BT_OK);
        expect_sound(intervals, count, arena);
        size_t least = best(copy, order, count, 0, 0, SIZE_MAX), bound = bound_of(intervals, count, &peak);
        ck_assert_uint_eq(bound, most_live(intervals, count, 6, &expected_peak));
        ck_assert_int_eq(peak, expected_peak);
        ck_assert_uint_le(bound, least);
        ck_assert_uint_le(least, arena);
        ck_assert_uint_le(arena, least + least / 2);
        optimal += arena == least;
    }
    ck_assert_int_ge(optimal, cases * 9 / 10);
}
END_TEST

START_TEST(what_is_obvious)
{
    bt_interval apart[] = {
        {640, 0, 1, 0, false}, {128, 2, 3, 0, false}, {320, 4, 4, 0, false}}; /* one after the other */
    bt_interval together[] = {{64, 0, 9, 0, false}, {128, 3, 4, 0, false}, {640, 4, 9, 0, false}}; /* all at step 4 */
    bt_interval stairs[] = {{64, 0, 1, 0, false}, {128, 1, 2, 0, false}, {256, 2, 3, 0, false}};   /* neighbours meet */
    size_t arena;
    int64_t peak;
    ck_assert_int_eq(bt_place(apart, 3, &arena), BT_OK);
    ck_assert_uint_eq(arena, 640);
    ck_assert(apart[0].offset == 0 && apart[1].offset == 0 && apart[2].offset == 0);
    ck_assert_int_eq(bt_place(together, 3, &arena), BT_OK);
    ck_assert_uint_eq(arena, 832);
    ck_assert_uint_eq(bound_of(together, 3, &peak), 832);
    ck_assert_int_eq(peak, 4);
    ck_assert_int_eq(bt_place(stairs, 3, &arena), BT_OK);
    ck_assert_uint_eq(arena, 384);
    ck_assert_int_eq(bt_place(NULL, 0, &arena), BT_OK);
    ck_assert_uint_eq(arena, 0);
    ck_assert_uint_eq(bound_of(NULL, 0, &peak), 0);
    ck_assert_int_eq(bt_place_verify(NULL, 0, 0), BT_OK);
}
END_TEST

/* Values in several parts that are adjacent in memory, some of which never live. */
static void join(draw *d, bt_interval *intervals, int64_t count)
{
    for (int64_t i = 1; i < count; i++) {
        intervals[i].joined = below(d, 3) > 0;
        if (below(d, 8) == 0)
            intervals[i].last = intervals[i].first - 1;
    }
}

START_TEST(values_in_parts)
{
    enum { MANY = 60 };
    draw d = {.seed = 4};
    double excess = 0;
    for (int round = 0; round < 500; round++) {
        bt_interval intervals[MANY], again[MANY];
        int64_t count = below(&d, MANY), steps = 1 + below(&d, 60), peak, expected_peak;
        size_t arena, second;
        draw_intervals(&d, intervals, count, steps, round % 3 ? 40 : 3);
        join(&d, intervals, count);
        memcpy(again, intervals, sizeof again);
        ck_assert_int_eq(bt_place(intervals, count, &arena), BT_OK);
        ck_assert_int_eq(bt_place_verify(intervals, count, arena), BT_OK);
        expect_sound(intervals, count, arena);
        for (int64_t i = 1; i < count; i++)
            if (intervals[i].joined)
                ck_assert_uint_eq(intervals[i].offset, intervals[i - 1].offset + intervals[i - 1].bytes);
        size_t bound = bound_of(intervals, count, &peak);
        ck_assert_uint_eq(bound, most_live(intervals, count, steps, &expected_peak));
        ck_assert_uint_le(bound, arena);
        excess += bound ? (double)arena / (double)bound - 1 : 0;
        ck_assert_int_eq(bt_place(again, count, &second), BT_OK);
        ck_assert_uint_eq(arena, second);
    }
    ck_assert_double_lt(excess / 500, 1);
}
END_TEST

/* Gradients: the small window is written first and the large one last, when its inputs are nearly all that lives; the
 * other values are placed where it will be. */
START_TEST(a_window_that_is_not_yet_written)
{
    bt_interval gradients[] = {{.bytes = 1024, .first = 5, .last = 9},
                               {.bytes = 128, .first = 2, .last = 9, .joined = true},
                               {.bytes = 640, .first = 0, .last = 4},
                               {.bytes = 256, .first = 3, .last = 5}};
    size_t arena;
    int64_t peak;
    ck_assert_int_eq(bt_place(gradients, 4, &arena), BT_OK);
    ck_assert_uint_eq(arena, 1024 + 128 + 256);
    ck_assert_uint_eq(bound_of(gradients, 4, &peak), 1024 + 128 + 256);
    ck_assert_int_eq(peak, 5);
    ck_assert(gradients[0].offset == 0 && gradients[1].offset == 1024 && gradients[2].offset == 0);
}
END_TEST

START_TEST(random_instances)
{
    enum { MANY = 120 };
    draw d = {.seed = 2};
    double excess = 0;
    for (int round = 0; round < 1000; round++) {
        bt_interval intervals[MANY];
        int64_t count = below(&d, MANY), steps = 1 + below(&d, 200), peak, expected_peak;
        size_t arena;
        draw_intervals(&d, intervals, count, steps, round % 3 ? 40 : 3);
        ck_assert_int_eq(bt_place(intervals, count, &arena), BT_OK);
        ck_assert_int_eq(bt_place_verify(intervals, count, arena), BT_OK);
        expect_sound(intervals, count, arena);
        size_t bound = bound_of(intervals, count, &peak);
        ck_assert_uint_eq(bound, most_live(intervals, count, steps, &expected_peak));
        ck_assert_int_eq(peak, expected_peak);
        ck_assert_uint_le(bound, arena);
        excess += bound ? (double)arena / (double)bound - 1 : 0;
    }
    ck_assert_double_lt(excess / 1000, 0.1);
}
END_TEST

/* The greedy rule itself, one value after the other, the largest first: tries the end of each value placed before, and
 * 0. If that reaches the bound, the placement must give the same. */
START_TEST(as_if_each_place_were_tried)
{
    enum { SEVERAL = 40 };
    draw d = {.seed = 21};
    int reached = 0;
    for (int round = 0; round < 1500; round++) {
        bt_interval intervals[SEVERAL], plain[SEVERAL];
        int order[SEVERAL], count = 1 + (int)below(&d, SEVERAL);
        int64_t peak;
        size_t arena, end = 0;
        draw_intervals(&d, intervals, count, 1 + below(&d, 30), round % 3 ? 12 : 3);
        memcpy(plain, intervals, sizeof plain);
        for (int i = 0; i < count; i++) { /* by size, then by the first step, then in list order */
            int k = i;
            for (;
                 k > 0 && (plain[order[k - 1]].bytes < plain[i].bytes ||
                           (plain[order[k - 1]].bytes == plain[i].bytes && plain[order[k - 1]].first > plain[i].first));
                 k--)
                order[k] = order[k - 1];
            order[k] = i;
        }
        for (int i = 0; i < count; i++) {
            bt_interval *interval = &plain[order[i]];
            interval->offset = lowest(plain, order, i, order[i]);
            end = interval->offset + interval->bytes > end ? interval->offset + interval->bytes : end;
        }
        ck_assert_int_eq(bt_place(intervals, count, &arena), BT_OK);
        ck_assert_uint_le(arena, end);
        if (end > bound_of(plain, count, &peak))
            continue;
        reached++;
        for (int i = 0; i < count; i++)
            if (plain[i].bytes)
                ck_assert_uint_eq(intervals[i].offset, plain[i].offset);
    }
    ck_assert_int_ge(reached, 500);
}
END_TEST

/* Values saved for a derivative have nested lifetimes, and each step has a short-lived value as well: a stack, for
 * which the bound can be reached. */
START_TEST(nested_lives)
{
    enum { KEPT = 12, STEPS = 2 * KEPT + 1 };
    draw d = {.seed = 8};
    for (int round = 0; round < 200; round++) {
        bt_interval intervals[KEPT + STEPS];
        for (int i = 0; i < KEPT; i++)
            intervals[i] = (bt_interval){
                .bytes = BT_ALIGN * (size_t)(1 + below(&d, 9)), .first = i, .last = STEPS - 1 - i, .offset = SIZE_MAX};
        for (int t = 0; t < STEPS; t++)
            intervals[KEPT + t] =
                (bt_interval){.bytes = BT_ALIGN * (size_t)below(&d, 30), .first = t, .last = t, .offset = SIZE_MAX};
        size_t arena;
        int64_t at;
        ck_assert_int_eq(bt_place(intervals, KEPT + STEPS, &arena), BT_OK);
        expect_sound(intervals, KEPT + STEPS, arena);
        ck_assert_uint_eq(arena, most_live(intervals, KEPT + STEPS, STEPS, &at));
    }
}
END_TEST

/* The same values placed again, or listed in another order, need the same arena, so plans can be compared. */
START_TEST(the_plan_is_the_same_every_time)
{
    enum { MANY = 60 };
    draw d = {.seed = 3};
    for (int round = 0; round < 50; round++) {
        bt_interval intervals[MANY], again[MANY];
        size_t arena, second;
        draw_intervals(&d, intervals, MANY, 30, 20);
        memcpy(again, intervals, sizeof again);
        ck_assert_int_eq(bt_place(intervals, MANY, &arena), BT_OK);
        ck_assert_int_eq(bt_place(again, MANY, &second), BT_OK);
        ck_assert_uint_eq(arena, second);
        ck_assert_mem_eq(intervals, again, sizeof intervals);
    }
}
END_TEST

/* Activations of a deep network: value i lives from step i to its backward step. All are alive in the middle. */
START_TEST(many_values)
{
    enum { DEEP = 10000 };
    bt_interval *nested = calloc(DEEP, sizeof *nested);
    size_t arena, sum = 0;
    int64_t peak;
    for (int64_t i = 0; i < DEEP; i++) {
        nested[i] = (bt_interval){.bytes = BT_ALIGN * (size_t)(1 + i % 7), .first = i, .last = 2 * DEEP - i};
        sum += nested[i].bytes;
    }
    clock_t start = clock();
    ck_assert_int_eq(bt_place(nested, DEEP, &arena), BT_OK);
    ck_assert_int_eq(bt_place_verify(nested, DEEP, arena), BT_OK);
    ck_assert_uint_eq(bound_of(nested, DEEP, &peak), sum);
    ck_assert(arena == sum && peak == DEEP - 1);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    ck_assert_msg(seconds < 10, "took %.1f s", seconds);
    free(nested);
}
END_TEST

/* ---- the verifier ---- */

START_TEST(an_overlap_by_one_byte)
{
    bt_interval pair[] = {{.bytes = 128, .first = 0, .last = 5, .offset = 0},
                          {.bytes = 64, .first = 5, .last = 9, .offset = 128}};
    ck_assert_int_eq(bt_place_verify(pair, 2, 192), BT_OK);
    pair[1].offset = 127;
    ck_assert_int_eq(bt_place_verify(pair, 2, 192), BT_ERROR_INTERNAL);
    ck_assert_str_eq(bt_error(), "plan: values 0 and 1 overlap");
    bt_error_clear();
    pair[1].first = 6; /* not at the same time */
    ck_assert_int_eq(bt_place_verify(pair, 2, 192), BT_OK);
    pair[1].offset = 0;
    pair[1].bytes = 1;
    pair[1].first = pair[1].last = 5; /* one step, one byte */
    ck_assert_int_eq(bt_place_verify(pair, 2, 192), BT_ERROR_INTERNAL);
    bt_error_clear();
    pair[1].bytes = 0;
    pair[1].offset = 64; /* empty, in the middle of another one */
    ck_assert_int_eq(bt_place_verify(pair, 2, 192), BT_OK);
    ck_assert_str_eq(bt_error(), "");
}
END_TEST

/* Against comparing each pair, with values at random places. */
START_TEST(every_overlap_is_found)
{
    enum { FEW_VALUES = 12 };
    draw d = {.seed = 12};
    int sound = 0;
    for (int round = 0; round < 3000; round++) {
        bt_interval intervals[FEW_VALUES];
        int64_t count = 1 + below(&d, FEW_VALUES);
        bool apart = true;
        draw_intervals(&d, intervals, count, 6, 4);
        for (int64_t i = 0; i < count; i++)
            intervals[i].offset = BT_ALIGN * (size_t)below(&d, 30);
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < i; j++)
                apart &= !intervals[i].bytes || !intervals[j].bytes || !share_a_byte(&intervals[i], &intervals[j]);
        ck_assert_int_eq(bt_place_verify(intervals, count, 64 * BT_ALIGN), apart ? BT_OK : BT_ERROR_INTERNAL);
        bt_error_clear();
        sound += apart;
    }
    ck_assert(sound > 300 && sound < 2700);
}
END_TEST

/* A plan for lifetimes of which one is actually a step longer. */
START_TEST(a_lifetime_one_step_short)
{
    bt_interval chain[] = {{.bytes = 64, .first = 0, .last = 3}, {.bytes = 64, .first = 4, .last = 6}};
    size_t arena;
    ck_assert_int_eq(bt_place(chain, 2, &arena), BT_OK);
    ck_assert_uint_eq(arena, 64);
    ck_assert_int_eq(bt_place_verify(chain, 2, arena), BT_OK);
    chain[0].last = 4;
    ck_assert_int_eq(bt_place_verify(chain, 2, arena), BT_ERROR_INTERNAL);
    bt_error_clear();
    chain[0].last = 3;
    chain[1].first = 3;
    ck_assert_int_eq(bt_place_verify(chain, 2, arena), BT_ERROR_INTERNAL);
}
END_TEST

START_TEST(parts_that_lie_apart)
{
    bt_interval pair[] = {{.bytes = 128, .first = 0, .last = 5, .offset = 64},
                          {.bytes = 64, .first = 5, .last = 9, .offset = 192, .joined = true}};
    ck_assert_int_eq(bt_place_verify(pair, 2, 256), BT_OK);
    pair[1].offset = 0;
    ck_assert_int_eq(bt_place_verify(pair, 2, 256), BT_ERROR_INTERNAL);
    ck_assert_str_eq(bt_error(), "plan: value 1 lies apart from the one it belongs to");
}
END_TEST

START_TEST(beyond_the_arena)
{
    bt_interval one = {.bytes = 128, .first = 0, .last = 0, .offset = 64};
    ck_assert_int_eq(bt_place_verify(&one, 1, 192), BT_OK);
    ck_assert_int_eq(bt_place_verify(&one, 1, 191), BT_ERROR_INTERNAL);
    ck_assert_str_eq(bt_error(), "plan: value 0 ends beyond the arena");
    one.offset = SIZE_MAX - 63; /* the end overflows */
    ck_assert_int_eq(bt_place_verify(&one, 1, 192), BT_ERROR_INTERNAL);
    one.offset = 64;
    one.bytes = SIZE_MAX;
    ck_assert_int_eq(bt_place_verify(&one, 1, SIZE_MAX), BT_ERROR_INTERNAL);
}
END_TEST

/* ---- sizes near the largest ---- */

START_TEST(more_than_there_are_addresses)
{
    size_t huge = SIZE_MAX / 2 / BT_ALIGN * BT_ALIGN, arena;
    int64_t peak;
    bt_interval three[] = {{.bytes = huge, .first = 0, .last = 3},
                           {.bytes = huge, .first = 1, .last = 3},
                           {.bytes = 3 * BT_ALIGN, .first = 2, .last = 3}};
    ck_assert_int_eq(bt_place(three, 3, &arena), BT_ERROR_MEMORY);
    ck_assert_str_eq(bt_error(), "the plan needs more bytes than there are addresses");
    ck_assert_uint_eq(bound_of(three, 3, &peak), SIZE_MAX); /* no overflow to a small number */
    ck_assert_int_eq(peak, 2);
    bt_error_clear();
    three[2].bytes = BT_ALIGN; /* just fits */
    ck_assert_int_eq(bt_place(three, 3, &arena), BT_OK);
    ck_assert_uint_eq(arena, 2 * huge + BT_ALIGN);
    three[1].joined = three[2].joined = true; /* a value in parts */
    ck_assert_int_eq(bt_place(three, 3, &arena), BT_OK);
    ck_assert_uint_eq(arena, 2 * huge + BT_ALIGN);
    three[2].bytes = 3 * BT_ALIGN;
    ck_assert_int_eq(bt_place(three, 3, &arena), BT_ERROR_MEMORY);
    bt_error_clear();
    bt_interval near_zero[] = {{.bytes = 0, .first = 0, .last = 3}, {.bytes = BT_ALIGN, .first = 0, .last = 0}};
    ck_assert_int_eq(bt_place(near_zero, 2, &arena), BT_OK);
    ck_assert_uint_eq(arena, BT_ALIGN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("place");
    TCase *tests = tcase_create("place");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, between_the_bound_and_a_factor_of_the_best);
    tcase_add_test(tests, what_is_obvious);
    tcase_add_test(tests, values_in_parts);
    tcase_add_test(tests, a_window_that_is_not_yet_written);
    tcase_add_test(tests, random_instances);
    tcase_add_test(tests, as_if_each_place_were_tried);
    tcase_add_test(tests, nested_lives);
    tcase_add_test(tests, the_plan_is_the_same_every_time);
    tcase_add_test(tests, many_values);
    tcase_add_test(tests, an_overlap_by_one_byte);
    tcase_add_test(tests, every_overlap_is_found);
    tcase_add_test(tests, a_lifetime_one_step_short);
    tcase_add_test(tests, parts_that_lie_apart);
    tcase_add_test(tests, beyond_the_arena);
    tcase_add_test(tests, more_than_there_are_addresses);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
