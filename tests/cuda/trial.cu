#include "trial.h"

#include "fake_device.h"

enum { THREADS = 32 };

struct sum_args {
    const float *x;
    int64_t n;
    double *partial;
    trial_fault fault;
};

static __global__ void sum_pieces(const sum_args a)
{
    BT_SHARED(double, sums, THREADS);
    const int64_t piece = (a.n + gridDim.x - 1) / gridDim.x, from = piece * blockIdx.x;
    const int64_t to = from + piece < a.n ? from + piece : a.n;
    double sum = 0;
    for (int64_t i = from + threadIdx.x; i < to; i += blockDim.x)
        sum += (double)a.x[i];
    sums[threadIdx.x] = sum;
    if (a.fault == TRIAL_LEAVES && threadIdx.x == 3)
        return;
    if (a.fault != TRIAL_NO_BARRIER)
        __syncthreads();
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
        if (a.fault != TRIAL_NO_BARRIER)
            __syncthreads();
    }
    if (threadIdx.x == 0)
        a.partial[blockIdx.x] = sums[0];
}

struct double_args {
    float *x;
    int64_t n;
};

static __global__ void twice(const double_args a)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += (int64_t)gridDim.x * blockDim.x)
        a.x[i] *= 2;
}

extern "C" cudaError_t trial_sum(trial_fault fault, const float *x, int64_t n, double *partial, cudaStream_t stream)
{
    const sum_args args = {x, n, partial, fault};
    return bt_cuda_start<sum_args>(sum_pieces, TRIAL_BLOCKS, THREADS, args, stream);
}

extern "C" cudaError_t trial_double(trial_fault fault, float *x, int64_t n, cudaStream_t stream)
{
    const double_args args = {x, fault == TRIAL_OVERRUN ? n + 1 : n};
    return bt_cuda_start<double_args>(twice, TRIAL_BLOCKS, THREADS, args, stream);
}
