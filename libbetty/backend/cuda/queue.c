/* backend/cuda/queue.c: a device's memory and its work in order: one stream, and events for marks. */
#include "backend/cuda/cuda.h"

#include "backend/cpu/reference.h"
#include "backend/cuda/apart.h"
#include "backend/cuda/ranks.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bt_status bt_cuda_try(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return BT_OK;
    return bt_fail(error == cudaErrorMemoryAllocation ? BT_ERROR_MEMORY : BT_ERROR_DEVICE, "CUDA: %s: %s (%s)", what,
                   cudaGetErrorString(error), cudaGetErrorName(error));
}

/* ---- life ---- */

/* BETTY_CUDA=sync: waits for each call, so that an error of the device names the call. */
static bool is_sync(void)
{
    const char *mode = getenv("BETTY_CUDA");
    return mode && strcmp(mode, "sync") == 0;
}

static void cuda_close(void *queue)
{
    bt_cuda_queue *q = queue;
    bt_cuda_ranks_free(q->ranks); /* before its stream */
    for (int i = 0; i < BT_CUDA_MARKS; i++)
        if (q->events[i])
            cudaEventDestroy(q->events[i]);
    bt_cuda_ticks_close(q);
    bt_cuda_stages_close(q);
    bt_cuda_side_close(&q->lane);
    bt_cuda_side_close(&q->apart.side);
    if (q->record)
        cudaFreeHost(q->record);
    if (q->ones)
        cudaFree(q->ones);
    if (q->stream)
        cudaStreamDestroy(q->stream);
    bt_free(q->failure.message);
    bt_map_free(&q->site_of);
    bt_free(q->sites);
    bt_free(q);
}

/* Sends them from the record's pinned memory, which is not in use yet. */
static bt_status set_ones(bt_cuda_queue *q)
{
    const bt_cuda_ones ones = {1, 1};
    void *far = NULL;
    _Static_assert(sizeof ones <= sizeof *q->record, "the record has room for them");
    BT_TRY(bt_cuda_try(cudaMalloc(&far, sizeof ones), "allocating memory"));
    q->ones = far;
    memcpy(q->record, &ones, sizeof ones);
    BT_TRY(bt_cuda_try(cudaMemcpyAsync(far, q->record, sizeof ones, cudaMemcpyHostToDevice, q->stream), "copying"));
    return bt_cuda_try(cudaStreamSynchronize(q->stream), "waiting");
}

/* 0 if the device cannot say. */
static size_t bytes_taken(void)
{
    size_t free = 0, total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? total - free : 0;
}

static void cuda_taken(void *queue, size_t *before, size_t *now)
{
    *before = ((const bt_cuda_queue *)queue)->taken;
    *now = bytes_taken();
}

static bt_status begin(bt_cuda_queue *q)
{
    void *record = NULL;
    BT_TRY(bt_cuda_try(cudaSetDevice(bt_cuda_chosen()), "choosing the device"));
    q->taken = bytes_taken();
    BT_TRY(bt_cuda_try(cudaStreamCreateWithFlags(&q->stream, cudaStreamNonBlocking), "making a stream"));
    for (int i = 0; i < BT_CUDA_MARKS; i++)
        BT_TRY(bt_cuda_try(cudaEventCreateWithFlags(&q->events[i], cudaEventDisableTiming), "making an event"));
    BT_TRY(bt_cuda_try(cudaHostAlloc(&record, sizeof *q->record, cudaHostAllocDefault), "pinning memory"));
    BT_TRY(bt_cuda_stages_open(q));
    BT_TRY(bt_cuda_side_open(&q->lane));
    q->record = record;
    BT_TRY(set_ones(q));
    *q->record = (bt_cuda_record){0, ~0ULL};
    return BT_OK;
}

