/* backend/cuda/pick.h: the largest, or the smallest, of what each rank has. */
#ifndef BT_CUDA_PICK_H
#define BT_CUDA_PICK_H

#include "backend/cuda/cuda.h"

/* to[i] of all[r n + i], in the order of ranks; f32 or f64. */
bt_status bt_cuda_pick(const bt_call *call, const char *all, int64_t ranks, int64_t n, char *to);

#endif
