/* bench/libbetty/networks.c: networks that the library does not provide, built from its modules. */
#include "bench.h"

enum { FILTERS = 32 };

static bt_module *block(int64_t in, int64_t out)
{
    bt_module *self = bt_nn_sequential(NULL);
    bt_conv2d_options o = bt_conv2d_defaults();
    o.padding = 1;
    o.bias = false;
    for (int i = 0; i < 2; i++) {
        bt_module_add(self, bt_nn_conv2d(i ? out : in, out, 3, &o), "conv%d", i);
        bt_module_add(self, bt_nn_batch_norm(out), "norm%d", i);
        bt_module_add(self, bt_nn_fn(bt_relu), "relu%d", i);
    }
    return self;
}

static bt_tensor *twice_as_large(bt_tensor *x) { return bt_upsample_bilinear(x, 2 * bt_dim(x, 1), 2 * bt_dim(x, 2)); }

/* Downsamples twice and upsamples again; each upsampled map is concatenated with the earlier map of its size. */
static bt_tensor *unet_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *wide = bt_forward(bt_child(self, "wide"), bt_reshape(in[0], -1, 64, 64, 3));
    bt_tensor *small = bt_forward(bt_child(self, "small"), bt_max_pool2d(wide, 2, 2, 0));
    bt_tensor *least = bt_forward(bt_child(self, "least"), bt_max_pool2d(small, 2, 2, 0));
    bt_tensor *up = bt_forward(bt_child(self, "up"), bt_concat(3, twice_as_large(least), small));
    bt_tensor *top = bt_forward(bt_child(self, "top"), bt_concat(3, twice_as_large(up), wide));
    return bt_forward(bt_child(self, "head"), top);
}

bt_module *unet(void)
{
    bt_module *self = bt_module_new(unet_forward);
    bt_module_add(self, block(3, FILTERS), "wide");
    bt_module_add(self, block(FILTERS, 2 * FILTERS), "small");
    bt_module_add(self, block(2 * FILTERS, 4 * FILTERS), "least");
    bt_module_add(self, block(6 * FILTERS, 2 * FILTERS), "up");
    bt_module_add(self, block(3 * FILTERS, FILTERS), "top");
    bt_module_add(self, bt_nn_conv2d(FILTERS, CLASSES, 1), "head");
    return self;
}

bt_module *deep(int64_t layers, int64_t hidden, double dropout)
{
    bt_module *self = bt_nn_sequential(NULL);
    for (int64_t i = 0; i < layers; i++) {
        bt_module_add(self, bt_nn_linear(i ? hidden : PIXELS, hidden), "linear%lld", (long long)i);
        bt_module_add(self, bt_nn_layer_norm(hidden), "norm%lld", (long long)i);
        bt_module_add(self, bt_nn_fn(bt_gelu), "gelu%lld", (long long)i);
        bt_module_add(self, bt_nn_dropout(dropout), "dropout%lld", (long long)i);
    }
    bt_module_add(self, bt_nn_linear(hidden, CLASSES), "head");
    return self;
}
