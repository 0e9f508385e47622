/* tests/fake_cuda/fake_device.h: the CUDA C++ keywords and built-ins for a host compiler: backend/cuda/device.h. */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include "fake.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __restrict__
#define BT_SHARED(T, name, n)                                                                                          \
    static T name[n];                                                                                                  \
    static uint64_t name##_filled;                                                                                     \
    fake_shared(&name##_filled, name, sizeof name)
#define __syncthreads() fake_barrier(__FILE__, __LINE__)
#define threadIdx       fake_thread.index
#define blockIdx        fake_thread.block
#define blockDim        fake_thread.block_size
#define gridDim         fake_thread.grid_size

static inline unsigned long long atomicCAS(unsigned long long *at, unsigned long long expected,
                                           unsigned long long value)
{
    const unsigned long long before = *at;
    if (before == expected)
        *at = value;
    return before;
}

static inline unsigned long long atomicMin(unsigned long long *at, unsigned long long value)
{
    const unsigned long long before = *at;
    if (value < before)
        *at = value;
    return before;
}

static inline unsigned bt_cuda_block(unsigned threads) { return fake_block(threads); }

template <class A> static void fake_call(fake_kernel *kernel, const void *args)
{
    ((void (*)(const A))kernel)(*(const A *)args);
}

template <class A>
static cudaError_t bt_cuda_start(void (*kernel)(const A), unsigned blocks, unsigned threads, const A &args,
                                 cudaStream_t stream)
{
    return fake_launch((fake_kernel *)kernel, fake_call<A>, blocks, threads, &args, sizeof args, stream);
}

#endif
