/* backend/cuda/pool.cu: pooling and resampling of images. Adjoints gather: each pixel finds the windows that contain
 * it, so that each sum has one thread and one order. f32 has the CPU's bits. */
#include "backend/cuda/columns.h"
#include "backend/cuda/lines.h"
#include "backend/cuda/stored.h"
#include "ops/windows.h"

/* [n, h, w, c], with any strides. */
struct images {
    const char *data;
    bt_dtype dtype;
    int64_t n, h, w, c, strides[4];
};

static images images_of(const bt_view *x)
{
    const int64_t *d = x->dims, *s = x->strides;
    return {x->data, x->dtype, d[0], d[1], d[2], d[3], {s[0], s[1], s[2], s[3]}};
}

static int64_t count_of(const images &x) { return x.n * x.h * x.w * x.c; }

struct pixel {
    int64_t n, h, w, c;
};

/* The place of an element of dense images. */
static __device__ inline pixel pixel_of(const images &x, int64_t element)
{
    pixel p;
    p.c = element % x.c;
    element /= x.c;
    p.w = element % x.w;
    element /= x.w;
    p.h = element % x.h;
    p.n = element / x.h;
    return p;
}

template <int D>
static __device__ typename bt_computed<D>::T at_pixel(const images &x, int64_t n, int64_t h, int64_t w, int64_t c)
{
    return bt_load_as<D>(x.dtype, x.data, n * x.strides[0] + h * x.strides[1] + w * x.strides[2] + c * x.strides[3]);
}

/* ---- windows ---- */

struct window_args {
    bt_window_attr attr;
    images in, out; /* out: dense, its data in `result` */
    char *result, *index;
    bt_tiling tile; /* of channels, if a block has one window */
};

static window_args window_args_of(const bt_call *call)
{
    window_args a = {};
    a.attr = *(const bt_window_attr *)call->attr;
    a.in = images_of(&call->in[0]);
    a.out = images_of(&call->out[0]);
    a.result = call->out[0].data;
    a.index = call->outputs > 1 ? call->out[1].data : nullptr;
    return a;
}

struct window {
    int64_t top, bottom, left, right; /* top <= h < bottom, left <= w < right */
};

static __device__ inline window window_of(const window_args &a, int64_t h, int64_t w)
{
    window at;
    bt_window_range(&a.attr, 0, h, &at.top, &at.bottom);
    bt_window_range(&a.attr, 1, w, &at.left, &at.right);
    return at;
}

/* The share of each pixel of a range along one axis. */
static __device__ inline double share_of(const window_args &a, int64_t from, int64_t to)
{
    return a.attr.average ? 1 / (double)(to - from) : 1;
}

template <int D> static __global__ void sum_windows(const window_args a)
{
    typedef typename bt_computed<D>::T T;
    BT_CUDA_EACH(o, a.out.n * a.out.h * a.out.w * a.out.c)
    {
        const pixel p = pixel_of(a.out, o);
        const window at = window_of(a, p.h, p.w);
        T total = 0;
        for (int64_t h = at.top; h < at.bottom; h++) {
            T sum = 0;
            for (int64_t w = at.left; w < at.right; w++)
                sum += at_pixel<D>(a.in, p.n, h, w, p.c);
            total += sum;
        }
        bt_store<T>(a.out.dtype, a.result, o,
                    total * (T)(share_of(a, at.top, at.bottom) * share_of(a, at.left, at.right)));
    }
}

/* A block: one window of some channels. */
template <int D> static __global__ void sum_large_windows(const window_args a)
{
    BT_SHARED(bt_partial_sum, sums, BT_CUDA_THREADS);
    const bt_place p = bt_place_of(a.tile, blockIdx.x % a.tile.tiles);
    const int64_t o = blockIdx.x / a.tile.tiles, row = o / a.out.w;
    const window at = window_of(a, row % a.out.h, o % a.out.w);
    const int64_t wide = at.right - at.left, count = p.works ? (at.bottom - at.top) * wide : 0;
    double sum = 0;
    for (int64_t i = p.lane; i < count; i += a.tile.lanes)
        sum += (double)at_pixel<D>(a.in, row / a.out.h, at.top + i / wide, at.left + i % wide, p.channel);
    sums[threadIdx.x] = {sum};
    bt_join_lanes<bt_partial_sum>(sums, a.tile, p);
    if (p.works && p.lane == 0)
        bt_store<double>(a.out.dtype, a.result, o * a.out.c + p.channel,
                         sums[threadIdx.x].sum * share_of(a, at.top, at.bottom) * share_of(a, at.left, at.right));
}

