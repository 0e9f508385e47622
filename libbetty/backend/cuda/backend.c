/* backend/cuda/backend.c: the CUDA backend: its kernels in one list, and whether there is a device. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/library.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KERNELS = 256 };

static const bt_kernel_impl *list[KERNELS + 1];
static char isa_text[96];
static int chosen;        /* the device of this process */
static int major, minor;  /* of its architecture */
static cudaError_t found; /* the result of asking for a device */
static pthread_once_t once = PTHREAD_ONCE_INIT, asked = PTHREAD_ONCE_INIT;

static void build(void)
{
#define BT_CUDA_ENTRY(name) bt_cuda_##name,
    static const bt_kernel_impl *const families[] = {BT_CUDA_FAMILIES(BT_CUDA_ENTRY)};
    int count = 0;
    for (int f = 0; f < BT_COUNT_OF(families); f++)
        for (const bt_kernel_impl *kernel = families[f]; kernel->op && count < KERNELS; kernel++)
            list[count++] = kernel;
}

static const bt_kernel_impl *const *kernels(void)
{
    pthread_once(&once, build);
    return list;
}

static void describe(void)
{
    snprintf(isa_text, sizeof isa_text, "sm_%d%d%s%s", major, minor, bt_cuda_cublaslt() ? "" : ", without cuBLASLt",
             bt_cuda_cudnn() ? "" : ", without cuDNN");
}

static const char *isa(void)
{
    static pthread_once_t described = PTHREAD_ONCE_INIT;
    pthread_once(&described, describe);
    return isa_text;
}

static const bt_conversions *conversions(void) { return bt_backend_cpu()->conversions(); }

static bt_backend backend = {.name = "cuda",
                             .isa = isa,
                             .kernels = {.device = "cuda", .list = kernels, .tf32 = true},
                             .conversions = conversions};

static void ask(void)
{
    int devices = 0;
    found = cudaGetDeviceCount(&devices);
    if (found == cudaSuccess && devices == 0)
        found = cudaErrorNoDevice;
    if (found == cudaSuccess)
        found = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, chosen);
    if (found == cudaSuccess)
        found = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, chosen);
    backend.device = bt_cuda_device();
}

bool bt_cuda_answers(void)
{
    pthread_once(&asked, ask);
    return found == cudaSuccess;
}

int bt_cuda_chosen(void) { return chosen; }

bt_status bt_cuda_choose(int here, int beside)
{
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error == cudaSuccess && devices > 0 && beside > devices)
        return bt_fail(BT_ERROR_CONFIG,
                       "%d ranks are on this machine, and it has %d CUDA device%s: NCCL takes one for each rank",
                       beside, devices, devices > 1 ? "s" : "");
    chosen = here;
    return BT_OK; /* bt_backend_cuda reports that there is none */
}

static int devices;

static void count_devices(void)
{
    int how = 0;
    const pid_t child = fork();
    if (child == 0) {
        int count = 0;
        _exit(cudaGetDeviceCount(&count) == cudaSuccess ? count : 0);
    }
    while (child > 0 && waitpid(child, &how, 0) < 0 && errno == EINTR)
        ;
    devices = child > 0 && WIFEXITED(how) ? WEXITSTATUS(how) : 0;
}

int bt_cuda_devices(void)
{
    static pthread_once_t counted = PTHREAD_ONCE_INIT;
    pthread_once(&counted, count_devices);
    return devices;
}

const bt_backend *bt_backend_cuda(void)
{
    if (bt_cuda_answers())
        return &backend;
    bt_fail(BT_ERROR_DEVICE, "no CUDA device can be used: %s", cudaGetErrorString(found));
    return NULL;
}

static const char *planned_isa(void)
{
    const bt_card *card = bt_cuda_card();
    return card ? card->name : "no card";
}

const bt_backend *bt_backend_cuda_to_plan(void)
{
    static const bt_device_table none = {.own = BT_CUDA_STAGES * BT_CUDA_STAGE};
    static const bt_backend to_plan = {.name = "cuda",
                                       .isa = planned_isa,
                                       .kernels = {.device = "cuda", .list = kernels, .tf32 = true},
                                       .conversions = conversions,
                                       .device = &none};
    return &to_plan;
}
