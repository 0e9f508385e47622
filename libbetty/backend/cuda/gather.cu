/* backend/cuda/gather.cu: gather and its adjoint scatter_add; one_hot. */
#include "backend/cuda/lines.h"

/* A row of x along its first axis. */
static bt_view row_of(const bt_view *x)
{
    bt_view row = {.data = x->data, .dtype = x->dtype, .rank = x->rank - 1};
    for (int d = 1; d < x->rank; d++) {
        row.dims[d - 1] = x->dims[d];
        row.strides[d - 1] = x->strides[d];
    }
    return row;
}

typedef struct indices {
    bt_view view;
    bt_cuda_record *record;
    int64_t site, size; /* each index must be below the size */
} indices;

static bt_status watch(const bt_call *call, const bt_view *view, int64_t size, indices *to)
{
    bt_cuda_queue *queue = (bt_cuda_queue *)call->queue;
    *to = {*view, queue->record, bt_cuda_watch(queue, call, view, size), size};
    return to->site < 0 ? BT_ERROR_MEMORY : BT_OK;
}

/* Index k; -1: it is out of range, and a failure is recorded. */
static inline __device__ int64_t index_at(const indices &from, int64_t k)
{
    const int64_t index = bt_get_at<int64_t>(from.view, k);
    return index == bt_cuda_index(from.record, from.site, k, index, from.size) ? index : -1;
}

/* ---- gather ---- */

typedef struct gathering {
    indices index;
    bt_lines<1> row;    /* of x, row 0; to the output */
    int64_t step, work; /* between rows of x; the output's elements, or the number of indices if rows are empty */
} gathering;

template <class T> static __global__ void gather_moved(const gathering g)
{
    const int64_t width = g.row.n ? g.row.n : 1;
    BT_CUDA_EACH(i, g.work)
    {
        const int64_t from = index_at(g.index, i / width);
        int64_t at;
        if (from < 0 || !g.row.n)
            continue;
        bt_lines_at<1>(g.row, i % width, &at);
        ((T *)g.row.out)[i] = ((const T *)g.row.in[0].data)[from * g.step + at];
    }
}

/* One of the two is stored in 16 bits. */
static __global__ void gather_stored(const gathering g)
{
    const int64_t width = g.row.n ? g.row.n : 1;
    BT_CUDA_EACH(i, g.work)
    {
        const int64_t from = index_at(g.index, i / width);
        int64_t at;
        if (from < 0 || !g.row.n)
            continue;
        bt_lines_at<1>(g.row, i % width, &at);
        bt_store<float>(g.row.dtype, g.row.out, i,
                        bt_load<float>(g.row.in[0].dtype, g.row.in[0].data, from * g.step + at));
    }
}

static bt_status gather(const bt_call *call)
{
    const bt_view *x = &call->in[0], row = row_of(x);
    gathering g = {.row = bt_lines_of<1>(&row, &call->out[0]), .step = x->strides[0]};
    BT_TRY(watch(call, &call->in[1], x->dims[0], &g.index));
    g.work = bt_cpu_count(&call->in[1]) * (g.row.n ? g.row.n : 1);
    const size_t size = bt_dtype_size(g.row.dtype);
    void (*const kernel)(const gathering) = g.row.in[0].dtype != g.row.dtype ? gather_stored
                                            : size == 1                      ? gather_moved<uint8_t>
                                            : size == 2                      ? gather_moved<uint16_t>
                                            : size == 4                      ? gather_moved<uint32_t>
                                                                             : gather_moved<uint64_t>;
    return bt_cuda_each<gathering>(call, kernel, g.work, g);
}

/* ---- scatter_add: a block has some rows and columns of the result. It lists what is added to them, in order, and adds
 * in that order; each element belongs to one thread. If that makes few blocks, each has only a piece of the indices,
 * and the pieces' sums are added at the end. ---- */

const int64_t ROWS = 64;         /* of the result, in a block */
const int64_t COLUMNS = 1024;    /* of the result, in a block, at most */
const unsigned CHUNK = 1024;     /* indices that are read together */
const int LIST = 2048;           /* most indices of a block before they are added */
const int64_t PIECE = 2048;      /* indices of a piece, at least */
const int64_t ENOUGH = 128;      /* blocks */
const int64_t SCRATCH = 1 << 24; /* bytes, at most */
const uint8_t ELSEWHERE = 255;

