/* backend/cuda/direct.cu: convolutions for every dtype, stride, dilation and number of groups: direct kernels for calls
 * that a library does not take. Each is a product of matrices, c [m, n] = a [m, k] b [k, n] for each group. The
 * operands are not stored as matrices; only the places of their elements are computed:
 *
 *                 m               n     k               a    b
 *     conv        images, places  out   window, in      x    w
 *     conv_dx     images, pixels  in    window, out     g    w
 *     conv_dw     window, in      out   images, places  x    g
 *
 * An element of a is a pixel of images. Its y, x and channel are each the sum of a part from the row and a part from k;
 * both parts are linear in the three indices that m and k stand for. The element is 0 outside the image and, for
 * conv_dx, between the places of the window. If there are few blocks, k is cut into pieces, by sizes alone. */
#include "backend/cuda/columns.h"
#include "backend/cuda/stored.h"

/* first + by[0] i + by[1] j + by[2] l */
struct linear {
    int64_t first, by[3];
};

/* m, or k, as three indices: dims[0] x dims[1] x dims[2]. */
struct triple {
    int64_t dims[3];
    linear y, x; /* pixel of a's image, before it is divided by `step` */
    linear a, b; /* offset in a, without that of the pixel; offset in b */
};

struct spot { /* what a row or a column of a adds to y, x and the place */
    int64_t y, x, a;
};

struct step { /* of k */
    spot a;
    int64_t b;
};

struct conv_args {
    const char *a, *b;
    bt_dtype a_dtype, b_dtype, dtype;
    triple m, k;
    int64_t image[2], strides[2], step[2]; /* of a: height and width; between pixels */
    int64_t groups, n, a_group, b_group;   /* elements between groups */
    int64_t b_column, rows, deep;          /* between columns of b; m and k as numbers */
    int across, under;                     /* threads along n and m */
    int64_t pieces, piece;                 /* of k */
    char *sums, *out;                      /* if pieces > 1: [pieces, elements of the output] */
    bt_view bias;                          /* data NULL: there is none */
    bt_tiling tile, joint;
};

static __device__ inline int64_t at(const linear &f, const int64_t *i)
{
    return f.first + f.by[0] * i[0] + f.by[1] * i[1] + f.by[2] * i[2];
}

static __device__ inline step step_at(const triple &t, const int64_t *i)
{
    return {{at(t.y, i), at(t.x, i), at(t.a, i)}, at(t.b, i)};
}

static __device__ inline step step_of(const triple &t, int64_t number)
{
    const int64_t row = number / t.dims[2], i[3] = {row / t.dims[1], row % t.dims[1], number % t.dims[2]};
    return step_at(t, i);
}

/* number / step; negative if there is no such pixel. */
static __device__ inline int64_t divided(int64_t number, int64_t step)
{
    if (step == 1)
        return number;
    return number >= 0 && number % step == 0 ? number / step : -1;
}

template <int D>
static __device__ inline typename bt_computed<D>::T element_of_a(const conv_args &c, int64_t group, const spot &m,
                                                                 const spot &k)
{
    const int64_t y = divided(m.y + k.y, c.step[0]), x = divided(m.x + k.x, c.step[1]);
    if (y < 0 || y >= c.image[0] || x < 0 || x >= c.image[1])
        return 0;
    return bt_load_as<D>(c.a_dtype, c.a, group * c.a_group + m.a + k.a + y * c.strides[0] + x * c.strides[1]);
}

template <int D>
static __device__ inline typename bt_computed<D>::T element_of_b(const conv_args &c, int64_t group, int64_t k,
                                                                 int64_t column)
{
    return bt_load_as<D>(c.b_dtype, c.b, group * c.b_group + k + column * c.b_column);
}

static __device__ inline float fused(float x, float y, float sum) { return bt_f32_fma(x, y, sum); }
static __device__ inline double fused(double x, double y, double sum) { return bt_f64_fma(x, y, sum); }

