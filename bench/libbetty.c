/* bench/libbetty.c: libbetty's side of `./dev bench`: bench-libbetty WORKLOAD FOLDER [SECTION.KEY=VALUE ...]
 *
 * The problems are written as a user would write them, on the public interface; the driver, bench/run.py, asks for
 * steps through standard input and gets a line of JSON for each question (bench/README.md lists them). Control between
 * the steps is had in on_inner_loop_start, so what is timed is the engine's own loop, its loader included. */
#include "base/base.h"
#include "base/version.h"
#include "data/data.h"
#include "engine/session/session.h"

#include <betty/betty.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 28 * 28, CLASSES = 10, FEATURES = 20, MAX_PARAMS = 1 << 20, MLP_BATCHES = 8 };

typedef struct session {
    const char *folder;
    bt_engine *engine;
    const struct workload *workload;
    int64_t hidden;        /* lower.hidden */
    int64_t tasks;         /* upper.meta_batch */
    int64_t asked, unroll; /* lower steps in the measurement that is running, 0: none; those to a call of ours */
    int64_t step;          /* lower steps in what the driver calls a step */
    int64_t done;
    double start;
} session;

typedef struct workload {
    const char *name;
    const bt_export *problems;
    const char *top, *set; /* the problem whose loss and parameters are the state, and its data */
    bt_step_fn *loss;      /* of the state */
    const char *input;     /* the field that the rows of train_x and meta_x become */
    int64_t features;      /* of a row; 0: as many as hidden */
    const char *label;     /* likewise for _y */
    bool classes;          /* labels are whole numbers */
    int64_t unroll;        /* steps to a call of ours, unless lower.unroll_steps says otherwise */
    bool few_shot;         /* the data are tasks, and a step is an upper one */
} workload;

/* ---- files of the folder: plain arrays without a header ---- */

static void *read_file(const char *folder, const char *name, size_t *bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    long length = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    void *data = length > 0 ? malloc((size_t)length) : NULL;
    *bytes = data && fseek(file, 0, SEEK_SET) == 0 ? fread(data, 1, (size_t)length, file) : 0;
    if (length <= 0 || *bytes != (size_t)length) {
        bt_fail(BT_ERROR_FILE, "%s cannot be read: %s", path, strerror(errno));
        free(data);
        data = NULL;
    }
    if (file)
        fclose(file);
    return data;
}

static bt_status write_file(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(data, 1, bytes, file) == bytes;
    if (file && fclose(file) != 0)
        good = false;
    return good ? BT_OK : bt_fail(BT_ERROR_FILE, "%s cannot be written: %s", path, strerror(errno));
}

/* SET_x.f32 with rows of features, and SET_y.f32 or, for classes, SET_y.i64. */
static bt_dataset *read_set(const session *s, const char *set)
{
    char name[64];
    size_t x_bytes, y_bytes = 0;
    const workload *w = s->workload;
    int64_t features = w->features ? w->features : s->hidden;
    snprintf(name, sizeof name, "%s_x.f32", set);
    float *x = read_file(s->folder, name, &x_bytes);
    snprintf(name, sizeof name, "%s_y.%s", set, w->classes ? "i64" : "f32");
    void *y = read_file(s->folder, name, &y_bytes);
    int64_t rows = (int64_t)(x_bytes / sizeof *x) / features;
    bt_dataset *data = x && y ? bt_dataset_new(rows) : NULL;
    bt_dataset_add(data, w->input, BT_ARRAY(x, rows, features));
    bt_dataset_add(data, w->label, w->classes ? BT_ARRAY((int64_t *)y, rows) : BT_ARRAY((float *)y, rows));
    free(x);
    free(y);
    return data;
}

static bt_dataset *lower_data(bt_problem *self) { return read_set(bt_user(self), "train"); }

static bt_dataset *upper_data(bt_problem *self) { return read_set(bt_user(self), "meta"); }

/* ---- Meta-Weight-Net ---- */

