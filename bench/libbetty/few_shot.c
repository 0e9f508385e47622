/* bench/libbetty/few_shot.c: MAML on Omniglot. */
#include "bench.h"

enum { SHOTS = 1, QUERIES = 15 };

static int64_t ways(bt_problem *self) { return bt_option_int(bt_peer(self, "upper"), "ways", 5, 2, 100); }

bt_dataset *few_shot_tasks(bt_problem *self)
{
    bt_dataset *images = bt_dataset_rotations(bt_dataset_open("omniglot", "train"));
    return bt_dataset_tasks(images, ways(self), SHOTS, QUERIES, bt_seed(self));
}

static bt_module *few_shot_module(bt_problem *self)
{
    int64_t blocks = bt_option_int(bt_peer(self, "upper"), "blocks", 0, 0, 10);
    return blocks ? bt_nn_convnet(28, 28, 1, 64, blocks, ways(self)) : bt_nn_mlp(bt_relu, PIXELS, 64, 64, ways(self));
}

static bt_tensor *few_shot_loss(bt_problem *learner, const bt_batch *task, const char *part)
{
    bt_tensor *logits = bt_forward(learner, bt_field(task, "%s.image", part));
    return bt_mean(bt_cross_entropy(logits, bt_field(task, "%s.label", part)));
}

static bt_tensor *meta_step(bt_problem *self, const bt_batch *task)
{
    return few_shot_loss(bt_peer(self, "lower"), task, "query");
}

static bt_tensor *learner_step(bt_problem *self, const bt_batch *task) { return few_shot_loss(self, task, "support"); }

static bt_tensor *learner_start(bt_problem *self) { return bt_params(bt_peer(self, "upper")); }

/* The loss before any adaptation. */
static bt_tensor *start_loss(bt_problem *self, const bt_batch *task) { return few_shot_loss(self, task, "query"); }

static const bt_problem_def meta = {
    .name = "upper",
    .configure_train_data = few_shot_tasks,
    .configure_module = few_shot_module,
    .training_step = meta_step,
};

static const bt_problem_def learner = {
    .name = "lower",
    .batch_of = "upper",
    .configure_module = few_shot_module,
    .start = learner_start,
    .training_step = learner_step,
    .on_inner_loop_start = between_steps, /* for each task */
};

const workload maml_workload = {
    .name = "maml",
    .problems = {.abi = BT_ABI, .problems = {&meta, &learner}},
    .top = "upper",
    .loss = start_loss,
    .unroll = 1,
};
