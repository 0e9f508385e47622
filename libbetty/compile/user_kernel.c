/* compile/user_kernel.c: kernels of a user's bt_op, seen as kernels of the CPU backend. */
#include "compile/compile_inside.h"

#include <string.h>

/* So far only the processor's: on another device its body takes the op's place, or there is no kernel. */
static const bt_kernel *find(const bt_call *call)
{
    if (call->inputs < 1)
        return NULL;
    for (int k = 0; k < BT_MAX_ITEMS && call->op->kernels[k].launch; k++)
        if (call->op->kernels[k].device == BT_CPU && call->op->kernels[k].dtype == call->in[0].dtype)
            return &call->op->kernels[k];
    return NULL;
}

static size_t scratch(const bt_call *call)
{
    const bt_kernel *kernel = find(call);
    bt_array in[BT_MAX_ITEMS + 1] = {{0}};
    for (int i = 0; i < call->inputs; i++)
        in[i] = bt_view_array(&call->in[i]);
    bt_guest before = bt_guest_enter((bt_guest){.owner = call->op->name, .function = "scratch"});
    size_t size = kernel->scratch ? kernel->scratch(call->attr, in, call->threads) : 0;
    bt_guest_leave(before);
    return size;
}

static bt_status launch(const bt_call *call)
{
    const bt_kernel *kernel = find(call);
    bt_array in[BT_MAX_ITEMS + 1] = {{0}}, out[BT_MAX_OUTPUTS] = {{0}};
    for (int i = 0; i < call->inputs; i++)
        in[i] = bt_view_array(&call->in[i]);
    for (int o = 0; o < call->outputs; o++)
        out[o] = bt_view_array(&call->out[o]);
    bt_launch run = {.attr = call->attr, .in = in, .out = out, .scratch = call->scratch, .threads = call->threads};
    bt_guest before = bt_guest_enter((bt_guest){.owner = call->op->name, .function = "launch"});
    bt_status status = kernel->launch(&run);
    bt_guest_leave(before);
    return status;
}

static const bt_kernel_impl adapter = {.name = "user", .scratch = scratch, .launch = launch};

bool bt_kernel_is_users(const bt_kernel_impl *kernel) { return kernel == &adapter; }

const bt_kernel_impl *bt_user_kernel(const bt_kernel_table *table, const bt_call *call)
{
    if (strcmp(table->device, "cpu") != 0 || !find(call) || bt_call_half(call) || call->inputs > BT_MAX_ITEMS ||
        call->outputs > BT_MAX_OUTPUTS)
        return NULL;
    for (int i = 0; i < call->inputs; i++)
        if (!bt_view_dense(&call->in[i]))
            return NULL;
    return &adapter;
}
