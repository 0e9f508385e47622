/* backend/cuda/eight.cu: numbers in 8 bits, and updates with such states. A block of threads finds the largest of a
 * block of 256 numbers, and decodes, updates and encodes them. */
#include "backend/cuda/update.h"

extern "C" {
#include "ops/codes.h"
}

static inline __device__ void fill(bt_code_book *book, bool positive)
{
    book->positive = positive;
    for (int code = (int)threadIdx.x; code < BT_CODES; code += (int)blockDim.x) {
        const double value = bt_code_value(code, positive);
        book->value[code] = value;
        book->middle[code] =
            code + 1 < BT_CODES ? (value + bt_code_value(code + 1, positive)) / 2 : (double)__builtin_inf();
    }
    __syncthreads();
}

/* The largest of the threads' absolute values; NaN is ignored. */
template <class T> static inline __device__ T largest(T mine, T *room)
{
    room[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half && room[threadIdx.x + half] > room[threadIdx.x])
            room[threadIdx.x] = room[threadIdx.x + half];
        __syncthreads();
    }
    const T most = room[0];
    __syncthreads();
    return most;
}

static inline __device__ float magnitude(float x) { return bt_abs_f32(x); }
static inline __device__ double magnitude(double x) { return fabs(x); }

/* Blocks of threads for the codes of n numbers; each takes some blocks of codes. */
static int64_t grid(int64_t n)
{
    const int64_t blocks = bt_codes_blocks(n);
    return blocks < BT_CUDA_BLOCKS ? blocks : BT_CUDA_BLOCKS;
}

/* ---- scales ---- */

template <class T> static __global__ void scales_kernel(const bt_lines<1> x)
{
    BT_SHARED(T, room, BT_CUDA_THREADS);
    for (int64_t b = blockIdx.x; b * BT_CODES_BLOCK < x.n; b += gridDim.x) {
        T most = 0;
        for (int64_t t = threadIdx.x; t < BT_CODES_BLOCK && b * BT_CODES_BLOCK + t < x.n; t += blockDim.x) {
            int64_t at;
            bt_lines_at<1>(x, b * BT_CODES_BLOCK + t, &at);
            const T size = magnitude(bt_load<T>(x.in[0].dtype, x.in[0].data, at));
            most = size > most ? size : most;
        }
        most = largest<T>(most, room);
        if (threadIdx.x == 0)
            bt_store<T>(x.dtype, x.out, b, most);
    }
}

static bt_status scales(const bt_call *call)
{
    const bt_lines<1> x = bt_lines_of<1>(call->in, &call->out[0]);
    return bt_cuda_launch<bt_lines<1>>(call, x.in[0].dtype == BT_F64 ? scales_kernel<double> : scales_kernel<float>,
                                       grid(x.n), BT_CUDA_THREADS, x);
}

/* ---- encode, decode ---- */

typedef struct coding {
    bt_lines<1> x; /* numbers and codes, or codes and numbers */
    bt_view scales;
    bool positive;
} coding;

static __global__ void encode_kernel(const coding c)
{
    BT_SHARED(bt_code_book, book, 1);
    fill(book, c.positive);
    BT_CUDA_EACH(i, c.x.n)
    {
        int64_t at;
        bt_lines_at<1>(c.x, i, &at);
        const double x = bt_load<double>(c.x.in[0].dtype, c.x.in[0].data, at);
        const double scale = bt_get_at<double>(c.scales, i / BT_CODES_BLOCK);
        ((uint8_t *)c.x.out)[i] = bt_code_of(book, scale > 0 ? x / scale : 0);
    }
}

static __global__ void decode_kernel(const coding c)
{
    BT_SHARED(bt_code_book, book, 1);
    fill(book, c.positive);
    BT_CUDA_EACH(i, c.x.n)
    {
        int64_t at;
        bt_lines_at<1>(c.x, i, &at);
        const double scale = bt_get_at<double>(c.scales, i / BT_CODES_BLOCK);
        bt_store<double>(c.x.dtype, c.x.out, i, book->value[((const uint8_t *)c.x.in[0].data)[at]] * scale);
    }
}

static coding coding_of(const bt_call *call)
{
    return {bt_lines_of<1>(call->in, &call->out[0]), call->in[1], ((const bt_codes_attr *)call->attr)->positive != 0};
}

static bt_status encode(const bt_call *call)
{
    const coding c = coding_of(call);
    return bt_cuda_each<coding>(call, encode_kernel, c.x.n, c);
}

static bt_status decode(const bt_call *call)
{
    const coding c = coding_of(call);
    return bt_cuda_each<coding>(call, decode_kernel, c.x.n, c);
}

/* ---- the updates ---- */

template <int STATES> struct eight {
    bt_lines<2 + STATES> lines; /* p, g and the states' codes; the output is p' */
    struct {
        bt_view scales;
        uint8_t *to_codes;
        float *to_scales;
    } state[STATES];
    bt_update_numbers numbers;
};

/* Updates element t of a block of codes; its states are left in `room`, for the same thread. */
template <class U>
static inline __device__ void step(const eight<U::states> &e, const typename U::with &with, const double *scalar,
                                   const bt_code_book *books, int64_t block, int t, typename U::T *room)
{
    typedef typename U::T T;
    const int N = 2 + U::states;
    const int64_t i = block * BT_CODES_BLOCK + t;
    int64_t at[N];
    T x[N];
    bt_lines_at<N>(e.lines, i, at);
    for (int k = 0; k < 2; k++)
        x[k] = bt_load<T>(e.lines.in[k].dtype, e.lines.in[k].data, at[k]);
    for (int s = 0; s < U::states; s++)
        x[2 + s] = (T)books[s].value[((const uint8_t *)e.lines.in[2 + s].data)[at[2 + s]]] *
                   bt_get_at<T>(e.state[s].scales, block);
    U::step(with, scalar, e.numbers.flag, x);
    ((T *)e.lines.out)[i] = x[0];
    for (int s = 0; s < U::states; s++)
        room[s * BT_CODES_BLOCK + t] = x[2 + s];
}

