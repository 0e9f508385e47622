/* backend/cuda/apart.h: collectives that are under way while the stream of a queue computes. */
#ifndef BT_CUDA_APART_H
#define BT_CUDA_APART_H

#include "backend/cuda/cuda.h"

/* The launch puts its work onto the stream apart, behind all that the queue's own stream has so far: between these. */
bt_status bt_cuda_apart_begin(bt_cuda_queue *queue);
bt_status bt_cuda_apart_end(bt_cuda_queue *queue);

bt_status bt_cuda_await(void *queue, int64_t number); /* runtime/device.h: await */

#endif
