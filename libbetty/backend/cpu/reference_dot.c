/* backend/cpu/reference_dot.c: plain loops for dot, dot_add and linear. */
#include "backend/cpu/reference.h"

static const char *move(const bt_view *x, int axis, int64_t by)
{
    return x->data + by * x->strides[axis] * (int64_t)bt_dtype_size(x->dtype);
}

/* The sum over the last axis of a and the given axis of b, both starting at the given places. */
static double product(const bt_view *a, const char *at_a, const bt_view *b, const char *at_b, int axis_b)
{
    int axis_a = a->rank - 1;
    double sum = 0;
    for (int64_t p = 0; p < a->dims[axis_a]; p++)
        sum += bt_get(a->dtype, at_a, p * a->strides[axis_a]) * bt_get(b->dtype, at_b, p * b->strides[axis_b]);
    return sum;
}

/* Matrix `number`, counted along the leading axes. */
static char *matrix(const bt_view *x, int64_t number)
{
    char *at = x->data;
    for (int axis = x->rank - 3; axis >= 0; axis--) {
        at += number % x->dims[axis] * x->strides[axis] * (int64_t)bt_dtype_size(x->dtype);
        number /= x->dims[axis];
    }
    return at;
}

static bt_status dot(const bt_call *call)
{
    const bt_view *a = &call->in[0], *b = &call->in[1];
    int row = a->rank - 2, column = row + 1;
    int64_t matrices = 1, e = 0;
    for (int axis = 0; axis < row; axis++)
        matrices *= a->dims[axis];
    for (int64_t g = 0; g < matrices; g++)
        for (int64_t i = 0; i < a->dims[row]; i++)
            for (int64_t j = 0; j < b->dims[column]; j++, e++) {
                bt_view from_a = *a, from_b = *b;
                from_a.data = matrix(a, g);
                from_b.data = matrix(b, g);
                bt_put(call->out[0].dtype, call->out[0].data, e,
                       product(a, move(&from_a, row, i), b, move(&from_b, column, j), row));
            }
    return BT_OK;
}

static bt_status dot_add(const bt_call *call)
{
    const bt_view *a = &call->in[0], *b = &call->in[1], *c = &call->in[2];
    double factor = bt_cpu_get(&call->in[3], 0);
    int64_t e = 0;
    for (int64_t i = 0; i < a->dims[0]; i++)
        for (int64_t j = 0; j < b->dims[1]; j++, e++)
            bt_put(call->out[0].dtype, call->out[0].data, e,
                   factor * bt_cpu_get(c, e) + product(a, move(a, 0, i), b, move(b, 1, j), 0));
    return BT_OK;
}

static bt_status linear(const bt_call *call)
{
    const bt_view *x = &call->in[0], *w = &call->in[1];
    bool relu = ((const bt_linear_attr *)call->attr)->activation != 0;
    int64_t e = 0;
    for (int64_t i = 0; i < x->dims[0]; i++)
        for (int64_t j = 0; j < w->dims[0]; j++, e++) {
            double sum = product(x, move(x, 0, i), w, move(w, 0, j), 1);
            if (call->inputs > 2)
                sum += bt_cpu_get(&call->in[2], j);
            bt_put(call->out[0].dtype, call->out[0].data, e, relu && sum <= 0 ? 0 : sum);
        }
    return BT_OK;
}

const bt_kernel_impl bt_cpu_reference_dot[] = {
    BT_REFERENCE(dot, dot),
    BT_REFERENCE(dot_add, dot_add),
    BT_REFERENCE(linear, linear),
    {.op = NULL},
};
