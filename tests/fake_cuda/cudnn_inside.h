/* tests/fake_cuda/cudnn_inside.h: the simulated cuDNN: convolutions and engines. */
#ifndef FAKE_CUDNN_INSIDE_H
#define FAKE_CUDNN_INSIDE_H

#include "cudnn_graph.h"
#include <stdbool.h>

struct cudnnContext {
    cudaStream_t stream;
};

enum { FAKE_MOST_VALUES = 8 };

typedef struct fake_tensor {
    cudnnDataType_t type;
    int64_t dims[4], strides[4], alignment, name;
} fake_tensor;

enum { FAKE_FORWARD, FAKE_DATA, FAKE_FILTER };

typedef struct fake_conv { /* in NCHW order, as in cuDNN */
    int kind;
    fake_tensor x, w, y;
    int64_t stride[2], dilation[2], before[2], after[2];
    double alpha, beta;
} fake_conv;

typedef struct fake_engine {
    int64_t number;
    unsigned notes;
    bool finishes; /* whether a plan with it can be finalised */
} fake_engine;

int fake_engines(const fake_conv *conv, bool fallback, const fake_engine **list); /* the number of engines, best
                                                                                   * first */
int64_t fake_workspace(const fake_conv *conv, const fake_engine *engine);

/* Appends the convolution to the stream. */
cudnnStatus_t fake_convolve(const fake_conv *conv, const fake_engine *engine, void *x, void *w, void *y,
                            void *workspace, cudaStream_t stream);

cudnnStatus_t fake_refuse(cudnnStatus_t status, const char *why);

#endif
