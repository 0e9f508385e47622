/* nn/image.c: modules on images [n, height, width, channels]: convolution and pooling. */
#include "nn/module.h"

#include "graph/graph.h"
#include <math.h>

/* ---- conv2d ---- */

typedef struct conv_options {
    int64_t in;
    bt_conv2d_options options;
} conv_options;

static bt_tensor *conv_forward(bt_module *self, bt_tensor *const *in)
{
    const conv_options *own = self->data;
    bt_tensor *x = bt_module_input("conv2d", in);
    if (bt_poisoned(x))
        return x;
    if (x->rank != 4 || x->dims[3] != own->in) {
        char found[256];
        return bt_trace_poison(BT_ERROR_SHAPE, "conv2d expects [n, height, width, %lld], found %s", (long long)own->in,
                               bt_shape_text(found, x->rank, x->dims));
    }
    return bt_conv2d(x, bt_param(self, "weight"), own->options.bias ? bt_param(self, "bias") : NULL, &own->options);
}

static bool conv_is_possible(int64_t in, int64_t out, int64_t window, const bt_conv2d_options *o)
{
    return in >= 1 && out >= 1 && window >= 1 && o->stride >= 1 && o->padding >= 0 && o->dilation >= 1 &&
           o->groups >= 1 && in % o->groups == 0 && out % o->groups == 0;
}

/* PyTorch's kaiming_uniform with a = sqrt(5): weight and bias are both bounded by 1/sqrt(fan). */
bt_module *(bt_nn_conv2d)(int64_t in, int64_t out, int64_t window, const bt_conv2d_options *options)
{
    conv_options own = {in, options ? *options : bt_conv2d_defaults()};
    const bt_conv2d_options *o = &own.options;
    bt_module *module = bt_module_make(conv_forward, &own, sizeof own);
    if (!conv_is_possible(in, out, window, o)) {
        bt_module_mistake(module, BT_ERROR_ARGUMENT,
                          "bt_nn_conv2d: %lld to %lld channels in %lld groups, window %lld, stride %lld, padding %lld, "
                          "dilation %lld; sizes must be at least 1, padding at least 0, and the groups must divide "
                          "both channels",
                          (long long)in, (long long)out, (long long)o->groups, (long long)window, (long long)o->stride,
                          (long long)o->padding, (long long)o->dilation);
        return module;
    }
    double bound = 1 / sqrt((double)(in / o->groups) * (double)window * (double)window);
    if (module) {
        bt_module_add_param(module, "weight", bt_init_uniform(-bound, bound), window, window, in / o->groups, out);
        bt_slate *weight = bt_module_find(module, "weight");
        if (weight)
            weight->window = true;
        if (o->bias)
            bt_module_add_param(module, "bias", bt_init_uniform(-bound, bound), out);
    }
    return module;
}

/* ---- pooling ---- */

typedef struct pool_options {
    int64_t window, stride, padding;
} pool_options;

static bt_tensor *max_pool_forward(bt_module *self, bt_tensor *const *in)
{
    const pool_options *own = self->data;
    return bt_max_pool2d(bt_module_input("max_pool2d", in), own->window, own->stride, own->padding);
}

static bt_tensor *avg_pool_forward(bt_module *self, bt_tensor *const *in)
{
    const pool_options *own = self->data;
    return bt_avg_pool2d(bt_module_input("avg_pool2d", in), own->window, own->stride, own->padding);
}

static bt_module *pool(bt_forward_fn *forward, const char *name, int64_t window, int64_t stride, int64_t padding)
{
    bt_module *module = bt_module_make(forward, &(pool_options){window, stride, padding}, sizeof(pool_options));
    if (window < 1 || stride < 1 || padding < 0 || padding > window / 2)
        bt_module_mistake(module, BT_ERROR_ARGUMENT,
                          "%s: window %lld, stride %lld, padding %lld; window and stride must be at least 1, padding "
                          "at most half of the window",
                          name, (long long)window, (long long)stride, (long long)padding);
    return module;
}

bt_module *bt_nn_max_pool2d(int64_t window, int64_t stride, int64_t padding)
{
    return pool(max_pool_forward, "bt_nn_max_pool2d", window, stride, padding);
}

bt_module *bt_nn_avg_pool2d(int64_t window, int64_t stride, int64_t padding)
{
    return pool(avg_pool_forward, "bt_nn_avg_pool2d", window, stride, padding);
}
