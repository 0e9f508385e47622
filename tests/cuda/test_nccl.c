/* tests/cuda/test_nccl.c: what ranks that have a device each compute together, each a process: against plain sums; the
 * same bits on all of them and from run to run; and what they say when one is gone, or at another call. */
#include "backend/cuda/library.h"
#include "runtime/backend.h"

#include "fake.h"
#include "ops/ops.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 4, ROOM = 1 << 18, OPERANDS = 3 };

typedef struct member { /* a rank; a failure of it is its exit code, which is the line */
    bt_transport *transport;
    const bt_device_table *device;
    void *queue;
    int rank, ranks;
    bt_collective_attr attr;
    bt_view in[OPERANDS], out[OPERANDS]; /* far */
    bt_call call;
    const bt_kernel_impl *kernel;
    char *pinned;
} member;
typedef void body(member *m);

#define RIGHT(condition)                                                                                               \
    do                                                                                                                 \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "rank %d of %d, line %d: %s: %s\n", m->rank, m->ranks, __LINE__, #condition, bt_error());  \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    while (0)

static void begin(member *m)
{
    RIGHT(bt_cuda_choose(m->rank, m->ranks) == BT_OK && bt_backend_cuda());
    m->device = bt_backend_cuda()->device;
    RIGHT((m->queue = m->device->open()));
    RIGHT((m->pinned = m->device->pin(ROOM)));
}

static void join(member *m) { RIGHT(m->device->join(m->queue, m->transport) == BT_OK); }

/* Exit codes, or -1 - signal, by rank. Who ends otherwise than with 0 ends the others' waiting, as a parent would. */
static void run(int ranks, body *work, int *codes)
{
    pid_t ids[MOST];
    bt_page *page = bt_page_new(ranks);
    ck_assert_ptr_nonnull(page);
    setenv("FAKE_CUDA_DEVICES", "4", 1);
    for (int r = 0; r < ranks; r++)
        if ((ids[r] = fork()) == 0) {
            member m = {.transport = bt_page_transport(page, r), .rank = r, .ranks = ranks};
            begin(&m);
            work(&m);
            m.device->unpin(m.pinned);
            m.device->close(m.queue);
            _exit(0);
        }
    for (int left = ranks; left > 0; left--) {
        int how;
        const pid_t id = waitpid(-1, &how, 0);
        for (int r = 0; r < ranks; r++)
            if (ids[r] == id)
                codes[r] = WIFEXITED(how) ? WEXITSTATUS(how) : -1 - WTERMSIG(how);
        if (!WIFEXITED(how) || WEXITSTATUS(how))
            bt_page_fail(page, "one has ended", 7);
    }
    bt_page_free(page);
}

static void all_right(int ranks, body *work)
{
    int codes[MOST];
    run(ranks, work, codes);
    for (int r = 0; r < ranks; r++)
        ck_assert_msg(codes[r] == 0, "rank %d of %d ends with %d", r, ranks, codes[r]);
}

/* ---- a call ---- */

static size_t bytes_of(const bt_view *view) { return (size_t)bt_array_bytes(bt_view_array(view)); }

static bt_status wait_for(member *m)
{
    bt_device_failure found = m->device->wait(m->queue, m->device->mark(m->queue));
    const bt_status status = found.failure.status;
    if (status != BT_OK)
        bt_failure_give(&found.failure);
    return status;
}

/* [3, n, 5], or [n]: dense, and what has gone there is seen. */
static bt_view far_array(member *m, bt_dtype dtype, bool wide, int64_t n)
{
    bt_view view = bt_view_of(wide ? (bt_array){.dtype = dtype, .rank = 3, .dims = {3, n, 5}}
                                   : (bt_array){.dtype = dtype, .rank = 1, .dims = {n}});
    view.data = m->device->alloc(m->queue, bytes_of(&view));
    RIGHT(view.data && bytes_of(&view) <= ROOM);
    return view;
}

