/* backend/cuda/along.cu: take_along; cumsum, in pieces if lines are few and long. */
#include "backend/cuda/tile.h"
#include "backend/cuda/walk.h"

/* ---- take_along ---- */

struct taking {
    const char *data, *index;
    bt_dtype dtype, index_dtype, given;
    bt_walk x, places;  /* for an element of the index: the start of x's line; the place of the index */
    int64_t step, size; /* of x along the axis */
    char *out;
    bt_cuda_record *record;
    int64_t site;
};

template <class T, bool MOVED> static __global__ void take(const taking t)
{
    BT_CUDA_EACH(i, t.places.n)
    {
        const int64_t place = bt_load<int64_t>(t.index_dtype, t.index, bt_walk_at(t.places, i));
        if (bt_cuda_index(t.record, t.site, i, place, t.size) != place)
            continue;
        const int64_t from = bt_walk_at(t.x, i) + place * t.step;
        if constexpr (MOVED)
            ((T *)t.out)[i] = ((const T *)t.data)[from];
        else
            bt_store(t.given, t.out, i, bt_load<T>(t.dtype, t.data, from));
    }
}

static bt_status take_along(const bt_call *call)
{
    const bt_view *x = &call->in[0], *index = &call->in[1];
    const int64_t axis = ((const bt_axis_attr *)call->attr)->axis;
    bt_cuda_queue *queue = (bt_cuda_queue *)call->queue;
    bt_view start = *x; /* with the shape of the index */
    start.dims[axis] = index->dims[axis];
    start.strides[axis] = 0;
    const taking t = {.data = x->data,
                      .index = index->data,
                      .dtype = x->dtype,
                      .index_dtype = index->dtype,
                      .given = call->out[0].dtype,
                      .x = bt_walk_of(&start, ~UINT32_C(0)),
                      .places = bt_walk_of(index, ~UINT32_C(0)),
                      .step = x->strides[axis],
                      .size = x->dims[axis],
                      .out = call->out[0].data,
                      .record = queue->record,
                      .site = bt_cuda_watch(queue, call, index, x->dims[axis])};
    if (t.site < 0)
        return BT_ERROR_MEMORY;
    const size_t size = bt_dtype_size(t.dtype);
    void (*const kernel)(const taking) = t.dtype != t.given ? take<float, false> /* one is stored in 16 bits */
                                         : size == 1        ? take<uint8_t, true>
                                         : size == 2        ? take<uint16_t, true>
                                         : size == 4        ? take<uint32_t, true>
                                                            : take<uint64_t, true>;
    return bt_cuda_each<taking>(call, kernel, t.places.n, t);
}

/* ---- cumsum: floats in double precision, integers wrap around ---- */

template <class S> struct summing {
    bt_tile tile;
    const char *data;
    bt_dtype dtype, given;
    bt_walk lines, along;
    bool reverse;
    char *out;
    int64_t step; /* in `out`, from one element of a line to the next */
    S *parts;     /* [part, line]: the sums of the pieces; NULL: a line has one piece */
};

template <class S> struct plus {
    static __device__ S join(S a, S b) { return a + b; }
};

static __device__ inline void load(double *x, bt_dtype dtype, const char *data, int64_t at)
{
    *x = bt_load<double>(dtype, data, at);
}
static __device__ inline void load(uint64_t *x, bt_dtype dtype, const char *data, int64_t at)
{
    *x = (uint64_t)bt_load<int64_t>(dtype, data, at);
}
static __device__ inline void store(bt_dtype dtype, char *out, int64_t at, double x) { bt_store(dtype, out, at, x); }
static __device__ inline void store(bt_dtype dtype, char *out, int64_t at, uint64_t x)
{
    bt_store(dtype, out, at, (int64_t)x);
}

/* The i-th number to add in the thread's line; 0 after the end of the piece. */
template <class S>
static __device__ inline S element(const summing<S> &s, const bt_tile_work &own, int64_t start, int64_t i)
{
    S x = 0;
    if (i < own.to)
        load(&x, s.dtype, s.data, start + bt_walk_at(s.along, s.reverse ? s.tile.n - 1 - i : i));
    return x;
}

template <class S> static __global__ void sum_pieces(const summing<S> s)
{
    BT_SHARED(S, room, BT_TILE_THREADS);
    const bt_tile_work own = bt_tile_own(s.tile);
    const int64_t start = bt_walk_at(s.lines, own.line);
    S sum = 0;
    for (int64_t i = own.first; i < own.to; i += s.tile.lanes)
        sum += element(s, own, start, i);
    sum = bt_tile_join<plus<S>>(s.tile, room, sum);
    if (own.real && bt_tile_lane(s.tile) == 0)
        s.parts[own.part * s.tile.lines + own.line] = sum;
}

