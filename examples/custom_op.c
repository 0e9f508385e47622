/* examples/custom_op.c: what a file can add besides its problems: an op made of others, an op with a kernel, an
 * optimiser, a hypergradient method and a data set. docs/extending.md explains it.
 *
 * A line is fitted to points, some of which are outliers. Small residuals count by their square, larger ones by their
 * size. The upper problem learns from clean points where one changes to the other. */
#include <betty/betty.h>
#include <math.h>

/* ---- an op made of other ops ---- */

static void huber_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    bt_tensor *size = bt_abs(in[0]), *bend = in[1];
    bt_tensor *square = bt_mul(0.5, bt_square(size));
    bt_tensor *line = bt_mul(bend, bt_sub(size, bt_mul(0.5, bend)));
    (void)attr;
    out[0] = bt_where(bt_less(size, bend), square, line);
}

static const bt_op huber = {.name = "huber", .inputs = 2, .body = huber_body};

/* ---- an op with a kernel, and the rule for its derivative ---- */

static bt_status softplus_launch(const bt_launch *run)
{
    const double sharpness = *(const double *)run->attr;
    int64_t count = bt_array_count(run->in[0]);
    bool doubles = run->in[0].dtype == BT_F64;
    for (int64_t i = 0; i < count; i++) {
        double x = doubles ? ((const double *)run->in[0].data)[i] : ((const float *)run->in[0].data)[i];
        double y = fmax(x, 0) + log1p(exp(-sharpness * fabs(x))) / sharpness;
        if (doubles)
            ((double *)run->out[0].data)[i] = y;
        else
            ((float *)run->out[0].data)[i] = (float)y;
    }
    return BT_OK;
}

static void softplus_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                         bt_tensor **wanted)
{
    (void)out;
    wanted[0] = bt_mul(given[0], bt_sigmoid(bt_mul(*(const double *)attr, in[0])));
}

/* The same, made of other ops, for devices without a kernel of its own. */
static void softplus_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    const double sharpness = *(const double *)attr;
    bt_tensor *tail = bt_log1p(bt_exp(bt_mul(-sharpness, bt_abs(in[0]))));
    out[0] = bt_add(bt_maximum(in[0], 0), bt_div(tail, sharpness));
}

/* examples/softplus.cu; NULL where that is not linked, and then the body takes its place. */
bt_status softplus_on_cuda(const bt_launch *run) __attribute__((weak));

static const bt_op softplus = {
    .name = "softplus",
    .inputs = 1,
    .attr_size = sizeof(double),
    .infer = bt_infer_same,
    .body = softplus_body,
    .vjp = softplus_vjp,
    .kernels = {{.device = BT_CPU, .dtype = BT_F32, .launch = softplus_launch},
                {.device = BT_CPU, .dtype = BT_F64, .launch = softplus_launch},
                {.device = BT_CUDA, .dtype = BT_F32, .launch = softplus_on_cuda}},
};

/* ---- an optimiser: divides the gradient by the root of its mean square, one number per row ---- */

static bt_tensor *rowwise_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    bt_tensor *square = bt_square(grad), *mean = bt_rank(param) ? bt_mean(square, -1) : square,
              *beta = bt_hyper(rule, "beta");
    bt_tensor *row = bt_add(bt_mul(beta, bt_slot(rule, "row")), bt_mul(bt_sub(1, beta), mean));
    bt_slot_set(rule, "row", row);
    bt_tensor *size = bt_add(bt_sqrt(row), 1e-8);
    return bt_sub(param, bt_mul(bt_hyper(rule, "lr"), bt_div(grad, bt_rank(param) ? bt_unsqueeze(size, -1) : size)));
}

static bt_array rowwise_slot(int slot, bt_array param, const double *hypers)
{
    (void)slot, (void)hypers;
    param.rank -= param.rank > 0; /* all axes but the last */
    return param;
}

static const bt_optimizer_def rowwise = {
    .name = "rowwise",
    .hypers = {{"lr", 1e-3, 0, 1e9, "learning rate", BT_HYPER_REAL},
               {"beta", 0.99, 0, 1, "share of the mean square that is kept", BT_HYPER_REAL}},
    .slots = {"row"},
    .slot = rowwise_slot,
    .update = rowwise_update,
};

/* ---- a method: x from H x = v, by the heavy-ball iteration (Polyak, 1964) ---- */