static double given(bt_dtype dtype, int rank, int which, int64_t i)
{
    const double x = (double)((i * 37 + rank * 101 + which * 13) % 41) - 20;
    return dtype == BT_BOOL || dtype == BT_U8 ? (double)((i + rank) % 2) : bt_dtype_floats(dtype) ? x / 8 : x;
}

/* Operand `which` is that of the rank, of which `from` elements of each row of `row` of the whole come before. */
static void fill(member *m, const bt_view *view, int which, int64_t own, int64_t whole, int64_t from)
{
    const int64_t n = (int64_t)(bytes_of(view) / bt_dtype_size(view->dtype));
    for (int64_t i = 0; i < n; i++)
        bt_put(view->dtype, m->pinned, i, given(view->dtype, m->rank, which, i / own * whole + from + i % own));
    RIGHT(m->device->send(m->queue, view->data, m->pinned, bytes_of(view)) == BT_OK && wait_for(m) == BT_OK);
}

static const char *fetched(member *m, const bt_view *view)
{
    RIGHT(m->device->fetch(m->queue, m->pinned, view->data, bytes_of(view)) == BT_OK && wait_for(m) == BT_OK);
    return m->pinned;
}

static void choose(member *m, const bt_op *op, int operands)
{
    m->call = (bt_call){
        .op = op, .attr = &m->attr, .inputs = operands, .outputs = operands, .in = m->in, .out = m->out, .threads = 1};
    RIGHT((m->kernel = bt_kernel_choose(&bt_backend_cuda()->kernels, &m->call)));
    const size_t scratch = m->kernel->scratch ? m->kernel->scratch(&m->call) : 0;
    m->call.scratch = scratch ? m->device->alloc(m->queue, scratch) : NULL;
}

static bt_status launch(member *m) { return m->device->launch(m->queue, m->kernel, &m->call, (bt_launched){NULL, 0}); }

static void forget(member *m)
{
    for (int i = 0; i < m->call.inputs; i++) {
        m->device->free(m->queue, m->in[i].data);
        if (m->out[i].data != m->in[i].data)
            m->device->free(m->queue, m->out[i].data);
    }
    if (m->call.scratch)
        m->device->free(m->queue, m->call.scratch);
}

/* All ranks have the same bits. */
static void alike(member *m, const char *bits, size_t bytes)
{
    uint64_t own = bt_hash(0, bits, bytes), all[MOST];
    RIGHT(m->transport->gather(m->transport, 1, &own, sizeof own, all, sizeof own) == BT_OK);
    for (int r = 0; r < m->ranks; r++)
        RIGHT(all[r] == own);
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

/* Several operands, one of them large, each by itself or over what was given: eighths, whose sums are exact. */
static void reduce(member *m, bt_dtype dtype, bt_reduction reduction, bool over)
{
    static const int64_t counts[OPERANDS] = {37, 20011, 1};
    m->attr = (bt_collective_attr){.rank = m->rank, .ranks = m->ranks, .reduction = reduction};
    for (int i = 0; i < OPERANDS; i++) {
        m->in[i] = far_array(m, dtype, false, counts[i]);
        m->out[i] = over ? m->in[i] : far_array(m, dtype, false, counts[i]);
        fill(m, &m->in[i], i, counts[i], counts[i], 0);
    }
    choose(m, &bt_op_all_reduce, OPERANDS);
    RIGHT(launch(m) == BT_OK && wait_for(m) == BT_OK);
    for (int i = 0; i < OPERANDS; i++) {
        const char *found = fetched(m, &m->out[i]);
        for (int64_t e = 0; e < counts[i]; e++)
            RIGHT(bt_get(dtype, found, e) == folded(m, dtype, i, e));
        alike(m, found, bytes_of(&m->out[i]));
    }
    forget(m);
}

static void all_reduces(member *m)
{
    static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_I32, BT_I64};
    join(m);
    for (int d = 0; d < BT_COUNT_OF(dtypes); d++)
        for (int reduction = 0; reduction < 3; reduction++)
            for (int over = 0; over < 2; over++)
                reduce(m, dtypes[d], (bt_reduction)reduction, over);
}

