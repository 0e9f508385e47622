/* engine/traced/peer.c: a problem in the loss of another: its network. */
#include "engine/traced/traced.h"

#include "ops/ops.h"

bt_module *bt_net(bt_problem *self)
{
    if (!self || self->missing)
        return NULL;
    return bt_problem_configure(self) == BT_OK ? self->module : NULL;
}

bt_tensor *bt_forward_problem_(bt_problem *p, bt_tensor *const *in)
{
    bt_module *net = bt_net(p);
    bt_trace *trace = bt_trace_now();
    if (!net)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_forward: the problem has no module");
    if (!p->def->forward)
        return bt_forward_module_(net, in);
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
