/* Ranks as processes that exchange data through shared memory: what each receives, and what happens when one diverges
 * from the others, fails or is killed. */
#include "ops/ops.h"
#include "runtime/backend.h"
#include "runtime/transport.h"
#include "support/forked.h"
#include "support/suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 5 };

typedef enum where {
    OWN,
    REACHED,
    MIXED,
    WHERES
} where; /* the values; MIXED: in shared memory except on the last rank */
static where lies;

typedef struct member { /* the work of a rank, and how it must end */
    bt_transport *transport;
    bt_joint *joint;
    int rank, ranks, given;
} member;
typedef int work_fn(member *m); /* returns the exit code: 0 for success */

typedef struct shared { /* by all ranks */
    work_fn *work;
    int ranks, given;
} shared;

static int run_one(bt_transport *t, int rank, void *user)
{
    const shared *all = user;
    bt_joint *joint = t ? bt_joint_new(t, &bt_backend_cpu()->kernels) : NULL;
    const int code = joint ? all->work(&(member){t, joint, rank, all->ranks, all->given}) : 99;
    bt_joint_free(joint);
    if (t)
        t->close(t);
    return code;
}

static void run(int ranks, work_fn *work, int given, int *codes)
{
    forked_run(ranks, run_one, &(shared){work, ranks, given}, codes);
}

static void all_right(int ranks, work_fn *work, int given)
{
    int codes[MOST];
    run(ranks, work, given, codes);
    for (int r = 0; r < ranks; r++)
        ck_assert_msg(codes[r] == 0, "rank %d of %d, %d: ends with %d", r, ranks, given, codes[r]);
}

/* ---- results ---- */

static float number(int rank, int64_t i) { return 1 / (1 + (float)((rank * 7919 + i * 31) % 1009)); }

static bt_view view_of(float *data, int64_t rows, int64_t wide)
{
    return (bt_view){.data = (char *)data, .dtype = BT_F32, .rank = 2, .dims = {rows, wide}, .strides = {wide, 1}};
}

static bt_status join(member *m, const bt_op *op, const bt_collective_attr *like, bt_view in, bt_view out, uint64_t at)
{
    bt_collective_attr attr = *like;
    attr.rank = m->rank, attr.ranks = m->ranks;
    const bt_call call = {.op = op, .attr = &attr, .inputs = 1, .outputs = 1, .in = &in, .out = &out, .threads = 1};
    return bt_joint_call(m->joint, &call, at);
}

/* Memory for n numbers, shared or not. */
static float *room(member *m, int64_t n)
{
    const size_t bytes = (size_t)n * sizeof(float);
    const bool reached = lies == REACHED || (lies == MIXED && m->rank < m->ranks - 1);
    float *memory = reached ? (float *)(void *)bt_joint_alloc(m->joint, bytes) : bt_alloc_aligned(bytes);
    if (!memory || (m->transport->reaches(m->transport, memory) != reached))
        _exit(9);
    return memory;
}

static void leave(member *m, float *memory, int64_t n)
{
    bt_joint_release(m->joint, (char *)memory, (size_t)n * sizeof(float));
    if (bt_live_bytes() != 0)
        _exit(8);
}

/* 2 x `given` numbers each: added in rank order, bit for bit; in place, then into another array. */
static int add(member *m)
{
    const int64_t n = 2 * (int64_t)m->given;
    float *x = room(m, 2 * n), *to[] = {x, x + n};
    int code = 0;
    for (int k = 0; !code && k < 2; k++) {
        for (int64_t i = 0; i < n; i++)
            x[i] = number(m->rank, i + k);
        if (join(m, &bt_op_all_reduce, &(bt_collective_attr){0}, view_of(x, 2, m->given), view_of(to[k], 2, m->given),
                 3) != BT_OK)
            code = 1;
        for (int64_t i = 0; !code && i < n; i++) {
            float sum = number(0, i + k);
            for (int r = 1; r < m->ranks; r++)
                sum += number(r, i + k);
            code = to[k][i] == sum ? 0 : 2;
        }
    }
    leave(m, x, 2 * n);
    return code;
}