START_TEST(sums) { all_right(_i, all_reduces); }
END_TEST

/* NaN is the largest, and the smallest, on whichever rank it is. */
static void nan_wins(member *m)
{
    join(m);
    for (int reduction = BT_REDUCE_SUM; reduction <= BT_REDUCE_MIN; reduction++) {
        m->attr = (bt_collective_attr){.rank = m->rank, .ranks = m->ranks, .reduction = reduction};
        m->in[0] = m->out[0] = far_array(m, BT_F32, false, 8);
        for (int i = 0; i < 8; i++)
            bt_put(BT_F32, m->pinned, i, i == m->rank ? NAN : 1);
        RIGHT(m->device->send(m->queue, m->in[0].data, m->pinned, 32) == BT_OK);
        choose(m, &bt_op_all_reduce, 1);
        RIGHT(launch(m) == BT_OK);
        const char *found = fetched(m, &m->out[0]);
        for (int i = 0; i < 8; i++)
            RIGHT(i < m->ranks ? isnan(bt_get(BT_F32, found, i)) : bt_get(BT_F32, found, i) >= 1);
        forget(m);
    }
}

START_TEST(not_a_number) { all_right(3, nan_wins); }
END_TEST

/* ---- parts ---- */

/* Rows of `each` along the axis; of a line from `from` on, or the whole of it. */
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
    const bt_view whole = far_array(m, dtype, wide, size), part = far_array(m, dtype, wide, end - first);
    m->in[0] = gathers ? part : whole;
    m->out[0] = gathers ? whole : part;
    if (end > first || !gathers)
        fill(m, &m->in[0], 0, gathers ? (end - first) * inner : size * inner, size * inner,
             gathers ? first * inner : 0);
    choose(m, op, 1);
    RIGHT(launch(m) == BT_OK && wait_for(m) == BT_OK);
    const char *found = fetched(m, &m->out[0]);
    const int64_t line = (gathers ? size : end - first) * inner;
    for (int64_t i = 0; i < (wide ? 3 : 1) * line; i++) {
        const int64_t at = i / line * size * inner + (gathers ? 0 : first * inner) + i % line,
                      along = at / inner % size;
        int owner = 0;
        while (bt_collective_first(&m->attr, owner + 1) <= along)
            owner++;
        RIGHT(bt_get(dtype, found, i) == (gathers ? given(dtype, owner, 0, at) : folded(m, dtype, 0, at)));
    }
    forget(m);
}

static void gathers_and_scatters(member *m)
{
    static const bt_dtype moved[] = {BT_F32, BT_F64, BT_I64, BT_BF16, BT_BOOL}, summed[] = {BT_F32, BT_F64, BT_I32};
    join(m);
    for (int wide = 0; wide < 2; wide++)
        for (int64_t rows = 1; rows < 10; rows++) {
            for (int d = 0; d < BT_COUNT_OF(moved); d++)
                parts(m, &bt_op_all_gather, moved[d], wide, rows, 3, 0);
            for (int d = 0; d < BT_COUNT_OF(summed); d++)
                parts(m, &bt_op_reduce_scatter, summed[d], wide, rows, 3, 0);
        }
    parts(m, &bt_op_all_gather, BT_F32, false, 7, 3001, 0); /* several parts of the fake's slots */
    parts(m, &bt_op_reduce_scatter, BT_F32, false, 7, 3001, 0);
    for (int64_t from = 1; from < 24; from += 5) { /* some ranks have nothing of the stretch */
        parts(m, &bt_op_all_gather, BT_F32, false, 8, 3, from);
        parts(m, &bt_op_reduce_scatter, BT_F32, false, 8, 3, from);
    }
}

START_TEST(parts_of_all) { all_right(_i, gathers_and_scatters); }
END_TEST

/* ---- recorded, in any order ---- */

