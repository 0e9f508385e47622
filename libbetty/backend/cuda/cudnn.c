/* backend/cuda/cudnn.c: descriptors of cuDNN's graph interface. */
#include "backend/cuda/cudnn.h"

#include <pthread.h>

bt_status bt_cudnn_try(cudnnStatus_t status, const char *what)
{
    char why[256] = "";
    if (status == CUDNN_STATUS_SUCCESS)
        return BT_OK;
    bt_cuda_cudnn()->last_error(why, sizeof why);
    return bt_fail(BT_ERROR_DEVICE, "cuDNN: %s: %s (%.200s)", what, bt_cuda_cudnn()->error_string(status), why);
}

cudnnHandle_t bt_cudnn_handle(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static cudnnHandle_t handle;
    bt_status status = BT_OK;
    pthread_mutex_lock(&lock);
    if (!handle)
        status = bt_cudnn_try(bt_cuda_cudnn()->create(&handle), "beginning");
    if (status != BT_OK)
        handle = NULL;
    pthread_mutex_unlock(&lock);
    return handle;
}

/* ---- descriptors ---- */

static bool fine(const bt_cudnn_bag *bag) { return bag->status == CUDNN_STATUS_SUCCESS; }

cudnnBackendDescriptor_t bt_cudnn_new(bt_cudnn_bag *bag, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t made = NULL;
    if (!fine(bag))
        return NULL;
    if (bag->count == BT_CUDNN_DESCRIPTORS) {
        bag->status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
        return NULL;
    }
    bag->status = bt_cuda_cudnn()->descriptor_create(type, &made);
    if (fine(bag))
        bag->all[bag->count++] = made;
    return made;
}

void bt_cudnn_set(bt_cudnn_bag *bag, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (fine(bag))
        bag->status = bt_cuda_cudnn()->set(of, name, type, count, values);
}

void bt_cudnn_refer(bt_cudnn_bag *bag, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                    cudnnBackendDescriptor_t to)
{
    bt_cudnn_set(bag, of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &to);
}

int64_t bt_cudnn_get(bt_cudnn_bag *bag, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, int64_t room, void *values)
{
    int64_t count = 0;
    if (fine(bag))
        bag->status = bt_cuda_cudnn()->get(of, name, type, room, &count, values);
    return fine(bag) ? count : 0;
}

void bt_cudnn_finish(bt_cudnn_bag *bag, cudnnBackendDescriptor_t descriptor)
{
    if (fine(bag))
        bag->status = bt_cuda_cudnn()->finalize(descriptor);
}

cudnnBackendDescriptor_t bt_cudnn_keep(bt_cudnn_bag *bag, cudnnBackendDescriptor_t descriptor)
{
    for (int i = 0; i < bag->count; i++)
        if (bag->all[i] == descriptor)
            bag->all[i] = NULL;
    return descriptor;
}

void bt_cudnn_free(bt_cudnn_bag *bag)
{
    for (int i = bag->count; i-- > 0;)
        if (bag->all[i])
            bt_cuda_cudnn()->descriptor_destroy(bag->all[i]);
    *bag = (bt_cudnn_bag){CUDNN_STATUS_SUCCESS, {NULL}, 0};
}