typedef struct scattering {
    indices index;
    bt_lines<1> row; /* of the values, row 0; to the output */
    char *sums;      /* the output, or the sums of piece 0 */
    int64_t step;    /* between rows of the values */
    int64_t count, rows, width;
    int64_t groups, chunks, pieces; /* of rows, columns, indices */
} scattering;

typedef struct own { /* what a block has */
    int64_t row, column, rows, columns, from, to;
    char *sums; /* from element `row`, `column` on */
} own;

template <class T> static inline __device__ own own_of(const scattering &s)
{
    const int64_t group = blockIdx.x % s.groups, chunk = blockIdx.x / s.groups % s.chunks;
    const int64_t piece = blockIdx.x / s.groups / s.chunks, length = (s.count + s.pieces - 1) / s.pieces;
    own o = {.row = group * ROWS, .column = chunk * COLUMNS, .from = piece * length};
    o.rows = s.rows - o.row < ROWS ? s.rows - o.row : ROWS;
    o.columns = s.width - o.column < COLUMNS ? s.width - o.column : COLUMNS;
    o.to = s.count - o.from < length ? s.count : o.from + length;
    o.sums = (char *)((T *)s.sums + (piece * s.rows + o.row) * s.width + o.column);
    return o;
}

/* For each index of a chunk: which of the block's rows it is. */
static inline __device__ void look(const scattering &s, const own &o, int64_t from, uint8_t *near)
{
    for (unsigned t = threadIdx.x; t < CHUNK; t += blockDim.x) {
        const int64_t row = from + t < o.to ? index_at(s.index, from + t) - o.row : -1;
        near[t] = row >= 0 && row < o.rows ? (uint8_t)row : ELSEWHERE;
    }
    __syncthreads();
}

/* Appends the chunk's indices in the block's rows to the list, in order: k ROWS + row. Returns the new length. */
static inline __device__ int append(int64_t *list, int listed, const uint8_t *near, int64_t from, int *counts)
{
    const unsigned me = threadIdx.x, run = (CHUNK + blockDim.x - 1) / blockDim.x;
    const unsigned begin = me * run, end = begin + run < CHUNK ? begin + run : CHUNK;
    int mine = 0;
    for (unsigned t = begin; t < end; t++)
        mine += near[t] != ELSEWHERE;
    counts[me] = mine;
    __syncthreads();
    for (unsigned step = 1; step < blockDim.x; step *= 2) {
        const int before = me >= step ? counts[me - step] : 0;
        __syncthreads();
        counts[me] += before;
        __syncthreads();
    }
    int at = listed + counts[me] - mine;
    for (unsigned t = begin; t < end; t++)
        if (near[t] != ELSEWHERE)
            list[at++] = (from + t) * ROWS + near[t];
    listed += counts[blockDim.x - 1];
    __syncthreads();
    return listed;
}

/* Threads run along the columns, in several lines if these are few; each row belongs to one line. */
template <class T> static inline __device__ void add(const scattering &s, const own &o, const int64_t *list, int listed)
{
    const unsigned across = o.columns < blockDim.x ? (unsigned)o.columns : blockDim.x;
    const unsigned lines = across ? blockDim.x / across : 0, line = across ? threadIdx.x / across : 0;
    const T *__restrict__ values = (const T *)s.row.in[0].data;
    T *__restrict__ sums = (T *)o.sums;
    for (int64_t c = line < lines ? threadIdx.x % across : o.columns; c < o.columns; c += across) {
        int64_t at;
        bt_lines_at<1>(s.row, o.column + c, &at);
        for (int m = 0; m < listed; m++) {
            const unsigned row = (unsigned)(list[m] % ROWS);
            if (row % lines == line)
                sums[row * s.width + c] += values[list[m] / ROWS * s.step + at];
        }
    }
    __syncthreads();
}

template <class T> static __global__ void scatter(const scattering s)
{
    BT_SHARED(int64_t, list, LIST);
    BT_SHARED(uint8_t, near, CHUNK);
    BT_SHARED(int, counts, BT_CUDA_THREADS);
    const own o = own_of<T>(s);
    int listed = 0;
    for (int64_t i = threadIdx.x; i < o.rows * o.columns; i += blockDim.x)
        ((T *)o.sums)[i / o.columns * s.width + i % o.columns] = 0;
    __syncthreads();
    for (int64_t from = o.from; from < o.to; from += CHUNK) {
        look(s, o, from, near);
        listed = append(list, listed, near, from, counts);
        if (listed > LIST - (int)CHUNK || from + CHUNK >= o.to) {
            add<T>(s, o, list, listed);
            listed = 0;
        }
    }
}

