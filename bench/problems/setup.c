/* bench/problems/setup.c: graphs of any size, for ../setup.py: `lower` is an MLP of `size` layers or, with `wide`, the
 * sum of squares of `size` scalar parameters; `penalty` is the strength of its L2 penalty. */
#include <betty/betty.h>

static bt_status one_row(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    const float x[] = {1, 2, 3, 4};
    (void)self, (void)mode, (void)index;
    return bt_batch_set(batch, "x", BT_ARRAY(x, 1, 4));
}

static bool is_wide(bt_problem *self) { return bt_option_bool(self, "wide", false); }
static int64_t size(bt_problem *self) { return bt_option_int(self, "size", 100, 1, 1000000); }

static bt_module *lower_module(bt_problem *self)
{
    bt_module *net = bt_module_new(NULL);
    for (int64_t i = 0; i < size(self); i++) {
        bt_module *part = is_wide(self) ? bt_module_new(NULL) : bt_nn_linear(4, 4);
        if (is_wide(self))
            (bt_module_add_param)(part, "value", bt_init_constant(1), (const int64_t[]){BT_END});
        bt_module_add(net, part, "%lld", (long long)i);
    }
    return net;
}

static bt_tensor *loss(bt_problem *lower, const bt_batch *batch)
{
    bt_tensor *x = bt_field(batch, "x");
    if (is_wide(lower)) {
        bt_tensor *difference = bt_sub(bt_mean(bt_params(lower)), bt_mean(x));
        return bt_square(difference);
    }
    for (int64_t i = 0; i < size(lower); i++)
        x = bt_tanh(bt_forward(bt_child(lower, "%lld", (long long)i), x));
    return bt_mean(bt_square(x));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    if (!bt_option_bool(self, "penalised", true))
        return loss(self, batch);
    bt_tensor *strength = bt_exp(bt_forward(bt_peer(self, "penalty")));
    return bt_add(loss(self, batch), bt_mul(strength, bt_sum(bt_square(bt_params(self)))));
}

static bt_module *penalty_module(bt_problem *self)
{
    (void)self;
    return (bt_nn_parameter)(bt_init_constant(-5), (const int64_t[]){BT_END});
}

static bt_tensor *penalty_step(bt_problem *self, const bt_batch *batch) { return loss(bt_peer(self, "lower"), batch); }

static const bt_problem_def penalty = {
    .name = "penalty", .get_batch = one_row, .configure_module = penalty_module, .training_step = penalty_step};
static const bt_problem_def lower = {
    .name = "lower", .get_batch = one_row, .configure_module = lower_module, .training_step = lower_step};

BT_EXPORT(.problems = {&penalty, &lower});
