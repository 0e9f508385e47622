/* backend/cuda/dot.cu: products of matrices by tiles in shared memory, for every dtype and stride: for calls that the
 * library of matmul.c does not take, or if it is missing.
 *
 * A block computes a tile of one matrix of c, from a piece of k; a second kernel adds the pieces. An element is a chain
 * of sums of FOLD products; each sum is a chain of fused multiply-adds. The lengths of the chains depend on sizes
 * alone. */
#include "backend/cuda/device.h"

const int DEEP = 16;              /* of k, in shared memory at a time */
const int FOLD = 512;             /* products of one chain; a multiple of DEEP */
const int WIDE = 4;               /* elements per thread along each axis of a large matrix; else 1 */
const int THREADS_LOG = 4;        /* log2 of the most threads along each axis of a tile */
const int64_t WIDE_FROM = 32;     /* least rows and columns for wide tiles */
const int64_t SHORTEST = 128;     /* of a piece of k */
const int64_t GRID = 256;         /* blocks: if there are fewer tiles, k is cut to get as many */
const int64_t WIDE_GRID = 131072; /* least elements of c for wide tiles */

struct side { /* lines of k numbers: the rows of a, or the columns of b */
    const char *data;
    bt_dtype dtype;
    bool across;               /* numbers adjacent in memory belong to different lines */
    int rank;                  /* of the axes that count matrices */
    int64_t lines, line, deep; /* how many; strides between lines, along k */
    int64_t dims[BT_MAX_RANK], strides[BT_MAX_RANK];
};

struct product { /* c [batch, m, n]: a's lines are its rows, b's its columns */
    side a, b;
    int64_t k, batch;
    int64_t pieces, piece;     /* of k: how many, how long */
    int64_t down, along;       /* tiles of one matrix */
    int rows_log, columns_log; /* threads along each axis of a tile */
    char *sums;                /* [pieces, batch, m, n]; NULL: there is one piece */
    bool shifts, adds, relu;
    bt_view bias, addend, factor, out;
};

static inline __device__ float fused(float x, float y, float sum) { return bt_f32_fma(x, y, sum); }
static inline __device__ double fused(double x, double y, double sum) { return bt_f64_fma(x, y, sum); }

/* Stores element e of c, from its sum. */
template <class T> static inline __device__ void finish(const product &p, int64_t e, T sum)
{
    if (p.shifts)
        sum += bt_get_at<T>(p.bias, e % p.b.lines);
    if (p.adds)
        sum += bt_load<T>(p.factor.dtype, p.factor.data, 0) * bt_get_at<T>(p.addend, e);
    bt_store<T>(p.out.dtype, p.out.data, e, p.relu && sum <= 0 ? 0 : sum);
}

/* ---- tiles ---- */

static inline __device__ int64_t matrix(const side &x, int64_t number)
{
    int64_t at = 0;
    for (int d = x.rank - 1; d >= 0; d--) {
        at += number % x.dims[d] * x.strides[d];
        number /= x.dims[d];
    }
    return at;
}

/* Fills to[DEEP][ROOM] from 1 << log lines, from `line` on, and from k = `from` on; 0 where there are none. */
template <class T, int ROOM>
static inline __device__ void fetch(T *to, const side &x, int64_t start, int64_t line, int log, int64_t from,
                                    int64_t end)
{
    for (int e = (int)threadIdx.x; e < DEEP << log; e += (int)blockDim.x) {
        const int own = x.across ? e & ((1 << log) - 1) : e / DEEP, q = x.across ? e >> log : e % DEEP;
        const bool inside = line + own < x.lines && from + q < end;
        to[q * ROOM + own] =
            inside ? bt_load<T>(x.dtype, x.data, start + (line + own) * x.line + (from + q) * x.deep) : 0;
    }
}

/* A thread's elements are as far apart as there are threads along the axis. */
template <class T, int PER> static __global__ void tiles(const product p)
{
    const int ROOM = (PER << THREADS_LOG) + 1, LOG = PER == 1 ? 0 : 2;
    BT_SHARED(T, a, DEEP * ROOM);
    BT_SHARED(T, b, DEEP * ROOM);
    const int64_t block = blockIdx.x, number = block / p.along / p.down, m = number % p.batch, piece = number / p.batch;
    const int64_t row = (block / p.along % p.down * PER) << p.rows_log, column = (block % p.along * PER)
                                                                                 << p.columns_log;
    const int64_t from = piece * p.piece, end = from + p.piece < p.k ? from + p.piece : p.k;
    const int64_t a_start = matrix(p.a, m), b_start = matrix(p.b, m);
    const int across = 1 << p.columns_log, under = 1 << p.rows_log;
    const int x = (int)threadIdx.x & (across - 1), y = (int)threadIdx.x >> p.columns_log;
    T sums[PER][PER] = {}, chains[PER][PER] = {};

    for (int64_t k = from; k < end; k += DEEP) {
        fetch<T, ROOM>(a, p.a, a_start, row, p.rows_log + LOG, k, end);
        fetch<T, ROOM>(b, p.b, b_start, column, p.columns_log + LOG, k, end);
        __syncthreads();
        for (int q = 0; q < DEEP; q++)
            for (int i = 0; i < PER; i++)
                for (int j = 0; j < PER; j++)
                    chains[i][j] = fused(a[q * ROOM + y + i * under], b[q * ROOM + x + j * across], chains[i][j]);
        __syncthreads();
        if ((k - from) % FOLD != FOLD - DEEP && k + DEEP < end)
            continue;
        for (int i = 0; i < PER; i++)
            for (int j = 0; j < PER; j++) {
                sums[i][j] += chains[i][j];
                chains[i][j] = 0;
            }
    }
    BT_CUDA_UNROLL
    for (int i = 0; i < PER; i++) {
        BT_CUDA_UNROLL
        for (int j = 0; j < PER; j++) {
            const int64_t r = row + y + i * under, c = column + x + j * across, e = (m * p.a.lines + r) * p.b.lines + c;
            if (r >= p.a.lines || c >= p.b.lines)
                continue;
            if (p.sums)
                ((T *)p.sums)[piece * p.batch * p.a.lines * p.b.lines + e] = sums[i][j];
            else
                finish<T>(p, e, sums[i][j]);
        }
    }
}

