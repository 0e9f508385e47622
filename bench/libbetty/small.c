/* bench/libbetty/small.c: problems whose steps take microseconds: logistic regression with a penalty for each feature,
 * and a single-level MLP. */
#include "bench.h"

enum { FEATURES = 20, MLP_BATCHES = 8 };

static bt_module *penalty_module(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(1), FEATURES);
}

static bt_module *logistic_module(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(0), FEATURES);
}

static bt_tensor *log_loss(bt_problem *model, const bt_batch *batch)
{
    bt_tensor *logit = bt_matmul(bt_field(batch, "x"), bt_forward(model));
    return bt_mean(bt_binary_cross_entropy(logit, bt_field(batch, "y")));
}

static bt_tensor *penalty_step(bt_problem *self, const bt_batch *batch)
{
    return log_loss(bt_peer(self, "lower"), batch);
}

static bt_tensor *keep_positive(bt_problem *self, bt_tensor *params)
{
    (void)self;
    return bt_maximum(params, 1e-8);
}

static bt_tensor *logistic_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *penalty = bt_forward(bt_peer(self, "upper"));
    bt_tensor *decay = bt_sum(bt_mul(penalty, bt_square(bt_forward(self))));
    return bt_add(log_loss(self, batch), bt_mul(0.5, decay));
}

static bt_module *mlp_module(bt_problem *self)
{
    int hidden = (int)bt_option_int(self, "hidden", 16, 1, 10000);
    return bt_nn_mlp(bt_relu, hidden, hidden, hidden, CLASSES);
}

static bt_tensor *mlp_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_cross_entropy(bt_forward(self, bt_field(batch, "x")), bt_field(batch, "label")));
}

static const bt_problem_def penalty = {
    .name = "upper",
    .configure_train_data = upper_data,
    .configure_module = penalty_module,
    .training_step = penalty_step,
    .param_callback = keep_positive,
};

static const bt_problem_def logistic = {
    .name = "lower",
    .configure_train_data = lower_data,
    .configure_module = logistic_module,
    .training_step = logistic_step,
    .on_inner_loop_start = between_steps,
};

static const bt_problem_def perceptron = {
    .name = "lower",
    .configure_train_data = lower_data,
    .configure_module = mlp_module,
    .training_step = mlp_step,
    .on_inner_loop_start = between_steps, /* once: it has no parents */
    .epoch_callback = between_steps,
};

const workload logistic_workload = {
    .name = "logistic",
    .problems = {.abi = BT_ABI, .problems = {&penalty, &logistic}},
    .top = "upper",
    .set = "meta",
    .loss = penalty_step,
    .input = "x",
    .features = FEATURES,
    .label = "y",
    .unroll = 1,
};

const workload mlp_workload = {
    .name = "mlp",
    .problems = {.abi = BT_ABI, .problems = {&perceptron}},
    .top = "lower",
    .set = "train",
    .loss = mlp_step,
    .input = "x",
    .label = "label",
    .classes = true,
    .unroll = MLP_BATCHES,
};
