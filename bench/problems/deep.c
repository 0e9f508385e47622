/* bench/problems/deep.c: a deep perceptron with norms, trained on noise; ../remat_bound.py only plans it. */
#include <betty/betty.h>

enum { WIDTH = 128, ROWS = 2048 };

static bt_dataset *noise(bt_problem *self)
{
    static float x[ROWS * WIDTH], y[ROWS];
    for (uint64_t i = 0; i < ROWS * WIDTH; i++)
        x[i] = (float)((double)(i * 37 % 101) / 50 - 1);
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, ROWS, WIDTH));
    bt_dataset_add(data, "y", BT_ARRAY(y, ROWS));
    return (void)self, data;
}

static bt_module *layers(bt_problem *self)
{
    bt_module *net = bt_module_new(NULL);
    int64_t count = bt_option_int(self, "layers", 20, 1, 1000);
    for (int i = 0; i < (int)count; i++)
        bt_module_add(net, bt_nn_sequential(bt_nn_linear(WIDTH, WIDTH), bt_nn_layer_norm(WIDTH), bt_nn_fn(bt_relu)),
                      "layer%d", i);
    bt_module_add(net, bt_nn_linear(WIDTH, 1), "head");
    return net;
}

static bt_tensor *loss(bt_problem *self, const bt_batch *batch)
{
    bt_module *net = bt_net(self);
    bt_tensor *x = bt_field(batch, "x");
    int64_t count = bt_option_int(self, "layers", 20, 1, 1000);
    for (int i = 0; i < (int)count; i++)
        x = bt_forward(bt_child(net, "layer%d", i), x);
    x = bt_squeeze(bt_forward(bt_child(net, "head"), x), 1);
    return bt_mean(bt_square(bt_sub(x, bt_field(batch, "y"))));
}

static const bt_problem_def deep = {
    .name = "deep", .configure_train_data = noise, .configure_module = layers, .training_step = loss};

BT_EXPORT(.problems = {&deep});
