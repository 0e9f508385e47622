/* tests/support/instance.c: redirects instances that ask for the CPU backend, as the environment says:
 * BETTY_TEST_BACKEND=far runs them on far memory, BETTY_TEST_BACKEND=cuda on a CUDA device, BETTY_TEST_RANKS=3 on three
 * ranks. The linker substitutes this for the library's bt_instance_new: tests/CMakeLists.txt. */
#include "support/far.h"
#include "support/on_device.h"

#include <stdlib.h>

bt_instance *__real_bt_instance_new(const bt_backend *backend, int threads);
bt_instance *__wrap_bt_instance_new(const bt_backend *backend, int threads);

static bt_instance *on_ranks(bt_instance *instance, const char *ranks)
{
    if (instance && ranks && !instance->queue && bt_instance_spread(instance, atoi(ranks)) != BT_OK) {
        bt_instance_free(instance);
        return NULL;
    }
    return instance;
}

bt_instance *__wrap_bt_instance_new(const bt_backend *backend, int threads)
{
    const bool cpu = backend == bt_backend_cpu();
    if (cpu && far_is_chosen())
        backend = far_backend();
    if (cpu && device_backend())
        backend = device_backend();
    bt_instance *instance = __real_bt_instance_new(backend, threads);
    return on_ranks(instance, cpu ? getenv("BETTY_TEST_RANKS") : NULL);
}