/* Stores channel `channel` of row m of the output, or of a piece of it. */
template <class T>
static __device__ inline void finish(const conv_args &c, int64_t piece, int64_t m, int64_t channel, T sum)
{
    const int64_t channels = c.groups * c.n, e = m * channels + channel;
    if (c.pieces > 1)
        ((T *)c.sums)[piece * c.rows * channels + e] = sum;
    else
        bt_store<T>(c.dtype, c.out, e, c.bias.data ? sum + bt_get_at<T>(c.bias, channel) : sum);
}

/* ---- tiles: 4 x 4 adjacent elements per thread ---- */

const int DEEP = 16;  /* of k, in shared memory at a time */
const int PER = 4;    /* elements per thread along each axis */
const int ROWS = 256; /* of a tile, at most */
const int COLUMNS = 64;
const int FOLD = 512; /* products of one chain */

template <class T> struct alignas(16) quad {
    T at[PER];
};

/* Fills to[DEEP][room] from a; rows: the places of its rows. Adjacent threads load adjacent elements along k, or along
 * m. */
template <int D, class T = typename bt_computed<D>::T>
static __device__ inline void fetch_a(const conv_args &c, int64_t group, const spot *rows, const step *deep, int count,
                                      bool along_k, T *to)
{
    const int tall = PER * c.under, room = tall + PER;
    for (int e = (int)threadIdx.x; e < tall * DEEP; e += (int)blockDim.x) {
        const int q = along_k ? e % DEEP : e / tall, row = along_k ? e / DEEP : e % tall;
        to[q * room + row] = q < count ? element_of_a<D>(c, group, rows[row], deep[q].a) : (T)0;
    }
}

template <int D, class T = typename bt_computed<D>::T>
static __device__ inline void fetch_b(const conv_args &c, int64_t group, int64_t column, const step *deep, int count,
                                      T *to)
{
    const int wide = PER * c.across, room = wide + PER;
    const bool along_k = c.b_column != 1;
    for (int e = (int)threadIdx.x; e < wide * DEEP; e += (int)blockDim.x) {
        const int q = along_k ? e % DEEP : e / wide, own = along_k ? e / DEEP : e % wide;
        to[q * room + own] =
            q < count && column + own < c.n ? element_of_b<D>(c, group, deep[q].b, column + own) : (T)0;
    }
}

template <class T>
static __device__ inline void multiply(const conv_args &c, const quad<T> *a, const quad<T> *b, T (*sums)[PER])
{
    const int x = (int)threadIdx.x % c.across, y = (int)threadIdx.x / c.across;
    for (int q = 0; q < DEEP; q++) {
        const quad<T> own = a[q * (c.under + 1) + y], other = b[q * (c.across + 1) + x];
        BT_CUDA_UNROLL
        for (int i = 0; i < PER; i++) {
            BT_CUDA_UNROLL
            for (int j = 0; j < PER; j++)
                sums[i][j] = fused(own.at[i], other.at[j], sums[i][j]);
        }
    }
}

template <class T> static __device__ inline void fold(T (*sums)[PER], T (*chains)[PER])
{
    BT_CUDA_UNROLL
    for (int i = 0; i < PER; i++) {
        BT_CUDA_UNROLL
        for (int j = 0; j < PER; j++) {
            sums[i][j] += chains[i][j];
            chains[i][j] = 0;
        }
    }
}