const int64_t LARGE = 32, FEW = 1 << 16; /* pixels of a window; outputs */

static int64_t largest_window(const window_args &a)
{
    int64_t area = 1;
    for (int i = 0; i < 2; i++)
        area *= a.attr.adaptive ? bt_over(a.attr.axis[i].size, a.attr.axis[i].out) : a.attr.axis[i].window;
    return area;
}

template <int D> static bt_status start_sum(const bt_call *call)
{
    window_args a = window_args_of(call);
    const int64_t count = count_of(a.out);
    if (largest_window(a) < LARGE || count >= FEW)
        return bt_cuda_each<window_args>(call, sum_windows<D>, count, a);
    a.tile = bt_tiling_of(a.out.c, 32);
    return bt_cuda_launch<window_args>(call, sum_large_windows<D>, a.out.n * a.out.h * a.out.w * a.tile.tiles,
                                       BT_CUDA_THREADS, a);
}

/* The outputs whose windows contain the pixel: from <= o < to. */
static __device__ inline void users_of(const bt_window_attr &attr, int axis, int64_t at, int64_t *from, int64_t *to)
{
    const bt_window_axis &a = attr.axis[axis];
    if (attr.adaptive) {
        *from = at * a.out / a.size;
        *to = ((at + 1) * a.out + a.size - 1) / a.size;
        return;
    }
    const int64_t last = at + a.padding, before = last - a.window;
    *from = before < 0 ? 0 : before / a.stride + 1;
    *to = last / a.stride + 1 < a.out ? last / a.stride + 1 : a.out;
}

template <int D> static __global__ void spread_windows(const window_args a)
{
    typedef typename bt_computed<D>::T T;
    BT_CUDA_EACH(e, a.out.n * a.out.h * a.out.w * a.out.c)
    {
        const pixel p = pixel_of(a.out, e);
        window by; /* of outputs */
        users_of(a.attr, 0, p.h, &by.top, &by.bottom);
        users_of(a.attr, 1, p.w, &by.left, &by.right);
        T total = 0;
        for (int64_t h = by.top; h < by.bottom; h++) {
            T sum = 0;
            for (int64_t w = by.left; w < by.right; w++) {
                const window at = window_of(a, h, w);
                sum += at_pixel<D>(a.in, p.n, h, w, p.c) *
                       (T)(share_of(a, at.top, at.bottom) * share_of(a, at.left, at.right));
            }
            total += sum;
        }
        bt_store<T>(a.out.dtype, a.result, e, total);
    }
}

template <int D> static bt_status start_spread(const bt_call *call)
{
    const window_args a = window_args_of(call);
    return bt_cuda_each<window_args>(call, spread_windows<D>, count_of(a.out), a);
}

template <int D> static __global__ void largest_of_windows(const window_args a)
{
    typedef typename bt_computed<D>::T T;
    BT_CUDA_EACH(o, a.out.n * a.out.h * a.out.w * a.out.c)
    {
        const pixel p = pixel_of(a.out, o);
        const window at = window_of(a, p.h, p.w);
        T most = -(T)INFINITY;
        int64_t best = at.top * a.in.w + at.left;
        for (int64_t h = at.top; h < at.bottom; h++)
            for (int64_t w = at.left; w < at.right; w++) {
                const T now = at_pixel<D>(a.in, p.n, h, w, p.c);
                if (now > most || now != now) {
                    most = now;
                    best = h * a.in.w + w;
                }
            }
        bt_store<T>(a.out.dtype, a.result, o, most);
        ((int32_t *)a.index)[o] = (int32_t)best;
    }
}

template <int D> static bt_status start_max(const bt_call *call)
{
    const window_args a = window_args_of(call);
    return bt_cuda_each<window_args>(call, largest_of_windows<D>, count_of(a.out), a);
}

static bt_status window_sum(const bt_call *call) { return BT_STORED(bt_stored(call, 1), start_sum, call); }
static bt_status window_spread(const bt_call *call) { return BT_STORED(bt_stored(call, 1), start_spread, call); }
static bt_status window_max(const bt_call *call) { return BT_STORED(bt_stored(call, 1), start_max, call); }

/* ---- by index ---- */

struct index_args {
    images large, small, index; /* large (pixels) or small is dense and the result */
    char *result;
    bt_dtype dtype;
    bt_cuda_record *record;
    int64_t site;
    bt_tiling tile;
    int64_t pixels, each, stripes; /* per image; pixels per thread; blocks per image */
};

