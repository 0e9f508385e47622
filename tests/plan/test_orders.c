/* The rules of plan/order.h on arrays: every order is valid, its peak is right, no order beats the best of all, and the
 * chosen one never needs more than the original order. Compared with all orders of small graphs, and with a count that
 * recomputes what is alive at each step. */
#include "plan/order.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>


typedef struct sample { /* a graph that owns its memory */
    bt_order order;
    bt_order_step steps[64];
    bt_order_value values[128];
    bt_order_wait waits[8];
    bt_order_over overs[64];
    int64_t in[64][8], out[64][4];
} sample;

static uint32_t seed;
static int draw(int below)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 16) % (uint32_t)below);
}

static int64_t add_value(sample *s, size_t bytes, bool there)
{
    s->values[s->order.value_count] = (bt_order_value){.bytes = bytes, .there = there};
    return s->order.value_count++;
}

/* A step that computes one value of `bytes` bytes from others; the list ends with -1. */
static int64_t add_step(sample *s, size_t bytes, const int64_t *in)
{
    int64_t number = s->order.step_count++;
    bt_order_step *step = &s->steps[number];
    *step = (bt_order_step){.in = s->in[number], .out = s->out[number], .over = &s->overs[number], .outputs = 1};
    for (; *in >= 0; in++)
        s->in[number][step->inputs++] = *in;
    return s->out[number][0] = add_value(s, bytes, false);
}
#define STEP(s, bytes, ...) add_step((s), (bytes), (const int64_t[]){__VA_ARGS__, -1})

static void begin(sample *s)
{
    memset(s, 0, sizeof *s);
    s->order = (bt_order){.steps = s->steps, .values = s->values, .waits = s->waits};
}

/* ---- an independent count ---- */

static bool reads(const bt_order_step *step, int64_t v)
{
    for (int64_t i = 0; i < step->inputs; i++)
        if (step->in[i] == v)
            return true;
    return false;
}

static int64_t maker_of(const bt_order *order, int64_t v)
{
    for (int64_t s = 0; s < order->step_count; s++)
        for (int64_t k = 0; k < order->steps[s].outputs; k++)
            if (order->steps[s].out[k] == v)
                return s;
    return -1;
}

static bool read_from(const bt_order *order, const int64_t *by, int64_t place, int64_t v)
{
    for (int64_t i = place; i < order->step_count; i++)
        if (reads(&order->steps[by[i]], v))
            return true;
    return false;
}

static bool wanted_from(const bt_order *order, const int64_t *by, int64_t place, int64_t v)
{
    return order->values[v].kept || read_from(order, by, place, v);
}

/* Bytes of the outputs of the step at this position that cannot be stored over an input that dies there. */
static size_t new_bytes(const bt_order *order, const int64_t *by, int64_t place)
{
    const bt_order_step *step = &order->steps[by[place]];
    size_t bytes = (step->scratch + 63) / 64 * 64;
    for (int64_t k = 0; k < step->outputs; k++) {
        bool over = false;
        for (int64_t i = 0; i < step->overs; i++)
            over |= step->over[i].output == k && maker_of(order, step->over[i].value) >= 0 &&
                    !wanted_from(order, by, place + 1, step->over[i].value);
        bytes += over ? 0 : order->values[step->out[k]].bytes;
    }
    return bytes;
}

static size_t worst(const bt_order *order, const int64_t *by)
{
    size_t most = 0;
    for (int64_t place = 0; place < order->step_count; place++) {
        size_t alive = new_bytes(order, by, place);
        for (int64_t v = 0; v < order->value_count; v++) {
            int64_t maker = maker_of(order, v), made = -1;
            for (int64_t i = 0; i < place; i++)
                made = by[i] == maker ? i : made;
            bool there = order->values[v].there || (maker >= 0 && made >= 0);
            if (there && wanted_from(order, by, place, v))
                alive += order->values[v].bytes;
        }
        most = alive > most ? alive : most;
    }
    return most;
}

