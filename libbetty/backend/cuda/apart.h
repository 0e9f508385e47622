/* backend/cuda/apart.h: collectives that run while the queue's stream computes. */
#ifndef BT_CUDA_APART_H
#define BT_CUDA_APART_H

#include "backend/cuda/cuda.h"

/* Between these two calls a launch puts its work onto the separate stream, after all work that the queue's own stream
 * has so far. */
bt_status bt_cuda_apart_begin(bt_cuda_queue *queue);
bt_status bt_cuda_apart_end(bt_cuda_queue *queue);

bt_status bt_cuda_await(void *queue, int64_t number); /* runtime/device.h: await */

#endif