static bt_status index_args_of(const bt_call *call, const bt_view *large, const bt_view *small, index_args *a)
{
    bt_cuda_queue *queue = (bt_cuda_queue *)call->queue;
    *a = {};
    a->large = images_of(large);
    a->small = images_of(small);
    a->index = images_of(&call->in[1]);
    a->result = call->out[0].data;
    a->dtype = call->out[0].dtype;
    a->pixels = large->dims[1] * large->dims[2];
    a->record = queue->record;
    a->site = bt_cuda_watch(queue, call, &call->in[1], a->pixels);
    return a->site < 0 ? bt_error_status() : BT_OK;
}

/* The pixel that output `o` of image n names in channel c. */
static __device__ inline int64_t named(const index_args &a, int64_t n, int64_t o, int64_t c)
{
    const images &x = a.index;
    const int64_t at = n * x.strides[0] + o / x.w * x.strides[1] + o % x.w * x.strides[2] + c * x.strides[3];
    return bt_cuda_index(a.record, a.site, (n * x.h * x.w + o) * x.c + c, bt_load<int64_t>(x.dtype, x.data, at),
                         a.pixels);
}

template <int D> static __global__ void gather_pixels(const index_args a)
{
    typedef typename bt_computed<D>::T T;
    BT_CUDA_EACH(o, a.index.n * a.index.h * a.index.w * a.index.c)
    {
        const int64_t c = o % a.index.c, row = o / a.index.c, area = a.index.h * a.index.w, n = row / area;
        const int64_t at = named(a, n, row % area, c);
        const T x = a.pixels ? at_pixel<D>(a.large, n, at / a.large.w, at % a.large.w, c) : (T)0;
        bt_store<T>(a.dtype, a.result, o, x);
    }
}

template <int D> static bt_status start_gather(const bt_call *call)
{
    index_args a;
    BT_TRY(index_args_of(call, &call->in[0], &call->out[0], &a));
    return bt_cuda_each<index_args>(call, gather_pixels<D>, count_of(a.index), a);
}

/* The first and the last output that name one of a block's pixels. */
struct span {
    int64_t first, last;
    static __device__ span joined(const span &a, const span &b)
    {
        return {a.first < b.first ? a.first : b.first, a.last > b.last ? a.last : b.last};
    }
};

/* How many pixels a thread sums in shared memory. */
template <class T> const int MOST_EACH = 128 / (int)sizeof(T);

/* A block: a stripe of pixels of some channels of an image. Each thread has some pixels of one channel, and reads the
 * outputs in order, from the first that names one of the block's pixels to the last. */
template <int D> static __global__ void scatter_pixels(const index_args a)
{
    typedef typename bt_computed<D>::T T;
    BT_SHARED(T, sums, BT_CUDA_THREADS * MOST_EACH<T>);
    BT_SHARED(span, spans, BT_CUDA_THREADS);
    const int64_t stripe = blockIdx.x % a.stripes, unit = blockIdx.x / a.stripes, n = unit / a.tile.tiles;
    const bt_place p = bt_place_of(a.tile, unit % a.tile.tiles);
    const int64_t block = stripe * a.tile.lanes * a.each, own = block + p.lane * a.each;
    const int64_t outputs = a.index.h * a.index.w;
    span mine = {outputs, -1};
    for (int64_t o = p.lane; o < outputs && p.works; o += a.tile.lanes) {
        const int64_t at = named(a, n, o, p.channel) - block;
        if (at >= 0 && at < a.tile.lanes * a.each)
            mine = span::joined(mine, {o, o});
    }
    spans[threadIdx.x] = mine;
    bt_join_threads<span>(spans);
    if (!p.works)
        return;
    for (int64_t i = 0; i < a.each; i++)
        sums[i * blockDim.x + threadIdx.x] = 0;
    for (int64_t o = spans[0].first; o <= spans[0].last; o++) {
        const int64_t at = named(a, n, o, p.channel) - own;
        if (at >= 0 && at < a.each)
            sums[at * blockDim.x + threadIdx.x] += at_pixel<D>(a.small, n, o / a.small.w, o % a.small.w, p.channel);
    }
    for (int64_t i = 0; i < a.each && own + i < a.pixels; i++)
        bt_store<T>(a.dtype, a.result, (n * a.pixels + own + i) * a.large.c + p.channel,
                    sums[i * blockDim.x + threadIdx.x]);
}

