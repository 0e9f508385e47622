/* tests/cuda/test_nccl.c: ranks on devices, each a process: the same bits in any order, and the messages when one is
 * gone or makes a different call. For their results see tests/backend/test_ranks.c. */
#include "backend/cuda/library.h"

#include "fake.h"
#include "support/devices.h"
#include "support/suite.h"
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- in any order ---- */

static void in_order(member *m, const char *order)
{
    enum { COUNT = 30000 };
    fake_order(order);
    m->attr = (bt_collective_attr){.rank = m->rank, .ranks = m->ranks};
    m->in[0] = m->out[0] = member_array(m, BT_F32, false, COUNT);
    for (int64_t i = 0; i < COUNT; i++)
        bt_put(BT_F32, m->pinned, i, 1 / (1 + (double)((m->rank * 7919 + i * 31) % 1009)));
    member_send(m, &m->in[0]);
    member_choose(m, &bt_op_all_reduce, 1);
    RIGHT(member_launch(m) == BT_OK); /* the first time step by step, as in a run */
    RIGHT(m->device->record(m->queue) == BT_OK && member_launch(m) == BT_OK);
    void *kept = m->device->recorded(m->queue);
    RIGHT(kept && m->device->replay(m->queue, kept) == BT_OK && m->device->replay(m->queue, kept) == BT_OK);
    member_alike(m, member_fetch(m, &m->out[0]), COUNT * sizeof(float));
    m->device->discard(kept);
}

/* A different order on each rank: the same bits on all of them, each time. */
static void orders(member *m)
{
    static const char *const all[] = {"eager", "lazy", "1", "2", "3"};
    uint64_t first = 0;
    member_join(m);
    for (int o = 0; o < BT_COUNT_OF(all); o++) {
        in_order(m, m->rank ? all[o] : all[BT_COUNT_OF(all) - 1 - o]);
        const uint64_t bits = bt_hash(0, m->pinned, 30000 * sizeof(float));
        RIGHT(!o || bits == first);
        first = bits;
        member_forget(m);
    }
}

START_TEST(in_any_order) { devices_right(3, orders); }
END_TEST

/* ---- overlapping with other work ---- */

/* Three dependent sums, two of them in progress at once; then their inputs are overwritten. */
static void overlapped(member *m, bool recorded)
{
    enum { COUNT = 5000 };
    bt_view in[3], out[3];
    void *kept = NULL;
    for (int i = 0; i < 3; i++) {
        in[i] = member_array(m, BT_I32, false, COUNT);
        out[i] = member_array(m, BT_I32, false, COUNT);
    }
    if (recorded)
        RIGHT(m->device->record(m->queue) == BT_OK);
    for (int i = 0; i < 3; i++) {
        RIGHT(m->device->fill(m->queue, in[i].data, i + 1, COUNT * 4) == BT_OK);
        m->attr = (bt_collective_attr){.rank = m->rank, .ranks = m->ranks};
        m->in[0] = in[i];
        m->out[0] = out[i];
        member_choose(m, &bt_op_all_reduce, 1);
        RIGHT((i == 1 ? m->device->launch : m->device->launch_apart)(m->queue, m->kernel, &m->call,
                                                                     (bt_launched){NULL, 0}) == BT_OK);
        if (i == 1)
            RIGHT(m->device->fill(m->queue, in[0].data, 0, COUNT * 4) == BT_OK); /* the previous value */
    }
    RIGHT(m->device->await(m->queue, 2) == BT_OK);
    RIGHT(m->device->copy(m->queue, out[0].data, out[2].data, COUNT * 4) == BT_OK);
    RIGHT(m->device->await(m->queue, 0) == BT_OK);
    if (recorded)
        RIGHT((kept = m->device->recorded(m->queue)) && m->device->replay(m->queue, kept) == BT_OK);
    for (int i = 0; i < 3; i++) {
        const int each = i == 1 ? 0x02020202 : 0x03030303;
        const char *found = member_fetch(m, &out[i]);
        for (int e = 0; e < COUNT; e++)
            RIGHT(bt_get(BT_I32, found, e) == (double)each * m->ranks);
    }
    if (kept)
        m->device->discard(kept);
    for (int i = 0; i < 3; i++) {
        m->device->free(m->queue, in[i].data);
        m->device->free(m->queue, out[i].data);
    }
}

static void under_way(member *m)
{
    char order[16];
    member_join(m);
    for (int seed = 1; seed <= 20; seed++) {
        snprintf(order, sizeof order, "%d", seed);
        fake_order(order);
        overlapped(m, seed % 2);
    }
}

START_TEST(beside_other_work) { devices_right(2, under_way); }
END_TEST

/* ---- failures ---- */

static void sum_of_one(member *m, int64_t count)
{
    m->attr = (bt_collective_attr){.rank = m->rank, .ranks = m->ranks};
    m->in[0] = m->out[0] = member_array(m, BT_F32, false, count);
    member_choose(m, &bt_op_all_reduce, 1);
}

