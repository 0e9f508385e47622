/* backend/cuda/linalg.cu: solve and logdet by elimination with row exchanges, in double precision: one block per
 * matrix. It exchanges the same rows as the CPU. */
#include "backend/cuda/columns.h"

extern "C" {
#include "backend/cpu/reference.h"
}

struct linalg_args {
    bt_view a, b, out; /* b: for solve */
    int64_t matrices, n, m;
    char *rows; /* per block: n rows of n numbers of a and m of b */
    bt_cuda_record *record;
    int64_t site;
};

/* Where a column is largest; the first among equals. A NaN is never chosen, but stays if it is already in the pivot's
 * place. */
struct largest {
    double value;
    int64_t row;
    static __device__ largest joined(const largest &x, const largest &y)
    {
        return y.value > x.value || (y.value >= x.value && y.row < x.row) ? y : x;
    }
};

static __device__ inline void load(const linalg_args &l, int64_t matrix, double *rows)
{
    const int64_t n = l.n, wide = n + l.m;
    for (int64_t e = threadIdx.x; e < n * n; e += blockDim.x)
        rows[e / n * wide + e % n] = bt_get_at<double>(l.a, matrix * n * n + e);
    for (int64_t e = threadIdx.x; e < n * l.m; e += blockDim.x)
        rows[e / l.m * wide + n + e % l.m] = bt_get_at<double>(l.b, matrix * n * l.m + e);
    __syncthreads();
}

/* The row whose k-th number is the pivot. */
static __device__ inline int64_t pivot_of(const double *rows, int64_t n, int64_t wide, int64_t k, largest *found)
{
    largest best = {-1, n};
    for (int64_t i = k + threadIdx.x; i < n; i += blockDim.x) {
        const double size = fabs(rows[i * wide + k]);
        const largest here = {size == size ? size : i == k ? (double)INFINITY : -1, i};
        best = largest::joined(best, here);
    }
    found[threadIdx.x] = best;
    bt_join_threads<largest>(found);
    return found[0].row;
}

static __device__ inline void exchange(double *rows, int64_t wide, int64_t row, int64_t other)
{
    for (int64_t j = threadIdx.x; j < wide && row != other; j += blockDim.x) {
        const double kept = rows[row * wide + j];
        rows[row * wide + j] = rows[other * wide + j];
        rows[other * wide + j] = kept;
    }
    __syncthreads();
}

/* Subtracts multiples of row k from the rows after it. The numbers of a below the pivot would become 0, but are not
 * read again, so they are not written. */
static __device__ inline void subtract(double *rows, int64_t n, int64_t wide, int64_t k)
{
    const int across = blockDim.x < 32 ? (int)blockDim.x : 32, under = (int)blockDim.x / across;
    const int x = (int)threadIdx.x % across, y = (int)threadIdx.x / across;
    for (int64_t i = k + 1 + y; i < n && y < under; i += under) {
        const double factor = rows[i * wide + k] / rows[k * wide + k];
        for (int64_t j = k + 1 + x; j < wide; j += across)
            rows[i * wide + j] -= factor * rows[k * wide + j];
    }
    __syncthreads();
}

/* Makes a upper triangular and applies the same steps to b. False: it met a column of zeros. All threads get the same
 * result. */
static __device__ inline bool eliminate(double *rows, int64_t n, int64_t wide, largest *found)
{
    for (int64_t k = 0; k < n; k++) {
        exchange(rows, wide, k, pivot_of(rows, n, wide, k, found));
        const double pivot = rows[k * wide + k];
        if (pivot >= 0 && pivot <= 0) /* NaN counts as regular */
            return false;
        subtract(rows, n, wide, k);
    }
    return true;
}

/* Back substitution: subtracts each solved row of b from the rows above it. */
static __device__ inline void substitute(double *rows, int64_t n, int64_t m)
{
    const int64_t wide = n + m;
    for (int64_t i = n - 1; i >= 0; i--) {
        for (int64_t j = threadIdx.x; j < m; j += blockDim.x)
            rows[i * wide + n + j] /= rows[i * wide + i];
        __syncthreads();
        for (int64_t e = threadIdx.x; e < i * m; e += blockDim.x)
            rows[e / m * wide + n + e % m] -= rows[e / m * wide + i] * rows[i * wide + n + e % m];
        __syncthreads();
    }
}

