/* backend/cuda/lane.c: copies between the device's memory and the host's while the device computes. */
#include "backend/cuda/cuda.h"

bt_status bt_cuda_lane_move(void *queue, void *to, const void *from, size_t bytes, bool out, int64_t number)
{
    bt_cuda_queue *q = queue;
    const enum cudaMemcpyKind kind = out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
    q->fresh = true;
    BT_TRY(bt_cuda_side_begin(q, &q->lane, "waiting for what is copied"));
    if (bytes)
        BT_TRY(bt_cuda_try(cudaMemcpyAsync(to, from, bytes, kind, q->lane.stream), "copying"));
    BT_TRY(bt_cuda_side_done(&q->lane, number));
    return q->waits ? bt_cuda_try(cudaStreamSynchronize(q->lane.stream), "copying") : BT_OK;
}

bt_status bt_cuda_lane_meet(void *queue, int64_t number)
{
    bt_cuda_queue *q = queue;
    q->fresh = true;
    return bt_cuda_side_await(q, &q->lane, number, "waiting for a copy");
}
