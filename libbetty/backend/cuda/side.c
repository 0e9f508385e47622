/* backend/cuda/side.c: a stream beside a queue's own, and the events with which the two wait for each other. */
#include "backend/cuda/cuda.h"

static bt_status new_event(cudaEvent_t *event)
{
    return bt_cuda_try(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event");
}

bt_status bt_cuda_side_open(bt_cuda_side *side)
{
    BT_TRY(bt_cuda_try(cudaStreamCreateWithFlags(&side->stream, cudaStreamNonBlocking), "making a stream"));
    for (int i = 0; i < BT_CUDA_SIDE; i++)
        BT_TRY(new_event(&side->done[i]));
    return new_event(&side->ready);
}

void bt_cuda_side_close(bt_cuda_side *side)
{
    for (int i = 0; i < BT_CUDA_SIDE; i++)
        if (side->done[i])
            cudaEventDestroy(side->done[i]);
    if (side->ready)
        cudaEventDestroy(side->ready);
    if (side->stream)
        cudaStreamDestroy(side->stream);
}

bt_status bt_cuda_side_begin(const bt_cuda_queue *queue, const bt_cuda_side *side, const char *what)
{
    BT_TRY(bt_cuda_try(cudaEventRecord(side->ready, queue->stream), "recording an event"));
    return bt_cuda_try(cudaStreamWaitEvent(side->stream, side->ready, 0), what);
}

bt_status bt_cuda_side_done(const bt_cuda_side *side, int64_t number)
{
    return bt_cuda_try(cudaEventRecord(side->done[number % BT_CUDA_SIDE], side->stream), "recording an event");
}

bt_status bt_cuda_side_await(const bt_cuda_queue *queue, const bt_cuda_side *side, int64_t number, const char *what)
{
    return bt_cuda_try(cudaStreamWaitEvent(queue->stream, side->done[number % BT_CUDA_SIDE], 0), what);
}
