/* ops/windows.h: the pixels of a window, and the inputs and weights of a resampled pixel; used on the host and on
 * devices. */
#ifndef BT_WINDOWS_H
#define BT_WINDOWS_H

#include "base/everywhere.h"
#include "ops/ops.h"
#include <math.h>

/* The pixels of output o: from <= pixel < to. */
BT_EVERYWHERE static inline void bt_window_range(const bt_window_attr *attr, int axis, int64_t o, int64_t *from,
                                                 int64_t *to)
{
    const bt_window_axis *a = &attr->axis[axis];
    if (attr->adaptive) {
        *from = o * a->size / a->out;
        *to = ((o + 1) * a->size + a->out - 1) / a->out;
        return;
    }
    const int64_t begin = o * a->stride - a->padding, end = begin + a->window;
    *from = begin > 0 ? begin : 0;
    *to = end < a->size ? end : a->size;
}

/* Output o is weight[0] x[at[0]] + weight[1] x[at[1]]. */
BT_EVERYWHERE static inline void bt_resample_taps(const bt_resample_attr *attr, int64_t o, int64_t at[2],
                                                  double weight[2])
{
    at[0] = at[1] = o * attr->from / attr->to;
    weight[0] = 1;
    weight[1] = 0;
    if (!attr->linear)
        return;
    double centre = ((double)o + 0.5) * (double)attr->from / (double)attr->to - 0.5;
    centre = centre > 0 ? centre : 0;
    at[0] = (int64_t)floor(centre);
    at[0] = at[0] < attr->from ? at[0] : attr->from - 1;
    at[1] = at[0] + 1 < attr->from ? at[0] + 1 : at[0];
    weight[1] = centre - (double)at[0];
    weight[0] = 1 - weight[1];
}

#endif