static bt_module *weigher_module(bt_problem *self)
{
    (void)self;
    return bt_nn_mlp(bt_relu, 1, 100, 1);
}

static bt_tensor *weigher_forward(bt_problem *self, bt_tensor *const *in) /* loss [n] to weight [n] */
{
    return bt_sigmoid(bt_squeeze(bt_forward(bt_net(self), in[0]), 1));
}

static bt_module *classifier_module(bt_problem *self)
{
    return bt_nn_mlp(bt_relu, PIXELS, bt_option_int(self, "hidden", 100, 1, 1000), CLASSES);
}

/* ResNet on rows of 32 x 32 x 3 numbers. */

static bt_module *resnet_module(bt_problem *self)
{
    return bt_nn_resnet_cifar(bt_option_int(self, "depth", 32, 8, 1000), 3, CLASSES);
}

static bt_tensor *resnet_forward(bt_problem *self, bt_tensor *const *in)
{
    return bt_forward(bt_net(self), bt_reshape(in[0], -1, 32, 32, 3));
}

static bt_tensor *classifier_losses(bt_problem *classifier, const bt_batch *batch) /* [n] */
{
    return bt_cross_entropy(bt_forward(classifier, bt_field(batch, "image")), bt_field(batch, "label"));
}

static bt_tensor *weigher_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(classifier_losses(bt_peer(self, "lower"), batch));
}

static bt_tensor *classifier_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = classifier_losses(self, batch);
    bt_tensor *weight = bt_forward(bt_peer(self, "upper"), bt_detach(loss));
    return bt_mean(bt_mul(weight, loss));
}

/* ---- logistic regression with a penalty per feature ---- */

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

/* ---- an MLP of one level ---- */

static bt_module *mlp_module(bt_problem *self)
{
    int hidden = (int)bt_option_int(self, "hidden", 16, 1, 10000);
    return bt_nn_mlp(bt_relu, hidden, hidden, hidden, CLASSES);
}

static bt_tensor *mlp_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_cross_entropy(bt_forward(self, bt_field(batch, "x")), bt_field(batch, "label")));
}

/* ---- MAML ---- */

enum { SHOTS = 1, QUERIES = 15, STATE_TASKS = 8 };

static int64_t ways(bt_problem *self) { return bt_option_int(bt_peer(self, "upper"), "ways", 5, 2, 100); }

static bt_dataset *omniglot_tasks(bt_problem *self)
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

/* ---- questions and answers ---- */

static bt_tensor *all_params(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_params(self);
}

static bt_status params_of(session *s, const char *name, float *params, int64_t *count)
{
    bt_problem *problem = bt_engine_problem(s->engine, name);
    *count = problem ? bt_param_count(problem) : 0;
    if (*count > MAX_PARAMS)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: %lld parameters are too many", name, (long long)*count);
    return bt_eval(problem, all_params, NULL, BT_ARRAY(params, *count));
}

static bt_status export_params(session *s, const char *name)
{
    static float params[MAX_PARAMS];
    char file[64];
    int64_t count;
    BT_TRY(params_of(s, name, params, &count));
    snprintf(file, sizeof file, "%s.f32", name);
    return write_file(s->folder, file, params, (size_t)count * sizeof *params);
}

/* The first `batches` batches that the engine's loader draws for a problem, as places in its data set: the same loader
 * with the same seed, over a set that has nothing else. */