/* A block: a tile of the output of a group, from a piece of k. */
template <int D> static __global__ void tiles(const conv_args c)
{
    typedef typename bt_computed<D>::T T;
    BT_SHARED(quad<T>, a, DEEP * (ROWS / PER + 1));
    BT_SHARED(quad<T>, b, DEEP * (COLUMNS / PER + 1));
    BT_SHARED(spot, rows, ROWS);
    BT_SHARED(step, deep, DEEP);
    const int64_t along = bt_over(c.n, PER * c.across), unit = blockIdx.x / along,
                  row = unit % c.tile.tiles * PER * c.under;
    const int64_t column = blockIdx.x % along * PER * c.across, piece = unit / c.tile.tiles % c.pieces;
    const int64_t group = unit / c.tile.tiles / c.pieces, from = piece * c.piece;
    const int64_t end = from + c.piece < c.deep ? from + c.piece : c.deep;
    T sums[PER][PER] = {}, chains[PER][PER] = {};

    for (int i = (int)threadIdx.x; i < PER * c.under; i += (int)blockDim.x)
        rows[i] = step_of(c.m, row + i < c.rows ? row + i : c.rows - 1).a;
    for (int64_t k = from; k < end; k += DEEP) {
        const int count = (int)(end - k < DEEP ? end - k : DEEP);
        for (int q = (int)threadIdx.x; q < count; q += (int)blockDim.x)
            deep[q] = step_of(c.k, k + q);
        __syncthreads();
        fetch_a<D>(c, group, rows, deep, count, c.k.a.by[2] == 1, (T *)a);
        fetch_b<D>(c, group, column, deep, count, (T *)b);
        __syncthreads();
        multiply<T>(c, a, b, chains);
        if ((k - from) % FOLD == FOLD - DEEP || k + DEEP >= end)
            fold<T>(sums, chains);
    }
    const int64_t first = row + (int)threadIdx.x / c.across * PER, left = column + (int)threadIdx.x % c.across * PER;
    BT_CUDA_UNROLL
    for (int i = 0; i < PER; i++) {
        BT_CUDA_UNROLL
        for (int j = 0; j < PER; j++)
            if (first + i < c.rows && left + j < c.n)
                finish<T>(c, piece, first + i, group * c.n + left + j, sums[i][j]);
    }
}

/* ---- groups of few channels ---- */

/* A thread: an element of the output of conv or conv_dx. */
template <int D> static __global__ void elements(const conv_args c)
{
    typedef typename bt_computed<D>::T T;
    const int64_t channels = c.groups * c.n;
    BT_CUDA_EACH(e, c.rows * channels)
    {
        const int64_t channel = e % channels, group = channel / c.n;
        const spot m = step_of(c.m, e / channels).a;
        int64_t i[3];
        T total = 0;
        for (i[0] = 0; i[0] < c.k.dims[0]; i[0]++)
            for (i[1] = 0; i[1] < c.k.dims[1]; i[1]++) {
                T sum = 0;
                for (i[2] = 0; i[2] < c.k.dims[2]; i[2]++) {
                    const step k = step_at(c.k, i);
                    sum = fused(element_of_a<D>(c, group, m, k.a), element_of_b<D>(c, group, k.b, channel % c.n), sum);
                }
                total += sum;
            }
        finish<T>(c, 0, e / channels, channel, total);
    }
}

/* A block: some channels of a row of the output of conv_dw, from a piece of k. */
template <int D> static __global__ void sums_over_images(const conv_args c)
{
    typedef typename bt_computed<D>::T T;
    BT_SHARED(bt_partial_sum, sums, BT_CUDA_THREADS);
    const bt_place p = bt_place_of(c.tile, blockIdx.x % c.tile.tiles);
    const int64_t unit = blockIdx.x / c.tile.tiles, piece = unit % c.pieces, row = unit / c.pieces,
                  group = p.channel / c.n;
    const int64_t end = (piece + 1) * c.piece < c.deep ? (piece + 1) * c.piece : c.deep;
    const spot m = step_of(c.m, row).a;
    double sum = 0;
    for (int64_t i = piece * c.piece + p.lane; i < end && p.works; i += c.tile.lanes) {
        const step k = step_of(c.k, i);
        sum += (double)element_of_a<D>(c, group, m, k.a) * (double)element_of_b<D>(c, group, k.b, p.channel % c.n);
    }
    sums[threadIdx.x] = {sum};
    bt_join_lanes<bt_partial_sum>(sums, c.tile, p);
    if (p.works && p.lane == 0)
        finish<T>(c, piece, row, p.channel, (T)sums[threadIdx.x].sum);
}

/* ---- pieces ---- */

/* A block: some elements of the output, `channels` of one row. */
template <class T> static __global__ void join_pieces(const conv_args c)
{
    BT_SHARED(bt_partial_sum, sums, BT_CUDA_THREADS);
    const bt_place p = bt_place_of(c.joint, blockIdx.x);
    const T *partial = (const T *)c.sums + p.channel;
    double sum = 0;
    for (int64_t piece = p.lane; piece < c.pieces && p.works; piece += c.joint.lanes)
        sum += (double)partial[piece * c.joint.channels];
    sums[threadIdx.x] = {sum};
    bt_join_lanes<bt_partial_sum>(sums, c.joint, p);
    if (!p.works || p.lane)
        return;
    sum = sums[threadIdx.x].sum + (c.bias.data ? bt_get_at<double>(c.bias, p.channel % (c.groups * c.n)) : 0);
    bt_store<double>(c.dtype, c.out, p.channel, sum);
}