static bool may_follow(const bt_order *order, const int64_t *by, int64_t count, int64_t step)
{
    bool done[64] = {false};
    for (int64_t i = 0; i < count; i++)
        done[by[i]] = true;
    if (done[step])
        return false;
    for (int64_t i = 0; i < order->steps[step].inputs; i++) {
        int64_t maker = maker_of(order, order->steps[step].in[i]);
        if (maker >= 0 && !done[maker])
            return false;
    }
    for (int64_t w = 0; w < order->wait_count; w++)
        if (order->waits[w].step == step && !done[order->waits[w].before])
            return false;
    return true;
}

static size_t best_of_all(const bt_order *order, int64_t *by, int64_t count)
{
    if (count == order->step_count)
        return worst(order, by);
    size_t best = SIZE_MAX;
    for (int64_t s = 0; s < order->step_count; s++) {
        if (!may_follow(order, by, count, s))
            continue;
        by[count] = s;
        size_t found = best_of_all(order, by, count + 1);
        best = found < best ? found : best;
    }
    return best;
}

/* ---- random graphs ---- */

enum { UNIT = 2048 }; /* to get both small and large values */

static void random_sample(sample *s, int steps)
{
    begin(s);
    for (int i = 0; i < 2; i++)
        add_value(s, UNIT * (size_t)draw(5), true);
    for (int i = 0; i < steps; i++) {
        int64_t in[4] = {-1, -1, -1, -1};
        int count = 1 + draw(3);
        for (int k = 0, c = 0; k < count; k++) {
            int64_t v = draw((int)s->order.value_count);
            if (v != in[0] && v != in[1])
                in[c++] = v;
        }
        int64_t out = add_step(s, UNIT * (size_t)draw(9), in);
        bt_order_step *step = &s->steps[i];
        step->scratch = draw(4) ? 0 : (size_t)draw(300);
        s->values[out].kept = !draw(4);
        s->overs[i] = (bt_order_over){0, step->in[draw((int)step->inputs)]};
        step->overs = s->values[s->overs[i].value].bytes == s->values[out].bytes;
        if (!draw(4)) { /* a second output */
            s->out[i][step->outputs++] = add_value(s, UNIT * (size_t)draw(9), false);
        }
    }
    s->values[0].kept = !draw(3);
    for (int i = 0; i < 2 && steps > 1; i++) {
        int64_t later = 1 + draw(steps - 1);
        s->waits[s->order.wait_count++] = (bt_order_wait){later, draw((int)later)};
    }
}

static void expect_possible(const bt_order *order, const int64_t *by)
{
    for (int64_t i = 0; i < order->step_count; i++)
        ck_assert(may_follow(order, by, i, by[i]));
}

START_TEST(none_beats_all_orders)
{
    sample s;
    int64_t by[64];
    int better = 0, early = 0;
    for (int round = 0; round < 150; round++) {
        seed = (uint32_t)(_i * 1000 + round);
        random_sample(&s, 2 + draw(5));
        size_t best = best_of_all(&s.order, by, 0), written = 0, most;
        bt_order_choice choice;
        for (int rule = 0; rule < BT_ORDERS; rule++) {
            ck_assert_int_eq(bt_order_by(&s.order, (bt_order_rule)rule, by, &most), BT_OK);
            expect_possible(&s.order, by);
            ck_assert_uint_eq(most, worst(&s.order, by));
            ck_assert_uint_ge(most, best);
            written = rule ? written : most;
        }
        for (int64_t i = 0; i < s.order.step_count; i++)
            by[i] = i;
        ck_assert_uint_le(written, worst(&s.order, by));
        early += written < worst(&s.order, by);
        ck_assert_int_eq(bt_order_steps(&s.order, by, &choice), BT_OK);
        expect_possible(&s.order, by);
        ck_assert_uint_eq(choice.most, worst(&s.order, by));
        ck_assert_uint_le(choice.most, written);
        better += choice.most < written;
    }
    ck_assert_int_gt(better, 20);
    ck_assert_int_gt(early, 0);
}
END_TEST