/* Encodes the block's n states in `room` as codes and their scale. */
template <class T>
static inline __device__ void put(const T *room, const bt_code_book *book, int n, uint8_t *codes, float *scale, T *all)
{
    T most = 0;
    for (int t = (int)threadIdx.x; t < n; t += (int)blockDim.x)
        most = magnitude(room[t]) > most ? magnitude(room[t]) : most;
    const float found = (float)largest<T>(most, all);
    const T by = (T)found;
    if (threadIdx.x == 0)
        *scale = found;
    for (int t = (int)threadIdx.x; t < n; t += (int)blockDim.x)
        codes[t] = bt_code_of(book, by > 0 ? (double)(room[t] / by) : 0);
}

/* For a skipped update: the outputs are copies of the inputs. */
template <class U> static inline __device__ void keep(const eight<U::states> &e, int64_t block, int n)
{
    typedef typename U::T T;
    for (int64_t t = threadIdx.x; t < n; t += blockDim.x) {
        const int64_t i = block * BT_CODES_BLOCK + t;
        int64_t at[2 + U::states];
        bt_lines_at<2 + U::states>(e.lines, i, at);
        ((T *)e.lines.out)[i] = bt_load<T>(e.lines.in[0].dtype, e.lines.in[0].data, at[0]);
        for (int s = 0; s < U::states; s++)
            e.state[s].to_codes[i] = ((const uint8_t *)e.lines.in[2 + s].data)[at[2 + s]];
    }
    for (int s = 0; s < U::states && threadIdx.x == 0; s++)
        e.state[s].to_scales[block] = bt_get_at<float>(e.state[s].scales, block);
}

template <class U> static __global__ void update_eight(const eight<U::states> e)
{
    typedef typename U::T T;
    BT_SHARED(double, scalar, BT_UPDATE_SCALARS);
    BT_SHARED(bt_code_book, books, U::states);
    BT_SHARED(T, room, U::states * BT_CODES_BLOCK);
    BT_SHARED(T, all, BT_CUDA_THREADS);
    const bool ok = bt_update_ok(e.numbers);
    bt_update_prepare<U>(e.numbers, scalar);
    for (int s = 0; s < U::states; s++)
        fill(&books[s], s == 1); /* the second is unsigned */
    const typename U::with with = U::of(scalar);
    for (int64_t b = blockIdx.x; b * BT_CODES_BLOCK < e.lines.n; b += gridDim.x) {
        const int64_t rest = e.lines.n - b * BT_CODES_BLOCK;
        const int n = rest < BT_CODES_BLOCK ? (int)rest : BT_CODES_BLOCK;
        if (!ok) {
            keep<U>(e, b, n);
            continue;
        }
        for (int t = (int)threadIdx.x; t < n; t += (int)blockDim.x)
            step<U>(e, with, scalar, books, b, t, room);
        for (int s = 0; s < U::states; s++)
            put<T>(room + s * BT_CODES_BLOCK, &books[s], n, e.state[s].to_codes + b * BT_CODES_BLOCK,
                   e.state[s].to_scales + b, all);
    }
}

/* Inputs: p, g, codes and scales of each state, numbers; outputs: p', codes and scales. */
template <class U> static bt_status start(const bt_call *call, int64_t flag)
{
    eight<U::states> e = {};
    bt_view in[2 + U::states] = {call->in[0], call->in[1]};
    for (int s = 0; s < U::states; s++) {
        in[2 + s] = call->in[2 + 2 * s];
        e.state[s] = {call->in[3 + 2 * s], (uint8_t *)call->out[1 + 2 * s].data, (float *)call->out[2 + 2 * s].data};
    }
    e.lines = bt_lines_of<2 + U::states>(in, &call->out[0]);
    e.numbers = bt_update_numbers_of(call, 2 + 2 * U::states, U::given, flag);
    return bt_cuda_launch<eight<U::states>>(call, update_eight<U>, grid(e.lines.n), BT_CUDA_THREADS, e);
}

static bt_status adam(const bt_call *call)
{
    const int64_t decoupled = ((const bt_adam_attr *)call->attr)->decoupled;
    return call->out[0].dtype == BT_F64 ? start<bt_update_adam_f64>(call, decoupled)
                                        : start<bt_update_adam_f32>(call, decoupled);
}

static bt_status lion(const bt_call *call)
{
    return call->out[0].dtype == BT_F64 ? start<bt_update_lion_f64>(call, 0) : start<bt_update_lion_f32>(call, 0);
}

/* Without 16-bit dtypes. */
#define EIGHT(op_name, function)                                                                                       \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".cuda", .launch = function                                           \
    }

extern "C" const bt_kernel_impl bt_cuda_eight[] = {
    BT_CUDA_KERNEL(scales, scales), BT_CUDA_KERNEL(encode, encode), BT_CUDA_KERNEL(decode, decode),
    EIGHT(adam8bit_update, adam),   EIGHT(lion8bit_update, lion),   {},
};
