/* backend/cpu/view.c: strided views. */
#include "backend/cpu/view.h"

#include "ops/ops.h"

int64_t bt_cpu_count(const bt_view *view)
{
    int64_t count = 1;
    for (int d = 0; d < view->rank; d++)
        count *= view->dims[d];
    return count;
}

bool bt_cpu_contiguous(const bt_view *view)
{
    int64_t expected = 1;
    for (int d = view->rank - 1; d >= 0; d--) {
        if (view->dims[d] == 0)
            return true;
        if (view->dims[d] != 1 && view->strides[d] != expected)
            return false;
        expected *= view->dims[d];
    }
    return true;
}

int64_t bt_cpu_offset(const bt_view *view, int64_t element)
{
    int64_t offset = 0;
    for (int d = view->rank - 1; d >= 0; d--) {
        offset += element % view->dims[d] * view->strides[d];
        element /= view->dims[d];
    }
    return offset;
}

char *bt_cpu_at(const bt_view *view, int64_t element)
{
    return view->data + bt_cpu_offset(view, element) * (int64_t)bt_dtype_size(view->dtype);
}

const char *bt_cpu_matrix(const bt_view *x, int64_t number)
{
    int64_t offset = 0;
    for (int i = x->rank - 3; i >= 0; i--) {
        offset += number % x->dims[i] * x->strides[i];
        number /= x->dims[i];
    }
    return x->data + offset * (int64_t)bt_dtype_size(x->dtype);
}

double bt_cpu_get(const bt_view *view, int64_t element)
{
    return bt_get(view->dtype, view->data, bt_cpu_offset(view, element));
}

void bt_cpu_put(const bt_view *view, int64_t element, double value)
{
    bt_put(view->dtype, view->data, bt_cpu_offset(view, element), value);
}

int64_t bt_cpu_get_int(const bt_view *view, int64_t element)
{
    const char *at = bt_cpu_at(view, element);
    switch (view->dtype) {
    case BT_I32:
        return *(const int32_t *)(const void *)at;
    case BT_I64:
        return *(const int64_t *)(const void *)at;
    case BT_U8:
        return *(const uint8_t *)at;
    case BT_BOOL:
        return *(const uint8_t *)at != 0;
    default:
        return (int64_t)bt_cpu_get(view, element);
    }
}

void bt_cpu_put_int(const bt_view *view, int64_t element, int64_t value)
{
    char *at = bt_cpu_at(view, element);
    switch (view->dtype) {
    case BT_I32:
        *(int32_t *)(void *)at = (int32_t)value;
        break;
    case BT_I64:
        *(int64_t *)(void *)at = value;
        break;
    case BT_U8:
        *(uint8_t *)at = (uint8_t)value;
        break;
    case BT_BOOL:
        *(uint8_t *)at = value != 0;
        break;
    default:
        bt_cpu_put(view, element, (double)value);
    }
}

bool bt_cpu_same_dtypes(const bt_call *call, int first, int last)
{
    for (int i = first; i <= last; i++)
        if (call->in[i].dtype != call->out[0].dtype)
            return false;
    return true;
}

static void append(bt_view *view, int64_t dim, int64_t stride)
{
    view->dims[view->rank] = dim;
    view->strides[view->rank++] = stride;
}

void bt_cpu_split(const bt_view *view, uint32_t axes, bt_view *kept, bt_view *reduced)
{
    *kept = *reduced = (bt_view){.data = view->data, .dtype = view->dtype};
    for (int d = 0; d < view->rank; d++)
        append(axes >> d & 1 ? reduced : kept, view->dims[d], view->strides[d]);
}

bool bt_cpu_look_same(const bt_call *call, bt_view *look)
{
    *look = call->in[0];
    return true;
}

bool bt_cpu_look_permute(const bt_call *call, bt_view *look)
{
    const bt_shape_attr *attr = call->attr;
    const bt_view *in = &call->in[0];
    *look = (bt_view){.data = in->data, .dtype = in->dtype};
    for (int d = 0; d < in->rank; d++)
        append(look, in->dims[attr->axes[d]], in->strides[attr->axes[d]]);
    return true;
}

bool bt_cpu_look_broadcast(const bt_call *call, bt_view *look)
{
    const bt_shape_attr *attr = call->attr;
    const bt_view *in = &call->in[0];
    *look = (bt_view){.data = in->data, .dtype = in->dtype};
    for (int d = 0; d < (int)attr->rank; d++)
        append(look, attr->dims[d], 0);
    for (int d = 0; d < in->rank; d++)
        if (in->dims[d] != 1)
            look->strides[attr->axes[d]] = in->strides[d];
    return true;
}

bool bt_cpu_look_slice(const bt_call *call, bt_view *look)
{
    const bt_range_attr *attr = call->attr;
    *look = bt_cpu_part(&call->in[0], attr->axis, attr->from, attr->to - attr->from);
    return true;
}

bt_view bt_cpu_part(const bt_view *out, int64_t axis, int64_t from, int64_t size)
{
    bt_view part = *out;
    part.dims[axis] = size;
    if (part.data)
        part.data += from * out->strides[axis] * (int64_t)bt_dtype_size(out->dtype);
    return part;
}
