/* backend/cuda/library.c: opens libraries of the CUDA toolkit. It looks for each in the folders of
 * BETTY_CUDA_LIBRARIES, which are separated by colons, and then where the system looks for libraries. */
#include "backend/cuda/library.h"

#include "backend/cuda/cuda.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry { /* a function, and the place of its address in the table */
    const char *symbol;
    size_t at;
} entry;

static void *open_in(const char *folder, size_t length, const char *file)
{
    char path[4096];
    const int size = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, file);
    return length && size > 0 && (size_t)size < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void *open_file(const char *file)
{
    const char *folders = getenv("BETTY_CUDA_LIBRARIES");
    void *library = NULL;
    for (const char *folder = folders; folder && !library; folder = strchr(folder, ':')) {
        folder += *folder == ':';
        library = open_in(folder, strcspn(folder, ":"), file);
    }
    if (library)
        return library;
#if defined BT_CUDA_LIBRARY_FOLDER /* for tests, whose device no other library knows */
    return open_in(BT_CUDA_LIBRARY_FOLDER, strlen(BT_CUDA_LIBRARY_FOLDER), file);
#else
    return dlopen(file, RTLD_NOW | RTLD_LOCAL);
#endif
}

/* Fills the table from the first file that exists and has all functions. */
static bool fill(const char *const *files, const entry *entries, int count, void *table)
{
    for (; *files; files++) {
        void *library = open_file(*files);
        int found = 0;
        for (; library && found < count; found++) {
            void *function = dlsym(library, entries[found].symbol);
            if (!function)
                break;
            memcpy((char *)table + entries[found].at, &function, sizeof function);
        }
        if (library && found == count)
            return true;
        if (library)
            dlclose(library);
    }
    return false;
}

/* ---- cuBLASLt ---- */

static bt_cublaslt cublaslt;
static bool have_cublaslt;

static void open_cublaslt(void)
{
    static const char *const files[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
#define ENTRY(symbol, name) {#symbol, offsetof(bt_cublaslt, name)},
    static const entry entries[] = {BT_CUBLASLT(ENTRY)};
    have_cublaslt = bt_cuda_answers() && fill(files, entries, BT_COUNT_OF(entries), &cublaslt) &&
                    cublaslt.create(&cublaslt.handle) == CUBLAS_STATUS_SUCCESS;
}

const bt_cublaslt *bt_cuda_cublaslt(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_cublaslt);
    return have_cublaslt ? &cublaslt : NULL;
}

/* ---- cuDNN ---- */

static bt_cudnn cudnn;
static bool have_cudnn;

static void open_cudnn(void)
{
    enum { FIRST_VERSION = 90800 };
    static const char *const files[] = {"libcudnn.so.9", NULL};
#define CUDNN_ENTRY(symbol, name) {#symbol, offsetof(bt_cudnn, name)},
    static const entry entries[] = {BT_CUDNN(CUDNN_ENTRY)};
    have_cudnn = fill(files, entries, BT_COUNT_OF(entries), &cudnn) && cudnn.version() >= FIRST_VERSION;
}

const bt_cudnn *bt_cuda_cudnn(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_cudnn);
    return have_cudnn ? &cudnn : NULL;
}

/* ---- NCCL ---- */

static bt_nccl nccl;
static bool have_nccl;

static void open_nccl(void)
{
    enum { FIRST_VERSION = 21000 };
    static const char *const files[] = {"libnccl.so.2", NULL};
#define NCCL_ENTRY(symbol, name) {#symbol, offsetof(bt_nccl, name)},
    static const entry entries[] = {BT_NCCL(NCCL_ENTRY)};
    int version = 0;
    have_nccl = fill(files, entries, BT_COUNT_OF(entries), &nccl) && nccl.version(&version) == ncclSuccess &&
                version >= FIRST_VERSION;
}

const bt_nccl *bt_cuda_nccl(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_nccl);
    return have_nccl ? &nccl : NULL;
}
