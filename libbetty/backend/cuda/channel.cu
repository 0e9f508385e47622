/* backend/cuda/channel.cu: moments, products and combinations of the channels of channels-last tensors. Sums are in
 * double precision. If there are many rows, there are two passes: over pieces, and over the pieces' sums. */
#include "backend/cuda/columns.h"
#include "backend/cuda/lines.h"
#include "backend/cuda/stored.h"

/* x [lead..., rows..., c] as [groups, rows, channels]. */
struct sizes {
    int64_t groups, rows, channels;
};

static sizes sizes_of(const bt_call *call)
{
    const bt_channel_attr *attr = (const bt_channel_attr *)call->attr;
    const bt_view *x = &call->in[0];
    sizes s = {1, 1, x->dims[x->rank - 1]};
    for (int d = 0; d < x->rank - 1; d++)
        *(d < attr->lead ? &s.groups : &s.rows) *= x->dims[d];
    return s;
}

/* Whole rows if they fit in a block; otherwise enough channels for whole lines of memory. */
static bt_tiling tiling_of_rows(int64_t channels)
{
    return bt_tiling_of(channels, channels <= BT_CUDA_THREADS ? channels : 64);
}

/* ---- sums of rows ---- */

template <int N> struct sums_args {
    bt_lines<N> x;
    bt_view centre; /* data NULL: there is none */
    sizes size;
    bt_tiling tile, joint; /* of the rows; of the pieces */
    int64_t pieces, step;  /* per group; rows per piece */
    char *partial;         /* if pieces > 1: [groups, pieces, channels] sums */
    char *out[2];
    bt_dtype dtype[2];
};

/* Mean and sum of squared deviations. A thread sums the differences of its rows from the first one. Two results are
 * joined as in Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances"
 * (1979). */
template <int D> struct moments_sum {
    enum { INPUTS = 1 };
    double count, mean, squares;

    static __device__ moments_sum of_rows(const sums_args<1> &a, int64_t at, int64_t rows, int64_t step)
    {
        double origin = 0, sum = 0, squares = 0;
        for (int64_t row = 0; row < rows; row++, at += step) {
            int64_t where;
            bt_lines_at<1>(a.x, at, &where);
            const double x = bt_load_as<D, double>(a.x.in[0].dtype, a.x.in[0].data, where);
            origin = row ? origin : x;
            sum += x - origin;
            squares += (x - origin) * (x - origin);
        }
        const double count = (double)rows;
        return rows > 0 ? moments_sum{count, origin + sum / count, squares - sum * sum / count} : moments_sum{0, 0, 0};
    }

    static __device__ moments_sum joined(const moments_sum &a, const moments_sum &b)
    {
        const double count = a.count + b.count, apart = b.mean - a.mean;
        if (a.count <= 0 || b.count <= 0)
            return a.count > 0 ? a : b;
        return {count, a.mean + apart * b.count / count,
                a.squares + b.squares + apart * apart * a.count * b.count / count};
    }

    __device__ double result(int which) const { return which ? squares / count : mean; }
};

/* The sum of (x - m) z and the sum of z. */
template <int D> struct products_sum {
    enum { INPUTS = 2 };
    double dot, sum;

    static __device__ products_sum of_rows(const sums_args<2> &a, int64_t at, int64_t rows, int64_t step)
    {
        double centre = 0;
        if (a.centre.data && rows > 0)
            centre = bt_get_at<double>(a.centre,
                                       at / (a.size.rows * a.size.channels) * a.size.channels + at % a.size.channels);
        products_sum s = {0, 0};
        for (int64_t row = 0; row < rows; row++, at += step) {
            int64_t where[2];
            bt_lines_at<2>(a.x, at, where);
            const double x = bt_load_as<D, double>(a.x.in[0].dtype, a.x.in[0].data, where[0]);
            const double z = bt_load_as<D, double>(a.x.in[1].dtype, a.x.in[1].data, where[1]);
            s.dot += (x - centre) * z;
            s.sum += z;
        }
        return s;
    }

    static __device__ products_sum joined(const products_sum &a, const products_sum &b)
    {
        return {a.dot + b.dot, a.sum + b.sum};
    }

    __device__ double result(int which) const { return which ? sum : dot; }
};

template <class S, int N> static __device__ void finish(const sums_args<N> &a, int64_t at, const S &sum)
{
    for (int o = 0; o < 2; o++)
        bt_store<double>(a.dtype[o], a.out[o], at, sum.result(o));
}

