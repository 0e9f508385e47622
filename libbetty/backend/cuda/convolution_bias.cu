/* backend/cuda/convolution_bias.cu: y + b, in place, for images y and one number b per channel. */
extern "C" {
#include "backend/cuda/convolution_bias.h"
}
#include "backend/cuda/device.h"

typedef struct biased {
    char *y;
    bt_view bias;
    int64_t n;
    unsigned channels;
    bt_dtype dtype;
} biased;

template <class T> static __global__ void add_bias(const biased b)
{
    BT_CUDA_EACH(i, b.n)
    {
        const int64_t channel = (int64_t)((uint64_t)i % b.channels);
        ((T *)b.y)[i] += bt_load<T>(b.bias.dtype, b.bias.data, channel * b.bias.strides[0]);
    }
}

bt_status bt_cuda_add_bias(const bt_call *call, const bt_view *y, const bt_view *bias)
{
    const biased b = {y->data, *bias, bt_cpu_count(y), (unsigned)bias->dims[0], y->dtype};
    return bt_cuda_each<biased>(call, y->dtype == BT_F64 ? add_bias<double> : add_bias<float>, b.n, b);
}
