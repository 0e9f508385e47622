/* bench/libbetty/search.c: DARTS: the upper level mixes the candidates of a network's edges. */
#include "bench.h"

enum { NODES = 4 };

static bt_module *mixture_module(bt_problem *self)
{
    bt_module *module = bt_module_new(NULL);
    int64_t edges = bt_nn_darts_edges(NODES);
    (void)self;
    bt_module_add_param(module, "normal", bt_init_normal(0, 1e-3), edges, BT_NN_DARTS_OPS);
    bt_module_add_param(module, "reduce", bt_init_normal(0, 1e-3), edges, BT_NN_DARTS_OPS);
    return module;
}

static bt_module *network_module(bt_problem *self)
{
    return bt_nn_darts(3, bt_option_int(self, "filters", 16, 2, 1024), bt_option_int(self, "cells", 5, 1, 100), NODES,
                       CLASSES);
}

static bt_tensor *loss(bt_problem *self, const bt_batch *batch)
{
    bt_problem *upper = bt_peer(self, "upper");
    bt_tensor *logits =
        bt_forward(bt_peer(self, "lower"), bt_reshape(bt_field(batch, "image"), -1, 32, 32, 3),
                   bt_softmax(bt_param(upper, "normal"), -1), bt_softmax(bt_param(upper, "reduce"), -1));
    return bt_mean(bt_cross_entropy(logits, bt_field(batch, "label")));
}

static const bt_problem_def mixture = {
    .name = "upper",
    .configure_train_data = upper_data,
    .configure_module = mixture_module,
    .training_step = loss,
};

static const bt_problem_def network = {
    .name = "lower",
    .configure_train_data = lower_data,
    .configure_module = network_module,
    .training_step = loss,
    .on_inner_loop_start = between_steps,
};

const workload darts_workload = {
    .name = "darts",
    .problems = {.abi = BT_ABI, .problems = {&mixture, &network}},
    .top = "upper",
    .set = "meta",
    .loss = loss,
    .input = "image",
    .features = 32 * 32 * 3,
    .label = "label",
    .classes = true,
    .unroll = 1,
};