/* A block: a piece of the rows, for a tile of a group's channels. */
template <class S> static __global__ void sum_rows(const sums_args<S::INPUTS> a)
{
    BT_SHARED(S, sums, BT_CUDA_THREADS);
    const int64_t piece = blockIdx.x % a.pieces, unit = blockIdx.x / a.pieces, group = unit / a.tile.tiles;
    const bt_place p = bt_place_of(a.tile, unit % a.tile.tiles);
    const int64_t from = piece * a.step + p.lane;
    const int64_t to = (piece + 1) * a.step < a.size.rows ? (piece + 1) * a.step : a.size.rows;
    const int64_t rows = p.works && from < to ? (to - from + a.tile.lanes - 1) / a.tile.lanes : 0;
    const int64_t at = (group * a.size.rows + from) * a.size.channels + p.channel;
    sums[threadIdx.x] = S::of_rows(a, at, rows, a.tile.lanes * a.size.channels);
    bt_join_lanes<S>(sums, a.tile, p);
    if (!p.works || p.lane)
        return;
    if (a.pieces > 1)
        ((S *)a.partial)[(group * a.pieces + piece) * a.size.channels + p.channel] = sums[threadIdx.x];
    else
        finish<S>(a, group * a.size.channels + p.channel, sums[threadIdx.x]);
}

/* A block: the pieces of some channels of a group. */
template <class S> static __global__ void join_pieces(const sums_args<S::INPUTS> a)
{
    BT_SHARED(S, sums, BT_CUDA_THREADS);
    const int64_t group = blockIdx.x / a.joint.tiles;
    const bt_place p = bt_place_of(a.joint, blockIdx.x % a.joint.tiles);
    const S *partial = (const S *)a.partial + group * a.pieces * a.size.channels + p.channel;
    S sum = {};
    if (p.works && p.lane < a.pieces)
        sum = partial[p.lane * a.size.channels];
    for (int64_t piece = p.lane + a.joint.lanes; piece < a.pieces && p.works; piece += a.joint.lanes)
        sum = S::joined(sum, partial[piece * a.size.channels]);
    sums[threadIdx.x] = sum;
    bt_join_lanes<S>(sums, a.joint, p);
    if (p.works && p.lane == 0)
        finish<S>(a, group * a.size.channels + p.channel, sums[threadIdx.x]);
}

const int64_t ROWS_EACH = 16, MOST_PIECES = 512, SUM_BLOCKS = 1024;

/* Rows are cut into pieces until there are enough blocks, as long as each thread has some rows. This depends on sizes
 * alone. */
template <int N> static sums_args<N> sums_of(const bt_call *call)
{
    sums_args<N> a = {};
    a.size = sizes_of(call);
    a.tile = tiling_of_rows(a.size.channels);
    a.joint = bt_tiling_of(a.size.channels, 8);
    const int64_t units = a.size.groups * a.tile.tiles,
                  useful = a.tile.lanes ? a.size.rows / (a.tile.lanes * ROWS_EACH) : 0;
    const int64_t wanted = units ? SUM_BLOCKS / units : 0, least = useful < wanted ? useful : wanted;
    a.pieces = least < 1 ? 1 : least > MOST_PIECES ? MOST_PIECES : least;
    a.step = bt_over(a.size.rows, a.pieces);
    return a;
}

template <class S> static size_t scratch_of(const bt_call *call)
{
    const sums_args<S::INPUTS> a = sums_of<S::INPUTS>(call);
    return a.pieces > 1 ? (size_t)(a.size.groups * a.pieces * a.size.channels) * sizeof(S) : 0;
}

template <class S> static bt_status launch_sums(const bt_call *call)
{
    sums_args<S::INPUTS> a = sums_of<S::INPUTS>(call);
    a.x = bt_lines_of<S::INPUTS>(call->in, &call->out[0]);
    a.partial = (char *)call->scratch;
    if (call->inputs > S::INPUTS)
        a.centre = call->in[S::INPUTS];
    for (int o = 0; o < 2; o++) {
        a.out[o] = call->out[o].data;
        a.dtype[o] = call->out[o].dtype;
    }
    BT_TRY(bt_cuda_launch<sums_args<S::INPUTS>>(call, sum_rows<S>, a.size.groups * a.tile.tiles * a.pieces,
                                                BT_CUDA_THREADS, a));
    if (a.pieces > 1)
        BT_TRY(bt_cuda_launch<sums_args<S::INPUTS>>(call, join_pieces<S>, a.size.groups * a.joint.tiles,
                                                    BT_CUDA_THREADS, a));
    return BT_OK;
}

