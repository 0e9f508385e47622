/* compile/work.c: operations and bytes of a call, and how many threads these are worth. */
#include "compile/work.h"

#include "compile/joined.h"
#include "compile/spaces.h"
#include "ops/ops.h"

static double view_bytes(const bt_view *view)
{
    double bytes = (double)bt_dtype_size(view->dtype);
    for (int i = 0; i < view->rank; i++)
        bytes *= view->strides[i] ? (double)view->dims[i] : 1;
    return bytes;
}

double bt_call_bytes(const bt_call *call)
{
    double bytes = 0;
    for (int i = 0; i < call->inputs; i++)
        bytes += view_bytes(&call->in[i]);
    for (int o = 0; o < call->outputs; o++)
        bytes += view_bytes(&call->out[o]);
    return bytes;
}

double bt_call_flops(const bt_call *call)
{
    bt_array in[BT_MAX_ITEMS + 1], out[BT_MAX_OUTPUTS];
    const bt_op_info *info = call->op->info;
    if (call->joined)
        return call->joined->flops;
    if (bt_is_move(call))
        return 0;
    if (!info || !info->flops || call->inputs > BT_MAX_ITEMS || call->outputs > BT_MAX_OUTPUTS)
        return (double)bt_array_count(bt_view_array(&call->out[0]));
    for (int i = 0; i < call->inputs; i++)
        in[i] = bt_view_array(&call->in[i]);
    in[call->inputs] = (bt_array){0};
    for (int o = 0; o < call->outputs; o++)
        out[o] = bt_view_array(&call->out[o]);
    return info->flops(call->attr, in, out);
}

double bt_call_work(const bt_call *call) { return bt_call_flops(call) + BT_WORK_OF_A_BYTE * bt_call_bytes(call); }

static bool small(const bt_view *view) { return bt_array_count(bt_view_array(view)) <= BT_WORK_OF_A_COPY; }

bool bt_call_small(const bt_call *call)
{
    for (int i = 0; i < call->inputs; i++)
        if (!small(&call->in[i]))
            return false;
    for (int o = 0; o < call->outputs; o++)
        if (!small(&call->out[o]))
            return false;
    return true;
}

int bt_call_threads(const bt_call *call, int most)
{
    double threads = bt_call_work(call) / BT_WORK_OF_A_THREAD;
    return threads >= most ? most : threads < 1 ? 1 : (int)threads;
}
