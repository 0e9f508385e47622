#include "decayed.h"

bt_dataset *decayed_images(int side)
{
    static float x[DECAYED_ROWS * DECAYED_SIDE * DECAYED_SIDE * DECAYED_CHANNELS];
    static int32_t y[DECAYED_ROWS];
    for (int i = 0; i < DECAYED_ROWS * side * side * DECAYED_CHANNELS; i++)
        x[i] = (float)((i * 37 % 101) / 50.0 - 1);
    for (int i = 0; i < DECAYED_ROWS; i++)
        y[i] = i * 5 % DECAYED_CLASSES;
    bt_dataset *data = bt_dataset_new(DECAYED_ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, DECAYED_ROWS, side, side, DECAYED_CHANNELS));
    bt_dataset_add(data, "y", BT_ARRAY(y, DECAYED_ROWS));
    return data;
}

bt_module *decayed_penalty(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(-1));
}

bt_tensor *decayed_loss(bt_problem *problem, const bt_batch *batch)
{
    return bt_mean(bt_cross_entropy(bt_forward(problem, bt_field(batch, "x")), bt_field(batch, "y")));
}

bt_tensor *decayed_lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *decay = bt_exp(bt_param(bt_peer(self, "upper"), "value"));
    return bt_add(decayed_loss(self, batch), bt_mul(decay, bt_sum(bt_square(bt_params(self)))));
}

bt_tensor *decayed_upper_step(bt_problem *self, const bt_batch *batch)
{
    return decayed_loss(bt_peer(self, "lower"), batch);
}

bt_module *decayed_resnet(bt_problem *self)
{
    (void)self;
    return bt_nn_resnet_cifar(8, DECAYED_CHANNELS, DECAYED_CLASSES);
}

bt_module *decayed_layer(int64_t in, int64_t out)
{
    return bt_nn_sequential(bt_nn_linear(in, out), bt_nn_layer_norm(out), bt_nn_fn(bt_gelu), bt_nn_dropout(0.2));
}