/* ---- planning ---- */

struct operands { /* one of them is the output */
    const bt_view *x, *w, *g;
};

static operands operands_of(const bt_call *call)
{
    if (call->op == &bt_op_conv_dx)
        return {&call->out[0], &call->in[1], &call->in[0]};
    if (call->op == &bt_op_conv_dw)
        return {&call->in[0], &call->out[0], &call->in[1]};
    return {&call->in[0], &call->in[1], &call->out[0]};
}

/* k, or m of conv_dw: a window and channels of images, which are `a` apart; b: their strides in b. */
static triple window_of(const bt_conv_attr *attr, const operands &o, int64_t sign, int64_t channels, int64_t a,
                        const int64_t *b)
{
    return {{o.w->dims[0], o.w->dims[1], channels},
            {0, {sign * attr->dilation[0], 0, 0}},
            {0, {0, sign * attr->dilation[1], 0}},
            {0, {0, 0, a}},
            {0, {b[0], b[1], b[2]}}};
}

/* m, or k of conv_dw: the pixels of images, which are `scale` pixels apart in a's images. */
static triple images_of(const bt_view &images, const int64_t *scale, int64_t a, const int64_t *b)
{
    return {{images.dims[0], images.dims[1], images.dims[2]},
            {0, {0, scale[0], 0}},
            {0, {0, 0, scale[1]}},
            {0, {a, 0, 0}},
            {0, {b[0], b[1], b[2]}}};
}

static void set_a(conv_args *c, const bt_view &a, int64_t channels)
{
    c->a = a.data;
    c->a_dtype = a.dtype;
    c->a_group = channels * a.strides[3];
    for (int i = 0; i < 2; i++) {
        c->image[i] = a.dims[1 + i];
        c->strides[i] = a.strides[1 + i];
        c->step[i] = 1;
    }
}

static void set_b(conv_args *c, const bt_view &b, int64_t channels, int64_t column)
{
    c->b = b.data;
    c->b_dtype = b.dtype;
    c->b_group = channels * b.strides[3];
    c->b_column = column;
}

/* The convolution as a product. */
static conv_args product_of(const bt_call *call)
{
    static const int64_t none[3] = {}, one[2] = {1, 1};
    const bt_conv_attr *attr = (const bt_conv_attr *)call->attr;
    const operands o = operands_of(call);
    const int64_t inner = o.w->dims[2], outer = o.w->dims[3] / attr->groups, *w = o.w->strides, *g = o.g->strides;
    const int64_t by_in[] = {w[0], w[1], w[2]}, by_out[] = {w[0], w[1], w[3]};
    conv_args c = {};
    int64_t shift = -1; /* of the pixels from m and k, in units of the padding */
    c.groups = attr->groups;
    c.n = outer;
    if (call->op == &bt_op_conv_dx) {
        set_a(&c, *o.g, outer);
        set_b(&c, *o.w, outer, w[2]);
        c.m = images_of(*o.x, one, g[0], none);
        c.k = window_of(attr, o, -1, outer, g[3], by_out);
        c.step[0] = attr->stride[0];
        c.step[1] = attr->stride[1];
        c.n = inner;
        shift = 1;
    } else if (call->op == &bt_op_conv_dw) {
        set_a(&c, *o.x, inner);
        set_b(&c, *o.g, outer, g[3]);
        c.m = window_of(attr, o, 1, inner, o.x->strides[3], none);
        c.k = images_of(*o.g, attr->stride, o.x->strides[0], g);
    } else {
        set_a(&c, *o.x, inner);
        set_b(&c, *o.w, outer, w[3]);
        c.m = images_of(*o.g, attr->stride, o.x->strides[0], none);
        c.k = window_of(attr, o, 1, inner, o.x->strides[3], by_in);
    }
    c.m.y.first = shift * attr->padding[0];
    c.m.x.first = shift * attr->padding[1];
    c.rows = c.m.dims[0] * c.m.dims[1] * c.m.dims[2];
    c.deep = c.k.dims[0] * c.k.dims[1] * c.k.dims[2];
    return c;
}

