/* backend/cuda/convolution_bias.h: adds the bias to a convolution that a library has computed. */
#ifndef BT_CUDA_CONVOLUTION_BIAS_H
#define BT_CUDA_CONVOLUTION_BIAS_H

#include "backend/cuda/cuda.h"

/* y + bias, in place. y is dense, f32 or f64; bias belongs to its last axis. */
bt_status bt_cuda_add_bias(const bt_call *call, const bt_view *y, const bt_view *bias);

#endif
