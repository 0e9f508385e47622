/* compile/kernels.c: choosing kernels. */
#include "compile/kernels.h"

#include "ops/ops.h"
#include <string.h>

bt_array bt_view_array(const bt_view *view)
{
    bt_array array = {.dtype = view->dtype, .rank = view->rank, .data = view->data};
    memcpy(array.dims, view->dims, sizeof array.dims);
    return array;
}

bool bt_call_half(const bt_call *call)
{
    bool half = false;
    for (int i = 0; i < call->inputs; i++)
        half |= bt_dtype_half(call->in[i].dtype);
    for (int o = 0; o < call->outputs; o++)
        half |= bt_dtype_half(call->out[o].dtype);
    return half;
}

bool bt_calls_meet(const bt_call *a, const bt_call *b)
{
    bool meet = a->op == b->op && bt_collective_same(a->attr, b->attr) && a->inputs == b->inputs;
    for (int i = 0; meet && i < a->inputs; i++) {
        const bt_array x = bt_view_array(&a->in[i]), y = bt_view_array(&b->in[i]);
        const bool whole = bt_op_flags(a->op) & BT_OP_EACH; /* else each rank's own part */
        meet = x.dtype == y.dtype && (!whole || bt_array_count(x) == bt_array_count(y));
    }
    return meet;
}

bool bt_kernel_accepts(const bt_kernel_impl *kernel, const bt_call *call)
{
    return (kernel->half || !bt_call_half(call)) && (!kernel->accepts || kernel->accepts(call));
}

const bt_kernel_impl *bt_kernel_choose(const bt_kernel_table *table, const bt_call *call)
{
    if (!table || !call)
        return NULL;
    for (const bt_kernel_impl *const *kernel = table->list(); *kernel; kernel++)
        if ((*kernel)->op == call->op && bt_kernel_accepts(*kernel, call))
            return *kernel;
    return NULL;
}

static bool has(const bt_kernel_table *table, const bt_op *op, bool plain_too)
{
    if (!table || !op)
        return false;
    for (const bt_kernel_impl *const *kernel = table->list(); *kernel; kernel++)
        if ((*kernel)->op == op && (plain_too || !(*kernel)->plain))
            return true;
    return false;
}

bool bt_kernel_known(const bt_kernel_table *table, const bt_op *op) { return has(table, op, true); }

bool bt_kernel_made_for(const bt_kernel_table *table, const bt_op *op) { return has(table, op, false); }
