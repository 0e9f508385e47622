/* backend/cuda/ticks.c: when the device reaches places of its stream: events with times. */
#include "backend/cuda/cuda.h"

bt_status bt_cuda_tick(void *queue, int64_t number)
{
    bt_cuda_queue *q = queue;
    cudaEvent_t *events = bt_grow(q->ticks, &q->tick_capacity, number + 1, sizeof(cudaEvent_t));
    if (!events)
        return BT_ERROR_MEMORY;
    q->ticks = events;
    for (; q->tick_count <= number; q->tick_count++)
        BT_TRY(bt_cuda_try(cudaEventCreateWithFlags(&events[q->tick_count], cudaEventDefault), "making an event"));
    q->fresh = true;
    return bt_cuda_try(cudaEventRecord(events[number], q->stream), "taking a time");
}

bt_status bt_cuda_between(void *queue, int64_t number, double *seconds)
{
    const bt_cuda_queue *q = queue;
    float milliseconds = 0;
    BT_TRY(bt_cuda_try(cudaEventElapsedTime(&milliseconds, q->ticks[number - 1], q->ticks[number]), "reading a time"));
    *seconds = 1e-3 * (double)milliseconds;
    return BT_OK;
}

void bt_cuda_ticks_close(bt_cuda_queue *queue)
{
    for (int64_t i = 0; i < queue->tick_count; i++)
        cudaEventDestroy(queue->ticks[i]);
    bt_free(queue->ticks);
}
