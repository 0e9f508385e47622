/* backend/cpu/reference_loss.c: plain loops for softmax, cross-entropy, layer_norm, and their derivatives. */
#include "backend/cpu/reference.h"

#include <math.h>

/* One line along an axis: a view whose data are at its start, and its place among the output's elements. */
typedef struct line {
    bt_view kept, along;
    int64_t count, size, stride; /* lines; their length; the step between an output line's elements */
} line;

static line lines_of(const bt_view *x, int axis)
{
    line result;
    bt_cpu_split(x, 1u << axis, &result.kept, &result.along);
    result.count = bt_cpu_count(&result.kept);
    result.size = x->dims[axis];
    result.stride = 1;
    for (int d = axis + 1; d < x->rank; d++)
        result.stride *= x->dims[d];
    return result;
}

static int64_t first_of(const line *lines, int64_t i)
{
    return i / lines->stride * lines->stride * lines->size + i % lines->stride;
}

static double largest(const bt_view *along, int64_t size)
{
    double best = -(double)INFINITY;
    for (int64_t i = 0; i < size; i++) {
        double x = bt_cpu_get(along, i);
        best = isnan(best) || best > x ? best : x;
    }
    return best;
}

static double exp_sum(const bt_view *along, int64_t size, double best)
{
    double sum = 0;
    for (int64_t i = 0; i < size; i++)
        sum += exp(bt_cpu_get(along, i) - best);
    return sum;
}

static bt_status softmax_as(const bt_call *call, bool logarithm)
{
    const bt_axis_attr *attr = call->attr;
    const bt_view *out = &call->out[0];
    line lines = lines_of(&call->in[0], (int)attr->axis);
    for (int64_t i = 0; i < lines.count; i++) {
        bt_view along = lines.along;
        along.data = bt_cpu_at(&lines.kept, i);
        double best = largest(&along, lines.size), sum = exp_sum(&along, lines.size, best), shift = log(sum);
        for (int64_t j = 0, to = first_of(&lines, i); j < lines.size; j++, to += lines.stride) {
            double x = bt_cpu_get(&along, j) - best;
            bt_put(out->dtype, out->data, to, logarithm ? x - shift : exp(x) / sum);
        }
    }
    return BT_OK;
}

static bt_status softmax(const bt_call *call) { return softmax_as(call, false); }

static bt_status log_softmax(const bt_call *call) { return softmax_as(call, true); }

static bt_status softmax_grad(const bt_call *call)
{
    const bt_axis_attr *attr = call->attr;
    const bt_view *out = &call->out[0];
    line y = lines_of(&call->in[0], (int)attr->axis), g = lines_of(&call->in[1], (int)attr->axis);
    for (int64_t i = 0; i < y.count; i++) {
        bt_view along_y = y.along, along_g = g.along;
        along_y.data = bt_cpu_at(&y.kept, i);
        along_g.data = bt_cpu_at(&g.kept, i);
        double sum = 0;
        for (int64_t j = 0; j < y.size; j++)
            sum += bt_cpu_get(&along_y, j) * bt_cpu_get(&along_g, j);
        for (int64_t j = 0, to = first_of(&y, i); j < y.size; j++, to += y.stride)
            bt_put(out->dtype, out->data, to, bt_cpu_get(&along_y, j) * (bt_cpu_get(&along_g, j) - sum));
    }
    return BT_OK;
}

static bt_status cross_entropy(const bt_call *call)
{
    const bt_view *out = &call->out[0];
    line rows = lines_of(&call->in[0], 1);
    for (int64_t i = 0; i < rows.count; i++) {
        bt_view along = rows.along;
        along.data = bt_cpu_at(&rows.kept, i);
        int64_t label;
        BT_TRY(bt_cpu_index(call, &call->in[1], i, rows.size, &label));
        double best = largest(&along, rows.size);
        bt_put(out->dtype, out->data, i, log(exp_sum(&along, rows.size, best)) - (bt_cpu_get(&along, label) - best));
    }
    return BT_OK;
}

static bt_status cross_entropy_grad(const bt_call *call)
{
    const bt_view *out = &call->out[0];
    line rows = lines_of(&call->in[0], 1);
    for (int64_t i = 0; i < rows.count; i++) {
        bt_view along = rows.along;
        along.data = bt_cpu_at(&rows.kept, i);
        int64_t label;
        BT_TRY(bt_cpu_index(call, &call->in[1], i, rows.size, &label));
        double best = largest(&along, rows.size), sum = exp_sum(&along, rows.size, best),
               g = bt_cpu_get(&call->in[2], i);
        for (int64_t j = 0; j < rows.size; j++)
            bt_put(out->dtype, out->data, i * rows.size + j,
                   (exp(bt_cpu_get(&along, j) - best) / sum - (j == label)) * g);
    }
    return BT_OK;
}