/* Small and large arrays in one call, some in place: each is summed on its own. */
static int add_several(member *m)
{
    enum { VALUES = 7 };
    const int64_t counts[VALUES] = {3, m->given, 0, 1, 2 * (int64_t)m->given + 1, 5, 300000};
    bt_view in[VALUES], out[VALUES];
    float *data[2 * VALUES];
    int64_t total = 0;
    int code = 0;
    for (int v = 0; v < VALUES; v++)
        total += 2 * (counts[v] + 1);
    float *all = room(m, total), *next = all;
    for (int v = 0; v < VALUES; v++) {
        for (int k = 0; k < 2; k++, next += counts[v] + 1)
            data[2 * v + k] = next;
        for (int64_t i = 0; i < counts[v]; i++)
            data[2 * v][i] = number(m->rank, i + 1000 * v);
        in[v] = view_of(data[2 * v], 1, counts[v]);
        out[v] = view_of(data[2 * v + v % 2], 1, counts[v]);
    }
    const bt_collective_attr attr = {.rank = m->rank, .ranks = m->ranks};
    const bt_call call = {.op = &bt_op_all_reduce,
                          .attr = &attr,
                          .inputs = VALUES,
                          .outputs = VALUES,
                          .in = in,
                          .out = out,
                          .threads = 1};
    code = bt_joint_call(m->joint, &call, 6) != BT_OK;
    for (int v = 0; v < VALUES; v++)
        for (int64_t i = 0; !code && i < counts[v]; i++) {
            float sum = number(0, i + 1000 * v);
            for (int r = 1; r < m->ranks; r++)
                sum += number(r, i + 1000 * v);
            code = data[2 * v + v % 2][i] == sum ? 0 : 2;
        }
    leave(m, all, total);
    return code;
}

/* 7 rows of two kinds, along the first axis: each rank has its own, and overwrites them as soon as they are
 * gathered. */
static int gather(member *m)
{
    enum { ROWS = 7, EACH = 2 };
    const int64_t wide = m->given, first = EACH * bt_share_first(ROWS, m->rank, m->ranks);
    const int64_t own = EACH * bt_share_first(ROWS, m->rank + 1, m->ranks) - first, n = ROWS * EACH * wide;
    float *all = room(m, n + own * wide), *x = all + n;
    const bt_collective_attr attr = {.parts = 1, .axis = 0, .rows = ROWS, .size = ROWS * EACH};
    int code = 0;
    for (int k = 0; !code && k < 4; k++) {
        for (int64_t i = 0; i < own * wide; i++)
            x[i] = number(k, first * wide + i);
        if (join(m, &bt_op_all_gather, &attr, view_of(x, own, wide), view_of(all, ROWS * EACH, wide), 4) != BT_OK)
            code = 1;
        memset(x, 0, (size_t)(own * wide) * sizeof *x);
        for (int64_t i = 0; !code && i < n; i++)
            code = all[i] == number(k, i) ? 0 : 2;
    }
    leave(m, all, n + own * wide);
    return code;
}

/* A reduce-scatter: each rank keeps its rows along the second axis. */
static int scatter(member *m)
{
    enum { ROWS = 7 };
    const int64_t high = m->given, n = high * ROWS;
    const int64_t first = bt_share_first(ROWS, m->rank, m->ranks);
    const int64_t wide = bt_share_first(ROWS, m->rank + 1, m->ranks) - first;
    float *x = room(m, 2 * n), *own = x + n;
    for (int64_t i = 0; i < n; i++)
        x[i] = number(m->rank, i);
    const bt_collective_attr attr = {.parts = 1, .axis = 1, .rows = ROWS, .size = ROWS};
    int code = join(m, &bt_op_reduce_scatter, &attr, view_of(x, high, ROWS), view_of(own, high, wide), 5) != BT_OK;
    for (int64_t h = 0; !code && h < high; h++)
        for (int64_t i = 0; i < wide; i++) {
            float sum = number(0, h * ROWS + first + i);
            for (int r = 1; r < m->ranks; r++)
                sum += number(r, h * ROWS + first + i);
            if (own[h * wide + i] != sum)
                code = 2;
        }
    leave(m, x, 2 * n);
    return code;
}