/* Ranks left over while the device waits get an error, whatever they wait for. */
static void one_dies(member *m)
{
    member_join(m);
    sum_of_one(m, 10);
    if (m->rank == 1)
        raise(SIGKILL);
    RIGHT(member_launch(m) == BT_OK);
    RIGHT(member_wait(m) == BT_ERROR_DEVICE);
    RIGHT(strcmp(bt_error(), "another rank has failed") == 0);
    bt_error_clear();
    RIGHT(member_launch(m) == BT_ERROR_DEVICE); /* and nothing is exchanged any more */
    bt_error_clear();
    m->device->free(m->queue, m->in[0].data);
}

START_TEST(a_rank_is_gone)
{
    int codes[MOST_DEVICES];
    devices_run(3, one_dies, codes);
    ck_assert_int_eq(codes[1], -1 - SIGKILL);
    ck_assert_int_eq(codes[0], 0);
    ck_assert_int_eq(codes[2], 0);
}
END_TEST

static void connection_is_lost(member *m)
{
    char none = 0, all[MOST_DEVICES];
    member_join(m);
    sum_of_one(m, 10);
    if (m->rank == 0) {
        setenv("FAKE_NCCL", "lost", 1);
        RIGHT(member_launch(m) == BT_OK);
        RIGHT(member_wait(m) == BT_ERROR_DEVICE);
        RIGHT(strcmp(bt_error(),
                     "NCCL: while ranks exchange, rank 0 of 2: remote process exited or there was a network "
                     "error: the connection was closed") == 0);
        bt_error_clear();
    }
    RIGHT(m->transport->gather(m->transport, 2, &none, 1, all, 1) == BT_OK);
}

START_TEST(a_connection_is_lost) { devices_right(2, connection_is_lost); }
END_TEST

static void refusals(member *m)
{
    member_join(m);
    sum_of_one(m, 10);
    m->attr.rank = 1 - m->rank;
    RIGHT(member_launch(m) == BT_ERROR_INTERNAL);
    bt_error_clear();
    m->attr.rank = m->rank;
    m->in[0].data = m->pinned;
    RIGHT(member_launch(m) == BT_ERROR_DEVICE && strstr(bt_error(), "memory that is not the device's"));
    bt_error_clear();
    m->in[0].data = m->out[0].data;
    RIGHT(member_launch(m) == BT_OK && member_wait(m) == BT_OK); /* it can continue */
}

START_TEST(refused) { devices_right(2, refusals); }
END_TEST

/* Mismatches on which NCCL would hang are reported by the fake. */
static void other_sizes(member *m)
{
    member_join(m);
    sum_of_one(m, 10 + m->rank);
    RIGHT(member_launch(m) == BT_OK);
    member_wait(m);
    _exit(3);
}

START_TEST(other_calls)
{
    int codes[MOST_DEVICES];
    devices_run(2, other_sizes, codes);
    ck_assert(codes[0] == -1 - SIGABRT || codes[1] == -1 - SIGABRT);
}
END_TEST

/* Each creates an id of its own, so that they do not find each other; or both use one device. */
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
    ncclUniqueId id, all[MOST_DEVICES];
    ncclComm_t comm;
    RIGHT(bt_cuda_nccl()->unique_id(&id) == ncclSuccess);
    RIGHT(m->transport->gather(m->transport, 3, &id, sizeof id, all, sizeof id) == BT_OK);
    cudaSetDevice(0);
    RIGHT(bt_cuda_nccl()->init(&comm, m->ranks, all[0], m->rank) == ncclInvalidUsage);
    RIGHT(strstr(bt_cuda_nccl()->last_error(NULL), "Duplicate GPU detected"));
}

START_TEST(beginning)
{
    devices_right(2, other_ids);
    devices_right(2, one_device);
}
END_TEST

static void absent(member *m)
{
    setenv("FAKE_NCCL", "absent", 1);
    RIGHT(m->device->join(m->queue, m->transport) == BT_ERROR_DEVICE);
    RIGHT(strstr(bt_error(), "there is no libnccl.so.2"));
    bt_error_clear();
    sum_of_one(m, 10);
    RIGHT(member_launch(m) == BT_ERROR_INTERNAL);
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
    devices_right(2, absent);
    devices_right(2, too_many);
}
END_TEST

/* A process that has counted the devices may fork, but one that has used a device may not. */
START_TEST(counted)
{
    setenv("FAKE_CUDA_DEVICES", "3", 1);
    ck_assert_int_eq(bt_cuda_devices(), 3);
    setenv("FAKE_CUDA_DEVICES", "2", 1);
    ck_assert_int_eq(bt_cuda_devices(), 3);
    devices_right(2, member_join);
}
END_TEST

int main(void)
{
    setenv("FAKE_CUDA_DEVICES", "4", 1);
    Suite *suite = suite_create("cuda: nccl");
    TCase *tcase = tcase_create("nccl");
    tcase_add_test(tcase, in_any_order);
    tcase_add_test(tcase, beside_other_work);
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
