/* tests/engine/two_nets.c: see two_nets.h. */
#include "two_nets.h"

#include "engine/session/session.h"
#include <stdio.h>
#include <string.h>

enum { FEATURES = 12, WIDTH = 32, CLASSES = 4 };

bt_dataset *two_nets_rows(bt_problem *self)
{
    static float x[TWO_NETS_ROWS * FEATURES];
    static int32_t label[TWO_NETS_ROWS];
    uint64_t stream = strcmp(self->name, "upper") == 0;
    for (uint64_t i = 0; i < TWO_NETS_ROWS * FEATURES; i++)
        x[i] = (float)(2 * bt_host_uniform(11, stream, i) - 1);
    for (uint64_t i = 0; i < TWO_NETS_ROWS; i++)
        label[i] = x[i * FEATURES] > 0 ? x[i * FEATURES + 1] > 0 : 2 + (x[i * FEATURES + 2] > 0);
    bt_dataset *data = bt_dataset_new(TWO_NETS_ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, TWO_NETS_ROWS, FEATURES));
    bt_dataset_add(data, "label", BT_ARRAY(label, TWO_NETS_ROWS));
    return data;
}

/* Layers that compute in 16 bits, layers that follow their input, and layers that stay in f32. */
bt_module *two_nets_classifier(bt_problem *self)
{
    (void)self;
    return bt_nn_sequential(bt_nn_linear(FEATURES, WIDTH), bt_nn_batch_norm(WIDTH), bt_nn_fn(bt_tanh),
                            bt_nn_linear(WIDTH, WIDTH), bt_nn_fn(bt_gelu), bt_nn_layer_norm(WIDTH),
                            bt_nn_linear(WIDTH, CLASSES));
}

static bt_module *weights(bt_problem *self)
{
    (void)self;
    return bt_nn_mlp(bt_tanh, 1, 2, 1);
}

bt_tensor *two_nets_losses(bt_problem *lower, const bt_batch *batch)
{
    return bt_cross_entropy(bt_forward(lower, bt_field(batch, "x")), bt_field(batch, "label"));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = two_nets_losses(self, batch);
    bt_tensor *weight = bt_forward(bt_peer(self, "upper"), bt_unsqueeze(bt_detach(loss), 1));
    bt_tensor *size = bt_mul(0.05, bt_sum(bt_square(bt_params(self))));
    return bt_add(size, bt_mean(bt_mul(bt_sigmoid(bt_squeeze(weight, 1)), loss)));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(two_nets_losses(bt_peer(self, "lower"), batch));
}

static bt_tensor *upper_valid(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = two_nets_losses(bt_peer(self, "lower"), batch);
    bt_metric(self, "each", loss);
    return bt_mean(loss);
}

static const bt_problem_def upper = {.name = "upper",
                                     .configure_train_data = two_nets_rows,
                                     .configure_valid_data = two_nets_rows,
                                     .configure_module = weights,
                                     .training_step = upper_step,
                                     .validation_step = upper_valid};
static const bt_problem_def lower = {.name = "lower",
                                     .configure_train_data = two_nets_rows,
                                     .configure_module = two_nets_classifier,
                                     .training_step = lower_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

bt_engine *two_nets_engine(const char *upper_precision, const char *lower_precision, const char *more)
{
    char settings[1000];
    snprintf(settings, sizeof settings,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.batch_size = %d\n"
             "upper.batch_size = %d\nlower.lr = 0.05\nlower.momentum = 0.9\nupper.optimizer = adam\nupper.lr = 0.01\n"
             "engine.precision = fp32\nupper.precision = %s\nlower.precision = %s\n%s",
             TWO_NETS_ROWS, TWO_NETS_ROWS, upper_precision, lower_precision, more);
    return levels_engine(&parts, NULL, settings);
}

size_t two_nets_saved(const char *precision)
{
    bt_engine *engine = two_nets_engine("fp32", precision, "lower.type = darts\n");
    bt_saved found = {0};
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    const bt_problem *problem = bt_engine_problem(engine, "lower");
    EXPECT_OK(bt_phase_saved(problem->step->phase, problem->step->gradient.each[0], &found));
    bt_engine_free(engine);
    return found.all;
}