const int64_t NARROW = 8;     /* groups of fewer columns use no tiles */
const int64_t SHORTEST = 256; /* piece of k */
const int64_t BLOCKS = 512;   /* blocks: if there are fewer tiles, k is cut to get as many */
const int64_t MOST_PIECES = 512;

static bool tiled(const conv_args &c) { return c.groups == 1 || c.n >= NARROW; }

static int64_t blocks_of(const conv_args &c)
{
    if (tiled(c))
        return c.tile.tiles * bt_over(c.n, PER * c.across) * c.groups;
    return c.tile.tiles * c.rows;
}

/* Plans tiles and pieces. In the kernel `elements`, each element has its own thread. */
static conv_args plan_of(const bt_call *call)
{
    const int threads = (int)bt_cuda_block(BT_CUDA_THREADS);
    conv_args c = product_of(call);
    const int across = c.n > 32 ? 16 : c.n > 16 ? 8 : 4;
    const int64_t count = c.rows * c.groups * c.n;
    c.across = across < threads ? across : threads;
    c.under = threads / c.across;
    c.pieces = 1;
    c.tile = bt_tiling_of(c.groups * c.n, 64);
    if (tiled(c))
        c.tile.tiles = bt_over(c.rows, PER * c.under);
    if (count && (tiled(c) || call->op == &bt_op_conv_dw)) {
        const int64_t wanted = BLOCKS / blocks_of(c), useful = c.deep / SHORTEST,
                      least = wanted < useful ? wanted : useful;
        c.pieces = least < 1 ? 1 : least < MOST_PIECES ? least : MOST_PIECES;
    }
    c.piece = bt_over(bt_over(c.deep, c.pieces), DEEP) * DEEP;
    c.joint = bt_tiling_of(count, c.pieces < 64 ? 64 : 8);
    return c;
}

static int stored(const bt_call *call) { return bt_stored(call, 2); }

static size_t scratch(const bt_call *call)
{
    const conv_args c = plan_of(call);
    const size_t size = stored(call) == BT_ANY ? sizeof(double) : sizeof(float);
    return c.pieces > 1 ? (size_t)(c.pieces * c.rows * c.groups * c.n) * size : 0;
}

template <int D> static bt_status start(const bt_call *call)
{
    typedef typename bt_computed<D>::T T;
    conv_args c = plan_of(call);
    c.out = call->out[0].data;
    c.dtype = call->out[0].dtype;
    c.sums = (char *)call->scratch;
    if (call->inputs > 2)
        c.bias = call->in[2];
    if (c.rows * c.groups * c.n == 0)
        return BT_OK;
    if (tiled(c))
        BT_TRY(bt_cuda_launch<conv_args>(call, tiles<D>, blocks_of(c) * c.pieces, BT_CUDA_THREADS, c));
    else if (call->op == &bt_op_conv_dw)
        BT_TRY(bt_cuda_launch<conv_args>(call, sums_over_images<D>, blocks_of(c) * c.pieces, BT_CUDA_THREADS, c));
    else
        BT_TRY(bt_cuda_each<conv_args>(call, elements<D>, c.rows * c.groups * c.n, c));
    if (c.pieces > 1)
        BT_TRY(bt_cuda_launch<conv_args>(call, join_pieces<T>, c.joint.tiles, BT_CUDA_THREADS, c));
    return BT_OK;
}

static bt_status launch(const bt_call *call) { return BT_STORED(stored(call), start, call); }

#define CONV(op_name)                                                                                                  \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".direct.cuda", .accepts = bt_all_floats, .scratch = scratch,         \
        .launch = launch, .half = true                                                                                 \
    }

extern "C" const bt_kernel_impl bt_cuda_direct[] = {
    CONV(conv), CONV(conv_dx), CONV(conv_dw), CONV(conv_bias), {},
};
