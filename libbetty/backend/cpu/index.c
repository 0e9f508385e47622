/* backend/cpu/index.c: gather and scatter_add if the rows of x (of values) are contiguous; one_hot. */
#include "backend/cpu/loop.h"
#include "backend/cpu/reference.h"
#include "backend/cpu/vector.h"

/* Whether the rows along the first axis are contiguous. */
static bool whole_rows(const bt_view *x)
{
    bt_view row = {.rank = x->rank - 1};
    for (int d = 1; d < x->rank; d++) {
        row.dims[d - 1] = x->dims[d];
        row.strides[d - 1] = x->strides[d];
    }
    return bt_cpu_contiguous(&row);
}

static int64_t row_count(const bt_view *x)
{
    int64_t count = 1;
    for (int d = 1; d < x->rank; d++)
        count *= x->dims[d];
    return count;
}

static bool gather_accepts(const bt_call *call) { return whole_rows(&call->in[0]) && bt_cpu_same_dtypes(call, 0, 0); }

static bt_status gather(const bt_call *call)
{
    const bt_view *x = &call->in[0], *index = &call->in[1];
    int64_t rows = bt_cpu_count(index), size = (int64_t)bt_dtype_size(x->dtype), bytes = row_count(x) * size;
    int64_t step = x->strides[0] * size;
    char *out = call->out[0].data;
    for (int64_t k = 0; k < rows; k++, out += bytes) {
        int64_t from;
        BT_TRY(bt_cpu_index(call, index, k, x->dims[0], &from));
        if (bytes)
            memcpy(out, x->data + from * step, (size_t)bytes);
    }
    return BT_OK;
}

static bool scatter_accepts(const bt_call *call)
{
    return bt_dtype_floats(call->out[0].dtype) && call->in[1].dtype == call->out[0].dtype && whole_rows(&call->in[1]);
}

#define ADD(name, T)                                                                                                   \
    static void name(int64_t n, T *y, const T *x)                                                                      \
    {                                                                                                                  \
        BT_SIMD                                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                                \
            y[i] += x[i];                                                                                              \
    }
ADD(add_f32, float)
ADD(add_f64, double)

static bt_status scatter_add(const bt_call *call)
{
    const bt_view *index = &call->in[0], *values = &call->in[1], *out = &call->out[0];
    int64_t rows = bt_cpu_count(index), n = row_count(out), size = (int64_t)bt_dtype_size(out->dtype);
    if (out->dims[0] > 0 && n > 0)
        memset(out->data, 0, (size_t)(out->dims[0] * n * size));
    for (int64_t k = 0; k < rows; k++) {
        int64_t to;
        BT_TRY(bt_cpu_index(call, index, k, out->dims[0], &to));
        void *y = out->data + to * n * size;
        const void *x = values->data + k * values->strides[0] * size;
        if (out->dtype == BT_F32)
            add_f32(n, y, x);
        else
            add_f64(n, y, x);
    }
    return BT_OK;
}

static bool one_hot_accepts(const bt_call *call)
{
    return bt_dtype_floats(call->out[0].dtype) && bt_cpu_contiguous(&call->in[0]) &&
           (call->in[0].dtype == BT_I32 || call->in[0].dtype == BT_I64);
}

static bt_status one_hot(const bt_call *call)
{
    const bt_view *label = &call->in[0], *out = &call->out[0];
    int64_t classes = ((const bt_one_hot_attr *)call->attr)->classes, count = bt_cpu_count(label);
    int64_t size = (int64_t)bt_dtype_size(out->dtype);
    const int32_t *small = (const void *)label->data;
    const int64_t *large = (const void *)label->data;
    if (count > 0)
        memset(out->data, 0, (size_t)(count * classes * size));
    for (int64_t k = 0; k < count; k++) {
        int64_t class = label->dtype == BT_I32 ? small[k] : large[k];
        if (class < 0 || class >= classes)
            return bt_cpu_index(call, label, k, classes, &class);
        if (out->dtype == BT_F32)
            ((float *)(void *)out->data)[k * classes + class] = 1;
        else
            ((double *)(void *)out->data)[k * classes + class] = 1;
    }
    return BT_OK;
}

const bt_kernel_impl BT_ISA(bt_cpu_index)[] = {
    {&bt_op_gather, "gather.rows", gather_accepts, NULL, NULL, gather, NULL, false, true},
    {&bt_op_scatter_add, "scatter_add.rows", scatter_accepts, NULL, NULL, scatter_add, NULL, false, false},
    {&bt_op_one_hot, "one_hot.rows", one_hot_accepts, NULL, NULL, one_hot, NULL, false, false},
    {.op = NULL},
};