static void replays(member *m)
{
    static const char *const orders[] = {"eager", "lazy", "1", "2", "3"};
    join(m);
    for (int o = 0; o < BT_COUNT_OF(orders); o++) {
        fake_order(m->rank ? orders[o] : orders[BT_COUNT_OF(orders) - 1 - o]); /* on each rank another one */
        m->attr = (bt_collective_attr){.rank = m->rank, .ranks = m->ranks};
        m->in[0] = m->out[0] = far_array(m, BT_I32, false, 30000);
        fill(m, &m->in[0], 0, 30000, 30000, 0);
        choose(m, &bt_op_all_reduce, 1);
        RIGHT(launch(m) == BT_OK); /* the first time step by step, as a run's */
        RIGHT(m->device->record(m->queue) == BT_OK && launch(m) == BT_OK);
        void *kept = m->device->recorded(m->queue);
        RIGHT(kept);
        for (int i = 0; i < 3; i++)
            RIGHT(m->device->replay(m->queue, kept) == BT_OK);
        const char *found = fetched(m, &m->out[0]);
        for (int64_t i = 0; i < 30000; i++)
            RIGHT(bt_get(BT_I32, found, i) == folded(m, BT_I32, 0, i) * m->ranks * m->ranks * m->ranks);
        m->device->discard(kept);
        forget(m);
    }
}

START_TEST(recorded) { all_right(3, replays); }
END_TEST

/* ---- failures ---- */

static void sum_of_one(member *m, int64_t count)
{
    m->attr = (bt_collective_attr){.rank = m->rank, .ranks = m->ranks};
    m->in[0] = m->out[0] = far_array(m, BT_F32, false, count);
    choose(m, &bt_op_all_reduce, 1);
}

/* Who is left while the device waits ends with an error, whatever it waits for. */
static void one_dies(member *m)
{
    join(m);
    sum_of_one(m, 10);
    if (m->rank == 1)
        raise(SIGKILL);
    RIGHT(launch(m) == BT_OK);
    RIGHT(wait_for(m) == BT_ERROR_DEVICE);
    RIGHT(strcmp(bt_error(), "another rank has failed") == 0);
    bt_error_clear();
    RIGHT(launch(m) == BT_ERROR_DEVICE); /* and nothing is exchanged any more */
    bt_error_clear();
    m->device->free(m->queue, m->in[0].data);
}

START_TEST(a_rank_is_gone)
{
    int codes[MOST];
    run(3, one_dies, codes);
    ck_assert_int_eq(codes[1], -1 - SIGKILL);
    ck_assert_int_eq(codes[0], 0);
    ck_assert_int_eq(codes[2], 0);
}
END_TEST

static void connection_is_lost(member *m)
{
    char none = 0, all[MOST];
    join(m);
    sum_of_one(m, 10);
    if (m->rank == 0) {
        setenv("FAKE_NCCL", "lost", 1);
        RIGHT(launch(m) == BT_OK);
        RIGHT(wait_for(m) == BT_ERROR_DEVICE);
        RIGHT(strcmp(bt_error(),
                     "NCCL: while ranks exchange, rank 0 of 2: remote process exited or there was a network "
                     "error: the connection was closed") == 0);
        bt_error_clear();
    }
    RIGHT(m->transport->gather(m->transport, 2, &none, 1, all, 1) == BT_OK);
}

START_TEST(a_connection_is_lost) { all_right(2, connection_is_lost); }
END_TEST

static void refusals(member *m)
{
    join(m);
    sum_of_one(m, 10);
    m->attr.rank = 1 - m->rank;
    RIGHT(launch(m) == BT_ERROR_INTERNAL);
    bt_error_clear();
    m->attr.rank = m->rank;
    m->in[0].data = m->pinned;
    RIGHT(launch(m) == BT_ERROR_DEVICE && strstr(bt_error(), "memory that is not the device's"));
    bt_error_clear();
    m->in[0].data = m->out[0].data;
    RIGHT(launch(m) == BT_OK && wait_for(m) == BT_OK); /* it can go on */
}

