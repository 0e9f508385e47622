/* backend/cuda/convolution.h: the cuDNN plan that computes a convolution. */
#ifndef BT_CUDA_CONVOLUTION_H
#define BT_CUDA_CONVOLUTION_H

#include "backend/cuda/cuda.h"
#include "backend/cuda/cudnn.h"

enum { BT_CUDA_CONV, BT_CUDA_CONV_DX, BT_CUDA_CONV_DW };

/* A convolution, with x [n, h, w, in], weights [out, kh, kw, in/groups] and y [n, oh, ow, out], all dense. */
typedef struct bt_cuda_conv_case {
    int64_t kind, dtype, tf32, alignment; /* of the operands' memory, in bytes */
    int64_t x[4], w[4], y[4];             /* sizes, in this order */
    int64_t stride[2], padding[2], dilation[2];
    int64_t card; /* the card that it is planned for */
} bt_cuda_conv_case;

typedef struct bt_cuda_conv_plan bt_cuda_conv_plan;
struct bt_cuda_conv_plan {
    bt_cuda_conv_case of;
    cudnnBackendDescriptor_t plan; /* NULL: cuDNN has no plan that may be used */
    int64_t workspace;             /* bytes */
    int64_t engine;                /* cuDNN's number for its engine */
    unsigned notes;                /* bit n: cudnnNumericalNote_t n */
    bt_cuda_conv_plan *next;
};

enum { BT_CUDA_CONV_WORKSPACE = 32 << 20 }; /* bytes, at most */

/* Notes that no plan for the dtype may have: sums that differ between runs, or that are not of the dtype's numbers
 * (with tf32: of these rounded to 11 bits). */
unsigned bt_cuda_conv_forbidden(bt_dtype dtype, bool tf32);

/* Searched for once per process, then kept. NULL: there is none, for any reason. */
const bt_cuda_conv_plan *bt_cuda_conv_planned(const bt_call *call, bool aligned);

/* The views of a call of conv, conv_dx or conv_dw. */
typedef struct bt_cuda_conv_views {
    const bt_view *x, *w, *y;
} bt_cuda_conv_views;
bt_cuda_conv_views bt_cuda_conv_views_of(const bt_call *call);

enum { BT_CUDA_CONV_X = 'x', BT_CUDA_CONV_W = 'w', BT_CUDA_CONV_Y = 'y' }; /* cuDNN's ids for them */

#endif
