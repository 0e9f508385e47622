/* examples/softplus.cu: the op `softplus` of custom_op.c on a GPU. docs/extending.md says how it is compiled and
 * linked. */
#include <betty/op.h>
#include <cuda_runtime_api.h>
#include <math.h>

struct softplus_args {
    int64_t count;
    double sharpness;
    const float *x;
    float *y;
};

static __global__ void softplus(const softplus_args a)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count;
         i += (int64_t)gridDim.x * blockDim.x) {
        const double x = (double)a.x[i];
        a.y[i] = (float)(fmax(x, 0.0) + log1p(exp(-a.sharpness * fabs(x))) / a.sharpness);
    }
}

extern "C" bt_status softplus_on_cuda(const bt_launch *run)
{
    const softplus_args args = {bt_array_count(run->in[0]), *(const double *)run->attr, (const float *)run->in[0].data,
                                (float *)run->out[0].data};
    const unsigned blocks = args.count < 1 << 20 ? (unsigned)((args.count + 255) / 256) : 4096;
    const cudaStream_t stream = (cudaStream_t)run->stream;
    if (args.count > 0)
        softplus<<<blocks, 256, 0, stream>>>(args);
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? BT_OK : bt_fail(BT_ERROR_DEVICE, "softplus: %s", cudaGetErrorString(error));
}