START_TEST(larger_graphs)
{
    sample s;
    int64_t by[64];
    for (int round = 0; round < 60; round++) {
        seed = (uint32_t)round;
        random_sample(&s, 40);
        size_t most, least = SIZE_MAX;
        bt_order_choice choice;
        for (int rule = 0; rule < BT_ORDERS; rule++) {
            ck_assert_int_eq(bt_order_by(&s.order, (bt_order_rule)rule, by, &most), BT_OK);
            expect_possible(&s.order, by);
            ck_assert_uint_eq(most, worst(&s.order, by));
            least = most < least ? most : least;
        }
        ck_assert_int_eq(bt_order_steps(&s.order, by, &choice), BT_OK);
        ck_assert_uint_eq(choice.most, least);
    }
}
END_TEST

/* ---- by hand ---- */

static size_t most_by(const sample *s, bt_order_rule rule)
{
    int64_t by[64];
    size_t most = 0;
    ck_assert_int_eq(bt_order_by(&s->order, rule, by, &most), BT_OK);
    expect_possible(&s->order, by);
    return most;
}

static bt_order_rule chosen(const sample *s)
{
    int64_t by[64];
    bt_order_choice choice = {0};
    ck_assert_int_eq(bt_order_steps(&s->order, by, &choice), BT_OK);
    return choice.rule;
}

/* A loss in four slices: each has logits (640), one number from them, and their gradient stored over them; in the end
 * one row of each is kept. Slice by slice, only one wide value exists at a time. */
START_TEST(slices_one_after_the_other)
{
    sample s;
    int64_t logits[4];
    begin(&s);
    int64_t x = add_value(&s, 64, true);
    s.values[x].kept = true;
    for (int i = 0; i < 4; i++)
        logits[i] = STEP(&s, 640, x);
    for (int i = 0; i < 4; i++)
        s.values[STEP(&s, 64, logits[i])].kept = true;
    ck_assert_uint_eq(most_by(&s, BT_ORDER_WRITTEN), 64 + 4 * 640 + 64);
    /* the logits of each slice are followed by the step that frees them */
    ck_assert_uint_eq(most_by(&s, BT_ORDER_LATEST), 64 + 640 + 4 * 64);
    ck_assert_uint_le(most_by(&s, BT_ORDER_BACKWARDS), 64 + 640 + 4 * 64);
}
END_TEST

/* Each slice rounds the weights again. It could do so at any time, and that adds less memory than the product does:
 * still, the rounded weights of only one slice exist at a time. */
START_TEST(what_is_ready_at_any_time_waits_for_its_reader)
{
    sample s;
    int64_t weights[4], logits[4];
    begin(&s);
    int64_t x = add_value(&s, 64, true), w = add_value(&s, 0, true);
    s.values[x].kept = true;
    for (int i = 0; i < 4; i++)
        weights[i] = STEP(&s, 128, w);
    for (int i = 0; i < 4; i++)
        logits[i] = STEP(&s, 640, x, weights[i]);
    for (int i = 0; i < 4; i++)
        s.values[STEP(&s, 64, logits[i])].kept = true;
    ck_assert_uint_eq(most_by(&s, BT_ORDER_LATEST), 64 + 3 * 64 + 128 + 640);
    int64_t sum = STEP(&s, 64, weights[3], logits[3]); /* both values of the last slice are read once more */
    s.values[sum].kept = true;
    ck_assert_uint_eq(most_by(&s, BT_ORDER_LATEST), 64 + 3 * 64 + 128 + 640 + 64);
}
END_TEST

/* Looking ahead only, it costs nothing to compute a wide value early: 64 bytes become 64, and only then 640. Looking
 * from the end shows that the small one must come first. */
START_TEST(the_end_is_seen)
{
    sample s;
    begin(&s);
    int64_t x = add_value(&s, 64, true), y = add_value(&s, 64, true);
    int64_t a = STEP(&s, 64, x);              /* 0: stored over x */
    int64_t wide = STEP(&s, 640, a);          /* 1: only read by the last step */
    int64_t b = STEP(&s, 1280, y);            /* 2: wider, for a while */
    int64_t c = STEP(&s, 64, b);              /* 3 */
    s.values[STEP(&s, 64, wide, c)].kept = 1; /* 4 */
    ck_assert_uint_eq(most_by(&s, BT_ORDER_WRITTEN), 640 + 64 + 1280);
    ck_assert_uint_eq(most_by(&s, BT_ORDER_BACKWARDS), 64 + 1280 + 64);
}
END_TEST

