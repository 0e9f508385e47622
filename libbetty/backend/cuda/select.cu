/* backend/cuda/select.cu: where and cast. */
#include "backend/cuda/lines.h"

extern "C" {
#include "base/bounded.h"
}

/* ---- where: values of one dtype are only moved, so only their size matters ---- */

template <class T> static __global__ void choose(const bt_lines<3> lines)
{
    BT_CUDA_EACH(i, lines.n)
    {
        int64_t at[3];
        bt_lines_at<3>(lines, i, at);
        ((T *)lines.out)[i] =
            lines.in[0].data[at[0]] ? ((const T *)lines.in[1].data)[at[1]] : ((const T *)lines.in[2].data)[at[2]];
    }
}

/* Some operands have 16 bits. */
static __global__ void choose_stored(const bt_lines<3> lines)
{
    BT_CUDA_EACH(i, lines.n)
    {
        int64_t at[3];
        bt_lines_at<3>(lines, i, at);
        bt_store<float>(lines.dtype, lines.out, i,
                        lines.in[0].data[at[0]] ? bt_load<float>(lines.in[1].dtype, lines.in[1].data, at[1])
                                                : bt_load<float>(lines.in[2].dtype, lines.in[2].data, at[2]));
    }
}

static bt_status where(const bt_call *call)
{
    const bt_lines<3> lines = bt_lines_of<3>(call->in, &call->out[0]);
    void (*kernel)(const bt_lines<3>) = choose_stored;
    if (lines.in[1].dtype == lines.dtype && lines.in[2].dtype == lines.dtype)
        switch (bt_dtype_size(lines.dtype)) {
        case 1:
            kernel = choose<uint8_t>;
            break;
        case 2:
            kernel = choose<uint16_t>;
            break;
        case 4:
            kernel = choose<uint32_t>;
            break;
        default:
            kernel = choose<uint64_t>;
        }
    return bt_cuda_each<bt_lines<3>>(call, kernel, lines.n, lines);
}

/* ---- cast ---- */

/* T: float or double. */
template <class T> static inline __device__ void put(bt_dtype dtype, char *data, int64_t at, T x)
{
    switch (dtype) {
    case BT_I32:
        ((int32_t *)data)[at] = bt_i32_of((double)x);
        break;
    case BT_I64:
        ((int64_t *)data)[at] = bt_i64_of((double)x);
        break;
    case BT_U8:
        ((uint8_t *)data)[at] = bt_u8_of((double)x);
        break;
    case BT_BOOL:
        ((uint8_t *)data)[at] = x != 0;
        break;
    default:
        bt_store<T>(dtype, data, at, x);
    }
}

/* A narrower integer gets the lower bits. */
template <> inline __device__ void put<int64_t>(bt_dtype dtype, char *data, int64_t at, int64_t x)
{
    if (dtype == BT_BOOL)
        ((uint8_t *)data)[at] = x != 0;
    else
        bt_store<int64_t>(dtype, data, at, x);
}

/* T holds every number of the input's dtype. */
template <class T> static __global__ void convert(const bt_lines<1> lines)
{
    BT_CUDA_EACH(i, lines.n)
    {
        int64_t at;
        bt_lines_at<1>(lines, i, &at);
        put<T>(lines.dtype, lines.out, i, bt_load<T>(lines.in[0].dtype, lines.in[0].data, at));
    }
}

static bt_status cast(const bt_call *call)
{
    const bt_lines<1> lines = bt_lines_of<1>(call->in, &call->out[0]);
    const bt_dtype from = lines.in[0].dtype;
    void (*kernel)(const bt_lines<1>) = from == BT_F64          ? convert<double>
                                        : bt_dtype_floats(from) ? convert<float>
                                                                : convert<int64_t>;
    return bt_cuda_each<bt_lines<1>>(call, kernel, lines.n, lines);
}

extern "C" const bt_kernel_impl bt_cuda_select[] = {
    BT_CUDA_KERNEL(where, where),
    BT_CUDA_KERNEL(cast, cast),
    BT_CUDA_KERNEL(widen, cast),
    {},
};
