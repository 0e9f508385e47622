/* backend/cuda/reduce.cu: sum, max, argmax, norm_square. Lines that are few and long are cut into pieces, and what
 * comes of these is put together by a second kernel. Floating numbers are added in double precision. */
#include "backend/cuda/tile.h"
#include "backend/cuda/walk.h"

/* ---- what comes of numbers: `none` of no numbers, `take` of one, `join` of two that came before and after ---- */

struct sum_floats {
    typedef double number, state;
    static __device__ state none() { return 0; }
    static __device__ state take(double x, int64_t) { return x; }
    static __device__ state join(double a, double b) { return a + b; }
    static __device__ double give(double sum, bt_dtype) { return sum; }
};

struct sum_integers { /* they wrap around */
    typedef int64_t number;
    typedef uint64_t state;
    static __device__ state none() { return 0; }
    static __device__ state take(int64_t x, int64_t) { return (uint64_t)x; }
    static __device__ state join(uint64_t a, uint64_t b) { return a + b; }
    static __device__ int64_t give(uint64_t sum, bt_dtype) { return (int64_t)sum; }
};

struct squares {
    typedef double number, state;
    static __device__ state none() { return 0; }
    static __device__ state take(double x, int64_t) { return x * x; }
    static __device__ state join(double a, double b) { return a + b; }
    static __device__ double give(double sum, bt_dtype) { return sum; }
};

static __device__ inline double least(double) { return -__builtin_inf(); }
static __device__ inline int64_t least(int64_t) { return INT64_MIN; }

/* NaN is larger than all else. */
static __device__ inline bool is_larger(double a, double b) { return a > b || (a != a && b == b); }
static __device__ inline bool is_larger(int64_t a, int64_t b) { return a > b; }

template <class T> struct largest {
    typedef T number, state;
    static __device__ T none() { return least(T()); }
    static __device__ T take(T x, int64_t) { return x; }
    static __device__ T join(T a, T b) { return is_larger(b, a) ? b : a; }
    static __device__ T give(T x, bt_dtype dtype) { return dtype == BT_I32 && x < INT32_MIN ? INT32_MIN : x; }
};

template <class T> struct found {
    T value;
    int64_t place;
};

template <class T> struct place_of_largest { /* the first of several */
    typedef T number;
    typedef found<T> state;
    static __device__ state none() { return {least(T()), 0}; }
    static __device__ state take(T x, int64_t place) { return {x, place}; }
    static __device__ state join(const state &a, const state &b)
    {
        const bool level = !is_larger(a.value, b.value) && !is_larger(b.value, a.value);
        const bool second = is_larger(b.value, a.value) || (level && b.place < a.place); /* lanes take turns */
        return {second ? b.value : a.value, second ? b.place : a.place};
    }
    static __device__ int64_t give(const state &x, bt_dtype) { return x.place; }
};

/* ---- the kernels ---- */

template <class F> struct reduction {
    bt_tile tile;
    bt_walk lines, along; /* to the first of a line's elements, and from there */
    const char *data;
    char *out;
    bt_dtype dtype, given;    /* of the data, of the output */
    typename F::state *parts; /* [parts, lines]; NULL: a line has one */
};

template <class F> static __device__ void leave(const reduction<F> &a, const bt_tile_work &own, typename F::state all)
{
    if (!own.real || bt_tile_lane(a.tile) != 0)
        return;
    if (a.parts)
        a.parts[own.part * a.tile.lines + own.line] = all;
    else
        bt_store(a.given, a.out, own.line, F::give(all, a.given));
}

