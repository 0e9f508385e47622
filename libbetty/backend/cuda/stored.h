/* backend/cuda/stored.h: kernels that are compiled once for each way of storing floating-point numbers, so that their
 * loops do not branch on the dtype. D: BT_F32, BT_BF16 or BT_F16, all computed in f32; or BT_ANY: each operand has its
 * own dtype, computed in f64. */
#ifndef BT_CUDA_STORED_H
#define BT_CUDA_STORED_H

#include "backend/cuda/device.h"

const int BT_ANY = -1;

template <int D> struct bt_computed {
    typedef float T;
};
template <> struct bt_computed<BT_ANY> {
    typedef double T;
};

/* Element `at`; dtype is used if D is BT_ANY. */
template <int D, class T = typename bt_computed<D>::T>
static inline __device__ T bt_load_as(bt_dtype dtype, const char *data, int64_t at)
{
    if constexpr (D == BT_ANY)
        return bt_load<T>(dtype, data, at);
    else
        return bt_load<T>((bt_dtype)D, data, at);
}

/* How the first `inputs` operands are stored: their common D, or BT_ANY. */
static inline int bt_stored(const bt_call *call, int inputs)
{
    const bt_dtype dtype = call->in[0].dtype;
    bool same = dtype == BT_F32 || dtype == BT_BF16 || dtype == BT_F16;
    for (int i = 1; i < inputs; i++)
        same = same && call->in[i].dtype == dtype;
    return same ? (int)dtype : BT_ANY;
}

/* start<D>(arguments), with D from the call's bt_stored. */
#define BT_STORED(stored, start, ...)                                                                                  \
    ((stored) == BT_F32    ? start<BT_F32>(__VA_ARGS__)                                                                \
     : (stored) == BT_BF16 ? start<BT_BF16>(__VA_ARGS__)                                                               \
     : (stored) == BT_F16  ? start<BT_F16>(__VA_ARGS__)                                                                \
                           : start<BT_ANY>(__VA_ARGS__))

static inline bool bt_all_floats(const bt_call *call)
{
    for (int i = 0; i < call->inputs; i++)
        if (!bt_dtype_floats(call->in[i].dtype))
            return false;
    return true;
}

#endif