template <class T> static __global__ void join(const product p)
{
    const int64_t count = p.batch * p.a.lines * p.b.lines;
    BT_CUDA_EACH(e, count)
    {
        double sum = 0;
        for (int64_t piece = 0; piece < p.pieces; piece++)
            sum += (double)((const T *)p.sums)[piece * count + e];
        finish<T>(p, e, (T)sum);
    }
}

/* ---- planning ---- */

static side side_of(const bt_view &view, int line, int deep)
{
    const int64_t stride = view.strides[line], along = view.strides[deep];
    side x = {view.data, view.dtype, stride < along, view.rank - 2, view.dims[line], stride, along, {}, {}};
    for (int d = 0; d < x.rank; d++) {
        x.dims[d] = view.dims[d];
        x.strides[d] = view.strides[d];
    }
    return x;
}

/* Whether c is computed in double, not in float. */
static bool doubles(const bt_call *call) { return call->in[0].dtype == BT_F64; }

static bool wide(const product &p)
{
    const int64_t m = p.a.lines, n = p.b.lines;
    return m >= WIDE_FROM && n >= WIDE_FROM && p.batch * m * n >= WIDE_GRID;
}

static void cut(product &p)
{
    const int64_t most = (wide(p) ? WIDE : 1) << THREADS_LOG;
    const int64_t count = p.batch * bt_over(p.a.lines, most) * bt_over(p.b.lines, most);
    const int64_t worth = count ? GRID / count : 1, fit = p.k / SHORTEST, pieces = worth < fit ? worth : fit;
    p.piece = pieces > 1 ? bt_over(bt_over(p.k, pieces), DEEP) * DEEP : p.k;
    p.pieces = pieces > 1 ? bt_over(p.k, p.piece) : 1;
}

static product product_of(const bt_call *call)
{
    const bool linear = call->op == &bt_op_linear;
    const int row = call->in[0].rank - 2, column = row + 1;
    product p = {};
    p.a = side_of(call->in[0], row, column);
    p.b = linear ? side_of(call->in[1], 0, 1) : side_of(call->in[1], column, row);
    p.k = call->in[0].dims[column];
    p.batch = 1;
    for (int d = 0; d < row; d++)
        p.batch *= call->in[0].dims[d];
    p.out = call->out[0];
    p.adds = call->op == &bt_op_dot_add;
    p.shifts = linear && call->inputs > 2;
    p.relu = linear && ((const bt_linear_attr *)call->attr)->activation;
    if (p.shifts)
        p.bias = call->in[2];
    if (p.adds) {
        p.addend = call->in[2];
        p.factor = call->in[3];
    }
    cut(p);
    return p;
}

/* ---- kernels ---- */

static size_t scratch(const bt_call *call)
{
    const product p = product_of(call);
    const size_t count = (size_t)(p.batch * p.a.lines * p.b.lines);
    return p.pieces > 1 ? (size_t)p.pieces * count * (doubles(call) ? sizeof(double) : sizeof(float)) : 0;
}

template <class T, int PER> static bt_status start(const bt_call *call, product &p)
{
    const unsigned threads = bt_cuda_block(1U << 2 * THREADS_LOG);
    int log = 0;
    while (2U << log <= threads)
        log++;
    p.columns_log = log / 2;
    p.rows_log = log - p.columns_log;
    p.down = bt_over(p.a.lines, (int64_t)PER << p.rows_log);
    p.along = bt_over(p.b.lines, (int64_t)PER << p.columns_log);
    BT_TRY(bt_cuda_launch<product>(call, tiles<T, PER>, p.pieces * p.batch * p.down * p.along, 1U << log, p));
    return p.sums ? bt_cuda_each<product>(call, join<T>, p.batch * p.a.lines * p.b.lines, p) : BT_OK;
}

template <class T> static bt_status run(const bt_call *call, product &p)
{
    return wide(p) ? start<T, WIDE>(call, p) : start<T, 1>(call, p);
}

static bt_status launch(const bt_call *call)
{
    product p = product_of(call);
    p.sums = p.pieces > 1 ? (char *)call->scratch : nullptr;
    return doubles(call) ? run<double>(call, p) : run<float>(call, p);
}

#define TILES(op_name)                                                                                                 \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".tiles", .scratch = scratch, .launch = launch, .plain = true,        \
        .half = true                                                                                                   \
    }

extern "C" const bt_kernel_impl bt_cuda_dot[] = {TILES(dot), TILES(dot_add), TILES(linear), {}};
