/* backend/cuda/apart.c: a stream for collectives, beside that which computes. NCCL does the calls of a communicator one
 * after the other; one that goes onto the computing stream waits for those here before. */
#include "backend/cuda/apart.h"

static bt_status new_event(cudaEvent_t *event)
{
    return bt_cuda_try(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event");
}

bt_status bt_cuda_apart_open(bt_cuda_queue *queue)
{
    bt_cuda_apart *a = &queue->apart;
    BT_TRY(bt_cuda_try(cudaStreamCreateWithFlags(&a->stream, cudaStreamNonBlocking), "making a stream"));
    for (int i = 0; i < BT_CUDA_APART; i++)
        BT_TRY(new_event(&a->done[i]));
    return new_event(&a->ready);
}

void bt_cuda_apart_close(bt_cuda_queue *queue)
{
    const bt_cuda_apart *a = &queue->apart;
    for (int i = 0; i < BT_CUDA_APART; i++)
        if (a->done[i])
            cudaEventDestroy(a->done[i]);
    if (a->ready)
        cudaEventDestroy(a->ready);
    if (a->stream)
        cudaStreamDestroy(a->stream);
}

static void change_streams(bt_cuda_queue *queue)
{
    const cudaStream_t own = queue->stream;
    queue->stream = queue->apart.stream;
    queue->apart.stream = own;
}

bt_status bt_cuda_apart_begin(bt_cuda_queue *queue)
{
    bt_cuda_apart *a = &queue->apart;
    BT_TRY(bt_cuda_try(cudaEventRecord(a->ready, queue->stream), "recording an event"));
    BT_TRY(bt_cuda_try(cudaStreamWaitEvent(a->stream, a->ready, 0), "waiting for what is to be exchanged"));
    change_streams(queue);
    return BT_OK;
}

bt_status bt_cuda_apart_end(bt_cuda_queue *queue)
{
    bt_cuda_apart *a = &queue->apart;
    change_streams(queue);
    a->given++;
    return bt_cuda_try(cudaEventRecord(a->done[a->given % BT_CUDA_APART], a->stream), "recording an event");
}

bt_status bt_cuda_await(void *queue, int64_t number)
{
    bt_cuda_queue *q = queue;
    bt_cuda_apart *a = &q->apart;
    const int64_t last = number ? number : a->given;
    const bool any = a->given > 0;
    if (!number)
        a->given = 0;
    if (!any)
        return BT_OK;
    return bt_cuda_try(cudaStreamWaitEvent(q->stream, a->done[last % BT_CUDA_APART], 0), "waiting for ranks");
}
