/* bench/onednn.h: runs the same matrix product or convolution with oneDNN, if it is installed. Its objects are kept
 * until the program ends. */
#ifndef BENCH_ONEDNN_H
#define BENCH_ONEDNN_H

#include "backend/cpu/cpu.h"

#if defined BT_HAVE_DNNL
#include <dnnl.h>

typedef struct peer {
    bool works;
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    dnnl_exec_arg_t args[3];
} peer;

static dnnl_engine_t engine;

/* Versions 2 and 3 differ in how descriptors are made. */
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t descriptor;
#define POINTER(descriptor)        descriptor
#define DESCRIBE(d, dims, strides) dnnl_memory_desc_create_with_strides(d, 2, dims, dnnl_f32, strides)

static bool describe_product(dnnl_primitive_desc_t *product, const descriptor *d)
{
    return dnnl_matmul_primitive_desc_create(product, engine, d[0], d[1], NULL, d[2], NULL) == dnnl_success;
}

static void peer_conv(const bt_call *call, peer *p) { (void)call, (void)p; } /* measured with version 2 only */
#else
typedef dnnl_memory_desc_t descriptor;
#define POINTER(descriptor)        &(descriptor)
#define DESCRIBE(d, dims, strides) dnnl_memory_desc_init_by_strides(d, 2, dims, dnnl_f32, strides)

static bool describe_product(dnnl_primitive_desc_t *product, const descriptor *d)
{
    dnnl_matmul_desc_t matmul;
    return dnnl_matmul_desc_init(&matmul, &d[0], &d[1], NULL, &d[2]) == dnnl_success &&
           dnnl_primitive_desc_create(product, &matmul, NULL, engine, NULL) == dnnl_success;
}

/* d: x, weight, g. */
static bool describe_conv(dnnl_primitive_desc_t *conv, const bt_call *call, const descriptor *d)
{
    const bt_conv_attr *a = call->attr;
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    dnnl_dims_t stride = {a->stride[0], a->stride[1]}, padding = {a->padding[0], a->padding[1]};
    dnnl_convolution_desc_t forward, back;
    dnnl_primitive_desc_t hint;
    if (dnnl_convolution_forward_desc_init(&forward, dnnl_forward_training, direct, &d[0], &d[1], NULL, &d[2], stride,
                                           padding, padding) != dnnl_success ||
        dnnl_primitive_desc_create(&hint, &forward, NULL, engine, NULL) != dnnl_success)
        return false;
    *conv = hint;
    if (call->op == &bt_op_conv)
        return true;
    if (call->op == &bt_op_conv_dx
            ? dnnl_convolution_backward_data_desc_init(&back, direct, &d[0], &d[1], &d[2], stride, padding, padding)
            : dnnl_convolution_backward_weights_desc_init(&back, direct, &d[0], &d[1], NULL, &d[2], stride, padding,
                                                          padding))
        return false;
    return dnnl_primitive_desc_create(conv, &back, NULL, engine, hint) == dnnl_success;
}

/* Channels last; oneDNN chooses the order of the weights. */
static void peer_conv(const bt_call *call, peer *p)
{
    const bool dx = call->op == &bt_op_conv_dx, dw = call->op == &bt_op_conv_dw;
    const bt_view *x = dx ? &call->out[0] : &call->in[0], *w = dw ? &call->out[0] : &call->in[1];
    const bt_view *g = dx ? &call->in[0] : dw ? &call->in[1] : &call->out[0];
    const int kinds[] = {dx ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, dw ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
                         dx || dw ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST};
    dnnl_dims_t dims[] = {{x->dims[0], x->dims[3], x->dims[1], x->dims[2]},
                          {w->dims[3], w->dims[2], w->dims[0], w->dims[1]},
                          {g->dims[0], g->dims[3], g->dims[1], g->dims[2]}};
    descriptor d[3];
    dnnl_primitive_desc_t conv;
    for (int i = 0; i < 3; i++)
        if (dnnl_memory_desc_init_by_tag(&d[i], 4, dims[i], dnnl_f32, i == 1 ? dnnl_format_tag_any : dnnl_nhwc) !=
            dnnl_success)
            return;
    if (((const bt_conv_attr *)call->attr)->groups > 1 || !describe_conv(&conv, call, d))
        return;
    for (int i = 0; i < 3; i++) {
        const descriptor *chosen =
            dnnl_primitive_desc_query_md(conv, dw ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
        void *data = i == 0 ? x->data : i == 1 ? DNNL_MEMORY_ALLOCATE : g->data;
        p->args[i].arg = kinds[i];
        if (dnnl_memory_create(&p->args[i].memory, i == 1 ? chosen : &d[i], engine, data) != dnnl_success)
            return;
    }
    p->works = dnnl_primitive_create(&p->primitive, conv) == dnnl_success;
}
#endif

static void peer_dot(const bt_call *call, peer *p)
{
    static const int kinds[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    const bt_view *views[] = {&call->in[0], &call->in[1], &call->out[0]};
    descriptor d[3];
    dnnl_primitive_desc_t product;
    for (int i = 0; i < 3; i++) {
        dnnl_dims_t dims = {views[i]->dims[0], views[i]->dims[1]};
        dnnl_dims_t strides = {views[i]->strides[0], views[i]->strides[1]};
        p->args[i].arg = kinds[i];
        if (DESCRIBE(&d[i], dims, strides) != dnnl_success ||
            dnnl_memory_create(&p->args[i].memory, POINTER(d[i]), engine, views[i]->data) != dnnl_success)
            return;
    }
    p->works = describe_product(&product, d) && dnnl_primitive_create(&p->primitive, product) == dnnl_success;
}

static peer peer_of(const bt_call *call)
{
    bool dot = call->op == &bt_op_dot;
    bool conv = call->op == &bt_op_conv || call->op == &bt_op_conv_dx || call->op == &bt_op_conv_dw;
    peer p = {0};
    if ((!dot && !conv) || call->threads > 1 || call->out[0].dtype != BT_F32 ||
        (!engine && dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) ||
        dnnl_stream_create(&p.stream, engine, dnnl_stream_default_flags) != dnnl_success)
        return p;
    if (dot)
        peer_dot(call, &p);
    else
        peer_conv(call, &p);
    return p;
}

static void peer_run(const peer *p)
{
    dnnl_primitive_execute(p->primitive, p->stream, 3, p->args);
    dnnl_stream_wait(p->stream);
}
#else
typedef struct peer {
    bool works;
} peer;

static peer peer_of(const bt_call *call)
{
    (void)call;
    return (peer){0};
}

static void peer_run(const peer *p) { (void)p; }
#endif

#endif
