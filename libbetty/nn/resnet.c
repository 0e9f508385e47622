/* nn/resnet.c: residual networks: for small images, for large ones, and wide ones. */
#include "nn/module.h"

#include "graph/graph.h"
#include "ops/ops.h"

typedef struct net_options {
    int64_t stages, blocks[4]; /* per stage */
} net_options;

/* ---- parts ---- */

/* No bias, He initialisation. A window of 1 or 3 keeps the map's size at stride 1. */
static void add_conv(bt_module *self, const char *name, int64_t in, int64_t out, int64_t window, int64_t stride)
{
    bt_conv2d_options o = bt_conv2d_defaults();
    o.stride = stride;
    o.padding = window / 2;
    o.bias = false;
    bt_module *conv = bt_nn_conv2d(in, out, window, &o);
    bt_module_set_init(conv, "weight", bt_init_kaiming_normal(window * window * in));
    bt_module_add(self, conv, "%s", name);
}

static bt_tensor *apply(bt_module *self, const char *name, bt_tensor *x)
{
    return bt_forward(bt_child(self, "%s", name), x);
}

static bt_tensor *conv_norm(bt_module *self, int index, bt_tensor *x)
{
    return bt_forward(bt_child(self, "bn%d", index), bt_forward(bt_child(self, "conv%d", index), x));
}

static void add_conv_norm(bt_module *self, int index, int64_t in, int64_t out, int64_t window, int64_t stride)
{
    char name[16] = "conv";
    name[4] = (char)('0' + index);
    add_conv(self, name, in, out, window, stride);
    bt_module_add(self, bt_nn_batch_norm(out), "bn%d", index);
}

/* Applies the stages, which `format` names with 1, 2, ..., one after the other. */
static bt_tensor *stages(bt_module *self, const char *format, bt_tensor *x)
{
    const net_options *own = self->data;
    for (int64_t s = 0; s < own->stages; s++)
        x = bt_forward(bt_child(self, format, (int)s + 1), x);
    return x;
}

/* Whether there is such a network; notes a mistake if not. */
static bool fits(bt_module *self, const char *what, bool known, int64_t depth, const char *depths, int64_t channels,
                 int64_t classes)
{
    if (!known || channels < 1 || classes < 1)
        bt_module_mistake(self, BT_ERROR_ARGUMENT,
                          "%s: depth %lld, %lld channels, %lld classes; the depth must be %s, the others at least 1",
                          what, (long long)depth, (long long)channels, (long long)classes, depths);
    return self && self->status == BT_OK;
}

/* ---- small images ---- */

/* The shortcut without parameters (He et al.'s A): every second pixel, and zeros for new channels. */
static bt_tensor *plain_shortcut(bt_tensor *x, int64_t channels)
{
    int64_t in = bt_dim(x, -1);
    if (bt_poisoned(x) || in == channels)
        return x;
    return bt_pad_axis(bt_avg_pool2d(x, 1, 2, 0), 3, (channels - in) / 2, channels);
}

static bt_tensor *basic_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *y = conv_norm(self, 2, bt_relu(conv_norm(self, 1, in[0])));
    return bt_relu(bt_add(y, plain_shortcut(in[0], bt_dim(y, -1))));
}

static bt_module *basic_block(int64_t in, int64_t out, int64_t stride)
{
    bt_module *self = bt_module_new(basic_forward);
    add_conv_norm(self, 1, in, out, 3, stride);
    add_conv_norm(self, 2, out, out, 3, 1);
    return self;
}

static bt_tensor *cifar_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *x = bt_relu(conv_norm(self, 1, bt_module_input("resnet", in)));
    return apply(self, "linear", bt_mean(stages(self, "layer%d", x), 1, 2));
}

bt_module *bt_nn_resnet_cifar(int64_t depth, int64_t channels, int64_t classes)
{
    int64_t blocks = (depth - 2) / 6, in = 16;
    bt_module *self = bt_module_make(cifar_forward, &(net_options){3, {blocks, blocks, blocks}}, sizeof(net_options));
    if (!fits(self, "bt_nn_resnet_cifar", depth >= 8 && depth < 2000 && depth % 6 == 2, depth, "6k + 2, from 8",
              channels, classes))
        return self;
    add_conv_norm(self, 1, channels, in, 3, 1);
    for (int stage = 0; stage < 3; stage++) {
        int64_t out = (int64_t)16 << stage;
        bt_module *layer = bt_nn_sequential(NULL);
        for (int64_t i = 0; i < blocks; i++, in = out)
            bt_module_add(layer, basic_block(in, out, in == out ? 1 : 2), "%lld", (long long)i);
        bt_module_add(self, layer, "layer%d", stage + 1);
    }
    bt_module_add(self, bt_nn_linear(in, classes), "linear");
    return self;
}

/* ---- large images ---- */

typedef struct block_options {
    int convs; /* 2: two of 3 x 3; 3: a bottleneck of 1 x 1, 3 x 3 and 1 x 1 */
    bool projects;
} block_options;

static bt_tensor *large_block_forward(bt_module *self, bt_tensor *const *in)
{
    const block_options *own = self->data;
    bt_tensor *y = in[0];
    for (int i = 1; i <= own->convs; i++)
        y = i < own->convs ? bt_relu(conv_norm(self, i, y)) : conv_norm(self, i, y);
    return bt_relu(bt_add(y, own->projects ? apply(self, "downsample", in[0]) : in[0]));
}

