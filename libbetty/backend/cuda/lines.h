/* backend/cuda/lines.h: elements of operands with any strides, in order. Adjacent axes are joined where possible, so
 * that most calls have one axis. */
#ifndef BT_CUDA_LINES_H
#define BT_CUDA_LINES_H

#include "backend/cuda/device.h"

template <int N> struct bt_lines { /* N inputs of one shape; the output is dense */
    struct operand {
        const char *data;
        bt_dtype dtype;
        int64_t strides[BT_MAX_RANK];
    } in[N];
    char *out;
    bt_dtype dtype;
    int rank;
    int64_t n, dims[BT_MAX_RANK];
};

/* Whether, in all inputs, axis `d` continues where axis `next` ends. */
static inline bool bt_lines_follow(const bt_view *in, int inputs, int d, int next)
{
    for (int k = 0; k < inputs; k++)
        if (in[k].strides[d] != in[k].strides[next] * in[k].dims[next])
            return false;
    return true;
}

template <int N> static bt_lines<N> bt_lines_of(const bt_view *in, const bt_view *out)
{
    bt_lines<N> lines = {};
    lines.out = out->data;
    lines.dtype = out->dtype;
    lines.n = bt_cpu_count(&in[0]);
    for (int k = 0; k < N; k++) {
        lines.in[k].data = in[k].data;
        lines.in[k].dtype = in[k].dtype;
    }
    for (int d = 0, last = -1; d < in[0].rank; d++) {
        if (in[0].dims[d] == 1)
            continue;
        const bool joined = last >= 0 && bt_lines_follow(in, N, last, d);
        const int to = joined ? lines.rank - 1 : lines.rank++;
        lines.dims[to] = joined ? lines.dims[to] * in[0].dims[d] : in[0].dims[d];
        for (int k = 0; k < N; k++)
            lines.in[k].strides[to] = in[k].strides[d];
        last = d;
    }
    return lines;
}

/* The offset of element i in each input. */
template <int N> static inline __device__ void bt_lines_at(const bt_lines<N> &lines, int64_t i, int64_t *at)
{
    for (int k = 0; k < N; k++)
        at[k] = 0;
    for (int d = lines.rank - 1; d > 0; d--) {
        const int64_t place = i % lines.dims[d];
        i /= lines.dims[d];
        for (int k = 0; k < N; k++)
            at[k] += place * lines.in[k].strides[d];
    }
    for (int k = 0; k < N && lines.rank; k++)
        at[k] += i * lines.in[k].strides[0];
}

#endif