static bt_status binary_cross_entropy(const bt_call *call)
{
    int64_t count = bt_cpu_count(&call->out[0]);
    for (int64_t i = 0; i < count; i++) {
        double x = bt_cpu_get(&call->in[0], i), label = bt_cpu_get(&call->in[1], i), z = exp(-fabs(x));
        bt_put(call->out[0].dtype, call->out[0].data, i, (x < 0 ? 0 : x) + log1p(z) - x * label);
        bt_put(call->out[1].dtype, call->out[1].data, i, x < 0 ? z / (1 + z) : 1 / (1 + z));
    }
    return BT_OK;
}

static bt_status layer_norm(const bt_call *call)
{
    const bt_eps_attr *attr = call->attr;
    const bt_view *x = &call->in[0], *out = &call->out[0];
    int64_t size = x->dims[x->rank - 1], rows = size ? bt_cpu_count(x) / size : 0;
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0, squares = 0;
        for (int64_t j = 0; j < size; j++)
            sum += bt_cpu_get(x, i * size + j);
        double mean = sum / (double)size;
        for (int64_t j = 0; j < size; j++) {
            double d = bt_cpu_get(x, i * size + j) - mean;
            squares += d * d;
        }
        double deviation = sqrt(squares / (double)size + attr->eps), scale = 1 / deviation;
        bt_put(call->out[1].dtype, call->out[1].data, i, mean);
        bt_put(call->out[2].dtype, call->out[2].data, i, deviation);
        for (int64_t j = 0; j < size; j++) {
            double y = (bt_cpu_get(x, i * size + j) - mean) * scale;
            bt_put(out->dtype, out->data, i * size + j, y * bt_cpu_get(&call->in[1], j) + bt_cpu_get(&call->in[2], j));
        }
    }
    return BT_OK;
}

/* The sums over a row of h u and of u, where h is the normalised x. */
static void row_sums(const bt_call *call, int64_t row, int64_t size, double *along, double *sum)
{
    double mean = bt_cpu_get(&call->in[1], row), deviation = bt_cpu_get(&call->in[2], row);
    *along = *sum = 0;
    for (int64_t j = 0; j < size; j++) {
        double u = bt_cpu_get(&call->in[3], row * size + j);
        *sum += u;
        *along += (bt_cpu_get(&call->in[0], row * size + j) - mean) / deviation * u;
    }
}

static bt_status layer_norm_grad(const bt_call *call)
{
    const bt_view *x = &call->in[0], *out = &call->out[0];
    int64_t size = x->dims[x->rank - 1], rows = bt_cpu_count(x) / size;
    for (int64_t i = 0; i < rows; i++) {
        double along, sum, mean = bt_cpu_get(&call->in[1], i), deviation = bt_cpu_get(&call->in[2], i);
        row_sums(call, i, size, &along, &sum);
        for (int64_t j = 0; j < size; j++) {
            double h = (bt_cpu_get(x, i * size + j) - mean) / deviation, u = bt_cpu_get(&call->in[3], i * size + j);
            bt_put(out->dtype, out->data, i * size + j,
                   (u - sum / (double)size - h * along / (double)size) / deviation);
        }
    }
    return BT_OK;
}

static bt_status layer_norm_dot(const bt_call *call)
{
    const bt_view *x = &call->in[0], *out = &call->out[0];
    int64_t size = x->dims[x->rank - 1], rows = bt_cpu_count(x) / size;
    for (int64_t j = 0; j < size; j++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++)
            sum += (bt_cpu_get(x, i * size + j) - bt_cpu_get(&call->in[1], i)) / bt_cpu_get(&call->in[2], i) *
                   bt_cpu_get(&call->in[3], i * size + j);
        bt_put(out->dtype, out->data, j, sum);
    }
    return BT_OK;
}

const bt_kernel_impl bt_cpu_reference_loss[] = {
    BT_REFERENCE(softmax, softmax),
    BT_REFERENCE(softmax_grad, softmax_grad),
    BT_REFERENCE(log_softmax, log_softmax),
    BT_REFERENCE(cross_entropy, cross_entropy),
    BT_REFERENCE(cross_entropy_grad, cross_entropy_grad),
    BT_REFERENCE(binary_cross_entropy, binary_cross_entropy),
    BT_REFERENCE(layer_norm, layer_norm),
    BT_REFERENCE(layer_norm_grad, layer_norm_grad),
    BT_REFERENCE(layer_norm_dot, layer_norm_dot),
    {.op = NULL},
};
