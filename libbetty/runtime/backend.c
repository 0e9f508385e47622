/* runtime/backend.c: choosing kernels. */
#include "runtime/backend.h"

const bt_kernel_impl *bt_backend_choose(const bt_backend *backend, const bt_call *call)
{
    if (!backend || !call)
        return NULL;
    for (const bt_kernel_impl *const *kernel = backend->kernels(); *kernel; kernel++)
        if ((*kernel)->op == call->op && (!(*kernel)->accepts || (*kernel)->accepts(call)))
            return *kernel;
    return NULL;
}

bool bt_backend_knows(const bt_backend *backend, const bt_op *op)
{
    if (!backend || !op)
        return false;
    for (const bt_kernel_impl *const *kernel = backend->kernels(); *kernel; kernel++)
        if ((*kernel)->op == op)
            return true;
    return false;
}
