/* Collectives of ranks with a device each, as processes, against plain sums; all ranks have the same bits. There are as
 * many ranks as devices, at most four; with one GPU, one rank. */
#include "support/devices.h"

#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void on_devices(int ranks, member_body *body)
{
    if (ranks <= bt_cuda_devices())
        devices_right(ranks, body);
}

static double given(bt_dtype dtype, int rank, int which, int64_t i)
{
    const double x = (double)((i * 37 + rank * 101 + which * 13) % 41) - 20;
    return dtype == BT_BOOL || dtype == BT_U8 ? (double)((i + rank) % 2) : bt_dtype_floats(dtype) ? x / 8 : x;
}

/* Operand `which` of the rank, whose part starts at element `from` of each row of `row` elements. */
static void fill(member *m, const bt_view *view, int which, int64_t own, int64_t whole, int64_t from)
{
    const int64_t n = (int64_t)(member_bytes(view) / bt_dtype_size(view->dtype));
    for (int64_t i = 0; i < n; i++)
        bt_put(view->dtype, m->pinned, i, given(view->dtype, m->rank, which, i / own * whole + from + i % own));
    member_send(m, view);
}

/* ---- sums ---- */

static double folded(const member *m, bt_dtype dtype, int which, int64_t i)
{
    double all = given(dtype, 0, which, i);
    for (int r = 1; r < m->ranks; r++) {
        const double x = given(dtype, r, which, i);
        all = m->attr.reduction == BT_REDUCE_SUM   ? all + x
              : m->attr.reduction == BT_REDUCE_MAX ? fmax(all, x)
                                                   : fmin(all, x);
    }
    return all;
}

/* Several operands, one of them large, each separately, also in place: multiples of 1/8, whose sums are exact. */
static void reduce(member *m, bt_dtype dtype, bt_reduction reduction, bool over)
{
    static const int64_t counts[DEVICE_OPERANDS] = {37, 20011, 1};
    m->attr = (bt_collective_attr){.rank = m->rank, .ranks = m->ranks, .reduction = reduction};
    for (int i = 0; i < DEVICE_OPERANDS; i++) {
        m->in[i] = member_array(m, dtype, false, counts[i]);
        m->out[i] = over ? m->in[i] : member_array(m, dtype, false, counts[i]);
        fill(m, &m->in[i], i, counts[i], counts[i], 0);
    }
    member_choose(m, &bt_op_all_reduce, DEVICE_OPERANDS);
    RIGHT(member_launch(m) == BT_OK && member_wait(m) == BT_OK);
    for (int i = 0; i < DEVICE_OPERANDS; i++) {
        const char *found = member_fetch(m, &m->out[i]);
        for (int64_t e = 0; e < counts[i]; e++)
            RIGHT(bt_get(dtype, found, e) == folded(m, dtype, i, e));
        member_alike(m, found, member_bytes(&m->out[i]));
    }
    member_forget(m);
}

static void all_reduces(member *m)
{
    static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_I32, BT_I64};
    member_join(m);
    for (int d = 0; d < BT_COUNT_OF(dtypes); d++)
        for (int reduction = 0; reduction < 3; reduction++)
            for (int over = 0; over < 2; over++)
                reduce(m, dtypes[d], (bt_reduction)reduction, over);
}

START_TEST(sums) { on_devices(_i, all_reduces); }
END_TEST

/* NaN is the maximum, and the minimum, on whichever rank it is. */
static void nan_wins(member *m)
{
    member_join(m);
    for (int reduction = BT_REDUCE_SUM; reduction <= BT_REDUCE_MIN; reduction++) {
        m->attr = (bt_collective_attr){.rank = m->rank, .ranks = m->ranks, .reduction = reduction};
        m->in[0] = m->out[0] = member_array(m, BT_F32, false, 8);
        for (int i = 0; i < 8; i++)
            bt_put(BT_F32, m->pinned, i, i == m->rank ? NAN : 1);
        member_send(m, &m->in[0]);
        member_choose(m, &bt_op_all_reduce, 1);
        RIGHT(member_launch(m) == BT_OK);
        const char *found = member_fetch(m, &m->out[0]);
        for (int i = 0; i < 8; i++)
            RIGHT(i < m->ranks ? isnan(bt_get(BT_F32, found, i)) : bt_get(BT_F32, found, i) >= 1);
        member_forget(m);
    }
}

START_TEST(not_a_number) { on_devices(_i, nan_wins); }
END_TEST

/* ---- parts ---- */

