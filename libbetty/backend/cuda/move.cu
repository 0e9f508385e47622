/* backend/cuda/move.cu: ops that only move values: copy, pad, concat. Views with any strides need no work on the device
 * (compile/lower.c). Each input is a piece of the output. If an input is contiguous along another axis than its
 * innermost one, it is transposed in shared memory, so that both sides are accessed along contiguous memory. */
#include "backend/cuda/lines.h"
#include "backend/cuda/move.h"

/* Where element i of an input goes in the output: runs of `run` elements, `step` apart, the first at `first`. */
typedef struct place {
    int64_t first, run, step;
} place;

typedef struct piece {
    bt_lines<1> lines;
    place to;
} piece;

static inline __device__ int64_t placed(const place &to, int64_t i)
{
    return to.first + (to.run == to.step ? i : i / to.run * to.step + i % to.run);
}

/* ---- element by element ---- */

template <class T> static __global__ void move(const piece p)
{
    BT_CUDA_EACH(i, p.lines.n)
    {
        int64_t at;
        bt_lines_at<1>(p.lines, i, &at);
        ((T *)p.lines.out)[placed(p.to, i)] = ((const T *)p.lines.in[0].data)[at];
    }
}

/* One of the two is stored in 16 bits. */
static __global__ void move_stored(const piece p)
{
    BT_CUDA_EACH(i, p.lines.n)
    {
        int64_t at;
        bt_lines_at<1>(p.lines, i, &at);
        bt_store<float>(p.lines.dtype, p.lines.out, placed(p.to, i),
                        bt_load<float>(p.lines.in[0].dtype, p.lines.in[0].data, at));
    }
}

/* ---- transposed squares ---- */

enum { SIDE = 32, LEAST = 16 };

typedef struct turn { /* axis `along` has stride 1 in the input, the last one in the output */
    piece p;
    int along;
    int64_t across, down, down_step; /* squares along the last axis, and along `along`; its stride in the output */
    int64_t squares;
} turn;

/* The offsets along the axes other than those two, in the input and in the output. */
static inline __device__ void outside(const turn &t, int64_t number, int64_t *from, int64_t *to)
{
    const bt_lines<1> &lines = t.p.lines;
    int64_t stride = lines.dims[lines.rank - 1];
    *from = *to = 0;
    for (int d = lines.rank - 2; d >= 0; d--) {
        if (d != t.along) {
            *from += number % lines.dims[d] * lines.in[0].strides[d];
            *to += number % lines.dims[d] * stride;
            number /= lines.dims[d];
        }
        stride *= lines.dims[d];
    }
}

template <class T> static __global__ void turn_squares(const turn t)
{
    BT_SHARED(T, square, SIDE * (SIDE + 1));
    const bt_lines<1> &lines = t.p.lines;
    const int last = lines.rank - 1;
    const int64_t width = lines.dims[last], height = lines.dims[t.along], step = lines.in[0].strides[last];
    for (int64_t s = blockIdx.x; s < t.squares; s += gridDim.x) {
        const int64_t x = s % t.across * SIDE, y = s / t.across % t.down * SIDE;
        int64_t from, to;
        outside(t, s / t.across / t.down, &from, &to);
        for (unsigned k = threadIdx.x; k < SIDE * SIDE; k += blockDim.x) {
            const int64_t row = y + k % SIDE, column = x + k / SIDE;
            if (row < height && column < width)
                square[k % SIDE * (SIDE + 1) + k / SIDE] = ((const T *)lines.in[0].data)[from + row + column * step];
        }
        __syncthreads();
        for (unsigned k = threadIdx.x; k < SIDE * SIDE; k += blockDim.x) {
            const int64_t row = y + k / SIDE, column = x + k % SIDE;
            if (row < height && column < width)
                ((T *)lines.out)[placed(t.p.to, to + row * t.down_step + column)] =
                    square[k / SIDE * (SIDE + 1) + k % SIDE];
        }
        __syncthreads();
    }
}

/* Whether transposing pays; if so, t says how. */
static bool turns(const piece *p, turn *t)
{
    const bt_lines<1> *lines = &p->lines;
    const int last = lines->rank - 1;
    if (lines->rank < 2 || lines->in[0].strides[last] <= 1 || lines->dims[last] < LEAST)
        return false;
    *t = {.p = *p, .along = last};
    for (int d = 0; d < last; d++)
        if (lines->in[0].strides[d] == 1 && lines->dims[d] >= LEAST)
            t->along = d;
    if (t->along == last)
        return false;
    t->across = (lines->dims[last] + SIDE - 1) / SIDE;
    t->down = (lines->dims[t->along] + SIDE - 1) / SIDE;
    t->down_step = 1;
    for (int d = t->along + 1; d <= last; d++)
        t->down_step *= lines->dims[d];
    t->squares = lines->n / lines->dims[last] / lines->dims[t->along] * t->across * t->down;
    return true;
}