static bt_module *large_block(int convs, int64_t in, int64_t inner, int64_t out, int64_t stride)
{
    block_options own = {convs, stride != 1 || in != out};
    bt_module *self = bt_module_make(large_block_forward, &own, sizeof own);
    if (convs == 2) {
        add_conv_norm(self, 1, in, out, 3, stride);
        add_conv_norm(self, 2, out, out, 3, 1);
    } else {
        add_conv_norm(self, 1, in, inner, 1, 1);
        add_conv_norm(self, 2, inner, inner, 3, stride);
        add_conv_norm(self, 3, inner, out, 1, 1);
    }
    if (own.projects) {
        bt_module *shortcut = bt_nn_sequential(NULL);
        add_conv(shortcut, "0", in, out, 1, stride);
        bt_module_add(shortcut, bt_nn_batch_norm(out), "1");
        bt_module_add(self, shortcut, "downsample");
    }
    return self;
}

static bt_tensor *large_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *x = bt_relu(conv_norm(self, 1, bt_module_input("resnet", in)));
    return apply(self, "fc", bt_mean(stages(self, "layer%d", bt_max_pool2d(x, 3, 2, 1)), 1, 2));
}

bt_module *bt_nn_resnet(int64_t depth, int64_t channels, int64_t classes)
{
    net_options own = {4, {3, 4, 6, 3}};
    if (depth == 18)
        own = (net_options){4, {2, 2, 2, 2}};
    int convs = depth == 50 ? 3 : 2;
    bt_module *self = bt_module_make(large_forward, &own, sizeof own);
    if (!fits(self, "bt_nn_resnet", depth == 18 || depth == 34 || depth == 50, depth, "18, 34 or 50", channels,
              classes))
        return self;
    add_conv_norm(self, 1, channels, 64, 7, 2);
    int64_t in = 64;
    for (int stage = 0; stage < 4; stage++) {
        int64_t inner = (int64_t)64 << stage, out = convs == 3 ? 4 * inner : inner;
        bt_module *layer = bt_nn_sequential(NULL);
        for (int64_t i = 0; i < own.blocks[stage]; i++, in = out)
            bt_module_add(layer, large_block(convs, in, inner, out, stage && i == 0 ? 2 : 1), "%lld", (long long)i);
        bt_module_add(self, layer, "layer%d", stage + 1);
    }
    bt_module_add(self, bt_nn_linear(in, classes), "fc");
    return self;
}

/* ---- wide ---- */

/* Normalisation and ReLU come before each convolution; if the sizes change, the shortcut starts after the first ReLU.
 */
static bt_tensor *wide_block_forward(bt_module *self, bt_tensor *const *in)
{
    const block_options *own = self->data;
    bt_tensor *x = bt_relu(apply(self, "bn1", in[0]));
    bt_tensor *y = bt_relu(apply(self, "bn2", apply(self, "conv1", x)));
    y = apply(self, "conv2", apply(self, "drop", y));
    return bt_add(y, own->projects ? apply(self, "convShortcut", x) : in[0]);
}

static bt_module *wide_block(int64_t in, int64_t out, int64_t stride, double dropout)
{
    block_options own = {2, stride != 1 || in != out};
    bt_module *self = bt_module_make(wide_block_forward, &own, sizeof own);
    bt_module_add(self, bt_nn_batch_norm(in), "bn1");
    add_conv(self, "conv1", in, out, 3, stride);
    bt_module_add(self, bt_nn_batch_norm(out), "bn2");
    add_conv(self, "conv2", out, out, 3, 1);
    bt_module_add(self, bt_nn_dropout(dropout), "drop");
    if (own.projects)
        add_conv(self, "convShortcut", in, out, 1, stride);
    return self;
}

static bt_tensor *wide_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *x = stages(self, "block%d.layer", apply(self, "conv1", bt_module_input("wide_resnet", in)));
    return apply(self, "fc", bt_mean(bt_relu(apply(self, "bn1", x)), 1, 2));
}

bt_module *bt_nn_wide_resnet(int64_t depth, int64_t widen, int64_t channels, int64_t classes, double dropout)
{
    int64_t blocks = (depth - 4) / 6, in = 16;
    bt_module *self = bt_module_make(wide_forward, &(net_options){3, {blocks, blocks, blocks}}, sizeof(net_options));
    bool known = depth >= 10 && depth < 2000 && depth % 6 == 4 && widen >= 1 && widen <= 1000;
    if (!fits(self, "bt_nn_wide_resnet", known, depth, "6k + 4, from 10, and the width factor 1 to 1000", channels,
              classes))
        return self;
    add_conv(self, "conv1", channels, in, 3, 1);
    for (int stage = 0; stage < 3; stage++) {
        int64_t out = widen * 16 << stage;
        bt_module *block = bt_module_new(NULL), *layer = bt_nn_sequential(NULL);
        for (int64_t i = 0; i < blocks; i++, in = out)
            bt_module_add(layer, wide_block(in, out, stage && i == 0 ? 2 : 1, dropout), "%lld", (long long)i);
        bt_module_add(block, layer, "layer");
        bt_module_add(self, block, "block%d", stage + 1);
    }
    bt_module_add(self, bt_nn_batch_norm(in), "bn1");
    bt_module_add(self, bt_nn_linear(in, classes), "fc");
    return self;
}
