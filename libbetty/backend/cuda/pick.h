/* backend/cuda/pick.h: the largest or smallest of the ranks' values. */
#ifndef BT_CUDA_PICK_H
#define BT_CUDA_PICK_H

#include "backend/cuda/cuda.h"

/* to[i] from all[r n + i] for all ranks r, in their order; f32 or f64. */
bt_status bt_cuda_pick(const bt_call *call, const char *all, int64_t ranks, int64_t n, char *to);

#endif
