/* backend/cuda/move.h: what only moves values. */
#ifndef BT_CUDA_MOVE_H
#define BT_CUDA_MOVE_H

#include "backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Puts a copy of `from` at `to`, row-major, in another dtype where one of the two is stored in 16 bits; from the device
 * or to it. */
bt_status bt_cuda_copy_of(const bt_call *call, const bt_view *from, char *to, bt_dtype dtype);

/* The view goes into the output, row-major, from place `from` of the axis on. */
bt_status bt_cuda_place(const bt_call *call, const bt_view *view, int64_t axis, int64_t from);

#ifdef __cplusplus
}
#endif
#endif