template <class F> static __global__ void reduce(const reduction<F> a)
{
    BT_SHARED(typename F::state, room, BT_TILE_THREADS);
    const bt_tile_work own = bt_tile_own(a.tile);
    const int64_t start = bt_walk_at(a.lines, own.line), lanes = a.tile.lanes;
    typename F::state mine = F::none();
    for (int64_t i = own.first; i < own.to; i += BT_TILE_AT_ONCE * lanes) {
        int64_t at[BT_TILE_AT_ONCE];
        typename F::number x[BT_TILE_AT_ONCE];
        BT_CUDA_UNROLL
        for (int k = 0; k < BT_TILE_AT_ONCE; k++)
            at[k] = start + bt_walk_at(a.along, i + k * lanes < own.to ? i + k * lanes : i);
        bt_load_each<typename F::number, BT_TILE_AT_ONCE>(a.dtype, a.data, at, x);
        BT_CUDA_UNROLL
        for (int k = 0; k < BT_TILE_AT_ONCE; k++)
            if (i + k * lanes < own.to)
                mine = F::join(mine, F::take(x[k], i + k * lanes));
    }
    leave<F>(a, own, bt_tile_join<F>(a.tile, room, mine));
}

template <class F> struct joining {
    reduction<F> given; /* of the parts: each is an element */
    const typename F::state *parts;
};

template <class F> static __global__ void join_parts(const joining<F> a)
{
    BT_SHARED(typename F::state, room, BT_TILE_THREADS);
    const bt_tile &tile = a.given.tile;
    const bt_tile_work own = bt_tile_own(tile);
    typename F::state mine = F::none();
    for (int64_t i = own.first; i < own.to; i += tile.lanes)
        mine = F::join(mine, a.parts[i * tile.lines + own.line]);
    leave<F>(a.given, own, bt_tile_join<F>(tile, room, mine));
}

/* ---- on the host ---- */

template <class F> static reduction<F> planned(const bt_call *call)
{
    const bt_view *x = &call->in[0];
    const uint32_t axes = ((const bt_reduce_attr *)call->attr)->axes;
    reduction<F> a = {};
    a.lines = bt_walk_of(x, ~axes);
    a.along = bt_walk_nearest(x, axes);
    const int64_t next = bt_walk_step(a.lines), step = bt_walk_step(a.along);
    a.tile = bt_tile_cut(a.lines.n, a.along.n, step > 1 && next < step);
    a.data = x->data;
    a.dtype = x->dtype;
    a.out = call->out[0].data;
    a.given = call->out[0].dtype;
    return a;
}

template <class F> static size_t scratch(const bt_call *call)
{
    const bt_tile tile = planned<F>(call).tile;
    return tile.parts > 1 ? (size_t)(tile.parts * tile.lines) * sizeof(typename F::state) : 0;
}

template <class F> static bt_status launch(const bt_call *call)
{
    reduction<F> a = planned<F>(call);
    const bt_tile tile = a.tile;
    if (tile.parts == 1)
        return bt_cuda_launch<reduction<F>>(call, reduce<F>, bt_tile_blocks(tile), bt_tile_threads(), a);
    joining<F> b = {a, (const typename F::state *)call->scratch};
    a.parts = (typename F::state *)call->scratch;
    BT_TRY(bt_cuda_launch<reduction<F>>(call, reduce<F>, bt_tile_blocks(tile), bt_tile_threads(), a));
    b.given.tile = bt_tile_whole(tile.lines, tile.parts, true);
    return bt_cuda_launch<joining<F>>(call, join_parts<F>, bt_tile_blocks(b.given.tile), bt_tile_threads(), b);
}

static bool floats(const bt_call *call) { return bt_dtype_floats(call->in[0].dtype); }
static bool integers(const bt_call *call) { return !floats(call); }

#define REDUCTION(op_name, dtypes, ...)                                                                                \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".cuda", .accepts = dtypes, .scratch = scratch<__VA_ARGS__>,          \
        .launch = launch<__VA_ARGS__>, .half = true                                                                    \
    }

extern "C" const bt_kernel_impl bt_cuda_reduce[] = {
    REDUCTION(sum, floats, sum_floats),
    REDUCTION(sum, integers, sum_integers),
    REDUCTION(max, floats, largest<double>),
    REDUCTION(max, integers, largest<int64_t>),
    REDUCTION(argmax, floats, place_of_largest<double>),
    REDUCTION(argmax, integers, place_of_largest<int64_t>),
    REDUCTION(norm_square, floats, squares),
    {},
};
