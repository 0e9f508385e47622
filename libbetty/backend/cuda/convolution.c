/* backend/cuda/convolution.c: convolutions with cuDNN. Its images have our layout, but its weights are [out, kh, kw,
 * in/groups]: they are transposed in scratch, which also has the plan's workspace. */
#include "backend/cuda/convolution.h"

#include "backend/cuda/convolution_bias.h"
#include "backend/cuda/move.h"

#include <pthread.h>

/* Kept in call->state: plans for operands aligned like whole buffers, and for others. */
typedef struct planned {
    const bt_cuda_conv_plan *aligned, *loose;
} planned;

/* Numbers of 32 bits and more have the same plans in both cases, except with tf32, which is for aligned operands
 * only. */
static planned planned_of(const bt_call *call)
{
    const bt_cuda_conv_plan *loose = bt_cuda_conv_planned(call, false);
    const bool other = bt_dtype_half(call->in[0].dtype) || call->tag.low == BT_TF32;
    return (planned){.aligned = loose && other ? bt_cuda_conv_planned(call, true) : loose, .loose = loose};
}

static bool accepts(const bt_call *call)
{
    const planned p = planned_of(call);
    return p.aligned && p.loose;
}

/* ---- scratch: the transposed weights, then the workspace ---- */

static size_t weights_bytes(const bt_call *call)
{
    return bt_array_bytes(bt_view_array(bt_cuda_conv_views_of(call).w));
}

static size_t scratch(const bt_call *call)
{
    const planned p = planned_of(call);
    if (!p.aligned || !p.loose)
        return 0;
    const size_t bytes = weights_bytes(call);
    const int64_t most = p.aligned->workspace > p.loose->workspace ? p.aligned->workspace : p.loose->workspace;
    return most ? bt_align_up(bytes) + (size_t)most : bytes;
}

static bt_status prepare(bt_call *call)
{
    planned *p = bt_alloc(sizeof *p);
    if (!p)
        return BT_ERROR_MEMORY;
    *p = planned_of(call);
    call->state = p;
    if (p->aligned && p->loose)
        return BT_OK;
    return bt_fail(BT_ERROR_INTERNAL, "%s: cuDNN had a plan, and has none any more", call->op->name);
}

static void release(bt_call *call)
{
    bt_free(call->state);
    call->state = NULL;
}

/* ---- running ---- */

/* A view of weights [kh, kw, in/groups, out] as [out, kh, kw, in/groups]. */
static bt_view turned(const bt_view *w)
{
    static const int axes[] = {3, 0, 1, 2};
    bt_view view = {.data = w->data, .dtype = w->dtype, .rank = 4};
    for (int d = 0; d < 4; d++) {
        view.dims[d] = w->dims[axes[d]];
        view.strides[d] = w->strides[axes[d]];
    }
    return view;
}

/* The reverse: a view of transposed weights at `data` as [kh, kw, in/groups, out]. */
static bt_view turned_back(const bt_view *w, char *data)
{
    const int64_t kh = w->dims[0], kw = w->dims[1], in = w->dims[2];
    bt_view view = *w;
    view.data = data;
    view.strides[0] = kw * in;
    view.strides[1] = in;
    view.strides[2] = 1;
    view.strides[3] = kh * kw * in;
    return view;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the handle has one stream at a time */

static bt_status execute(const bt_call *call, const bt_cuda_conv_plan *plan, char *x, char *w, char *y)
{
    const bt_cuda_queue *queue = call->queue;
    const bt_cudnn *library = bt_cuda_cudnn();
    cudnnHandle_t handle = bt_cudnn_handle();
    if (!handle)
        return bt_error_status();
    const int64_t names[] = {BT_CUDA_CONV_X, BT_CUDA_CONV_W, BT_CUDA_CONV_Y};
    const void *data[] = {x, w, y};
    void *workspace = plan->workspace ? (char *)call->scratch + bt_align_up(weights_bytes(call)) : NULL;
    bt_cudnn_bag bag = {CUDNN_STATUS_SUCCESS, {NULL}, 0};
    cudnnBackendDescriptor_t pack = bt_cudnn_new(&bag, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    bt_cudnn_set(&bag, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, names);
    bt_cudnn_set(&bag, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, data);
    bt_cudnn_set(&bag, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    bt_cudnn_finish(&bag, pack);
    pthread_mutex_lock(&lock);
    cudnnStatus_t status = bag.status;
    if (status == CUDNN_STATUS_SUCCESS)
        status = library->set_stream(handle, queue->stream);
    if (status == CUDNN_STATUS_SUCCESS)
        status = library->execute(handle, plan->plan, pack);
    pthread_mutex_unlock(&lock);
    const bt_status result = bt_cudnn_try(status, call->op->name);
    bt_cudnn_free(&bag);
    return result;
}

static const bt_cuda_conv_plan *plan_for(const planned *p, const char *x, const char *y)
{
    return ((uintptr_t)x | (uintptr_t)y) % 16 ? p->loose : p->aligned;
}

static bt_status launch(const bt_call *call)
{
    const bt_cuda_conv_views v = bt_cuda_conv_views_of(call);
    const bt_view w = turned(v.w);
    BT_TRY(bt_cuda_copy_of(call, &w, call->scratch, w.dtype));
    return execute(call, plan_for(call->state, v.x->data, v.y->data), v.x->data, call->scratch, v.y->data);
}

static bt_status launch_dw(const bt_call *call)
{
    const bt_cuda_conv_views v = bt_cuda_conv_views_of(call);
    const bt_view w = turned_back(v.w, call->scratch);
    BT_TRY(execute(call, plan_for(call->state, v.x->data, v.y->data), v.x->data, call->scratch, v.y->data));
    return bt_cuda_copy_of(call, &w, v.w->data, w.dtype);
}

/* In 16 bits the sum would be rounded twice, before and after the bias. */
static bool accepts_bias(const bt_call *call) { return !bt_dtype_half(call->in[0].dtype) && accepts(call); }

static bt_status launch_bias(const bt_call *call)
{
    BT_TRY(launch(call));
    return bt_cuda_add_bias(call, &call->out[0], &call->in[2]);
}

#define KERNEL(record, taken, function)                                                                                \
    {                                                                                                                  \
        .op = &bt_op_##record, .name = #record ".cudnn", .accepts = taken, .scratch = scratch, .prepare = prepare,     \
        .launch = function, .release = release, .half = true                                                           \
    }

const bt_kernel_impl bt_cuda_convolution[] = {
    KERNEL(conv, accepts, launch),
    KERNEL(conv_dx, accepts, launch),
    KERNEL(conv_dw, accepts, launch_dw),
    KERNEL(conv_bias, accepts_bias, launch_bias),
    {0},
};