static bt_status export_order(session *s, const char *set, const char *name, int64_t batches)
{
    char file[64];
    bt_dataset *all = read_set(s, set);
    int64_t rows = bt_dataset_count(all);
    bt_dataset_free(all);
    bt_loader_options options = bt_loader_defaults();
    options.batch_size = 100;
    options.shuffle = true;
    options.seed = bt_hash_text(bt_seed(bt_engine_problem(s->engine, name)), name);
    int32_t *order = calloc((size_t)batches * 100, sizeof *order);
    float *nothing = calloc((size_t)rows, sizeof *nothing);
    bt_dataset *data = order && nothing ? bt_dataset_new(rows) : NULL;
    bt_dataset_add(data, "nothing", BT_ARRAY(nothing, rows));
    bt_loader *loader = bt_loader_open(data, &options);
    bt_status status = loader ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t b = 0; status == BT_OK && b < batches; b++) {
        const bt_batch *batch;
        status = bt_loader_draw(loader, &batch);
        for (int f = 0; status == BT_OK && f < batch->field_count; f++)
            if (strcmp(batch->fields[f].name, "index") == 0)
                status = bt_array_convert(BT_ARRAY(order + 100 * b, 100), batch->fields[f].array);
    }
    snprintf(file, sizeof file, "%s_order.i32", set);
    if (status == BT_OK)
        status = write_file(s->folder, file, order, (size_t)batches * 100 * sizeof *order);
    bt_loader_free(loader);
    free(order);
    free(nothing);
    return status;
}

static bt_status append_field(const bt_batch *task, const char *field, FILE *file)
{
    static float images[MAX_PARAMS];
    for (int f = 0; f < task->field_count; f++) {
        bt_array array = task->fields[f].array;
        size_t count = (size_t)bt_array_count(array);
        if (strcmp(task->fields[f].name, field) != 0)
            continue;
        BT_TRY(count <= MAX_PARAMS ? bt_array_convert(BT_ARRAY(images, (int64_t)count), array) : BT_ERROR_ARGUMENT);
        return fwrite(images, sizeof *images, count, file) == count ? BT_OK : BT_ERROR_FILE;
    }
    return bt_fail(BT_ERROR_ARGUMENT, "a task has no field `%s`", field);
}

/* The images of the first `count` tasks that the problem draws. */
static bt_status export_tasks(session *s, const char *part, int64_t count)
{
    char path[4096], field[64];
    snprintf(path, sizeof path, "%s/%s_x.f32", s->folder, part);
    snprintf(field, sizeof field, "%s.image", part);
    bt_loader *loader = bt_loader_new(omniglot_tasks(bt_engine_problem(s->engine, "upper")), 1, 0);
    FILE *file = fopen(path, "wb");
    bt_status status = loader && file ? BT_OK : bt_fail(BT_ERROR_FILE, "%s cannot be written", path);
    for (int64_t i = 0; i < count && status == BT_OK; i++) {
        const bt_batch *task;
        status = bt_loader_next(loader, &task);
        if (status == BT_OK)
            status = append_field(task, field, file);
    }
    if (file && fclose(file) != 0 && status == BT_OK)
        status = BT_ERROR_FILE;
    bt_loader_free(loader);
    return status;
}

/* What the other programs start from: our initial values and our order of the batches. */
static bt_status export_start(session *s, int64_t batches)
{
    BT_TRY(export_params(s, "lower"));
    if (strcmp(s->workload->top, "upper") == 0)
        BT_TRY(export_params(s, "upper"));
    if (s->workload->few_shot) {
        BT_TRY(export_tasks(s, "support", batches));
        BT_TRY(export_tasks(s, "query", batches));
    } else if (batches) {
        BT_TRY(export_order(s, "train", "lower", batches));
        BT_TRY(export_order(s, "meta", "upper", batches));
    }
    printf("{\"exported\": true}\n");
    return BT_OK;
}

/* In parts that take no more memory than the steps do. */
static bt_status whole_loss(session *s, double *loss)
{
    enum { PART = 100 };
    const workload *w = s->workload;
    bt_loader *loader = bt_loader_new(read_set(s, w->set), PART, 0);
    const bt_batch *batch = NULL;
    bt_status status;
    double sum = 0, count = 0;
    while ((status = bt_loader_next(loader, &batch)) == BT_OK) {
        float part;
        status = bt_eval(bt_engine_problem(s->engine, w->top), w->loss, batch, BT_ARRAY(&part));
        if (status != BT_OK)
            break;
        sum += (double)part * (double)bt_batch_count(batch);
        count += (double)bt_batch_count(batch);
    }
    bt_loader_free(loader);
    *loss = sum / count;
    return status == BT_DONE ? BT_OK : status;
}

