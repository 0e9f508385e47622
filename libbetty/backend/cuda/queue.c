/* backend/cuda/queue.c: a device's memory, and its work in order: one stream, and events that stand for marks. */
#include "backend/cuda/cuda.h"

#include "backend/cpu/reference.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bt_status bt_cuda_try(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return BT_OK;
    return bt_fail(error == cudaErrorMemoryAllocation ? BT_ERROR_MEMORY : BT_ERROR_DEVICE, "CUDA: %s: %s (%s)", what,
                   cudaGetErrorString(error), cudaGetErrorName(error));
}

/* ---- life ---- */

static void cuda_close(void *queue)
{
    bt_cuda_queue *q = queue;
    for (int i = 0; i < BT_CUDA_MARKS; i++)
        if (q->events[i])
            cudaEventDestroy(q->events[i]);
    if (q->record)
        cudaFreeHost(q->record);
    if (q->stream)
        cudaStreamDestroy(q->stream);
    bt_free(q->failure.message);
    bt_map_free(&q->site_of);
    bt_free(q->sites);
    bt_free(q);
}

static bt_status begin(bt_cuda_queue *q)
{
    void *record = NULL;
    BT_TRY(bt_cuda_try(cudaSetDevice(q->device), "choosing the device"));
    BT_TRY(bt_cuda_try(cudaStreamCreateWithFlags(&q->stream, cudaStreamNonBlocking), "making a stream"));
    for (int i = 0; i < BT_CUDA_MARKS; i++)
        BT_TRY(bt_cuda_try(cudaEventCreateWithFlags(&q->events[i], cudaEventDisableTiming), "making an event"));
    BT_TRY(bt_cuda_try(cudaHostAlloc(&record, sizeof *q->record, cudaHostAllocDefault), "pinning memory"));
    q->record = record;
    *q->record = (bt_cuda_record){0, ~0ULL};
    return BT_OK;
}

static void *cuda_open(void)
{
    bt_cuda_queue *q = bt_alloc(sizeof *q);
    const char *mode = getenv("BETTY_CUDA");
    if (!q)
        return NULL;
    q->waits = mode && strcmp(mode, "sync") == 0;
    if (begin(q) == BT_OK)
        return q;
    cuda_close(q);
    return NULL;
}

/* ---- memory ---- */

static void *cuda_alloc(void *queue, size_t bytes)
{
    bt_cuda_queue *q = queue;
    void *memory = NULL;
    cudaError_t error = cudaMalloc(&memory, bytes ? bytes : 1);
    if (error == cudaErrorMemoryAllocation) {
        bt_fail(BT_ERROR_MEMORY, "out of memory: %zu bytes could not be allocated on the device", bytes);
        return NULL;
    }
    if (bt_cuda_try(error, "allocating memory") != BT_OK)
        return NULL;
    if (bt_cuda_try(cudaMemsetAsync(memory, 0, bytes ? bytes : 1, q->stream), "clearing memory") == BT_OK)
        return memory;
    cudaFree(memory);
    return NULL;
}

static void cuda_free(void *queue, void *memory)
{
    (void)queue;
    cudaFree(memory);
}

static void *cuda_pin(size_t bytes)
{
    void *memory = NULL;
    if (bt_cuda_try(cudaHostAlloc(&memory, bytes ? bytes : 1, cudaHostAllocDefault), "pinning memory") != BT_OK)
        return NULL;
    return memory;
}

static void cuda_unpin(void *memory) { cudaFreeHost(memory); }

/* ---- failures ---- */

/* The call's site, and its number from 1 on. */
static int64_t watch(bt_cuda_queue *queue, const bt_call *call, const bt_cuda_site *site)
{
    int64_t number = bt_map_get(&queue->site_of, call->in);
    if (number < 0) {
        bt_cuda_site *sites = bt_grow(queue->sites, &queue->site_capacity, queue->site_count + 1, sizeof *sites);
        if (!sites || bt_map_put(&queue->site_of, call->in, queue->site_count) != BT_OK)
            return -1;
        queue->sites = sites;
        number = queue->site_count++;
    }
    queue->sites[number] = *site;
    return number + 1;
}

