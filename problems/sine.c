/* sine.c: few-shot regression. A task is a sine curve with its own amplitude and phase; ten points of it are known. The
 * meta problem learns a starting point from which a few steps find the curve. The five methods of maml.c work here,
 * with the same keys. */
#include <betty/betty.h>
#include <math.h>

/* A batch is one task, which is a function of its number: support.x and support.y, each [n, 1], to adapt with, query.x
 * and query.y to judge by. */

enum { SUPPORT = 10, QUERY = 50, POINTS = SUPPORT + QUERY };

static double between(double low, double high, double u) { return low + (high - low) * u; }

static bt_status draw_task(bt_problem *self, bt_mode mode, int64_t index, bt_batch *task)
{
    const double pi = 3.14159265358979323846;
    float x[POINTS], y[POINTS];
    uint64_t seed = bt_seed(self), stream = 2 * (uint64_t)index + (mode == BT_VALID);
    double amplitude = between(0.1, 5, bt_host_uniform(seed, stream, 0));
    double phase = between(0, pi, bt_host_uniform(seed, stream, 1));
    for (int i = 0; i < POINTS; i++) {
        double at = between(-5, 5, bt_host_uniform(seed, stream, (uint64_t)i + 2));
        x[i] = (float)at;
        y[i] = (float)(amplitude * sin(at - phase));
    }
    bt_batch_set(task, "support.x", BT_ARRAY(x, SUPPORT, 1));
    bt_batch_set(task, "support.y", BT_ARRAY(y, SUPPORT, 1));
    bt_batch_set(task, "query.x", BT_ARRAY(x + SUPPORT, QUERY, 1));
    return bt_batch_set(task, "query.y", BT_ARRAY(y + SUPPORT, QUERY, 1));
}

static bt_module *network(bt_problem *self)
{
    int64_t width = bt_option_int(bt_peer(self, "meta"), "width", 40, 1, 10000);
    return bt_nn_mlp(bt_relu, 1, width, width, 1);
}

static bt_tensor *error(bt_problem *learner, const bt_batch *task, const char *part)
{
    bt_tensor *guess = bt_forward(learner, bt_field(task, "%s.x", part));
    return bt_mean(bt_square(bt_sub(guess, bt_field(task, "%s.y", part))));
}

static bt_tensor *query_error(bt_problem *learner, const bt_batch *task) { return error(learner, task, "query"); }

/* Upper level: where a learner starts from, and how fast it learns. */

static bt_module *meta_module(bt_problem *self)
{
    bt_module *meta = bt_module_new(NULL);
    bt_module_add(meta, network(self), "net");
    if (bt_option_bool(self, "learned_rates", false))
        bt_module_add_param(meta, "log_rates", bt_init_constant(log(0.01)), bt_param_count(bt_peer(self, "learner")));
    return meta;
}

static bt_tensor *meta_params(bt_problem *self) { return bt_params(bt_child(bt_peer(self, "meta"), "net")); }

static bt_tensor *meta_step(bt_problem *self, const bt_batch *task)
{
    return query_error(bt_peer(self, "learner"), task);
}

/* Lower level: a few steps on the known points from the meta parameters and, with `proximal`, not far from them. */

static bt_tensor *learner_start(bt_problem *self) { return meta_params(self); }

static bt_tensor *learner_step(bt_problem *self, const bt_batch *task)
{
    double proximal = bt_option_double(self, "proximal", 0, 0, 1e6);
    bt_tensor *support = error(self, task, "support");
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

/* Evaluation, on the host: the error on new tasks after so many steps. */

static void measure(bt_problem *self, const bt_batch *task, int64_t steps, const char *name)
{
    bt_problem *learner = bt_peer(self, "learner");
    double value = 0;
    bt_adapt(learner, task, steps);
    bt_eval(learner, query_error, task, BT_ARRAY(&value));
    bt_restore(learner);
    bt_metric(self, name, value); /* logged as mean and 95 % interval */
}

static void meta_validation(bt_problem *self)
{
    const bt_batch *task;
    for (int64_t i = 0; (task = bt_valid_batch(self, i)) != NULL; i++) {
        measure(self, task, 1, "mse_1");
        measure(self, task, 5, "mse_5");
        measure(self, task, 10, "mse_10");
    }
}

static const bt_problem_def meta = {
    .name = "meta",
    .get_batch = draw_task,
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
