/* backend/cuda/stages.c: data that the host sends while the device computes. The stream of copies fills a stage once
 * the computing stream, in its own order, has moved the previous contents to their place. */
#include "backend/cuda/cuda.h"

bt_status bt_cuda_stages_open(bt_cuda_queue *queue)
{
    void *far = NULL;
    BT_TRY(bt_cuda_try(cudaStreamCreateWithFlags(&queue->copies, cudaStreamNonBlocking), "making a stream"));
    BT_TRY(bt_cuda_try(cudaMalloc(&far, BT_CUDA_STAGES * BT_CUDA_STAGE), "allocating memory for batches on their way"));
    queue->staged = far;
    for (int i = 0; i < BT_CUDA_STAGES; i++) {
        bt_cuda_stage *s = &queue->stages[i];
        s->far = queue->staged + i * BT_CUDA_STAGE;
        BT_TRY(bt_cuda_try(cudaEventCreateWithFlags(&s->filled, cudaEventDisableTiming), "making an event"));
        BT_TRY(bt_cuda_try(cudaEventCreateWithFlags(&s->emptied, cudaEventDisableTiming), "making an event"));
    }
    return BT_OK;
}

void bt_cuda_stages_close(bt_cuda_queue *queue)
{
    for (int i = 0; i < BT_CUDA_STAGES; i++) {
        const bt_cuda_stage *s = &queue->stages[i];
        if (s->filled)
            cudaEventDestroy(s->filled);
        if (s->emptied)
            cudaEventDestroy(s->emptied);
    }
    if (queue->staged)
        cudaFree(queue->staged);
    if (queue->copies)
        cudaStreamDestroy(queue->copies);
}

bt_status bt_cuda_send_staged(bt_cuda_queue *queue, void *far, const void *pinned, size_t bytes)
{
    bt_cuda_stage *s = &queue->stages[queue->stage];
    queue->stage = (queue->stage + 1) % BT_CUDA_STAGES;
    BT_TRY(bt_cuda_try(cudaStreamWaitEvent(queue->copies, s->emptied, 0), "waiting for a stage"));
    BT_TRY(bt_cuda_try(cudaMemcpyAsync(s->far, pinned, bytes, cudaMemcpyHostToDevice, queue->copies), "copying"));
    BT_TRY(bt_cuda_try(cudaEventRecord(s->filled, queue->copies), "recording an event"));
    BT_TRY(bt_cuda_try(cudaStreamWaitEvent(queue->stream, s->filled, 0), "waiting for a stage"));
    BT_TRY(bt_cuda_try(cudaMemcpyAsync(far, s->far, bytes, cudaMemcpyDeviceToDevice, queue->stream), "copying"));
    queue->fresh = true;
    return bt_cuda_try(cudaEventRecord(s->emptied, queue->stream), "recording an event");
}