static __global__ void solve_each(const linalg_args l)
{
    BT_SHARED(largest, found, BT_CUDA_THREADS);
    const int64_t n = l.n, m = l.m, wide = n + m;
    double *rows = (double *)l.rows + blockIdx.x * n * wide;
    for (int64_t matrix = blockIdx.x; matrix < l.matrices; matrix += gridDim.x) {
        load(l, matrix, rows);
        if (eliminate(rows, n, wide, found))
            substitute(rows, n, m);
        else if (threadIdx.x == 0)
            bt_cuda_fail(l.record, l.site, matrix, 0);
        for (int64_t e = threadIdx.x; e < n * m; e += blockDim.x)
            bt_store<double>(l.out.dtype, l.out.data, matrix * n * m + e, rows[e / m * wide + n + e % m]);
        __syncthreads();
    }
}

/* Minus infinity for a singular matrix. */
static __global__ void logdet_each(const linalg_args l)
{
    BT_SHARED(largest, found, BT_CUDA_THREADS);
    BT_SHARED(bt_partial_sum, sums, BT_CUDA_THREADS);
    double *rows = (double *)l.rows + blockIdx.x * l.n * l.n;
    for (int64_t matrix = blockIdx.x; matrix < l.matrices; matrix += gridDim.x) {
        load(l, matrix, rows);
        const bool regular = eliminate(rows, l.n, l.n, found);
        double sum = 0;
        for (int64_t k = threadIdx.x; k < l.n && regular; k += blockDim.x)
            sum += log(fabs(rows[k * l.n + k]));
        sums[threadIdx.x] = {sum};
        bt_join_threads<bt_partial_sum>(sums);
        if (threadIdx.x == 0)
            bt_store<double>(l.out.dtype, l.out.data, matrix, regular ? sums[0].sum : -(double)INFINITY);
        __syncthreads();
    }
}

/* ---- planning ---- */

const int64_t BLOCKS = 512; /* at a time: each has its own room */

static linalg_args args_of(const bt_call *call)
{
    linalg_args l = {};
    const bt_view *a = &call->in[0];
    l.a = *a;
    l.out = call->out[0];
    l.rows = (char *)call->scratch;
    l.n = a->dims[a->rank - 1];
    l.matrices = 1;
    for (int d = 0; d < a->rank - 2; d++)
        l.matrices *= a->dims[d];
    if (call->inputs > 1) {
        l.b = call->in[1];
        l.m = l.b.dims[l.b.rank - 1];
        l.matrices = l.m ? l.matrices : 0;
    }
    return l;
}

static int64_t blocks_of(const linalg_args &l) { return l.matrices < BLOCKS ? l.matrices : BLOCKS; }

static size_t scratch(const bt_call *call)
{
    const linalg_args l = args_of(call);
    return (size_t)(blocks_of(l) * l.n * (l.n + l.m)) * sizeof(double);
}

static bt_status tell_singular(const bt_cuda_site *, int64_t matrix) { return bt_cpu_singular(matrix); }

static bt_status solve(const bt_call *call)
{
    bt_cuda_queue *queue = (bt_cuda_queue *)call->queue;
    linalg_args l = args_of(call);
    l.record = queue->record;
    l.site = bt_cuda_watch_as(queue, call, tell_singular);
    if (l.site < 0)
        return bt_error_status();
    return bt_cuda_launch<linalg_args>(call, solve_each, blocks_of(l), BT_CUDA_THREADS, l);
}

static bt_status logdet(const bt_call *call)
{
    const linalg_args l = args_of(call);
    return bt_cuda_launch<linalg_args>(call, logdet_each, blocks_of(l), BT_CUDA_THREADS, l);
}

#define LINALG(op_name)                                                                                                \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".cuda", .scratch = scratch, .launch = op_name, .half = true          \
    }

extern "C" const bt_kernel_impl bt_cuda_linalg[] = {LINALG(solve), LINALG(logdet), {}};
