/* nn/convnet.c: plain convolutional networks: the ones of few-shot learning, and LeNet-5. */
#include "nn/module.h"

#include "graph/graph.h"

/* [n, ...] to [n, features] */
static bt_tensor *flatten(bt_tensor *x) { return bt_reshape(x, bt_dim(x, 0), -1); }

static bool are_sizes(bt_module *self, const char *what, int64_t height, int64_t width, int64_t channels,
                      int64_t classes)
{
    if (height < 1 || width < 1 || channels < 1 || classes < 1)
        bt_module_mistake(self, BT_ERROR_ARGUMENT,
                          "%s: images of %lld x %lld with %lld channels, %lld classes; all must be at least 1", what,
                          (long long)height, (long long)width, (long long)channels, (long long)classes);
    return self && self->status == BT_OK;
}

/* ---- few-shot learning ---- */

static bt_tensor *block_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *x = bt_forward(bt_child(self, "conv"), in[0]);
    return bt_relu(bt_forward(bt_child(self, "norm"), x));
}

static bt_tensor *pooled_block_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *x = block_forward(self, in);
    return bt_dim(x, 1) > 1 && bt_dim(x, 2) > 1 ? bt_max_pool2d(x, 2, 2, 0) : x;
}

static bt_module *block(bt_forward_fn *forward, int64_t in, int64_t out, int64_t stride)
{
    bt_module *self = bt_module_new(forward);
    bt_conv2d_options o = bt_conv2d_defaults();
    o.stride = stride;
    o.padding = 1;
    bt_batch_norm_options norm = bt_batch_norm_defaults();
    norm.statistics = BT_STATISTICS_BATCH;
    bt_module_add(self, bt_nn_conv2d(in, out, 3, &o), "conv");
    bt_module_add(self, bt_nn_batch_norm(out, &norm), "norm");
    return self;
}

static bt_tensor *blocks_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *x = bt_module_input("convnet", in);
    for (int64_t i = 0; i + 1 < self->child_count; i++)
        x = bt_forward(self->children[i], x);
    return x;
}

static bt_tensor *convnet_forward(bt_module *self, bt_tensor *const *in)
{
    return bt_forward(bt_child(self, "head"), flatten(blocks_forward(self, in)));
}

static bt_tensor *strided_convnet_forward(bt_module *self, bt_tensor *const *in)
{
    return bt_forward(bt_child(self, "head"), bt_mean(blocks_forward(self, in), 1, 2));
}

static bool are_layers(bt_module *self, const char *what, int64_t filters, int64_t blocks)
{
    if (filters < 1 || blocks < 0 || blocks > 64)
        bt_module_mistake(self, BT_ERROR_ARGUMENT,
                          "%s: %lld filters, %lld blocks; expected at least 1 filter and 0 to 64 blocks", what,
                          (long long)filters, (long long)blocks);
    return self && self->status == BT_OK;
}

bt_module *bt_nn_convnet(int64_t height, int64_t width, int64_t channels, int64_t filters, int64_t blocks,
                         int64_t classes)
{
    bt_module *self = bt_module_new(convnet_forward);
    if (!are_layers(self, "bt_nn_convnet", filters, blocks) ||
        !are_sizes(self, "bt_nn_convnet", height, width, channels, classes))
        return self;
    for (int64_t i = 0; i < blocks; i++, channels = filters) {
        bt_module_add(self, block(pooled_block_forward, channels, filters, 1), "%lld", (long long)i);
        bool pools = height > 1 && width > 1;
        height /= pools ? 2 : 1;
        width /= pools ? 2 : 1;
    }
    bt_module_add(self, bt_nn_linear(height * width * channels, classes), "head");
    return self;
}

bt_module *bt_nn_convnet_strided(int64_t channels, int64_t filters, int64_t blocks, int64_t classes)
{
    bt_module *self = bt_module_new(strided_convnet_forward);
    if (!are_layers(self, "bt_nn_convnet_strided", filters, blocks) ||
        !are_sizes(self, "bt_nn_convnet_strided", 1, 1, channels, classes))
        return self;
    for (int64_t i = 0; i < blocks; i++, channels = filters)
        bt_module_add(self, block(block_forward, channels, filters, 2), "%lld", (long long)i);
    bt_module_add(self, bt_nn_linear(channels, classes), "head");
    return self;
}

/* ---- LeNet-5 ---- */

static bt_tensor *lenet_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *x = bt_module_input("lenet", in);
    x = bt_max_pool2d(bt_relu(bt_forward(bt_child(self, "conv1"), x)), 2, 2, 0);
    x = bt_max_pool2d(bt_relu(bt_forward(bt_child(self, "conv2"), x)), 2, 2, 0);
    x = bt_relu(bt_forward(bt_child(self, "fc1"), flatten(x)));
    x = bt_relu(bt_forward(bt_child(self, "fc2"), x));
    return bt_forward(bt_child(self, "fc3"), x);
}

bt_module *bt_nn_lenet(int64_t height, int64_t width, int64_t channels, int64_t classes)
{
    bt_module *self = bt_module_new(lenet_forward);
    if (!are_sizes(self, "bt_nn_lenet", height, width, channels, classes))
        return self;
    int64_t rows = (height / 2 - 4) / 2, columns = (width / 2 - 4) / 2;
    if (rows < 1 || columns < 1) {
        bt_module_mistake(self, BT_ERROR_ARGUMENT, "bt_nn_lenet: images of %lld x %lld; expected at least 12 x 12",
                          (long long)height, (long long)width);
        return self;
    }
    bt_conv2d_options o = bt_conv2d_defaults();
    o.padding = 2;
    bt_module_add(self, bt_nn_conv2d(channels, 6, 5, &o), "conv1");
    bt_module_add(self, bt_nn_conv2d(6, 16, 5), "conv2");
    bt_module_add(self, bt_nn_linear(rows * columns * 16, 120), "fc1");
    bt_module_add(self, bt_nn_linear(120, 84), "fc2");
    bt_module_add(self, bt_nn_linear(84, classes), "fc3");
    return self;
}
