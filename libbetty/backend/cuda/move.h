/* backend/cuda/move.h: kernels that only move values. */
#ifndef BT_CUDA_MOVE_H
#define BT_CUDA_MOVE_H

#include "backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies `from` to `to` in row-major order, from the device or to it. The dtype may differ if one of the two has 16
 * bits. */
bt_status bt_cuda_copy_of(const bt_call *call, const bt_view *from, char *to, bt_dtype dtype);

/* Copies the view into the output in row-major order, starting at place `from` of the axis. */
bt_status bt_cuda_place(const bt_call *call, const bt_view *view, int64_t axis, int64_t from);

#ifdef __cplusplus
}
#endif
#endif
