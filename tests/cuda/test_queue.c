/* tests/cuda/test_queue.c: data of any size that the host sends arrives intact, in any order that CUDA allows; and
 * device memory used by others is counted. */
#include "backend/cuda/cuda.h"
#include "fake.h"
#include "runtime/queue.h"
#include "support/scene.h"
#include "support/suite.h"
#include <check.h>
#include <stdio.h>
#include <string.h>

enum { SENDS = 24, SEEDS = 20, PINNED = 12 };

/* Larger than what is staged, of a stage's size, and smaller. */
static const size_t sizes[] = {BT_CUDA_STAGED, BT_CUDA_STAGE / 16, 64, BT_CUDA_STAGED - 64, BT_CUDA_STAGED + 4};

static size_t size_of(int i) { return sizes[i % BT_COUNT_OF(sizes)]; }

/* Each is sent to the same device memory and copied from there to its own, as training steps do with their batch.
 * Pinned memory is refilled once its previous contents have arrived. */
static void send_all(const bt_device_table *device, void *queue, char *const *pinned, char *landing, char *const *kept)
{
    int64_t marks[PINNED] = {0};
    for (int i = 0; i < SENDS; i++) {
        const int slot = i % PINNED;
        if (i >= PINNED)
            ck_assert_int_eq(device->wait(queue, marks[slot]).failure.status, BT_OK);
        memset(pinned[slot], i + 1, size_of(i));
        EXPECT_OK(device->send(queue, landing, pinned[slot], size_of(i)));
        EXPECT_OK(device->copy(queue, kept[i], landing, size_of(i)));
        marks[slot] = device->mark(queue);
    }
}

static void fetch_all(const bt_device_table *device, void *queue, char *near, char *const *kept, const char *order)
{
    for (int i = 0; i < SENDS; i++) {
        EXPECT_OK(device->fetch(queue, near, kept[i], size_of(i)));
        ck_assert_int_eq(device->wait(queue, device->mark(queue)).failure.status, BT_OK);
        for (size_t b = 0; b < size_of(i); b++)
            ck_assert_msg(near[b] == i + 1, "byte %zu of send %d is %d (order %s)", b, i, near[b], order);
    }
}

START_TEST(arrive)
{
    const bt_device_table *device = bt_cuda_device();
    char order[16] = "eager", *pinned[PINNED], *kept[SENDS];
    if (_i)
        snprintf(order, sizeof order, _i == 1 ? "lazy" : "%d", _i);
    fake_order(order);
    void *queue = device->open();
    ck_assert_ptr_nonnull(queue);
    char *landing = device->alloc(queue, BT_CUDA_STAGE), *near = device->pin(BT_CUDA_STAGE);
    for (int i = 0; i < PINNED; i++)
        ck_assert_ptr_nonnull(pinned[i] = device->pin(BT_CUDA_STAGE));
    for (int i = 0; i < SENDS; i++)
        ck_assert_ptr_nonnull(kept[i] = device->alloc(queue, size_of(i)));
    send_all(device, queue, pinned, landing, kept);
    fetch_all(device, queue, near, kept, order);
    for (int i = 0; i < SENDS; i++)
        device->free(queue, kept[i]);
    for (int i = 0; i < PINNED; i++)
        device->unpin(pinned[i]);
    device->free(queue, landing);
    device->unpin(near);
    device->close(queue);
}
END_TEST

START_TEST(others)
{
    enum { BYTES = 3 << 20 };
    void *earlier = NULL, *later = NULL;
    size_t before, since;
    ck_assert_int_eq(cudaMalloc(&earlier, BYTES), cudaSuccess);
    bt_queue *queue = bt_queue_open(bt_cuda_device());
    ck_assert_ptr_nonnull(queue);
    char *own = bt_queue_alloc(queue, 5000);
    bt_queue_others(queue, &before, &since);
    ck_assert_uint_eq(before, BYTES);
    const size_t rounded = since; /* of the queue's own memory */
    ck_assert_uint_lt(rounded, 4096);
    ck_assert_int_eq(cudaMalloc(&later, BYTES), cudaSuccess);
    bt_queue_others(queue, &before, &since);
    ck_assert_uint_eq(before, BYTES);
    ck_assert_uint_eq(since, BYTES + rounded);
    ck_assert_int_eq(cudaFree(earlier), cudaSuccess); /* then their size is unknown */
    ck_assert_int_eq(cudaFree(later), cudaSuccess);
    bt_queue_others(queue, &before, &since);
    ck_assert_uint_eq(since, 0);
    bt_queue_free(queue, own);
    bt_queue_leave(queue);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("CUDA: the queue");
    TCase *tests = tcase_create("queue");
    tcase_add_loop_test(tests, arrive, 0, SEEDS);
    tcase_add_test(tests, others);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