static bt_tensor *polyak_start(bt_rule *rule, bt_tensor *v)
{
    bt_slot_set(rule, "before", v);
    return v;
}

static bt_tensor *polyak_step(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    bt_tensor *downhill = bt_mul(bt_hyper(rule, "alpha"), bt_sub(v, bt_hvp(rule, x)));
    bt_tensor *onward = bt_mul(bt_hyper(rule, "beta"), bt_sub(x, bt_slot(rule, "before")));
    bt_slot_set(rule, "before", x);
    return bt_add(x, bt_add(downhill, onward));
}

static const bt_method_def polyak = {
    .name = "polyak",
    .hypers = {{"iterations", 10, 0, 1e6, "steps", BT_HYPER_WHOLE},
               {"alpha", 0.1, 0, 1e9, "step size, below 2 / (largest eigenvalue of H)", BT_HYPER_REAL},
               {"beta", 0.5, 0, 1, "how much of the last step is made again", BT_HYPER_REAL}},
    .slots = {"before"},
    .start = polyak_start,
    .step = polyak_step,
};

/* ---- a data set: points of a line; some of the training points are outliers ---- */

static bt_dataset *line_open(const char *split)
{
    enum { POINTS = 512 };
    float x[POINTS], y[POINTS];
    bool wild = split[0] == 't' && split[1] == 'r'; /* "train", not "test" */
    for (int i = 0; i < POINTS; i++) {
        double u = bt_host_uniform(wild, 0, (uint64_t)i);
        x[i] = (float)(2 * u - 1);
        y[i] = (float)(3 * x[i] + 1 + 0.2 * (bt_host_uniform(wild, 1, (uint64_t)i) - 0.5));
        if (wild && bt_host_uniform(wild, 2, (uint64_t)i) < 0.2)
            y[i] += (float)(20 * u);
    }
    bt_dataset *data = bt_dataset_new(POINTS);
    bt_dataset_add(data, "x", BT_ARRAY(x, POINTS, 1));
    bt_dataset_add(data, "y", BT_ARRAY(y, POINTS));
    return data;
}

static const bt_dataset_def line = {.name = "line", .open = line_open};

/* ---- the problems ---- */

static bt_dataset *wild_points(bt_problem *self)
{
    return bt_dataset_open(bt_option_text(self, "data", "line"), "train");
}

static bt_dataset *clean_points(bt_problem *self)
{
    return bt_dataset_open(bt_option_text(self, "data", "line"), "test");
}

static bt_module *bend_module(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(3)); }

static bt_tensor *bend_forward(bt_problem *self, bt_tensor *const *in) /* always positive */
{
    const double sharpness = 4;
    (void)in;
    return bt_apply(&softplus, &sharpness, bt_forward(bt_net(self)));
}

static bt_module *model_module(bt_problem *self) { return bt_nn_linear(bt_data_dim(self, "x", 1), 1); }

static bt_tensor *residual(bt_problem *model, const bt_batch *batch)
{
    return bt_sub(bt_squeeze(bt_forward(model, bt_field(batch, "x")), 1), bt_field(batch, "y"));
}

static bt_tensor *model_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *bend = bt_forward(bt_peer(self, "bend"));
    bt_check(bt_greater(bend, 0), "the bend is no longer positive");
    return bt_mean(bt_apply(&huber, NULL, residual(self, batch), bend));
}

static bt_tensor *bend_step(bt_problem *self, const bt_batch *batch)
{
    bt_problem *model = bt_peer(self, "model");
    bt_tensor *loss = bt_mean(bt_square(residual(model, batch)));
    bt_tensor *slope = bt_grad(loss, bt_params(model)); /* a derivative within a loss */
    bt_metric(self, "bend", bt_forward(self));
    return bt_add(loss, bt_mul(1e-3, bt_sum(bt_square(slope))));
}

static const bt_problem_def bend = {
    .name = "bend",
    .configure_train_data = clean_points,
    .configure_module = bend_module,
    .forward = bend_forward,
    .training_step = bend_step,
};

static const bt_problem_def model = {
    .name = "model",
    .configure_train_data = wild_points,
    .configure_module = model_module,
    .training_step = model_step,
};

BT_EXPORT(.problems = {&bend, &model}, .optimizers = {&rowwise}, .methods = {&polyak}, .datasets = {&line});
