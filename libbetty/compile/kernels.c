/* compile/kernels.c: choosing kernels. */
#include "compile/kernels.h"

#include <string.h>

bt_array bt_view_array(const bt_view *view)
{
    bt_array array = {.dtype = view->dtype, .rank = view->rank, .data = view->data};
    memcpy(array.dims, view->dims, sizeof array.dims);
    return array;
}

const bt_kernel_impl *bt_kernel_choose(const bt_kernel_table *table, const bt_call *call)
{
    if (!table || !call)
        return NULL;
    for (const bt_kernel_impl *const *kernel = table->list(); *kernel; kernel++)
        if ((*kernel)->op == call->op && (!(*kernel)->accepts || (*kernel)->accepts(call)))
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
