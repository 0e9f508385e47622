// embed.cpp: embed.c in C++20: the library inside another program, data from memory. The calls, and the numbers, lists
// and arrays in them, are written as in C.
#include <array>
#include <betty/betty.h>
#include <cstdio>
#include <memory>

namespace
{

constexpr int rows = 200, features = 5;

struct table { // data of the host program
    std::array<double, rows * features> x{};
    std::array<double, rows> y{};
};

const std::array<double, features> guess = {0.5, 0.5, 1.5, 2.5, 5};

bt_dataset *part(bt_problem *self, int from, int count)
{
    auto *t = static_cast<table *>(bt_user(self));
    bt_dataset *data = bt_dataset_new(count);
    bt_dataset_add(data, "x", BT_ARRAY(t->x.data() + from * features, count, features));
    bt_dataset_add(data, "y", BT_ARRAY(t->y.data() + from, count));
    return data;
}

bt_tensor *predict(bt_problem *model, const bt_batch *batch)
{
    return bt_matmul(bt_field(batch, "x"), bt_forward(model));
}

bt_tensor *fit(bt_problem *model, const bt_batch *batch)
{
    return bt_mean(bt_mse(predict(model, batch), bt_field(batch, "y")));
}

bt_tensor *penalty_step(bt_problem *self, const bt_batch *batch) { return fit(bt_peer(self, "model"), batch); }

bt_tensor *model_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *strength = bt_exp(bt_forward(bt_peer(self, "penalty")));
    bt_tensor *change = bt_sub(bt_forward(self), bt_constant(BT_ARRAY(guess.data(), features)));
    return bt_add(fit(self, batch), bt_sum(bt_mul(strength, bt_square(change)), 0));
}

const bt_problem_def penalty = {
    .name = "penalty",
    .configure_train_data = [](bt_problem *self) { return part(self, rows / 2, rows / 2); },
    .configure_module = [](bt_problem *) { return bt_nn_parameter(bt_init_constant(0), features); },
    .training_step = penalty_step,
};

const bt_problem_def model = {
    .name = "model",
    .configure_train_data = [](bt_problem *self) { return part(self, 0, rows / 2); },
    .configure_module =
        [](bt_problem *) { return bt_nn_parameter(bt_init_array(BT_ARRAY(guess.data(), features)), features); },
    .training_step = model_step,
};

const bt_export problems = {.abi = BT_ABI, .problems = {&penalty, &model}};

} // namespace

int main()
{
    table all;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < features; j++) {
            double value = bt_host_uniform(1, static_cast<uint64_t>(i), static_cast<uint64_t>(j));
            all.x[static_cast<size_t>(i * features + j)] = value;
            all.y[static_cast<size_t>(i)] += j * value;
        }
    std::unique_ptr<bt_engine, decltype(&bt_engine_free)> engine(bt_engine_new(), bt_engine_free);
    bt_engine_use(engine.get(), &problems, &all);
    bt_engine_set(engine.get(), "dependencies.u2l", "penalty > model");
    bt_engine_set(engine.get(), "dependencies.l2u", "model > penalty");
    bt_engine_set(engine.get(), "engine.train_iters", "2000");
    bt_engine_set(engine.get(), "engine.precision", "fp64");
    bt_engine_set(engine.get(), "model.lr", "%g", 0.05);
    bt_engine_set(engine.get(), "model.type", "cg");
    bt_engine_set(engine.get(), "model.unroll_steps", "%d", 20);
    bt_engine_set(engine.get(), "penalty.optimizer", "adam");
    if (bt_engine_run(engine.get()) != BT_OK) {
        std::fprintf(stderr, "%s\n", bt_error());
        return 1;
    }
    std::printf("held-out loss %g\n", bt_engine_metric(engine.get(), "penalty.loss"));
    return 0;
}
