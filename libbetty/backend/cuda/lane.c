/* backend/cuda/lane.c: copies between the device's memory and the host's, under way while the device computes. */
#include "backend/cuda/cuda.h"

bt_status bt_cuda_lane_open(bt_cuda_queue *queue)
{
    BT_TRY(bt_cuda_try(cudaStreamCreateWithFlags(&queue->lane, cudaStreamNonBlocking), "making a stream"));
    BT_TRY(bt_cuda_try(cudaEventCreateWithFlags(&queue->begun, cudaEventDisableTiming), "making an event"));
    for (int i = 0; i < BT_CUDA_MOVES; i++)
        BT_TRY(bt_cuda_try(cudaEventCreateWithFlags(&queue->moved[i], cudaEventDisableTiming), "making an event"));
    return BT_OK;
}

void bt_cuda_lane_close(bt_cuda_queue *queue)
{
    for (int i = 0; i < BT_CUDA_MOVES; i++)
        if (queue->moved[i])
            cudaEventDestroy(queue->moved[i]);
    if (queue->begun)
        cudaEventDestroy(queue->begun);
    if (queue->lane)
        cudaStreamDestroy(queue->lane);
}

bt_status bt_cuda_lane_move(void *queue, void *to, const void *from, size_t bytes, bool out, int64_t number)
{
    bt_cuda_queue *q = queue;
    const enum cudaMemcpyKind kind = out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
    q->fresh = true;
    BT_TRY(bt_cuda_try(cudaEventRecord(q->begun, q->stream), "recording an event"));
    BT_TRY(bt_cuda_try(cudaStreamWaitEvent(q->lane, q->begun, 0), "waiting for what is copied"));
    if (bytes)
        BT_TRY(bt_cuda_try(cudaMemcpyAsync(to, from, bytes, kind, q->lane), "copying"));
    BT_TRY(bt_cuda_try(cudaEventRecord(q->moved[number % BT_CUDA_MOVES], q->lane), "recording an event"));
    return q->waits ? bt_cuda_try(cudaStreamSynchronize(q->lane), "copying") : BT_OK;
}

bt_status bt_cuda_lane_meet(void *queue, int64_t number)
{
    bt_cuda_queue *q = queue;
    q->fresh = true;
    return bt_cuda_try(cudaStreamWaitEvent(q->stream, q->moved[number % BT_CUDA_MOVES], 0), "waiting for a copy");
}