/* ---- one piece ---- */

template <class T> static bt_status move_as(const bt_call *call, const piece *p)
{
    turn t;
    if (turns(p, &t))
        return bt_cuda_launch<turn>(call, turn_squares<T>, t.squares < BT_CUDA_BLOCKS ? t.squares : BT_CUDA_BLOCKS,
                                    BT_CUDA_THREADS, t);
    return bt_cuda_each<piece>(call, move<T>, p->lines.n, *p);
}

static bt_status move_dense(const bt_call *call, const piece *p, int64_t size)
{
    const bt_cuda_queue *queue = (const bt_cuda_queue *)call->queue;
    char *const to = p->lines.out + p->to.first * size;
    if (to == p->lines.in[0].data)
        return BT_OK;
    return bt_cuda_try(
        cudaMemcpyAsync(to, p->lines.in[0].data, (size_t)(p->lines.n * size), cudaMemcpyDefault, queue->stream),
        call->op->name);
}

static bt_status move_piece(const bt_call *call, const piece *p)
{
    const bt_lines<1> *lines = &p->lines;
    const int64_t size = (int64_t)bt_dtype_size(lines->dtype);
    if (lines->n == 0)
        return BT_OK;
    if (lines->in[0].dtype != lines->dtype)
        return bt_cuda_each<piece>(call, move_stored, lines->n, *p);
    const bool dense = lines->rank == 0 || (lines->rank == 1 && lines->in[0].strides[0] == 1);
    if (dense && (p->to.run == p->to.step || lines->n <= p->to.run))
        return move_dense(call, p, size);
    return size == 1   ? move_as<uint8_t>(call, p)
           : size == 2 ? move_as<uint16_t>(call, p)
           : size == 4 ? move_as<uint32_t>(call, p)
                       : move_as<uint64_t>(call, p);
}

bt_status bt_cuda_copy_of(const bt_call *call, const bt_view *from, char *to, bt_dtype dtype)
{
    const bt_view out = {.data = to, .dtype = dtype};
    const piece p = {bt_lines_of<1>(from, &out), {0, 1, 1}};
    return move_piece(call, &p);
}

/* ---- the ops ---- */

static bt_status copy(const bt_call *call)
{
    return bt_cuda_copy_of(call, &call->in[0], call->out[0].data, call->out[0].dtype);
}

bt_status bt_cuda_place(const bt_call *call, const bt_view *in, int64_t axis, int64_t from)
{
    const bt_view *out = &call->out[0];
    int64_t inner = 1;
    for (int d = (int)axis + 1; d < out->rank; d++)
        inner *= out->dims[d];
    const piece p = {bt_lines_of<1>(in, out), {from * inner, in->dims[axis] * inner, out->dims[axis] * inner}};
    return move_piece(call, &p);
}

static bt_status pad(const bt_call *call)
{
    const bt_range_attr *attr = (const bt_range_attr *)call->attr;
    const bt_cuda_queue *queue = (const bt_cuda_queue *)call->queue;
    const size_t bytes = (size_t)bt_cpu_count(&call->out[0]) * bt_dtype_size(call->out[0].dtype);
    if (bytes)
        BT_TRY(bt_cuda_try(cudaMemsetAsync(call->out[0].data, 0, bytes, queue->stream), "pad"));
    return bt_cuda_place(call, &call->in[0], attr->axis, attr->from);
}

static bt_status concat(const bt_call *call)
{
    const bt_range_attr *attr = (const bt_range_attr *)call->attr;
    int64_t from = 0;
    for (int i = 0; i < call->inputs; i++) {
        BT_TRY(bt_cuda_place(call, &call->in[i], attr->axis, from));
        from += call->in[i].dims[attr->axis];
    }
    return BT_OK;
}

extern "C" const bt_kernel_impl bt_cuda_move[] = {
    BT_CUDA_KERNEL(copy, copy),
    BT_CUDA_KERNEL(pad, pad),
    BT_CUDA_KERNEL(concat, concat),
    {},
};
