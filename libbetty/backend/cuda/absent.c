/* backend/cuda/absent.c: a build without CUDA. */
#include "base/base.h"
#include "runtime/backend.h"

const bt_backend *bt_backend_cuda_to_plan(void) { return bt_backend_cuda(); }

const bt_backend *bt_backend_cuda(void)
{
    bt_fail(BT_ERROR_UNSUPPORTED, "this build has no CUDA: the CUDA toolkit was not found when it was built");
    return NULL;
}
