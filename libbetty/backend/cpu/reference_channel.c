/* backend/cpu/reference_channel.c: plain loops for moments, products and combinations of channels. */
#include "backend/cpu/reference.h"

/* x [lead..., rows..., c] as [groups, rows, channels]. */
typedef struct sizes {
    int64_t groups, rows, channels;
} sizes;

static sizes sizes_of(const bt_call *call)
{
    const bt_channel_attr *attr = call->attr;
    const bt_view *x = &call->in[0];
    sizes s = {1, 1, x->dims[x->rank - 1]};
    for (int d = 0; d < x->rank - 1; d++)
        *(d < attr->lead ? &s.groups : &s.rows) *= x->dims[d];
    return s;
}

static bt_status moments(const bt_call *call)
{
    const bt_view *x = &call->in[0];
    sizes s = sizes_of(call);
    for (int64_t g = 0; g < s.groups; g++)
        for (int64_t c = 0; c < s.channels; c++) {
            double sum = 0, squares = 0;
            for (int64_t row = 0; row < s.rows; row++)
                sum += bt_cpu_get(x, (g * s.rows + row) * s.channels + c);
            double mean = sum / (double)s.rows;
            for (int64_t row = 0; row < s.rows; row++) {
                double d = bt_cpu_get(x, (g * s.rows + row) * s.channels + c) - mean;
                squares += d * d;
            }
            bt_cpu_put(&call->out[0], g * s.channels + c, mean);
            bt_cpu_put(&call->out[1], g * s.channels + c, squares / (double)s.rows);
        }
    return BT_OK;
}

static bt_status dot(const bt_call *call)
{
    const bt_view *x = &call->in[0], *z = &call->in[1];
    sizes s = sizes_of(call);
    for (int64_t g = 0; g < s.groups; g++)
        for (int64_t c = 0; c < s.channels; c++) {
            double dot = 0, sum = 0, centre = call->inputs > 2 ? bt_cpu_get(&call->in[2], g * s.channels + c) : 0;
            for (int64_t row = 0; row < s.rows; row++) {
                int64_t e = (g * s.rows + row) * s.channels + c;
                dot += (bt_cpu_get(x, e) - centre) * bt_cpu_get(z, e);
                sum += bt_cpu_get(z, e);
            }
            bt_cpu_put(&call->out[0], g * s.channels + c, dot);
            bt_cpu_put(&call->out[1], g * s.channels + c, sum);
        }
    return BT_OK;
}

static double at_channel(const bt_call *call, int input, int64_t channel, double missing)
{
    return input < 0 ? missing : bt_cpu_get(&call->in[input], channel);
}

static bt_status mix(const bt_call *call)
{
    const bt_channel_attr *attr = call->attr;
    bt_channel_inputs at = bt_channel_inputs_of(attr);
    sizes s = sizes_of(call);
    for (int64_t e = 0; e < s.groups * s.rows * s.channels; e++) {
        int64_t channel = e / (s.rows * s.channels) * s.channels + e % s.channels;
        double y = 0;
        for (int k = 0; k < attr->terms; k++)
            y += (bt_cpu_get(&call->in[at.x[k]], e) - at_channel(call, at.centre[k], channel, 0)) *
                 at_channel(call, at.scale[k], channel, 1);
        y += at_channel(call, at.shift, channel, 0);
        if (attr->relu ? y <= 0 : attr->gated && !(bt_cpu_get(&call->in[at.gate], e) > 0))
            y = 0;
        bt_cpu_put(&call->out[0], e, y);
    }
    return BT_OK;
}

const bt_kernel_impl bt_cpu_reference_channel[] = {
    BT_REFERENCE(channel_moments, moments),
    BT_REFERENCE(channel_dot, dot),
    BT_REFERENCE(channel_mix, mix),
    {.op = NULL},
};
