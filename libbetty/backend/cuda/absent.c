/* backend/cuda/absent.c: a build without CUDA. */
#include "base/base.h"
#include "runtime/backend.h"

static bt_status absent(void)
{
    return bt_fail(BT_ERROR_UNSUPPORTED, "this build has no CUDA: the CUDA toolkit was not found when it was built");
}

const bt_backend *bt_backend_cuda(void)
{
    absent();
    return NULL;
}

const bt_backend *bt_backend_cuda_to_plan(void) { return bt_backend_cuda(); }

bt_status bt_cuda_choose(int here, int beside)
{
    (void)here, (void)beside;
    return absent();
}

int bt_cuda_devices(void) { return 0; }

bt_status bt_cuda_profile(const char *name_or_file)
{
    (void)name_or_file;
    return absent();
}

const bt_card *bt_cuda_card(void)
{
    absent();
    return NULL;
}
