/* compile/user_kernel.c: presents the kernels of a user's bt_op as kernels of a backend, one adapter per device. */
#include "compile/compile_inside.h"

#include <string.h>

static const bt_kernel *find(const bt_call *call, bt_device device)
{
    if (call->inputs < 1)
        return NULL;
    for (int k = 0; k < BT_MAX_ITEMS && call->op->kernels[k].launch; k++)
        if (call->op->kernels[k].device == device && call->op->kernels[k].dtype == call->in[0].dtype)
            return &call->op->kernels[k];
    return NULL;
}

static size_t scratch(const bt_call *call, bt_device device)
{
    const bt_kernel *kernel = find(call, device);
    bt_array in[BT_MAX_ITEMS + 1] = {{0}};
    for (int i = 0; i < call->inputs; i++)
        in[i] = bt_view_array(&call->in[i]);
    bt_guest before = bt_guest_enter((bt_guest){.owner = call->op->name, .function = "scratch"});
    size_t size = kernel->scratch ? kernel->scratch(call->attr, in, call->threads) : 0;
    bt_guest_leave(before);
    return size;
}

static bt_status launch(const bt_call *call, bt_device device)
{
    const bt_kernel *kernel = find(call, device);
    bt_array in[BT_MAX_ITEMS + 1] = {{0}}, out[BT_MAX_OUTPUTS] = {{0}};
    for (int i = 0; i < call->inputs; i++)
        in[i] = bt_view_array(&call->in[i]);
    for (int o = 0; o < call->outputs; o++)
        out[o] = bt_view_array(&call->out[o]);
    bt_launch run = {.attr = call->attr,
                     .in = in,
                     .out = out,
                     .scratch = call->scratch,
                     .threads = call->threads,
                     .stream = call->stream};
    bt_guest before = bt_guest_enter((bt_guest){.owner = call->op->name, .function = "launch"});
    bt_status status = kernel->launch(&run);
    bt_guest_leave(before);
    return status;
}

static size_t cpu_scratch(const bt_call *call) { return scratch(call, BT_CPU); }
static bt_status cpu_launch(const bt_call *call) { return launch(call, BT_CPU); }
static size_t cuda_scratch(const bt_call *call) { return scratch(call, BT_CUDA); }
static bt_status cuda_launch(const bt_call *call) { return launch(call, BT_CUDA); }

static const struct adapter {
    const char *device; /* of the table */
    bt_kernel_impl kernel;
} adapters[] = {
    [BT_CPU] = {"cpu", {.name = "user", .scratch = cpu_scratch, .launch = cpu_launch}},
    [BT_CUDA] = {"cuda", {.name = "user.cuda", .scratch = cuda_scratch, .launch = cuda_launch}},
};

bool bt_kernel_is_users(const bt_kernel_impl *kernel)
{
    return kernel == &adapters[BT_CPU].kernel || kernel == &adapters[BT_CUDA].kernel;
}

const bt_kernel_impl *bt_user_kernel(const bt_kernel_table *table, const bt_call *call)
{
    const bt_device device = strcmp(table->device, adapters[BT_CUDA].device) == 0 ? BT_CUDA : BT_CPU;
    if (strcmp(table->device, adapters[device].device) != 0 || !find(call, device) || bt_call_half(call) ||
        call->inputs > BT_MAX_ITEMS || call->outputs > BT_MAX_OUTPUTS)
        return NULL;
    for (int i = 0; i < call->inputs; i++)
        if (!bt_view_dense(&call->in[i]))
            return NULL;
    return &adapters[device].kernel;
}