/* Two branches, one of which has a wide value for a while: looking from the end, the cheap one comes last. */
START_TEST(the_wide_branch_comes_first)
{
    sample s;
    begin(&s);
    int64_t x = add_value(&s, 0, true), y = add_value(&s, 0, true);
    int64_t narrow = STEP(&s, 64, STEP(&s, 64, x)), wide = STEP(&s, 64, STEP(&s, 1280, y));
    s.values[STEP(&s, 64, narrow, wide)].kept = true;
    ck_assert_uint_eq(most_by(&s, BT_ORDER_WRITTEN), 64 + 1280 + 64);
    ck_assert_uint_eq(most_by(&s, BT_ORDER_BACKWARDS), 1280 + 64);
}
END_TEST

/* Four times x to a to b to c, where each a and b adds the same amount: go down one branch and then the next, or
 * compute all a first. */
START_TEST(one_branch_after_the_other)
{
    sample s;
    int64_t a[4], b[4];
    begin(&s);
    int64_t x = add_value(&s, 64, true);
    s.values[x].kept = true;
    for (int i = 0; i < 4; i++)
        a[i] = STEP(&s, 64, x);
    for (int i = 0; i < 4; i++)
        b[i] = STEP(&s, 64, a[i]);
    for (int i = 0; i < 4; i++)
        s.values[STEP(&s, 0, a[i], b[i])].kept = true;
    ck_assert_uint_eq(most_by(&s, BT_ORDER_EARLIEST), 64 + 4 * 64 + 64);
    ck_assert_uint_eq(most_by(&s, BT_ORDER_LATEST), 64 + 2 * 64);
}
END_TEST

/* Sums that are traced last, as of gradients with those of earlier micro-batches, run as early as possible; a small one
 * waits for its turn. */
START_TEST(results_are_kept_at_once)
{
    static const int64_t due[] = {0, 1, 3, 4, 2, 5};
    sample s;
    int64_t by[64], part[3];
    size_t most;
    begin(&s);
    int64_t x = add_value(&s, 64, true), sums = add_value(&s, 3 * 8192, true);
    s.values[x].kept = s.values[sums].kept = true;
    part[0] = STEP(&s, 8192, x);
    part[1] = STEP(&s, 8192, part[0]);
    part[2] = STEP(&s, 1024, x);
    for (int i = 0; i < 3; i++) /* stored over the old value */
        s.values[STEP(&s, 0, sums, part[i])].kept = true;
    ck_assert_int_eq(bt_order_by(&s.order, BT_ORDER_WRITTEN, by, &most), BT_OK);
    expect_possible(&s.order, by);
    ck_assert_uint_eq(most, worst(&s.order, by));
    ck_assert_uint_eq(most, 64 + 3 * 8192 + 2 * 8192);
    ck_assert_mem_eq(by, due, sizeof due);
}
END_TEST

START_TEST(equals_stay_as_they_were)
{
    sample s;
    begin(&s);
    int64_t x = add_value(&s, 64, true), y = STEP(&s, 64, x);
    s.values[STEP(&s, 64, y)].kept = true;
    ck_assert_int_eq(chosen(&s), BT_ORDER_WRITTEN);
    for (int rule = 0; rule <= BT_ORDERS; rule++)
        ck_assert_ptr_nonnull(bt_order_name((bt_order_rule)rule));
    begin(&s); /* no steps at all */
    ck_assert_int_eq(chosen(&s), BT_ORDER_WRITTEN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("orders");
    TCase *tests = tcase_create("orders");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, none_beats_all_orders, 0, 4);
    tcase_add_test(tests, larger_graphs);
    tcase_add_test(tests, slices_one_after_the_other);
    tcase_add_test(tests, what_is_ready_at_any_time_waits_for_its_reader);
    tcase_add_test(tests, the_end_is_seen);
    tcase_add_test(tests, the_wide_branch_comes_first);
    tcase_add_test(tests, one_branch_after_the_other);
    tcase_add_test(tests, results_are_kept_at_once);
    tcase_add_test(tests, equals_stay_as_they_were);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
