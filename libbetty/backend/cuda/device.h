/* backend/cuda/device.h: what all kernels share. A kernel takes one structure by value and is launched by
 * bt_cuda_launch. Tests compile the same files for the host: tests/fake_cuda/. */
#ifndef BT_CUDA_DEVICE_H
#define BT_CUDA_DEVICE_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined BT_FAKE_CUDA
#include <fake_device.h> /* tests/fake_cuda: before the toolkit's folders */
#else
#include <cuda_runtime.h>
#define BT_SHARED(T, name, n) __shared__ T name[n]
#endif

extern "C" {
#include "backend/cpu/view.h"
#include "backend/cuda/cuda.h"
#include "base/half.h"
}
#include "backend/math.h"

#if defined __CUDACC__
#define BT_CUDA_UNROLL _Pragma("unroll") /* unrolls all of the next loop: small arrays stay in registers */
#else
#define BT_CUDA_UNROLL
#endif

BT_EVERYWHERE static inline int64_t bt_over(int64_t a, int64_t b) { return (a + b - 1) / b; } /* rounded up */

/* ---- launching ---- */

const unsigned BT_CUDA_THREADS = 256; /* per block, unless a kernel says otherwise */
const int64_t BT_CUDA_BLOCKS = 2048;  /* most blocks of a grid whose threads take many elements */

#if !defined BT_FAKE_CUDA
static inline unsigned bt_cuda_block(unsigned threads) { return threads; }

template <class A>
static cudaError_t bt_cuda_start(void (*kernel)(const A), unsigned blocks, unsigned threads, const A &args,
                                 cudaStream_t stream)
{
    void *list[] = {const_cast<A *>(&args)};
    return cudaLaunchKernel((const void *)kernel, dim3(blocks), dim3(threads), list, 0, stream);
}
#endif

/* Launches `blocks` blocks of `threads` threads; none if there is nothing to do. */
template <class A>
static bt_status bt_cuda_launch(const bt_call *call, void (*kernel)(const A), int64_t blocks, unsigned threads,
                                const A &args)
{
    const bt_cuda_queue *queue = (const bt_cuda_queue *)call->queue;
    if (blocks <= 0)
        return BT_OK;
    return bt_cuda_try(bt_cuda_start<A>(kernel, (unsigned)blocks, bt_cuda_block(threads), args, queue->stream),
                       call->op->name);
}

/* Blocks for n elements; each thread takes elements one grid apart. */
static inline int64_t bt_cuda_blocks(int64_t n)
{
    const int64_t blocks = bt_over(n, bt_cuda_block(BT_CUDA_THREADS));
    return blocks < BT_CUDA_BLOCKS ? blocks : BT_CUDA_BLOCKS;
}

template <class A> static bt_status bt_cuda_each(const bt_call *call, void (*kernel)(const A), int64_t n, const A &args)
{
    return bt_cuda_launch<A>(call, kernel, bt_cuda_blocks(n), BT_CUDA_THREADS, args);
}

/* The elements of this thread. */
#define BT_CUDA_EACH(i, n)                                                                                             \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (int64_t)gridDim.x * blockDim.x)

/* ---- numbers as stored in memory ---- */

/* Element `at` of the data, as a T. */
template <class T> static inline __device__ T bt_load(bt_dtype dtype, const char *data, int64_t at)
{
    switch (dtype) {
    case BT_F32:
        return (T)((const float *)data)[at];
    case BT_F64:
        return (T)((const double *)data)[at];
    case BT_I32:
        return (T)((const int32_t *)data)[at];
    case BT_I64:
        return (T)((const int64_t *)data)[at];
    case BT_BF16:
        return (T)bt_f32_of_bf16(((const uint16_t *)data)[at]);
    case BT_F16:
        return (T)bt_f32_of_f16(((const uint16_t *)data)[at]);
    default:
        return (T)((const uint8_t *)data)[at];
    }
}

/* As f32, ready to be rounded to 16 bits. */
static inline __device__ float bt_before_half(float x) { return x; }
static inline __device__ float bt_before_half(double x) { return bt_f32_cut(x); }
static inline __device__ float bt_before_half(int32_t x) { return bt_f32_cut((double)x); }
static inline __device__ float bt_before_half(int64_t x) { return bt_f32_cut((double)x); }

/* Converts as C does. If the dtype cannot hold the T, convert it first (select.cu). */
template <class T> static inline __device__ void bt_store(bt_dtype dtype, char *data, int64_t at, T x)
{
    switch (dtype) {
    case BT_F32:
        ((float *)data)[at] = (float)x;
        break;
    case BT_F64:
        ((double *)data)[at] = (double)x;
        break;
    case BT_I32:
        ((int32_t *)data)[at] = (int32_t)x;
        break;
    case BT_I64:
        ((int64_t *)data)[at] = (int64_t)x;
        break;
    case BT_BF16:
        ((uint16_t *)data)[at] = bt_bf16_of(bt_before_half(x));
        break;
    case BT_F16:
        ((uint16_t *)data)[at] = bt_f16_of(bt_before_half(x));
        break;
    default:
        ((uint8_t *)data)[at] = (uint8_t)x;
    }
}

/* The offset, in elements, of this element in row-major order. */
static inline __device__ int64_t bt_offset(const bt_view &view, int64_t element)
{
    int64_t offset = 0;
    for (int d = view.rank - 1; d >= 0; d--) {
        offset += element % view.dims[d] * view.strides[d];
        element /= view.dims[d];
    }
    return offset;
}

template <class T> static inline __device__ T bt_get_at(const bt_view &view, int64_t element)
{
    return bt_load<T>(view.dtype, view.data, bt_offset(view, element));
}

/* ---- failures ---- */

/* Records a failure. The first failing call stays; within a call, the lowest element. */
static inline __device__ void bt_cuda_fail(bt_cuda_record *record, int64_t site, int64_t element, int64_t found)
{
    const unsigned long long own = (unsigned long long)site, before = atomicCAS(&record->site, 0ULL, own);
    const int64_t shown = found < INT32_MIN ? INT32_MIN : found > INT32_MAX ? INT32_MAX : found;
    if (before == 0 || before == own)
        atomicMin(&record->where, (unsigned long long)element << 32 | (uint32_t)(int32_t)shown);
}

/* Returns the index if it is in 0 .. size-1; otherwise records a failure and returns the nearest one that is. */
static inline __device__ int64_t bt_cuda_index(bt_cuda_record *record, int64_t site, int64_t element, int64_t index,
                                               int64_t size)
{
    if (index >= 0 && index < size)
        return index;
    bt_cuda_fail(record, site, element, index);
    return index < 0 ? 0 : size - 1;
}

/* ---- on the host ---- */

/* For every dtype, shape and stride. */
#define BT_CUDA_KERNEL(op_name, function)                                                                              \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".cuda", .launch = function, .half = true                             \
    }

#endif