/* The sum over the lanes before this one, and in *all the sum over all lanes (Hillis and Steele, "Data Parallel
 * Algorithms", 1986). */
template <class S> static __device__ inline S sum_before(const bt_tile &tile, S *room, S own, S *all)
{
    const unsigned lane = bt_tile_lane(tile), step = tile.across ? tile.together : 1;
    S sum = own;
    room[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned apart = 1; apart < tile.lanes; apart *= 2) {
        if (lane >= apart)
            sum = room[threadIdx.x - apart * step] + sum;
        __syncthreads();
        room[threadIdx.x] = sum;
        __syncthreads();
    }
    const S before = lane ? room[threadIdx.x - step] : 0;
    *all = room[threadIdx.x + (tile.lanes - 1 - lane) * step];
    __syncthreads();
    return before;
}

/* Each lane has some consecutive elements. */
template <class S> static __global__ void cumulate(const summing<S> s)
{
    BT_SHARED(S, room, BT_TILE_THREADS);
    const bt_tile_work own = bt_tile_own(s.tile);
    const int64_t start = bt_walk_at(s.lines, own.line), lane = bt_tile_lane(s.tile);
    const int64_t first = own.line / s.step * s.step * s.tile.n + own.line % s.step;
    S sum = 0;
    for (int64_t part = lane; part < own.part; part += s.tile.lanes)
        sum += s.parts[part * s.tile.lines + own.line];
    sum = bt_tile_join<plus<S>>(s.tile, room, sum);
    for (int64_t from = own.from; from < own.to; from += BT_TILE_AT_ONCE * s.tile.lanes) {
        const int64_t i = from + BT_TILE_AT_ONCE * lane;
        S x[BT_TILE_AT_ONCE], mine = 0, all;
        BT_CUDA_UNROLL
        for (int k = 0; k < BT_TILE_AT_ONCE; k++)
            x[k] = mine += element(s, own, start, i + k);
        const S before = sum + sum_before(s.tile, room, mine, &all);
        BT_CUDA_UNROLL
        for (int k = 0; k < BT_TILE_AT_ONCE; k++)
            if (own.real && i + k < own.to)
                store(s.given, s.out, first + (s.reverse ? s.tile.n - 1 - i - k : i + k) * s.step, before + x[k]);
        sum += all;
    }
}

template <class S> static summing<S> summing_of(const bt_call *call)
{
    const bt_cumsum_attr *attr = (const bt_cumsum_attr *)call->attr;
    const bt_view *x = &call->in[0];
    const uint32_t along = UINT32_C(1) << attr->axis;
    summing<S> s = {};
    s.data = x->data;
    s.dtype = x->dtype;
    s.given = call->out[0].dtype;
    s.lines = bt_walk_of(x, ~along);
    s.along = bt_walk_of(x, along);
    s.reverse = attr->reverse != 0;
    s.out = call->out[0].data;
    s.step = 1;
    for (int64_t d = attr->axis + 1; d < x->rank; d++)
        s.step *= x->dims[d];
    const int64_t next = bt_walk_step(s.lines), step = bt_walk_step(s.along);
    s.tile = bt_tile_cut(s.lines.n, s.along.n, step > 1 && next < step);
    return s;
}

template <class S> static size_t cumsum_scratch(const bt_call *call)
{
    const bt_tile tile = summing_of<S>(call).tile;
    return tile.parts > 1 ? (size_t)(tile.parts * tile.lines) * sizeof(S) : 0;
}

template <class S> static bt_status cumsum(const bt_call *call)
{
    summing<S> s = summing_of<S>(call);
    const int64_t blocks = bt_tile_blocks(s.tile);
    if (s.tile.parts > 1) {
        s.parts = (S *)call->scratch;
        BT_TRY(bt_cuda_launch<summing<S>>(call, sum_pieces<S>, blocks, bt_tile_threads(), s));
    }
    return bt_cuda_launch<summing<S>>(call, cumulate<S>, blocks, bt_tile_threads(), s);
}

static bool floats(const bt_call *call) { return bt_dtype_floats(call->in[0].dtype); }
static bool integers(const bt_call *call) { return !floats(call); }

#define CUMSUM(dtypes, S)                                                                                              \
    {                                                                                                                  \
        .op = &bt_op_cumsum, .name = "cumsum.cuda", .accepts = dtypes, .scratch = cumsum_scratch<S>,                   \
        .launch = cumsum<S>, .half = true                                                                              \
    }

extern "C" const bt_kernel_impl bt_cuda_along[] = {
    BT_CUDA_KERNEL(take_along, take_along),
    CUMSUM(floats, double),
    CUMSUM(integers, uint64_t),
    {},
};