/* Many small collectives of all kinds, in sequence. */
static int meet_often(member *m)
{
    for (int i = 0; i < m->given; i++) {
        bool flag = i % m->ranks == m->rank && i % 2 == 0;
        double numbers[3] = {m->rank, i, 1};
        if (bt_joint_any(m->joint, &flag, 1) != BT_OK || flag != (i % 2 == 0) ||
            bt_joint_sum(m->joint, BT_F64, numbers, 3) != BT_OK)
            return 1;
        if (numbers[0] != m->ranks * (m->ranks - 1) / 2.0 || numbers[1] != (double)i * m->ranks ||
            numbers[2] != m->ranks)
            return 2;
    }
    return 0;
}

/* Small arrays are copied in one meeting; larger ones in parts of 2^16 bytes: smaller, equal, slightly larger,
 * several. */
START_TEST(what_they_get)
{
    static const int wide[] = {1, 3, 8192, 8193, 100003};
    lies = (where)_i;
    for (int ranks = 2; ranks <= MOST; ranks++) {
        for (int i = 0; i < BT_COUNT_OF(wide); i++) {
            all_right(ranks, add, wide[i]);
            all_right(ranks, gather, wide[i]);
            all_right(ranks, scatter, wide[i]);
            all_right(ranks, add_several, wide[i]);
        }
        all_right(ranks, meet_often, 300);
    }
}
END_TEST

/* One piece of shared memory at a time, up to its limit; further requests get memory of the rank's own. It is
 * zeroed. */
static int lend(member *m)
{
    enum { N = 100000 };
    bt_transport *t = m->transport;
    char *memory = bt_joint_alloc(m->joint, N), *other = bt_joint_alloc(m->joint, N);
    if (!memory || !other || !t->reaches(t, memory) || t->reaches(t, other) || t->reaches(t, NULL) ||
        t->reaches(t, &memory) || bt_live_bytes() != 2 * N)
        return 1;
    memset(memory, 1, N);
    bt_joint_release(m->joint, other, N);
    bt_joint_release(m->joint, memory, N);
    char *again = bt_joint_alloc(m->joint, N);
    if (again != memory || memchr(again, 1, N) || bt_live_bytes() != N || t->lend(t, SIZE_MAX / 2))
        return 2;
    bt_joint_release(m->joint, again, N);
    return bt_live_bytes() == 0 ? 0 : 3;
}

START_TEST(what_they_are_lent) { all_right(3, lend, 0); }
END_TEST

/* ---- how they end ---- */

/* Rank 1 makes a different call than the others, or has a different number of values. */
static int part(member *m)
{
    float x[4] = {0};
    const bt_status status =
        join(m, &bt_op_all_reduce, &(bt_collective_attr){0}, view_of(x, 2, 2), view_of(x, 2, 2), m->rank == 1 ? 8 : 9);
    if (status != BT_ERROR_INTERNAL || !strstr(bt_error(), "the ranks do not meet"))
        return 3;
    const bt_collective_attr attr = {.rank = m->rank, .ranks = m->ranks};
    bt_view views[] = {view_of(x, 1, 1), view_of(x + 1, 1, 1)};
    const int count = m->rank == 1 ? 1 : 2;
    const bt_call call = {
        .op = &bt_op_all_reduce, .attr = &attr, .inputs = count, .outputs = count, .in = views, .out = views};
    return bt_joint_call(m->joint, &call, 1) == BT_ERROR_INTERNAL ? 0 : 4;
}

