/* backend/cpu/reference_reduce.c: plain loops for the reductions. */
#include "backend/cpu/reference.h"

#include <math.h>

/* The elements that are reduced to one output element: `reduced`, with its data moved there. */
static bt_view part_of(const bt_view *kept, const bt_view *reduced, int64_t element)
{
    bt_view part = *reduced;
    part.data = bt_cpu_at(kept, element);
    return part;
}

static double sum_of(const bt_view *part, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += bt_cpu_get(part, i);
    return sum;
}

static int64_t int_sum_of(const bt_view *part, int64_t count)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (uint64_t)bt_cpu_get_int(part, i);
    return (int64_t)sum;
}

/* The place of the largest, the first among equals; NaN is larger than any number. */
static int64_t largest_of(const bt_view *part, int64_t count)
{
    int64_t at = 0;
    bool floats = bt_dtype_floats(part->dtype);
    for (int64_t i = 1; i < count; i++) {
        if (!floats) {
            if (bt_cpu_get_int(part, i) > bt_cpu_get_int(part, at))
                at = i;
            continue;
        }
        double best = bt_cpu_get(part, at), x = bt_cpu_get(part, i);
        if (!isnan(best) && (isnan(x) || x > best))
            at = i;
    }
    return at;
}

static bt_status sum(const bt_call *call)
{
    bt_view kept, reduced;
    bt_cpu_split(&call->in[0], ((const bt_reduce_attr *)call->attr)->axes, &kept, &reduced);
    int64_t outputs = bt_cpu_count(&kept), count = bt_cpu_count(&reduced);
    for (int64_t e = 0; e < outputs; e++) {
        bt_view part = part_of(&kept, &reduced, e);
        if (bt_dtype_floats(part.dtype))
            bt_put(call->out[0].dtype, call->out[0].data, e, sum_of(&part, count));
        else
            bt_cpu_put_int(&call->out[0], e, int_sum_of(&part, count));
    }
    return BT_OK;
}

static bt_status max(const bt_call *call)
{
    bt_view kept, reduced;
    bt_cpu_split(&call->in[0], ((const bt_reduce_attr *)call->attr)->axes, &kept, &reduced);
    int64_t outputs = bt_cpu_count(&kept), count = bt_cpu_count(&reduced);
    for (int64_t e = 0; e < outputs; e++) {
        bt_view part = part_of(&kept, &reduced, e);
        if (!count)
            bt_cpu_put(&call->out[0], e, -(double)INFINITY); /* for integers: the smallest */
        else if (bt_dtype_floats(part.dtype))
            bt_cpu_put(&call->out[0], e, bt_cpu_get(&part, largest_of(&part, count)));
        else
            bt_cpu_put_int(&call->out[0], e, bt_cpu_get_int(&part, largest_of(&part, count)));
    }
    return BT_OK;
}

static bt_status argmax(const bt_call *call)
{
    bt_view kept, reduced;
    bt_cpu_split(&call->in[0], ((const bt_reduce_attr *)call->attr)->axes, &kept, &reduced);
    int64_t outputs = bt_cpu_count(&kept), count = bt_cpu_count(&reduced);
    for (int64_t e = 0; e < outputs; e++) {
        bt_view part = part_of(&kept, &reduced, e);
        bt_cpu_put_int(&call->out[0], e, largest_of(&part, count));
    }
    return BT_OK;
}

static bt_status norm_square(const bt_call *call)
{
    bt_view kept, reduced;
    bt_cpu_split(&call->in[0], ((const bt_reduce_attr *)call->attr)->axes, &kept, &reduced);
    int64_t outputs = bt_cpu_count(&kept), count = bt_cpu_count(&reduced);
    for (int64_t e = 0; e < outputs; e++) {
        bt_view part = part_of(&kept, &reduced, e);
        double sum = 0;
        for (int64_t i = 0; i < count; i++)
            sum += bt_cpu_get(&part, i) * bt_cpu_get(&part, i);
        bt_put(call->out[0].dtype, call->out[0].data, e, sum);
    }
    return BT_OK;
}

const bt_kernel_impl bt_cpu_reference_reduce[] = {
    BT_REFERENCE(sum, sum),
    BT_REFERENCE(max, max),
    BT_REFERENCE(argmax, argmax),
    BT_REFERENCE(norm_square, norm_square),
    {.op = NULL},
};