START_TEST(refused) { all_right(2, refusals); }
END_TEST

/* What the library would only hang on, the imitation tells. */
static void other_sizes(member *m)
{
    join(m);
    sum_of_one(m, 10 + m->rank);
    RIGHT(launch(m) == BT_OK);
    wait_for(m);
    _exit(3);
}

START_TEST(other_calls)
{
    int codes[MOST];
    run(2, other_sizes, codes);
    ck_assert(codes[0] == -1 - SIGABRT || codes[1] == -1 - SIGABRT);
}
END_TEST

/* Each makes an id of its own, so that they do not find each other; or both have one device. */
static void other_ids(member *m)
{
    ncclUniqueId id;
    ncclComm_t comm;
    setenv("FAKE_NCCL_SECONDS", "1", 1);
    RIGHT(bt_cuda_nccl() && bt_cuda_nccl()->unique_id(&id) == ncclSuccess);
    RIGHT(bt_cuda_nccl()->init(&comm, m->ranks, id, m->rank) == ncclSystemError);
    memset(&id, 0, sizeof id);
    RIGHT(bt_cuda_nccl()->init(&comm, m->ranks, id, m->rank) == ncclInvalidArgument);
}

static void one_device(member *m)
{
    ncclUniqueId id, all[MOST];
    ncclComm_t comm;
    RIGHT(bt_cuda_nccl()->unique_id(&id) == ncclSuccess);
    RIGHT(m->transport->gather(m->transport, 3, &id, sizeof id, all, sizeof id) == BT_OK);
    cudaSetDevice(0);
    RIGHT(bt_cuda_nccl()->init(&comm, m->ranks, all[0], m->rank) == ncclInvalidUsage);
    RIGHT(strstr(bt_cuda_nccl()->last_error(NULL), "Duplicate GPU detected"));
}

START_TEST(beginning)
{
    all_right(2, other_ids);
    all_right(2, one_device);
}
END_TEST

static void absent(member *m)
{
    setenv("FAKE_NCCL", "absent", 1);
    RIGHT(m->device->join(m->queue, m->transport) == BT_ERROR_DEVICE);
    RIGHT(strstr(bt_error(), "there is no libnccl.so.2"));
    bt_error_clear();
    sum_of_one(m, 10);
    RIGHT(launch(m) == BT_ERROR_INTERNAL);
    bt_error_clear();
}

static void too_many(member *m)
{
    setenv("FAKE_CUDA_DEVICES", "1", 1);
    RIGHT(bt_cuda_choose(m->rank, m->ranks) == BT_ERROR_CONFIG);
    RIGHT(strstr(bt_error(), "2 ranks are on this machine, and it has 1 CUDA device:"));
    bt_error_clear();
}

START_TEST(missing)
{
    all_right(2, absent);
    all_right(2, too_many);
}
END_TEST

/* Processes may be made of one that has counted the devices, but of none that has asked itself. */
START_TEST(counted)
{
    setenv("FAKE_CUDA_DEVICES", "3", 1);
    ck_assert_int_eq(bt_cuda_devices(), 3);
    setenv("FAKE_CUDA_DEVICES", "2", 1);
    ck_assert_int_eq(bt_cuda_devices(), 3);
    all_right(2, all_reduces);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda: nccl");
    TCase *tcase = tcase_create("nccl");
    tcase_add_loop_test(tcase, sums, 1, MOST + 1);
    tcase_add_test(tcase, not_a_number);
    tcase_add_loop_test(tcase, parts_of_all, 1, MOST + 1);
    tcase_add_test(tcase, recorded);
    tcase_add_test(tcase, a_rank_is_gone);
    tcase_add_test(tcase, a_connection_is_lost);
    tcase_add_test(tcase, refused);
    tcase_add_test(tcase, other_calls);
    tcase_add_test(tcase, beginning);
    tcase_add_test(tcase, missing);
    tcase_add_test(tcase, counted);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