int64_t bt_cuda_watch(bt_cuda_queue *queue, const bt_call *call, const bt_view *index, int64_t size)
{
    return watch(queue, call,
                 &(bt_cuda_site){.launched = queue->launched, .op = call->op, .index = *index, .size = size});
}

int64_t bt_cuda_watch_check(bt_cuda_queue *queue, const bt_call *call)
{
    return watch(
        queue, call,
        &(bt_cuda_site){.launched = queue->launched, .op = call->op, .index = call->in[0], .check = call->attr});
}

static bt_status fail(const bt_cuda_site *site, const bt_cuda_record *record)
{
    const long long element = (long long)(record->where >> 32);
    char shape[256];
    if (site->check)
        return bt_cpu_untrue(site->check, &site->index, element);
    return bt_fail(BT_ERROR_DATA, "%s: element %lld of the indices %s is %lld; expected 0 to %lld", site->op->name,
                   element, bt_shape_text(shape, site->index.rank, site->index.dims),
                   (long long)(int32_t)(uint32_t)record->where, (long long)site->size - 1);
}

static bt_device_failure taken(bt_cuda_queue *q)
{
    const bt_cuda_record record = *q->record;
    bt_device_failure failure = {.failure = q->failure, .site = q->failed};
    q->failure = (bt_failure){BT_OK, NULL};
    if (failure.failure.status != BT_OK || record.site == 0)
        return failure;
    const bt_cuda_site *site = &q->sites[record.site - 1];
    bt_failure before = bt_failure_take();
    fail(site, &record);
    failure = (bt_device_failure){.failure = bt_failure_take(), .site = site->launched};
    bt_failure_give(&before);
    *q->record = (bt_cuda_record){0, ~0ULL};
    return failure;
}

/* ---- work ---- */

static bt_status cuda_copy(void *queue, void *to, const void *from, size_t bytes)
{
    bt_cuda_queue *q = queue;
    q->fresh = true;
    return bt_cuda_try(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, q->stream), "copying");
}

static bt_status cuda_fill(void *queue, void *to, int byte, size_t bytes)
{
    bt_cuda_queue *q = queue;
    q->fresh = true;
    return bt_cuda_try(cudaMemsetAsync(to, byte, bytes, q->stream), "filling memory");
}

static bt_status cuda_launch(void *queue, const bt_kernel_impl *kernel, const bt_call *call, bt_launched site)
{
    bt_cuda_queue *q = queue;
    bt_call placed = *call;
    placed.queue = q;
    q->launched = site;
    q->fresh = true;
    BT_TRY(kernel->launch(&placed));
    if (q->waits)
        BT_TRY(bt_cuda_try(cudaStreamSynchronize(q->stream), call->op->name));
    return BT_OK;
}

static int64_t cuda_mark(void *queue)
{
    bt_cuda_queue *q = queue;
    if (!q->fresh)
        return q->marks;
    q->marks++;
    q->fresh = false;
    /* An event that cannot be recorded has failed before; waiting says so. */
    (void)cudaEventRecord(q->events[q->marks % BT_CUDA_MARKS], q->stream);
    return q->marks;
}

static bt_device_failure cuda_wait(void *queue, int64_t mark)
{
    bt_cuda_queue *q = queue;
    bt_failure before = bt_failure_take();
    if (bt_cuda_try(cudaEventSynchronize(q->events[mark % BT_CUDA_MARKS]), "waiting") != BT_OK &&
        q->failure.status == BT_OK) {
        q->failure = bt_failure_take();
        q->failed = q->launched;
    }
    bt_error_clear();
    bt_failure_give(&before);
    return taken(q);
}

const bt_device_table bt_cuda_device = {
    .open = cuda_open,
    .close = cuda_close,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .launch = cuda_launch,
    .mark = cuda_mark,
    .wait = cuda_wait,
};
