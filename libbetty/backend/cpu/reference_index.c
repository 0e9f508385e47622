/* backend/cpu/reference_index.c: plain loops for gather, scatter_add and one_hot. */
#include "backend/cpu/reference.h"

#include <string.h>

bt_status bt_cpu_no_index(const bt_op *op, const bt_view *index, int64_t element, int64_t found, int64_t size)
{
    char shape[256];
    return bt_fail(BT_ERROR_DATA, "%s: element %lld of the indices %s is %lld; expected 0 to %lld", op->name,
                   (long long)element, bt_shape_text(shape, index->rank, index->dims), (long long)found,
                   (long long)size - 1);
}

bt_status bt_cpu_index(const bt_call *call, const bt_view *index, int64_t element, int64_t size, int64_t *result)
{
    *result = bt_cpu_get_int(index, element);
    if (*result >= 0 && *result < size)
        return BT_OK;
    return bt_cpu_no_index(call->op, index, element, *result, size);
}

/* Row `row` of x: x[row, ...]. */
static bt_view row_of(const bt_view *x, int64_t row)
{
    bt_view part = {.data = x->data, .dtype = x->dtype, .rank = x->rank - 1};
    for (int d = 1; d < x->rank; d++) {
        part.dims[d - 1] = x->dims[d];
        part.strides[d - 1] = x->strides[d];
    }
    part.data += row * x->strides[0] * (int64_t)bt_dtype_size(x->dtype);
    return part;
}

static bt_status gather(const bt_call *call)
{
    const bt_view *x = &call->in[0], *index = &call->in[1];
    const bt_view *out = &call->out[0];
    const size_t size = bt_dtype_size(x->dtype);
    int64_t rows = bt_cpu_count(index), at = 0;
    for (int64_t k = 0; k < rows; k++) {
        int64_t from;
        BT_TRY(bt_cpu_index(call, index, k, x->dims[0], &from));
        bt_view row = row_of(x, from);
        int64_t count = bt_cpu_count(&row);
        for (int64_t e = 0; e < count; e++, at++)
            if (out->dtype == x->dtype)
                memcpy(bt_cpu_at(out, at), bt_cpu_at(&row, e), size);
            else /* one of them has 16 bits */
                bt_cpu_put(out, at, bt_cpu_get(&row, e));
    }
    return BT_OK;
}

static bt_status scatter_add(const bt_call *call)
{
    const bt_view *index = &call->in[0], *values = &call->in[1], *out = &call->out[0];
    int64_t rows = bt_cpu_count(index), bytes = bt_cpu_count(out) * (int64_t)bt_dtype_size(out->dtype);
    if (bytes)
        memset(out->data, 0, (size_t)bytes);
    for (int64_t k = 0; k < rows; k++) {
        int64_t to;
        BT_TRY(bt_cpu_index(call, index, k, out->dims[0], &to));
        bt_view from = row_of(values, k), row = row_of(out, to);
        int64_t count = bt_cpu_count(&row);
        for (int64_t e = 0; e < count; e++)
            if (bt_dtype_floats(out->dtype))
                bt_cpu_put(&row, e, bt_cpu_get(&row, e) + bt_cpu_get(&from, e));
            else
                bt_cpu_put_int(&row, e, bt_cpu_get_int(&row, e) + bt_cpu_get_int(&from, e));
    }
    return BT_OK;
}

static bt_status one_hot(const bt_call *call)
{
    const bt_view *label = &call->in[0], *out = &call->out[0];
    int64_t classes = ((const bt_one_hot_attr *)call->attr)->classes, labels = bt_cpu_count(label);
    int64_t bytes = labels * classes * (int64_t)bt_dtype_size(out->dtype);
    if (bytes)
        memset(out->data, 0, (size_t)bytes);
    for (int64_t k = 0; k < labels; k++) {
        int64_t class;
        BT_TRY(bt_cpu_index(call, label, k, classes, &class));
        bt_put(out->dtype, out->data, k * classes + class, 1);
    }
    return BT_OK;
}

const bt_kernel_impl bt_cpu_reference_index[] = {
    BT_REFERENCE(gather, gather),
    BT_REFERENCE_WIDE(scatter_add, scatter_add),
    BT_REFERENCE(one_hot, one_hot),
    {.op = NULL},
};