/* Of the first tasks, once adapted to. */
static bt_status adapted_loss(session *s, double *loss)
{
    bt_problem *upper = bt_engine_problem(s->engine, "upper"), *lower = bt_engine_problem(s->engine, "lower");
    bt_loader *loader = bt_loader_new(omniglot_tasks(upper), 1, 0);
    bt_status status = BT_OK;
    *loss = 0;
    for (int i = 0; i < STATE_TASKS && status == BT_OK; i++) {
        const bt_batch *task;
        float part = 0;
        status = bt_loader_next(loader, &task);
        if (status == BT_OK)
            status = bt_adapt(lower, task, s->unroll);
        if (status == BT_OK)
            status = bt_eval(upper, s->workload->loss, task, BT_ARRAY(&part));
        if (status == BT_OK)
            status = bt_restore(lower);
        *loss += (double)part / STATE_TASKS;
    }
    bt_loader_free(loader);
    return status;
}

/* The (upper) loss over its whole data set, and the (upper) parameters. */
static bt_status print_state(session *s)
{
    static float params[MAX_PARAMS];
    int64_t count;
    double loss;
    const workload *w = s->workload;
    BT_TRY(w->few_shot ? adapted_loss(s, &loss) : whole_loss(s, &loss));
    BT_TRY(params_of(s, w->top, params, &count));
    printf("{\"loss\": %.9g, \"params\": [", loss);
    for (int64_t i = 0; i < count; i++)
        printf("%s%.9g", i ? ", " : "", (double)params[i]);
    printf("]}\n");
    return BT_OK;
}

/* What the plan says that the run holds: everything but the data set. */
static bt_status print_memory(session *s)
{
    size_t by_category[BT_CATEGORIES], kept = bt_persistent_bytes(&s->engine->context, by_category, NULL);
    printf("{\"tensor_bytes\": %zu}\n", kept + bt_arena_used(&s->engine->context));
    return BT_OK;
}

static bt_status answer(session *s, const char *line)
{
    long long number;
    if (sscanf(line, "steps %lld", &number) == 1 && number > 0 && number * s->step % s->unroll == 0) {
        s->asked = number * s->step;
        s->done = 0;
        s->start = bt_seconds();
        return BT_OK;
    }
    if (sscanf(line, "export %lld", &number) == 1 && number >= 0)
        return export_start(s, number);
    if (strcmp(line, "state\n") == 0)
        return print_state(s);
    if (strcmp(line, "memory\n") == 0)
        return print_memory(s);
    return bt_fail(BT_ERROR_ARGUMENT, "not understood: %s", line);
}

/* Before each inner loop, and after each epoch of a problem of one level: on with the steps that were asked for, or
 * wait for the next question. */
static void between_steps(bt_problem *self)
{
    session *s = bt_user(self);
    char line[256];
    if (s->asked && (s->done += s->unroll) < s->asked)
        return;
    if (s->asked)
        printf("{\"ms\": %.6f}\n", 1e3 * (bt_seconds() - s->start));
    s->asked = 0;
    while (!s->asked) {
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin)) {
            bt_fail(BT_ERROR_INTERRUPTED, "no more questions");
            return;
        }
        if (answer(s, line) != BT_OK)
            return;
    }
}

/* ---- the workloads ---- */

static const bt_problem_def weigher = {
    .name = "upper",
    .configure_train_data = upper_data,
    .configure_module = weigher_module,
    .forward = weigher_forward,
    .training_step = weigher_step,
};

static const bt_problem_def classifier = {
    .name = "lower",
    .configure_train_data = lower_data,
    .configure_module = classifier_module,
    .training_step = classifier_step,
    .on_inner_loop_start = between_steps,
};

static const bt_problem_def residual = {
    .name = "lower",
    .configure_train_data = lower_data,
    .configure_module = resnet_module,
    .forward = resnet_forward,
    .training_step = classifier_step,
    .on_inner_loop_start = between_steps,
};

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

