/* backend/cuda/columns.h: blocks for channels-last arrays. A block has some adjacent channels and several rows of each
 * at once, so that adjacent threads have adjacent numbers. */
#ifndef BT_CUDA_COLUMNS_H
#define BT_CUDA_COLUMNS_H

#include "backend/cuda/device.h"

/* A block has `width` of the `channels` channels, and `lanes` rows of each at once; its other threads idle. */
struct bt_tiling {
    int64_t channels, tiles; /* tiles: blocks side by side */
    int width, lanes;
};

static inline bt_tiling bt_tiling_of(int64_t channels, int64_t widest)
{
    const int64_t threads = bt_cuda_block(BT_CUDA_THREADS), most = widest < threads ? widest : threads;
    if (channels == 0)
        return {};
    const int64_t width = channels < most ? channels : most;
    return {channels, bt_over(channels, width), (int)width, (int)(threads / width)};
}

/* A thread's place in its block's tile. */
struct bt_place {
    int64_t channel;
    int lane;
    bool works;
};

static inline __device__ bt_place bt_place_of(const bt_tiling &t, int64_t tile)
{
    const int lane = (int)threadIdx.x / t.width;
    const int64_t channel = tile * t.width + (int)threadIdx.x % t.width;
    return {channel, lane, lane < t.lanes && channel < t.channels};
}

/* Joins what the lanes have left in shared memory, one S per thread, with S::joined; the result is with lane 0. */
template <class S> static __device__ void bt_join_lanes(S *sums, const bt_tiling &t, const bt_place &p)
{
    __syncthreads();
    for (int left = t.lanes; left > 1; left = (left + 1) / 2) {
        const int half = (left + 1) / 2;
        if (p.lane + half < left)
            sums[threadIdx.x] = S::joined(sums[threadIdx.x], sums[threadIdx.x + half * t.width]);
        __syncthreads();
    }
}

/* The simplest S. */
struct bt_partial_sum {
    double sum;
    static __device__ bt_partial_sum joined(const bt_partial_sum &a, const bt_partial_sum &b)
    {
        return {a.sum + b.sum};
    }
};

/* The same for all threads of the block; the result is with thread 0. */
template <class S> static __device__ void bt_join_threads(S *sums)
{
    bt_join_lanes<S>(sums, {1, 1, 1, (int)blockDim.x}, {0, (int)threadIdx.x, true});
}

#endif
