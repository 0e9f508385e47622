/* backend/cuda/stored.h: kernels that are compiled once for each way in which floating numbers are stored, so that
 * their loops have no question in them. D: BT_F32, BT_BF16 or BT_F16, all computed in f32; or BT_ANY: each operand as
 * it says, computed in f64. */
#ifndef BT_CUDA_STORED_H
#define BT_CUDA_STORED_H

#include "backend/cuda/device.h"

#if defined __CUDACC__
#define BT_CUDA_UNROLL _Pragma("unroll") /* all of the loop that follows, so that small arrays stay in registers */
#else
#define BT_CUDA_UNROLL
#endif

const int BT_ANY = -1;

template <int D> struct bt_computed {
    typedef float T;
};
template <> struct bt_computed<BT_ANY> {
    typedef double T;
};

/* Element `at`; dtype: where D does not say it. */
template <int D, class T = typename bt_computed<D>::T>
static inline __device__ T bt_load_as(bt_dtype dtype, const char *data, int64_t at)
{
    if constexpr (D == BT_ANY)
        return bt_load<T>(dtype, data, at);
    else
        return bt_load<T>((bt_dtype)D, data, at);
}

/* How the first `inputs` operands are stored. */
static inline int bt_stored(const bt_call *call, int inputs)
{
    const bt_dtype dtype = call->in[0].dtype;
    bool same = dtype == BT_F32 || dtype == BT_BF16 || dtype == BT_F16;
    for (int i = 1; i < inputs; i++)
        same = same && call->in[i].dtype == dtype;
    return same ? (int)dtype : BT_ANY;
}

/* start<D>(arguments), by a call's bt_stored. */
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