static const bt_problem_def meta = {
    .name = "upper",
    .configure_train_data = omniglot_tasks,
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

static const bt_export meta_weight_net = {.abi = BT_ABI, .problems = {&weigher, &classifier}};
static const bt_export residual_net = {.abi = BT_ABI, .problems = {&weigher, &residual}};
static const bt_export logistic_penalties = {.abi = BT_ABI, .problems = {&penalty, &logistic}};
static const bt_export few_shot = {.abi = BT_ABI, .problems = {&meta, &learner}};
static const bt_export one_level = {.abi = BT_ABI, .problems = {&perceptron}};

static const workload workloads[] = {
    {"mwn", &meta_weight_net, "upper", "meta", weigher_step, "image", PIXELS, "label", true, 1, false},
    {"resnet", &residual_net, "upper", "meta", weigher_step, "image", 32 * 32 * 3, "label", true, 1, false},
    {"logistic", &logistic_penalties, "upper", "meta", penalty_step, "x", FEATURES, "y", false, 1, false},
    {"mlp", &one_level, "lower", "train", mlp_step, "x", 0, "label", true, MLP_BATCHES, false},
    {"maml", &few_shot, "upper", NULL, meta_step, NULL, 0, NULL, true, 1, true},
};

static bt_status setting(session *s, char *text)
{
    char *equals = strchr(text, '=');
    if (!equals)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: a setting is SECTION.KEY=VALUE", text);
    *equals = 0;
    if (strcmp(text, "lower.unroll_steps") == 0)
        s->unroll = atoll(equals + 1);
    if (strcmp(text, "upper.meta_batch") == 0)
        s->tasks = atoll(equals + 1);
    if (strcmp(text, "lower.hidden") == 0)
        s->hidden = atoll(equals + 1);
    return bt_engine_set(s->engine, text, "%s", equals + 1);
}

static bt_status serve(session *s, const char *name, int count, char **settings)
{
    for (int i = 0; i < BT_COUNT_OF(workloads); i++)
        if (strcmp(name, workloads[i].name) == 0)
            s->workload = &workloads[i];
    if (!s->workload)
        return bt_fail(BT_ERROR_ARGUMENT, "no workload `%s`; there are mwn, resnet, logistic, mlp, maml", name);
    s->unroll = s->workload->unroll;
    bt_engine_use(s->engine, s->workload->problems, s);
    if (strcmp(s->workload->top, "upper") == 0) {
        bt_engine_set(s->engine, "dependencies.u2l", "upper > lower");
        bt_engine_set(s->engine, "dependencies.l2u", "lower > upper");
    }
    bt_engine_set(s->engine, "engine.train_iters", "%d", 1000000000);
    bt_engine_set(s->engine, "engine.valid_step", "0");
    bt_engine_set(s->engine, "engine.log_step", "0");
    for (int i = 0; i < count; i++)
        BT_TRY(setting(s, settings[i]));
    s->step = s->workload->few_shot ? s->unroll * s->tasks : 1;
    if (!bt_engine_problem(s->engine, "lower"))
        return BT_ERROR_CONFIG;
    printf("{\"ready\": \"libbetty %s\"}\n", BT_VERSION);
    bt_status status = bt_engine_run(s->engine);
    return status == BT_ERROR_INTERRUPTED ? BT_OK : status;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "bench-libbetty WORKLOAD FOLDER [SECTION.KEY=VALUE ...]\n");
        return 2;
    }
    session s = {.folder = argv[2], .engine = bt_engine_new(), .tasks = 1};
    bt_status status = s.engine ? serve(&s, argv[1], argc - 3, argv + 3) : BT_ERROR_MEMORY;
    if (status != BT_OK)
        fprintf(stderr, "bench-libbetty: %s\n", bt_error());
    bt_engine_free(s.engine);
    return status == BT_OK ? 0 : 1;
}