template <int D> static bt_status start_moments(const bt_call *call) { return launch_sums<moments_sum<D>>(call); }
template <int D> static bt_status start_dot(const bt_call *call) { return launch_sums<products_sum<D>>(call); }

static bt_status moments(const bt_call *call) { return BT_STORED(bt_stored(call, 1), start_moments, call); }
static bt_status dot(const bt_call *call) { return BT_STORED(bt_stored(call, 2), start_dot, call); }

/* ---- combinations: with the CPU's bits in f32; the output may overwrite the first x ---- */

const int AHEAD = 4; /* rows that a thread reads before it writes */

template <int K> struct mix_args {
    bt_lines<K + 1> x;       /* the last is the gate, or the first again if there is none */
    bt_lines<2 * K + 1> own; /* each term's centre and scale, then the shift; data NULL: missing */
    bt_tiling tile;
    int64_t rows, all, step; /* rows per group; in all; per block */
    bool relu, gated;
};

template <int K, class T> struct coefficients {
    T centre[K], scale[K], shift;
};

template <int K, class T> static __device__ T coefficient(const mix_args<K> &a, int which, int64_t at, T missing)
{
    return a.own.in[which].data ? bt_load<T>(a.own.in[which].dtype, a.own.in[which].data, at) : missing;
}

template <int K, class T>
static __device__ void load_coefficients(const mix_args<K> &a, int64_t channel, coefficients<K, T> *own)
{
    int64_t at[2 * K + 1];
    bt_lines_at<2 * K + 1>(a.own, channel, at);
    for (int k = 0; k < K; k++) {
        own->centre[k] = coefficient<K, T>(a, 2 * k, at[2 * k], 0);
        own->scale[k] = coefficient<K, T>(a, 2 * k + 1, at[2 * k + 1], 1);
    }
    own->shift = coefficient<K, T>(a, 2 * K, at[2 * K], (T)-0.0); /* -0 + x is x, even if x is -0 */
}

static __device__ inline float fused(float a, float b, float c) { return bt_f32_fma(a, b, c); }
static __device__ inline double fused(double a, double b, double c) { return bt_f64_fma(a, b, c); }

/* x: the terms, then the gate. */
template <int K, class T> static __device__ T mixed(const mix_args<K> &a, const coefficients<K, T> &own, const T *x)
{
    T sum = own.shift;
    BT_CUDA_UNROLL
    for (int k = 0; k < K; k++)
        sum = fused(x[k] - own.centre[k], own.scale[k], sum);
    if (a.relu ? sum <= 0 : a.gated && !(x[K] > 0))
        return 0;
    return sum;
}

template <int K, int D> static __global__ void mix(const mix_args<K> a)
{
    typedef typename bt_computed<D>::T T;
    const bt_place p = bt_place_of(a.tile, blockIdx.x % a.tile.tiles);
    const int64_t first = blockIdx.x / a.tile.tiles * a.step, end = first + a.step < a.all ? first + a.step : a.all;
    coefficients<K, T> own = {};
    int64_t known = 0; /* the coefficients of the previous rows still apply */
    if (!p.works)
        return;
    for (int64_t row = first + p.lane; row < end; row += AHEAD * a.tile.lanes) {
        T x[AHEAD][K + 1] = {};
        BT_CUDA_UNROLL
        for (int i = 0; i < AHEAD; i++) {
            const int64_t here = row + i * a.tile.lanes;
            int64_t at[K + 1];
            bt_lines_at<K + 1>(a.x, (here < end ? here : row) * a.tile.channels + p.channel, at);
            BT_CUDA_UNROLL
            for (int k = 0; k <= K; k++)
                if (k < K || a.gated)
                    x[i][k] = bt_load_as<D>(a.x.in[k].dtype, a.x.in[k].data, at[k]);
        }
        BT_CUDA_UNROLL
        for (int i = 0; i < AHEAD; i++) {
            const int64_t here = row + i * a.tile.lanes;
            if (here >= known && here < end) {
                known = (here / a.rows + 1) * a.rows;
                load_coefficients<K, T>(a, (known / a.rows - 1) * a.tile.channels + p.channel, &own);
            }
            if (here < end)
                bt_store<T>(a.x.dtype, a.x.out, here * a.tile.channels + p.channel, mixed<K, T>(a, own, x[i]));
        }
    }
}