/* `each` rows per rank along the axis; of a line, a part that starts at `from`, or all of it. */
static void parts(member *m, const bt_op *op, bt_dtype dtype, bool wide, int64_t rows, int64_t each, int64_t from)
{
    const int64_t size = rows * each - from, inner = wide ? 5 : 1;
    m->attr = (bt_collective_attr){.rank = m->rank,
                                   .ranks = m->ranks,
                                   .parts = 1,
                                   .axis = wide,
                                   .rows = rows,
                                   .size = size,
                                   .of = from ? rows * each : 0,
                                   .from = from};
    const int64_t first = bt_collective_first(&m->attr, m->rank), end = bt_collective_first(&m->attr, m->rank + 1);
    const bool gathers = op == &bt_op_all_gather;
    const bt_view whole = member_array(m, dtype, wide, size), part = member_array(m, dtype, wide, end - first);
    m->in[0] = gathers ? part : whole;
    m->out[0] = gathers ? whole : part;
    if (end > first || !gathers)
        fill(m, &m->in[0], 0, gathers ? (end - first) * inner : size * inner, size * inner,
             gathers ? first * inner : 0);
    member_choose(m, op, 1);
    RIGHT(member_launch(m) == BT_OK && member_wait(m) == BT_OK);
    const char *found = member_fetch(m, &m->out[0]);
    const int64_t line = (gathers ? size : end - first) * inner;
    for (int64_t i = 0; i < (wide ? 3 : 1) * line; i++) {
        const int64_t at = i / line * size * inner + (gathers ? 0 : first * inner) + i % line,
                      along = at / inner % size;
        int owner = 0;
        while (bt_collective_first(&m->attr, owner + 1) <= along)
            owner++;
        RIGHT(bt_get(dtype, found, i) == (gathers ? given(dtype, owner, 0, at) : folded(m, dtype, 0, at)));
    }
    member_forget(m);
}

static void gathers_and_scatters(member *m)
{
    static const bt_dtype moved[] = {BT_F32, BT_F64, BT_I64, BT_BF16, BT_BOOL}, summed[] = {BT_F32, BT_F64, BT_I32};
    member_join(m);
    for (int wide = 0; wide < 2; wide++)
        for (int64_t rows = 1; rows < 10; rows++) {
            for (int d = 0; d < BT_COUNT_OF(moved); d++)
                parts(m, &bt_op_all_gather, moved[d], wide, rows, 3, 0);
            for (int d = 0; d < BT_COUNT_OF(summed); d++)
                parts(m, &bt_op_reduce_scatter, summed[d], wide, rows, 3, 0);
        }
    parts(m, &bt_op_all_gather, BT_F32, false, 7, 3001, 0); /* several parts in the fake's slots */
    parts(m, &bt_op_reduce_scatter, BT_F32, false, 7, 3001, 0);
    for (int64_t from = 1; from < 24; from += 5) { /* some ranks have no part of the stretch */
        parts(m, &bt_op_all_gather, BT_F32, false, 8, 3, from);
        parts(m, &bt_op_reduce_scatter, BT_F32, false, 8, 3, from);
    }
}

START_TEST(parts_of_all) { on_devices(_i, gathers_and_scatters); }
END_TEST

/* ---- recorded ---- */

/* Summed in place, which multiplies the numbers by the number of ranks each time. */
static void replays(member *m)
{
    enum { COUNT = 30000, TIMES = 3 };
    member_join(m);
    m->attr = (bt_collective_attr){.rank = m->rank, .ranks = m->ranks};
    m->in[0] = m->out[0] = member_array(m, BT_I32, false, COUNT);
    fill(m, &m->in[0], 0, COUNT, COUNT, 0);
    member_choose(m, &bt_op_all_reduce, 1);
    RIGHT(member_launch(m) == BT_OK); /* the first time step by step, as in a run */
    void *kept = NULL;
    if (m->device->record)
        RIGHT(m->device->record(m->queue) == BT_OK && member_launch(m) == BT_OK &&
              (kept = m->device->recorded(m->queue)));
    for (int i = 0; i < TIMES; i++)
        RIGHT((kept ? m->device->replay(m->queue, kept) : member_launch(m)) == BT_OK);
    const char *found = member_fetch(m, &m->out[0]);
    for (int64_t i = 0; i < COUNT; i++)
        RIGHT(bt_get(BT_I32, found, i) == folded(m, BT_I32, 0, i) * pow(m->ranks, TIMES));
    if (kept)
        m->device->discard(kept);
    member_forget(m);
}

START_TEST(recorded) { on_devices(_i, replays); }
END_TEST

int main(void)
{
    setenv("FAKE_CUDA_DEVICES", "4", 0);
    int code = NO_NCCL;
    if (bt_cuda_devices())
        devices_run(1, member_join, &code);
    if (code == NO_NCCL) {
        printf("skipped: no CUDA device, or no NCCL\n");
        return code;
    }
    Suite *suite = suite_create("backend: ranks");
    TCase *tcase = tcase_create("ranks");
    tcase_add_loop_test(tcase, sums, 1, MOST_DEVICES + 1);
    tcase_add_loop_test(tcase, not_a_number, 1, MOST_DEVICES + 1);
    tcase_add_loop_test(tcase, parts_of_all, 1, MOST_DEVICES + 1);
    tcase_add_loop_test(tcase, recorded, 1, MOST_DEVICES + 1);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
