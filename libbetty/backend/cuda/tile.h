/* backend/cuda/tile.h: a block whose threads are divided among some lines, with `lanes` threads each, a power of two.
 * The lanes' results for a line are combined as a tree whose order depends only on sizes and strides, not on the
 * card. */
#ifndef BT_CUDA_TILE_H
#define BT_CUDA_TILE_H

#include "backend/cuda/device.h"

const unsigned BT_TILE_THREADS = 256, BT_TILE_ACROSS = 32;
const int BT_TILE_AT_ONCE = 4; /* elements that a thread has in flight together */

struct bt_tile {
    int64_t lines, n;  /* lines in all; elements of a line */
    int64_t piece;     /* elements of a line per block: fewer than n if lines are few and long */
    int64_t parts;     /* pieces of a line */
    unsigned lanes;    /* per line */
    unsigned together; /* lines per block */
    bool across;       /* adjacent threads have adjacent lines; otherwise adjacent elements */
};

/* ---- on the host ---- */


/* The smallest power of two >= n, but at most `most`, which is a power of two. */
static inline unsigned bt_tile_power(int64_t n, unsigned most)
{
    unsigned power = 1;
    while (power < most && power < n)
        power *= 2;
    return power;
}

static inline unsigned bt_tile_threads(void)
{
    unsigned threads = BT_TILE_THREADS;
    while (threads > bt_cuda_block(BT_TILE_THREADS))
        threads /= 2;
    return threads;
}

static inline int64_t bt_tile_groups(const bt_tile &tile) { return bt_over(tile.lines, tile.together); }

/* For lines of n elements, each within one block. */
static inline bt_tile bt_tile_whole(int64_t lines, int64_t n, bool across)
{
    const unsigned threads = bt_tile_threads();
    bt_tile tile = {};
    tile.lines = lines;
    tile.n = tile.piece = n;
    tile.parts = 1;
    tile.across = across;
    tile.lanes = bt_tile_power(bt_over(n, BT_TILE_AT_ONCE), threads);
    tile.together = threads / tile.lanes;
    if (across) {
        const unsigned wanted = bt_tile_power(lines, threads < BT_TILE_ACROSS ? threads : BT_TILE_ACROSS);
        tile.together = tile.together > wanted ? tile.together : wanted;
        tile.lanes = threads / tile.together;
    }
    return tile;
}

/* If that would give fewer than FEW blocks, and a line has at least SOME pieces of EACH elements per thread, lines are
 * cut so that there are about BLOCKS blocks. */
static inline bt_tile bt_tile_cut(int64_t lines, int64_t n, bool across)
{
    const int64_t FEW = 256, BLOCKS = 1024, EACH = 16, SOME = 4;
    bt_tile tile = bt_tile_whole(lines, n, across);
    const int64_t most = bt_over(n, tile.lanes * EACH);
    if (lines && most >= SOME && bt_tile_groups(tile) < FEW) {
        const int64_t wanted = bt_over(BLOCKS, bt_tile_groups(tile));
        tile.piece = bt_over(bt_over(n, wanted < most ? wanted : most), tile.lanes) * tile.lanes;
        tile.parts = bt_over(n, tile.piece);
    }
    return tile;
}

static inline int64_t bt_tile_blocks(const bt_tile &tile) { return bt_tile_groups(tile) * tile.parts; }

/* ---- on the device ---- */

static inline __device__ unsigned bt_tile_lane(const bt_tile &tile)
{
    return tile.across ? threadIdx.x / tile.together : threadIdx.x % tile.lanes;
}

/* The block's line that this thread works on. */
static inline __device__ unsigned bt_tile_place(const bt_tile &tile)
{
    return tile.across ? threadIdx.x % tile.together : threadIdx.x / tile.lanes;
}

/* A thread's share of the call: elements from + lane, from + lane + lanes, ... below `to` of a line. */
struct bt_tile_work {
    int64_t line, part, from, to, first;
    bool real; /* false: no line is left for it; it repeats another thread's work and stores nothing */
};

static inline __device__ bt_tile_work bt_tile_own(const bt_tile &tile)
{
    const int64_t groups = bt_over(tile.lines, tile.together);
    bt_tile_work own;
    own.part = blockIdx.x / groups;
    own.line = blockIdx.x % groups * tile.together + bt_tile_place(tile);
    own.real = own.line < tile.lines;
    own.line = own.real ? own.line : tile.lines - 1;
    own.from = own.part * tile.piece;
    own.to = own.from + tile.piece < tile.n ? own.from + tile.piece : tile.n;
    own.first = own.from + bt_tile_lane(tile);
    return own;
}

/* Combines the states of a line's lanes, in `room` of BT_TILE_THREADS; every lane gets the result. */
template <class F, class S> static __device__ S bt_tile_join(const bt_tile &tile, S *room, const S &own)
{
    const unsigned lane = bt_tile_lane(tile), step = tile.across ? tile.together : 1;
    room[threadIdx.x] = own;
    __syncthreads();
    for (unsigned half = tile.lanes / 2; half; half /= 2) {
        if (lane < half)
            room[threadIdx.x] = F::join(room[threadIdx.x], room[threadIdx.x + half * step]);
        __syncthreads();
    }
    const S all = room[threadIdx.x - lane * step];
    __syncthreads();
    return all;
}

/* Loads several elements at once, so that their latencies overlap. */
template <class T, int N>
static inline __device__ void bt_load_each(bt_dtype dtype, const char *data, const int64_t *at, T *x)
{
    switch (dtype) {
#define BT_LOAD_EACH(name)                                                                                             \
    case name:                                                                                                         \
        BT_CUDA_UNROLL                                                                                                 \
        for (int k = 0; k < N; k++)                                                                                    \
            x[k] = bt_load<T>(name, data, at[k]);                                                                      \
        break;
        BT_LOAD_EACH(BT_F32)
        BT_LOAD_EACH(BT_F64)
        BT_LOAD_EACH(BT_I32)
        BT_LOAD_EACH(BT_I64)
        BT_LOAD_EACH(BT_BF16)
        BT_LOAD_EACH(BT_F16)
#undef BT_LOAD_EACH
    default:
        BT_CUDA_UNROLL
        for (int k = 0; k < N; k++)
            x[k] = bt_load<T>(BT_U8, data, at[k]);
    }
}

#endif