static void *cuda_open(void)
{
    bt_cuda_queue *q = bt_alloc(sizeof *q);
    if (!q)
        return NULL;
    q->waits = is_sync();
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

/* Keeps the call's site; returns its number, counted from 1. */
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

int64_t bt_cuda_watch_as(bt_cuda_queue *queue, const bt_call *call, bt_cuda_tell *tell)
{
    return watch(
        queue, call,
        &(bt_cuda_site){
            .launched = queue->launched, .op = call->op, .attr = call->attr, .index = call->in[0], .tell = tell});
}

static bt_status fail(const bt_cuda_site *site, const bt_cuda_record *record)
{
    const int64_t element = (int64_t)(record->where >> 32);
    if (site->tell)
        return site->tell(site, element);
    return bt_cpu_no_index(site->op, &site->index, element, (int32_t)(uint32_t)record->where, site->size);
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

/* ---- waiting ---- */

/* Waits for the event. With ranks, it may depend on another rank that is gone, so the ranks are checked meanwhile. */
static cudaError_t await(const bt_cuda_queue *q, cudaEvent_t event)
{
    enum { TURNS = 2000 };
    const struct timespec nap = {.tv_nsec = 50000};
    cudaError_t error = q->ranks ? cudaEventQuery(event) : cudaEventSynchronize(event);
    for (int turn = 0; q->ranks && error == cudaErrorNotReady; turn++) {
        bt_cuda_ranks_look(q->ranks);
        if (turn < TURNS)
            sched_yield();
        else
            nanosleep(&nap, NULL);
        error = cudaEventQuery(event);
    }
    return error;
}

/* A failure of the ranks is reported before the device's error that follows from it. */
static bt_status wait_until(const bt_cuda_queue *q, cudaEvent_t event, const char *what)
{
    const cudaError_t error = await(q, event);
    BT_TRY(bt_cuda_ranks_status(q->ranks));
    return bt_cuda_try(error, what);
}

/* ---- work ---- */

static bt_status put_copy(bt_cuda_queue *q, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    q->fresh = true;
    return bt_cuda_try(cudaMemcpyAsync(to, from, bytes, kind, q->stream), "copying");
}

static bt_status cuda_send(void *queue, void *far, const void *pinned, size_t bytes)
{
    if (bytes >= BT_CUDA_STAGED && bytes <= BT_CUDA_STAGE)
        return bt_cuda_send_staged(queue, far, pinned, bytes);
    return put_copy(queue, far, pinned, bytes, cudaMemcpyHostToDevice);
}

static bt_status cuda_copy(void *queue, void *far, const void *from, size_t bytes)
{
    return put_copy(queue, far, from, bytes, cudaMemcpyDeviceToDevice);
}

static bt_status cuda_fetch(void *queue, void *pinned, const void *far, size_t bytes)
{
    return put_copy(queue, pinned, far, bytes, cudaMemcpyDeviceToHost);
}

static bt_status cuda_fill(void *queue, void *to, int byte, size_t bytes)
{
    bt_cuda_queue *q = queue;
    q->fresh = true;
    return bt_cuda_try(cudaMemsetAsync(to, byte, bytes, q->stream), "filling memory");
}

static int64_t cuda_mark(void *queue)
{
    bt_cuda_queue *q = queue;
    if (!q->fresh)
        return q->marks;
    if (q->apart.given) /* a run failed before its end */
        (void)bt_cuda_await(q, 0);
    q->marks++;
    q->fresh = false;
    /* If the event cannot be recorded, something failed before; waiting reports it. */
    (void)cudaEventRecord(q->events[q->marks % BT_CUDA_MARKS], q->stream);
    return q->marks;
}

static bt_status launch(bt_cuda_queue *q, const bt_kernel_impl *kernel, const bt_call *call, bt_launched site)
{
    bt_call placed = *call;
    placed.queue = q;
    placed.stream = q->stream;
    q->launched = site;
    q->fresh = true;
    BT_TRY(kernel->launch(&placed));
    return q->waits ? wait_until(q, q->events[cuda_mark(q) % BT_CUDA_MARKS], call->op->name) : BT_OK;
}

/* Collectives keep their order. */
static bt_status cuda_launch(void *queue, const bt_kernel_impl *kernel, const bt_call *call, bt_launched site)
{
    bt_cuda_queue *q = queue;
    if (q->apart.given && bt_op_flags(call->op) & BT_OP_COLLECTIVE)
        BT_TRY(bt_cuda_await(q, q->apart.given));
    return launch(q, kernel, call, site);
}

static bt_status cuda_launch_apart(void *queue, const bt_kernel_impl *kernel, const bt_call *call, bt_launched site)
{
    bt_cuda_queue *q = queue;
    if (q->waits)
        return cuda_launch(queue, kernel, call, site);
    BT_TRY(bt_cuda_apart_begin(q));
    const bt_status status = launch(q, kernel, call, site);
    const bt_status ended = bt_cuda_apart_end(q);
    return status == BT_OK ? ended : status;
}

static bt_device_failure cuda_wait(void *queue, int64_t mark)
{
    bt_cuda_queue *q = queue;
    bt_failure before = bt_failure_take();
    if (wait_until(q, q->events[mark % BT_CUDA_MARKS], "waiting") != BT_OK && q->failure.status == BT_OK) {
        q->failure = bt_failure_take();
        q->failed = bt_cuda_ranks_lost(q->ranks) ? (bt_launched){NULL, 0} : q->launched;
    }
    bt_error_clear();
    bt_failure_give(&before);
    return taken(q);
}

/* ---- graphs: work that is launched again ---- */

static bt_status cuda_record(void *queue)
{
    bt_cuda_queue *q = queue;
    return bt_cuda_try(cudaStreamBeginCapture(q->stream, cudaStreamCaptureModeThreadLocal), "recording a graph");
}

static void *cuda_recorded(void *queue)
{
    bt_cuda_queue *q = queue;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t made = NULL;
    if (bt_cuda_try(cudaStreamEndCapture(q->stream, &graph), "recording a graph") != BT_OK)
        return NULL;
    const bt_status status = bt_cuda_try(cudaGraphInstantiate(&made, graph, 0), "making a graph");
    cudaGraphDestroy(graph);
    return status == BT_OK ? made : NULL;
}

static bt_status cuda_replay(void *queue, void *recording)
{
    bt_cuda_queue *q = queue;
    q->fresh = true;
    return bt_cuda_try(cudaGraphLaunch(recording, q->stream), "launching a graph");
}

static void cuda_discard(void *recording) { cudaGraphExecDestroy(recording); }

/* ---- the table ---- */

static const bt_device_table device = {
    .own = BT_CUDA_STAGES * BT_CUDA_STAGE,
    .open = cuda_open,
    .close = cuda_close,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .taken = cuda_taken,
    .send = cuda_send,
    .copy = cuda_copy,
    .fetch = cuda_fetch,
    .fill = cuda_fill,
    .move = bt_cuda_lane_move,
    .meet = bt_cuda_lane_meet,
    .launch = cuda_launch,
    .mark = cuda_mark,
    .wait = cuda_wait,
    .tick = bt_cuda_tick,
    .between = bt_cuda_between,
    .record = cuda_record,
    .recorded = cuda_recorded,
    .replay = cuda_replay,
    .discard = cuda_discard,
    .join = bt_cuda_join,
    .launch_apart = cuda_launch_apart,
    .await = bt_cuda_await,
};

const bt_device_table *bt_cuda_device(void)
{
    static bt_device_table one_by_one;
    if (!is_sync())
        return &device;
    one_by_one = device;
    one_by_one.record = NULL;
    return &one_by_one;
}
