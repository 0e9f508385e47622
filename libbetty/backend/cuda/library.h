/* backend/cuda/library.h: libraries of the CUDA toolkit, and cuDNN, opened on first use, so that a program starts
 * without them. If a machine lacks one, our own kernels do its work. */
#ifndef BT_CUDA_LIBRARY_H
#define BT_CUDA_LIBRARY_H

#include "base/base.h"
#include <cublasLt.h>
#include <cudnn_graph.h>
#include <nccl.h>

/* ---- cuBLASLt ---- */

#define BT_CUBLASLT(X)                                                                                                 \
    X(cublasLtCreate, create)                                                                                          \
    X(cublasLtGetStatusName, status_name)                                                                              \
    X(cublasLtMatmulDescCreate, desc_create)                                                                           \
    X(cublasLtMatmulDescDestroy, desc_destroy)                                                                         \
    X(cublasLtMatmulDescSetAttribute, desc_set)                                                                        \
    X(cublasLtMatrixLayoutCreate, layout_create)                                                                       \
    X(cublasLtMatrixLayoutDestroy, layout_destroy)                                                                     \
    X(cublasLtMatrixLayoutSetAttribute, layout_set)                                                                    \
    X(cublasLtMatmulPreferenceCreate, preference_create)                                                               \
    X(cublasLtMatmulPreferenceDestroy, preference_destroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute, preference_set)                                                            \
    X(cublasLtMatmulAlgoGetHeuristic, heuristic)                                                                       \
    X(cublasLtMatmulAlgoCapGetAttribute, algo_cap)                                                                     \
    X(cublasLtMatmulAlgoConfigGetAttribute, algo_config)                                                               \
    X(cublasLtMatmul, matmul)

#define BT_CUDA_FUNCTION(symbol, name) __typeof__(symbol) *name;

typedef struct bt_cublaslt {
    BT_CUBLASLT(BT_CUDA_FUNCTION)
    cublasLtHandle_t handle;
} bt_cublaslt;

/* NULL: there is none, or no device for it. It stays open. */
const bt_cublaslt *bt_cuda_cublaslt(void);

/* ---- cuDNN: its graph interface ---- */

#define BT_CUDNN(X)                                                                                                    \
    X(cudnnGetVersion, version)                                                                                        \
    X(cudnnGetErrorString, error_string)                                                                               \
    X(cudnnGetLastErrorString, last_error)                                                                             \
    X(cudnnCreate, create)                                                                                             \
    X(cudnnSetStream, set_stream)                                                                                      \
    X(cudnnBackendCreateDescriptor, descriptor_create)                                                                 \
    X(cudnnBackendDestroyDescriptor, descriptor_destroy)                                                               \
    X(cudnnBackendSetAttribute, set)                                                                                   \
    X(cudnnBackendGetAttribute, get)                                                                                   \
    X(cudnnBackendFinalize, finalize)                                                                                  \
    X(cudnnBackendExecute, execute)

typedef struct bt_cudnn {
    BT_CUDNN(BT_CUDA_FUNCTION)
} bt_cudnn;

/* NULL: there is none, or one before 9.8, which can only plan for a card that is present. It stays open. */
const bt_cudnn *bt_cuda_cudnn(void);

/* ---- NCCL ---- */

#define BT_NCCL(X)                                                                                                     \
    X(ncclGetVersion, version)                                                                                         \
    X(ncclGetErrorString, error_string)                                                                                \
    X(ncclGetLastError, last_error)                                                                                    \
    X(ncclGetUniqueId, unique_id)                                                                                      \
    X(ncclCommInitRank, init)                                                                                          \
    X(ncclCommDestroy, destroy)                                                                                        \
    X(ncclCommAbort, abort)                                                                                            \
    X(ncclCommGetAsyncError, async_error)                                                                              \
    X(ncclGroupStart, group_start)                                                                                     \
    X(ncclGroupEnd, group_end)                                                                                         \
    X(ncclAllReduce, all_reduce)                                                                                       \
    X(ncclAllGather, all_gather)                                                                                       \
    X(ncclReduceScatter, reduce_scatter)                                                                               \
    X(ncclBroadcast, broadcast)                                                                                        \
    X(ncclReduce, reduce)

typedef struct bt_nccl {
    BT_NCCL(BT_CUDA_FUNCTION)
} bt_nccl;

/* NULL: there is none, or one before 2.10, whose calls cannot be part of a graph. It stays open. */
const bt_nccl *bt_cuda_nccl(void);

#endif