/* The operands with one number per channel: their views or, if missing, a view of their shape without data. */
template <int K> static bt_lines<2 * K + 1> coefficients_of(const bt_call *call, const bt_channel_inputs *at)
{
    const bt_channel_attr *attr = (const bt_channel_attr *)call->attr;
    const bt_view *x = &call->in[0];
    bt_view own[2 * K + 1], missing = {};
    missing.rank = (int)attr->lead + 1;
    for (int d = 0; d <= attr->lead; d++)
        missing.dims[d] = x->dims[d < attr->lead ? d : x->rank - 1];
    for (int k = 0; k < K; k++) {
        own[2 * k] = at->centre[k] >= 0 ? call->in[at->centre[k]] : missing;
        own[2 * k + 1] = at->scale[k] >= 0 ? call->in[at->scale[k]] : missing;
    }
    own[2 * K] = at->shift >= 0 ? call->in[at->shift] : missing;
    return bt_lines_of<2 * K + 1>(own, &call->out[0]);
}

template <int D, int K> static bt_status start_mix_of(const bt_call *call, const bt_channel_inputs *at)
{
    const bt_channel_attr *attr = (const bt_channel_attr *)call->attr;
    const sizes s = sizes_of(call);
    bt_view x[K + 1];
    for (int k = 0; k < K; k++)
        x[k] = call->in[at->x[k]];
    x[K] = call->in[at->gate >= 0 ? at->gate : 0];
    mix_args<K> a = {};
    a.x = bt_lines_of<K + 1>(x, &call->out[0]);
    a.own = coefficients_of<K>(call, at);
    a.tile = tiling_of_rows(s.channels);
    a.rows = s.rows;
    a.all = s.groups * s.rows;
    a.relu = attr->relu != 0;
    a.gated = attr->gated != 0;
    if (a.all * s.channels == 0)
        return BT_OK;
    const int64_t least = a.tile.lanes * AHEAD, most = bt_over(BT_CUDA_BLOCKS, a.tile.tiles),
                  useful = bt_over(a.all, least);
    a.step = bt_over(bt_over(a.all, useful < most ? useful : most), least) * least;
    return bt_cuda_launch<mix_args<K>>(call, mix<K, D>, bt_over(a.all, a.step) * a.tile.tiles, BT_CUDA_THREADS, a);
}

template <int D> static bt_status start_mix(const bt_call *call)
{
    const bt_channel_attr *attr = (const bt_channel_attr *)call->attr;
    const bt_channel_inputs at = bt_channel_inputs_of(attr);
    switch (attr->terms) {
    case 1:
        return start_mix_of<D, 1>(call, &at);
    case 2:
        return start_mix_of<D, 2>(call, &at);
    case 3:
        return start_mix_of<D, 3>(call, &at);
    default:
        return start_mix_of<D, 4>(call, &at);
    }
}

/* Chooses by the operands of x's shape. Coefficients have x's dtype, or f32 if that has 16 bits. */
static bt_status launch_mix(const bt_call *call)
{
    const bt_channel_attr *attr = (const bt_channel_attr *)call->attr;
    const bt_channel_inputs at = bt_channel_inputs_of(attr);
    bool same = at.gate < 0 || call->in[at.gate].dtype == call->in[0].dtype;
    for (int k = 1; k < attr->terms; k++)
        same = same && call->in[at.x[k]].dtype == call->in[0].dtype;
    return BT_STORED(same ? bt_stored(call, 1) : BT_ANY, start_mix, call);
}

#define CHANNEL(op_name, function, room)                                                                               \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".cuda", .accepts = bt_all_floats, .scratch = room,                   \
        .launch = function, .half = true                                                                               \
    }

extern "C" const bt_kernel_impl bt_cuda_channel[] = {
    CHANNEL(channel_moments, moments, scratch_of<moments_sum<BT_F32>>),
    CHANNEL(channel_dot, dot, scratch_of<products_sum<BT_F32>>),
    CHANNEL(channel_mix, launch_mix, nullptr),
    {},
};
