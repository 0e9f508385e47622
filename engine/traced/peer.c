/* engine/traced/peer.c: a problem in the loss of another: its network. */
#include "engine/traced/forward.h"
#include "engine/traced/traced.h"

#include "ops/ops.h"

bt_module *bt_net(bt_problem *self)
{
    if (!self || self->missing)
        return NULL;
    return bt_problem_configure(self) == BT_OK ? self->module : NULL;
}

static bt_tensor *call_forward(bt_problem *p, bt_tensor *const *in)
{
    bt_trace *trace = bt_trace_now();
    if (!p->def->forward)
        return bt_forward_module_(p->module, in);
    bt_tag tag = trace ? trace->tag : (bt_tag){0};
    if (trace) {
        trace->tag.level = p->name;
        trace->tag.low = p->low;
    }
    bt_guest before = bt_problem_enter(p, "forward");
    bt_tensor *out = p->def->forward(p, in);
    bt_problem_leave(p, "forward", before);
    if (trace)
        trace->tag = tag;
    if (!out)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: forward returned nothing", p->name);
    return tag.low == p->low ? out : bt_wide(out);
}

bt_tensor *bt_forward_problem_(bt_problem *p, bt_tensor *const *in)
{
    bt_tensor *stands[BT_MAX_ITEMS + 1];
    if (!bt_net(p))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_forward: the problem has no module");
    const bool heard = bt_heard_begin(p, in, stands);
    bt_tensor *out = call_forward(p, heard ? stands : in);
    if (heard)
        bt_heard_end(p, out);
    return out;
}