template <class T> static __global__ void add_pieces(const scattering s)
{
    const int64_t n = s.rows * s.width;
    BT_CUDA_EACH(i, n)
    {
        const T *part = (const T *)s.sums + i;
        T sum = part[0];
        for (int64_t p = 1; p < s.pieces; p++)
            sum += part[p * n];
        ((T *)s.row.out)[i] = sum;
    }
}

static int64_t parts(int64_t n, int64_t size) { return n > 0 ? bt_over(n, size) : 1; }

/* The plan depends on sizes alone. */
static scattering scattering_of(const bt_call *call)
{
    const bt_view *values = &call->in[1], *out = &call->out[0], row = row_of(values);
    scattering s = {.row = bt_lines_of<1>(&row, out), .sums = out->data, .step = values->strides[0]};
    s.count = values->dims[0];
    s.rows = out->dims[0];
    s.width = s.row.n;
    s.groups = parts(s.rows, ROWS);
    s.chunks = parts(s.width, COLUMNS);
    const int64_t blocks = s.groups * s.chunks, bytes = s.rows * s.width * (int64_t)bt_dtype_size(out->dtype);
    const int64_t by_count = s.count / PIECE, by_blocks = ENOUGH / blocks, by_bytes = bytes ? SCRATCH / bytes : 1;
    const int64_t some = by_count < by_blocks ? by_count : by_blocks;
    s.pieces = some < by_bytes ? some : by_bytes;
    s.pieces = s.pieces > 1 ? s.pieces : 1;
    return s;
}

static size_t scatter_scratch(const bt_call *call)
{
    const scattering s = scattering_of(call);
    return s.pieces > 1 ? (size_t)(s.pieces * s.rows * s.width) * bt_dtype_size(call->out[0].dtype) : 0;
}

template <class T> static bt_status scatter_as(const bt_call *call)
{
    scattering s = scattering_of(call);
    BT_TRY(watch(call, &call->in[0], s.rows, &s.index));
    if (s.pieces > 1)
        s.sums = (char *)call->scratch;
    BT_TRY(bt_cuda_launch<scattering>(call, scatter<T>, s.groups * s.chunks * s.pieces, BT_CUDA_THREADS, s));
    return s.pieces > 1 ? bt_cuda_each<scattering>(call, add_pieces<T>, s.rows * s.width, s) : BT_OK;
}

static bool scatter_accepts(const bt_call *call)
{
    const bt_dtype dtype = call->out[0].dtype;
    return (dtype == BT_F32 || dtype == BT_F64) && call->in[1].dtype == dtype;
}

static bt_status scatter_add(const bt_call *call)
{
    return call->out[0].dtype == BT_F32 ? scatter_as<float>(call) : scatter_as<double>(call);
}

/* ---- one_hot ---- */

typedef struct hot {
    indices label;
    char *out;
    bt_dtype dtype;
    int64_t work; /* the output's elements, or the number of labels without classes */
} hot;

static __global__ void one_hot_kernel(const hot h)
{
    const int64_t classes = h.label.size ? h.label.size : 1;
    BT_CUDA_EACH(i, h.work)
    {
        const int64_t label = index_at(h.label, i / classes);
        if (h.label.size)
            bt_store<float>(h.dtype, h.out, i, label == i % classes ? 1.0F : 0.0F);
    }
}

static bt_status one_hot(const bt_call *call)
{
    const bt_view *out = &call->out[0];
    const int64_t classes = ((const bt_one_hot_attr *)call->attr)->classes;
    hot h = {.out = out->data, .dtype = out->dtype};
    BT_TRY(watch(call, &call->in[0], classes, &h.label));
    h.work = bt_cpu_count(&call->in[0]) * (classes ? classes : 1);
    return bt_cuda_each<hot>(call, one_hot_kernel, h.work, h);
}

extern "C" const bt_kernel_impl bt_cuda_gather[] = {
    BT_CUDA_KERNEL(gather, gather),
    {.op = &bt_op_scatter_add,
     .name = "scatter_add.cuda",
     .accepts = scatter_accepts,
     .scratch = scatter_scratch,
     .launch = scatter_add},
    BT_CUDA_KERNEL(one_hot, one_hot),
    {},
};
