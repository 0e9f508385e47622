/* backend/cuda/apart.c: a separate stream for collectives beside the computing stream. NCCL runs the calls of a
 * communicator in order; a collective on the computing stream waits for the earlier ones on this stream. */
#include "backend/cuda/apart.h"

static void change_streams(bt_cuda_queue *queue)
{
    const cudaStream_t own = queue->stream;
    queue->stream = queue->apart.side.stream;
    queue->apart.side.stream = own;
}

bt_status bt_cuda_apart_begin(bt_cuda_queue *queue)
{
    BT_TRY(bt_cuda_side_begin(queue, &queue->apart.side, "waiting for what is to be exchanged"));
    change_streams(queue);
    return BT_OK;
}

bt_status bt_cuda_apart_end(bt_cuda_queue *queue)
{
    bt_cuda_apart *a = &queue->apart;
    change_streams(queue);
    return bt_cuda_side_done(&a->side, ++a->given);
}

bt_status bt_cuda_await(void *queue, int64_t number)
{
    bt_cuda_queue *q = queue;
    bt_cuda_apart *a = &q->apart;
    const int64_t last = number ? number : a->given;
    const bool any = a->given > 0;
    if (!number)
        a->given = 0;
    return any ? bt_cuda_side_await(q, &a->side, last, "waiting for ranks") : BT_OK;
}