template <int D> static bt_status start_scatter(const bt_call *call)
{
    const int64_t most = MOST_EACH<typename bt_computed<D>::T>;
    index_args a;
    BT_TRY(index_args_of(call, &call->out[0], &call->in[0], &a));
    if (count_of(a.index) == 0 && count_of(a.large) == 0)
        return BT_OK;
    a.tile = bt_tiling_of(a.large.c, 32);
    a.each = bt_over(a.pixels, a.tile.lanes);
    a.each = a.each < 1 ? 1 : a.each < most ? a.each : most;
    a.stripes = bt_over(a.pixels, a.tile.lanes * a.each);
    a.stripes = a.stripes < 1 ? 1 : a.stripes; /* without pixels the indices are still checked */
    return bt_cuda_launch<index_args>(call, scatter_pixels<D>, a.large.n * a.tile.tiles * a.stripes, BT_CUDA_THREADS,
                                      a);
}

static bt_status window_gather(const bt_call *call) { return BT_STORED(bt_stored(call, 1), start_gather, call); }
static bt_status window_scatter(const bt_call *call) { return BT_STORED(bt_stored(call, 1), start_scatter, call); }

/* ---- resampling ---- */

struct resample_args {
    bt_resample_attr attr;
    bt_lines<1> x; /* [outer, from, inner]; adjoint: [outer, to, inner] */
    int64_t inner, count;
};

template <int D> static __device__ typename bt_computed<D>::T element_of(const resample_args &a, int64_t element)
{
    int64_t at;
    bt_lines_at<1>(a.x, element, &at);
    return bt_load_as<D>(a.x.in[0].dtype, a.x.in[0].data, at);
}

template <int D> static __global__ void resample_forward(const resample_args a)
{
    typedef typename bt_computed<D>::T T;
    BT_CUDA_EACH(e, a.count)
    {
        const int64_t inside = e % a.inner, row = e / a.inner, outer = row / a.attr.to * a.attr.from;
        int64_t at[2];
        double weight[2];
        bt_resample_taps(&a.attr, row % a.attr.to, at, weight);
        T y = element_of<D>(a, (outer + at[0]) * a.inner + inside);
        if ((T)weight[1] != 0)
            y = y * (T)weight[0] + element_of<D>(a, (outer + at[1]) * a.inner + inside) * (T)weight[1];
        bt_store<T>(a.x.dtype, a.x.out, e, y);
    }
}

/* A range from <= o < to that contains all outputs computed from `at`. */
static __device__ inline void made_of(const bt_resample_attr &attr, int64_t at, int64_t *from, int64_t *to)
{
    const double scale = (double)attr.to / (double)attr.from;
    const int64_t first = (int64_t)floor(((double)at - 0.5) * scale - 0.5) - 1;
    const int64_t last = (int64_t)ceil(((double)at + 1.5) * scale - 0.5) + 1;
    *from = first > 0 ? first : 0;
    *to = last < attr.to ? last + 1 : attr.to;
}

template <int D> static __global__ void resample_back(const resample_args a)
{
    typedef typename bt_computed<D>::T T;
    BT_CUDA_EACH(e, a.count)
    {
        const int64_t inside = e % a.inner, row = e / a.inner, own = row % a.attr.from,
                      outer = row / a.attr.from * a.attr.to;
        int64_t from, to;
        T sum = 0;
        made_of(a.attr, own, &from, &to);
        for (int64_t o = from; o < to; o++) {
            int64_t at[2];
            double weight[2];
            bt_resample_taps(&a.attr, o, at, weight);
            for (int k = 0; k < 2; k++)
                if (at[k] == own && (T)weight[k] != 0)
                    sum += element_of<D>(a, (outer + o) * a.inner + inside) * (T)weight[k];
        }
        bt_store<T>(a.x.dtype, a.x.out, e, sum);
    }
}

template <int D> static bt_status start_resample(const bt_call *call)
{
    resample_args a = {};
    const bt_view *out = &call->out[0];
    a.attr = *(const bt_resample_attr *)call->attr;
    a.x = bt_lines_of<1>(call->in, out);
    a.inner = 1;
    a.count = bt_cpu_count(out);
    for (int d = (int)a.attr.axis + 1; d < out->rank; d++)
        a.inner *= out->dims[d];
    return bt_cuda_each<resample_args>(call, a.attr.adjoint ? resample_back<D> : resample_forward<D>, a.count, a);
}

static bt_status resample(const bt_call *call) { return BT_STORED(bt_stored(call, 1), start_resample, call); }

/* ---- the list ---- */

static bool accepts(const bt_call *call) { return bt_dtype_floats(call->in[0].dtype); }

#define POOL(op_name)                                                                                                  \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".cuda", .accepts = accepts, .launch = op_name, .half = true          \
    }

extern "C" const bt_kernel_impl bt_cuda_pool[] = {
    POOL(window_sum),
    POOL(window_spread),
    POOL(window_max),
    POOL(window_gather),
    POOL(window_scatter),
    POOL(resample),
    {},
};
