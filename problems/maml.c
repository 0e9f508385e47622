/* maml.c: few-shot classification. The meta problem learns a starting point from which a few steps solve a new task
 * and, on request, a learning rate for each parameter. Five methods in one file:
 *
 *   MAML              type = itd                                   Finn, Abbeel and Levine (ICML 2017)
 *   first-order MAML  itd_second_order = 0                         the same
 *   ANIL              only the last layer adapts: trainable        Raghu et al. (ICLR 2020)
 *   Meta-SGD          learned_rates = true                         Li et al. (2017)
 *   iMAML             proximal = 2, type = cg                      Rajeswaran et al. (NeurIPS 2019) */
#include <betty/betty.h>
#include <math.h>

static int64_t ways(bt_problem *self) { return bt_option_int(bt_peer(self, "meta"), "ways", 5, 2, 100); }

/* A batch is one task: support.image and support.label to adapt with, query.image and query.label to judge by. */

static bt_dataset *tasks(bt_problem *self, const char *split)
{
    bt_dataset *images = bt_dataset_open(bt_option_text(self, "data", "omniglot"), split);
    int64_t shots = bt_option_int(self, "shots", 1, 1, 50), queries = bt_option_int(self, "queries", 15, 1, 50);
    int64_t shift = bt_option_int(self, "shift", 0, 0, 27); /* pixels that training images are moved by, each way */
    images = bt_dataset_rotations(images);
    if (shift)
        images = bt_dataset_crop(images, shift, bt_seed(self));
    return bt_dataset_tasks(images, ways(self), shots, queries, bt_seed(self));
}

static bt_dataset *train_tasks(bt_problem *self) { return tasks(self, "train"); }
static bt_dataset *valid_tasks(bt_problem *self) { return tasks(self, "test"); } /* held-out alphabets */

/* Steps on a held-out task. Also called when the module is made, because keys must be known before the run. */
static int64_t adapt_steps(bt_problem *self)
{
    return bt_option_int(bt_peer(self, "learner"), "adapt_steps", 5, 0, 1000);
}

/* A perceptron, or with blocks = 4 the convolutional network of the papers, with pooling or, if `strided`, stride 2. */
static bt_module *network(bt_problem *self)
{
    bt_problem *meta = bt_peer(self, "meta");
    int64_t width = bt_option_int(meta, "width", 64, 1, 10000), blocks = bt_option_int(meta, "blocks", 0, 0, 10);
    bool strided = bt_option_bool(meta, "strided", false);
    if (blocks)
        return strided ? bt_nn_convnet_strided(1, width, blocks, ways(self))
                       : bt_nn_convnet(28, 28, 1, width, blocks, ways(self));
    return bt_nn_mlp(bt_relu, 784, width, width, ways(self));
}

static bt_tensor *loss(bt_problem *learner, const bt_batch *task, const char *part)
{
    bt_tensor *logits = bt_forward(learner, bt_field(task, "%s.image", part));
    return bt_mean(bt_cross_entropy(logits, bt_field(task, "%s.label", part)));
}

/* Upper level: where a learner starts from, and how fast it learns. */

static bt_tensor *meta_step(bt_problem *self, const bt_batch *task)
{
    return loss(bt_peer(self, "learner"), task, "query");
}

static bt_module *meta_module(bt_problem *self)
{
    bt_module *meta = bt_module_new(NULL);
    adapt_steps(self); /* a key must be asked for before the first step */
    bt_module_add(meta, network(self), "net");
    if (bt_option_bool(self, "learned_rates", false))
        bt_module_add_param(meta, "log_rates", bt_init_constant(log(0.1)), bt_param_count(bt_peer(self, "learner")));
    return meta;
}

static bt_tensor *meta_params(bt_problem *self) { return bt_params(bt_child(bt_peer(self, "meta"), "net")); }

/* Lower level: a few steps on the support set, starting from the meta parameters and, with `proximal`, staying near. */

static bt_tensor *learner_start(bt_problem *self) { return meta_params(self); }

static bt_tensor *learner_step(bt_problem *self, const bt_batch *task)
{
    double proximal = bt_option_double(self, "proximal", 0, 0, 1e6);
    bt_tensor *support = loss(self, task, "support");
    if (proximal == 0)
        return support;
    bt_tensor *away = bt_sub(bt_params(self), meta_params(self));
    return bt_add(support, bt_mul(proximal / 2, bt_sum(bt_square(away))));
}

static bt_tensor *learner_gradient(bt_problem *self, bt_tensor *grad) /* with lr = 1, rates times gradient */
{
    bool learned = bt_option_bool(bt_peer(self, "meta"), "learned_rates", false);
    return learned ? bt_mul(bt_exp(bt_param(bt_peer(self, "meta"), "log_rates")), grad) : grad;
}

/* Evaluation, on the host: adapt to each held-out task, measure, forget. */

static bt_tensor *query_accuracy(bt_problem *learner, const bt_batch *task)
{
    bt_tensor *logits = bt_forward(learner, bt_field(task, "query.image"));
    return bt_mean(bt_accuracy(logits, bt_field(task, "query.label")));
}

static void meta_validation(bt_problem *self)
{
    bt_problem *learner = bt_peer(self, "learner");
    const bt_batch *task;
    for (int64_t i = 0; (task = bt_valid_batch(self, i)) != NULL; i++) {
        double acc = 0;
        bt_adapt(learner, task, adapt_steps(self));
        bt_eval(learner, query_accuracy, task, BT_ARRAY(&acc));
        bt_restore(learner);
        bt_metric(self, "acc", acc); /* logged as mean and 95 % interval */
    }
}

static const bt_problem_def meta = {
    .name = "meta",
    .configure_train_data = train_tasks,
    .configure_valid_data = valid_tasks,
    .configure_module = meta_module,
    .training_step = meta_step,
    .validation_end = meta_validation,
};

static const bt_problem_def learner = {
    .name = "learner",
    .batch_of = "meta", /* works on the task that meta has drawn */
    .configure_module = network,
    .start = learner_start,
    .training_step = learner_step,
    .grad_callback = learner_gradient,
};

BT_EXPORT(.problems = {&meta, &learner});
