/* The minimum cut, compared with all subsets: on small random graphs no set of fewer bytes is enough to compute every
 * wanted value; among equals the one nearest to the wanted values is chosen; long chains. */
#include "plan/cut.h"

#include "base/random.h"
#include "support/suite.h"
#include <check.h>
#include <stdlib.h>

enum { MOST = 12, NEEDS = 24 };

static bt_cut_value values[MOST];
static bt_cut_need needs[NEEDS];
static int count, need_count;

/* Whether all wanted values can be computed from these held ones; a computed value needs all of its inputs. */
static bool suffices(unsigned held)
{
    unsigned asked = 0;
    for (int i = count - 1; i >= 0; i--) { /* readers of a value have higher numbers */
        if (!(values[i].wanted || (asked >> i) & 1u) || (held >> i) & 1u)
            continue;
        if (values[i].given)
            return false;
        for (int k = 0; k < need_count; k++)
            if (needs[k].value == i)
                asked |= 1u << needs[k].of;
    }
    return true;
}

static int64_t bytes_of(unsigned held)
{
    int64_t sum = 0;
    for (int i = 0; i < count; i++) {
        if (!((held >> i) & 1u))
            continue;
        if (values[i].bytes < 0)
            return -1;
        sum += values[i].bytes;
    }
    return sum;
}

static int64_t least_of_all(void)
{
    int64_t least = INT64_MAX;
    for (unsigned held = 0; held < 1u << count; held++) {
        int64_t bytes = bytes_of(held);
        if (bytes >= 0 && bytes < least && suffices(held))
            least = bytes;
    }
    return least;
}

static unsigned found(int64_t *bytes)
{
    unsigned held = 0;
    ck_assert_int_eq(bt_cut(values, count, needs, need_count, bytes), BT_OK);
    for (int i = 0; i < count; i++)
        held |= (unsigned)values[i].held << i;
    return held;
}

static int draw(uint64_t seed, uint64_t *at, int most) { return (int)(bt_host_uniform(seed, 0, (*at)++) * most); }

static void draw_graph(uint64_t seed)
{
    uint64_t at = 0;
    count = 2 + draw(seed, &at, MOST - 1);
    need_count = 0;
    for (int i = 0; i < count; i++) {
        values[i] = (bt_cut_value){.bytes = draw(seed, &at, 6), .given = i == 0 || draw(seed, &at, 4) == 0};
        values[i].wanted = draw(seed, &at, 3) == 0;
        if (!values[i].given && draw(seed, &at, 5) == 0)
            values[i].bytes = -1;
        for (int k = 0; k < 2 && i > 0 && need_count < NEEDS && !values[i].given; k++)
            needs[need_count++] = (bt_cut_need){i, draw(seed, &at, i)};
    }
}

START_TEST(against_all_subsets)
{
    for (uint64_t seed = 0; seed < 400; seed++) {
        int64_t bytes;
        draw_graph(seed);
        unsigned held = found(&bytes);
        ck_assert_msg(suffices(held), "graph %d", (int)seed);
        ck_assert_int_eq(bytes_of(held), bytes);
        ck_assert_int_eq(bytes, least_of_all());
    }
}
END_TEST

/* A chain of values of equal size: the last is held if only that is wanted; otherwise the first wanted one, from which
 * the others can be computed. */
START_TEST(nearest_to_what_is_wanted)
{
    int64_t bytes;
    count = 4;
    need_count = 3;
    for (int i = 0; i < count; i++) {
        values[i] = (bt_cut_value){.bytes = 8, .given = i == 0, .wanted = i == 3};
        if (i)
            needs[i - 1] = (bt_cut_need){i, i - 1};
    }
    ck_assert_uint_eq(found(&bytes), 8);
    values[1].wanted = true;
    ck_assert_uint_eq(found(&bytes), 2);
    values[0].wanted = true;
    ck_assert_uint_eq(found(&bytes), 1);
    ck_assert_int_eq(bytes, 8);
}
END_TEST

START_TEST(long_chain)
{
    enum { LONG = 300000 };
    bt_cut_value *chain = calloc(LONG, sizeof *chain);
    bt_cut_need *of = calloc(LONG, sizeof *of);
    int64_t bytes;
    ck_assert(chain && of);
    for (int i = 0; i < LONG; i++) {
        chain[i] = (bt_cut_value){.bytes = i == LONG / 3 ? 5 : 6, .given = i == 0, .wanted = i == LONG - 1};
        of[i] = (bt_cut_need){i + 1, i};
    }
    ck_assert_int_eq(bt_cut(chain, LONG, of, LONG - 1, &bytes), BT_OK);
    ck_assert(bytes == 5 && chain[LONG / 3].held && !chain[LONG - 1].held);
    free(chain);
    free(of);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan.cut");
    TCase *tests = tcase_create("cut");
    tcase_add_test(tests, against_all_subsets);
    tcase_add_test(tests, nearest_to_what_is_wanted);
    tcase_add_test(tests, long_chain);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