/* They only meet if all are about to do the same. */
static int meet(member *m)
{
    const bt_transport *t = m->transport;
    if (t->here != m->rank || t->beside != m->ranks || t->failed(t))
        return 2;
    for (uint64_t what = 0; what < 5; what++)
        if (bt_joint_meet(m->joint, what) != BT_OK)
            return 3;
    const bt_status status = bt_joint_meet(m->joint, m->rank == 1 ? 8 : 9);
    return status == BT_ERROR_INTERNAL && strstr(bt_error(), "the ranks do not meet") ? 0 : 4;
}

/* The last rank exits at meeting `given`, by a signal or with a code; the others must get an error. */
static int lose_one(member *m, bool killed)
{
    enum { N = 4096 }; /* a sum takes two meetings if all can reach the memory */
    float *x = room(m, N);
    for (int i = 0;; i++) {
        if (m->rank == m->ranks - 1 && i == m->given) {
            if (killed)
                raise(SIGKILL);
            return 5;
        }
        if (join(m, &bt_op_all_reduce, &(bt_collective_attr){0}, view_of(x, 1, N), view_of(x, 1, N), 1) == BT_OK)
            continue;
        return bt_error_status() == BT_ERROR_DEVICE && i == m->given ? 4 : 3;
    }
}

static int kill_one(member *m) { return lose_one(m, true); }
static int fail_one(member *m) { return lose_one(m, false); }

START_TEST(how_they_end)
{
    all_right(3, part, 0);
    all_right(3, meet, 0);
    for (int ranks = 2; ranks <= MOST; ranks++)
        for (int meeting = 0; meeting < 6; meeting++)
            for (int killed = 0; killed < 2; killed++) {
                int codes[MOST];
                lies = meeting % 2 ? REACHED : OWN;
                run(ranks, killed ? kill_one : fail_one, meeting, codes);
                for (int r = 0; r < ranks - 1; r++)
                    ck_assert_int_eq(codes[r], 4);
                ck_assert_int_eq(codes[ranks - 1], killed ? -1 - SIGKILL : 5);
            }
}
END_TEST

/* Of five numbers, number `given` differs on the last rank. */
static int compare(member *m)
{
    uint64_t numbers[5] = {1, 2, 3, 4, 5};
    int64_t which;
    int rank;
    if (m->given >= 0 && m->rank == m->ranks - 1)
        numbers[m->given]++;
    if (bt_joint_compare(m->joint, "here", numbers, 5, &which, &rank) != BT_OK)
        return 1;
    return which == m->given && (which < 0 || rank == m->ranks - 1) ? 0 : 2;
}

/* A rank that compares at its end does not meet those that compare at their beginning. */
static int compare_elsewhere(member *m)
{
    const uint64_t number = 1;
    int64_t which;
    int rank;
    return bt_joint_compare(m->joint, m->rank ? "ends" : "begins", &number, 1, &which, &rank) == BT_ERROR_INTERNAL ? 0
                                                                                                                   : 1;
}

START_TEST(what_differs)
{
    for (int ranks = 2; ranks <= MOST; ranks++)
        for (int which = -1; which < 5; which++)
            all_right(ranks, compare, which);
    all_right(2, compare_elsewhere, 0);
}
END_TEST

START_TEST(the_first_message_stays)
{
    int code = 0;
    bt_page *page = bt_page_new(2);
    ck_assert_ptr_nonnull(page);
    ck_assert_ptr_null(bt_page_failure(page, &code));
    bt_page_fail(page, "first", 2);
    bt_page_fail(page, "second", 1);
    ck_assert_str_eq(bt_page_failure(page, &code), "first");
    ck_assert_int_eq(code, 2);
    ck_assert(!bt_page_ended(page, 0) && !bt_page_ended(page, 1));
    bt_page_end(page, 1);
    ck_assert(!bt_page_ended(page, 0) && bt_page_ended(page, 1));
    bt_page_free(page);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("runtime.page");
    TCase *tests = tcase_create("page");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, what_they_get, 0, WHERES);
    tcase_add_test(tests, what_they_are_lent);
    tcase_add_test(tests, how_they_end);
    tcase_add_test(tests, what_differs);
    tcase_add_test(tests, the_first_message_stays);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
