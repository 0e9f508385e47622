/* backend/cuda/cudnn.h: descriptors of cuDNN's graph interface. Use it only if bt_cuda_cudnn() returns a library. */
#ifndef BT_CUDA_CUDNN_H
#define BT_CUDA_CUDNN_H

#include "backend/cuda/library.h"

bt_status bt_cudnn_try(cudnnStatus_t status, const char *what); /* BT_OK, or an error as from bt_fail */

/* The process' handle for its device. NULL after an error. */
cudnnHandle_t bt_cudnn_handle(void);

/* ---- descriptors, created one after the other; the first failure is kept, and later calls do nothing ---- */

enum { BT_CUDNN_DESCRIPTORS = 64 };

typedef struct bt_cudnn_bag {
    cudnnStatus_t status;
    cudnnBackendDescriptor_t all[BT_CUDNN_DESCRIPTORS];
    int count;
} bt_cudnn_bag;

cudnnBackendDescriptor_t bt_cudnn_new(bt_cudnn_bag *bag, cudnnBackendDescriptorType_t type);
void bt_cudnn_set(bt_cudnn_bag *bag, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, int64_t count, const void *values);
void bt_cudnn_refer(bt_cudnn_bag *bag, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                    cudnnBackendDescriptor_t to);
/* Returns how many there are; writes at most `room`. */
int64_t bt_cudnn_get(bt_cudnn_bag *bag, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, int64_t room, void *values);
void bt_cudnn_finish(bt_cudnn_bag *bag, cudnnBackendDescriptor_t descriptor);
cudnnBackendDescriptor_t bt_cudnn_keep(bt_cudnn_bag *bag, cudnnBackendDescriptor_t descriptor); /* it is not freed */
void bt_cudnn_free(bt_cudnn_bag *bag);

#endif
