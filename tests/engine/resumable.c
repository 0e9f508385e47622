/* tests/engine/resumable.c */
#include "resumable.h"

#include "engine/plugin/spawn.h"
#include "engine/session/session.h"
#include "support/vars.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FEATURES = 3 };

static bt_dataset *rows(bt_problem *self)
{
    const resumable *world = bt_user(self);
    int count = world->rows ? world->rows : 19;
    double x[40 * FEATURES];
    int32_t label[40];
    uint64_t stream = strcmp(self->name, "upper") == 0;
    for (int i = 0; i < count * FEATURES; i++)
        x[i] = 2 * bt_host_uniform(21, stream, (uint64_t)i) - 1;
    x[count * FEATURES - 1] += world->shift;
    for (int i = 0; i < count; i++)
        label[i] = x[i * FEATURES] > x[i * FEATURES + 1];
    bt_dataset *data = bt_dataset_new(count);
    bt_dataset_add(data, "x", BT_ARRAY(x, count, FEATURES));
    bt_dataset_add(data, "label", BT_ARRAY(label, count));
    return data;
}

static bt_module *net(bt_problem *self)
{
    resumable *world = bt_user(self);
    if (!world->forgets) {
        bt_state(self, "epochs", &world->epochs, sizeof world->epochs);
        bt_state(self, "loops", &world->loops, sizeof world->loops);
    }
    bt_module *net = bt_nn_sequential(bt_nn_linear(FEATURES, 5), bt_nn_fn(bt_relu), bt_nn_dropout(0.3),
                                      bt_nn_layer_norm(5), bt_nn_linear(5, 2));
    bt_module_add_buffer(net, "mean", bt_init_constant(0), FEATURES);
    return net;
}

static bt_module *penalty(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(-3), 2);
}

static double host_number(bt_problem *self)
{
    const resumable *world = bt_user(self);
    return 1 + 0.125 * (double)world->epochs + 0.25 * (double)world->loops + 0.5 * (double)bt_host_epoch(self);
}

/* Makes programs recompile after some steps. */
static int64_t stage(bt_problem *self)
{
    const resumable *world = bt_user(self);
    return world->one_stage ? 0 : bt_host_step(self) / 5;
}

static bt_tensor *losses(bt_problem *lower, const bt_batch *batch)
{
    return bt_cross_entropy(bt_forward(lower, bt_field(batch, "x")), bt_field(batch, "label"));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    const resumable *world = bt_user(self);
    bt_tensor *strength = bt_exp(bt_forward(bt_peer(self, "upper"))), *x = bt_field(batch, "x");
    bt_param_set(self, "mean", bt_add(bt_mul(0.9, bt_param(self, "mean")), bt_mul(0.1, bt_mean(x, 0))));
    bt_tensor *loss = bt_mul(bt_host_scalar(self, "number", host_number), bt_mean(losses(self, batch)));
    loss = bt_mul(world->factor > 0 ? world->factor : 1, loss);
    loss = bt_mul(1 + 0.01 * (double)bt_static_int(self, "stage", stage), loss);
    bt_tensor *size = bt_sum(bt_square(bt_params(self)));
    bt_metric(self, "size", size);
    bt_tensor *tiny = bt_mul(1e-3, bt_mul(bt_step(self), bt_sum(strength)));
    return bt_add(loss, bt_mul(bt_add(bt_at(strength, 0), tiny), size));
}

/* A second lower level with batches from a callback, so that the upper one must wait for both. */
static bt_status side_batch(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    const resumable *world = bt_user(self);
    double target[2] = {bt_host_uniform(bt_seed(self), 5, (uint64_t)index) + world->made_shift, mode == BT_TRAIN};
    return bt_batch_set(batch, "target", BT_ARRAY(target, 2));
}

static bt_module *side_module(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(0.5), 2);
}

static bt_tensor *side_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *strength = bt_exp(bt_at(bt_forward(bt_peer(self, "upper")), 1)), *w = bt_forward(self);
    bt_tensor *away = bt_sub(w, bt_field(batch, "target"));
    return bt_add(bt_mean(bt_square(away)), bt_mul(strength, bt_sum(bt_square(w))));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *both = bt_add(bt_mean(losses(bt_peer(self, "lower"), batch)), bt_sum(bt_forward(bt_peer(self, "side"))));
    return bt_add(both, bt_mul(0.01, bt_sum(bt_square(bt_forward(self)))));
}

static void epoch(bt_problem *self)
{
    resumable *world = bt_user(self);
    bt_metric(self, "epochs", (double)++world->epochs);
}

static void inner_loop(bt_problem *self)
{
    resumable *world = bt_user(self);
    world->loops++;
}

static void valid_end(bt_problem *self)
{
    resumable *world = bt_user(self);
    bt_metric(self, "first", 0.1 * (double)world->loops);
    bt_metric(self, "first", 0.3 * (double)world->epochs);
    if (world->save_to)
        world->saved = bt_engine_save(self->context->engine, world->save_to);
}

static bt_tensor *valid_step(bt_problem *self, const bt_batch *batch) { return bt_mean(losses(self, batch)); }

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = rows, .configure_module = penalty, .training_step = upper_step};
static const bt_problem_def lower = {.name = "lower",
                                     .configure_train_data = rows,
                                     .configure_valid_data = rows,
                                     .configure_module = net,
                                     .training_step = lower_step,
                                     .validation_step = valid_step,
                                     .epoch_callback = epoch,
                                     .on_inner_loop_start = inner_loop,
                                     .validation_end = valid_end};
static const bt_problem_def side = {
    .name = "side", .get_batch = side_batch, .configure_module = side_module, .training_step = side_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower, &side}};

bt_engine *resumable_engine(resumable *world, const char *settings, const char *more, const char *folder)
{
    char all[2000];
    snprintf(all, sizeof all,
             "dependencies.u2l = upper > lower, side\ndependencies.l2u = lower > upper, side > upper\n"
             "lower.batch_size = 5\nside.lr = 0.1\n"
             "upper.batch_size = 4\nlower.lr = 0.1\nlower.momentum = 0.9\nupper.optimizer = adam\nupper.lr = 0.05\n"
             "engine.train_iters = %d\nengine.log_step = 3\nengine.valid_step = 4\nengine.threads = 1\n"
             "engine.early_stopping = true\nengine.early_stopping_tolerance = 100\n%s%s%s%s",
             RESUMABLE_STEPS, settings, more, folder ? "engine.output = " : "", folder ? folder : "");
    bt_engine *engine = levels_engine(&parts, world, all);
    const bt_front front = {.stop = &world->stop};
    EXPECT_OK(bt_engine_attach(engine, &front));
    return engine;
}

void resumable_step(bt_engine *engine, resumable *world)
{
    world->stop = 1;
    bt_status status = bt_engine_run(engine);
    ck_assert_msg(status == BT_ERROR_INTERRUPTED, "%s", bt_error());
    bt_error_clear();
}

void resumable_finish(bt_engine *engine, resumable *world)
{
    world->stop = 0;
    EXPECT_OK(bt_engine_run(engine));
}

/* ---- the complete state of a run ---- */

static void add(uint64_t *sum, const void *data, size_t size) { *sum = bt_hash(*sum, data, size); }
static void add_number(uint64_t *sum, int64_t number) { add(sum, &number, sizeof number); }

static void add_variable(void *user, const bt_var *var, const bt_block *block)
{
    (void)block;
    uint64_t *sum = user;
    if (var->category != BT_BATCH) /* independent of the order of creation */
        *sum += bt_hash(bt_hash_text(bt_hash_text(0, var->owner), var->name), var_near(var), var->bytes);
}

static void add_stream(uint64_t *sum, const bt_stream *stream)
{
    add_number(sum, bt_stream_position(stream));
    for (int64_t k = 0; k < stream->kept_count; k++) {
        const bt_batch *batch = stream->kept[k];
        add_number(sum, batch->number);
        for (int f = 0; f < batch->field_count; f++)
            add(sum, batch->fields[f].array.data, bt_array_bytes(batch->fields[f].array));
    }
}

static void add_problem(uint64_t *sum, const bt_problem *problem)
{
    const int64_t numbers[] = {problem->steps,
                               problem->seen,
                               problem->logged,
                               problem->calls,
                               problem->inner_loop_start,
                               bt_stream_position(problem->train)};
    add(sum, numbers, sizeof numbers);
    for (int c = 0; c < problem->child_count; c++)
        add_number(sum, problem->ready[c]);
    add(sum, var_near(problem->step_count), problem->step_count->bytes);
    add_stream(sum, problem->train);
}

static void add_metric(uint64_t *sum, const bt_metric_row *row)
{
    const double numbers[] = {row->last, row->interval, row->host_sum, row->host_spread, (double)row->host_count};
    add(sum, row->full, strlen(row->full));
    add(sum, numbers, sizeof numbers);
}

uint64_t resumable_hash(bt_engine *engine, const resumable *world)
{
    uint64_t sum = 0;
    const int64_t numbers[] = {world->epochs, world->loops, engine->context.step, engine->patience};
    add(&sum, numbers, sizeof numbers);
    add(&sum, &engine->best, sizeof engine->best);
    bt_visit_vars(&engine->context, NULL, add_variable, &sum);
    for (int p = 0; p < engine->context.problem_count; p++)
        add_problem(&sum, engine->context.problems[p]);
    for (int i = 0; i < engine->context.metric_count; i++)
        add_metric(&sum, engine->context.metrics[i]);
    return sum;
}

/* ---- a folder ---- */

static char folder[64], before[4096];

void resumable_enter(void)
{
    strcpy(folder, "/tmp/betty-resume-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_ptr_nonnull(getcwd(before, sizeof before));
    ck_assert_int_eq(chdir(folder), 0);
    bt_error_clear();
}

void resumable_put(const char *folder, const char *name, const char *text)
{
    char path[128];
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

void *resumable_shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(memory != MAP_FAILED);
    return memory;
}

void resumable_leave(void)
{
    ck_assert_int_eq(chdir(before), 0);
    const char *const argv[] = {"rm", "-rf", folder, NULL};
    bt_spawn_result result;
    ck_assert_int_eq(bt_spawn(argv, &result), BT_OK);
    bt_text_free(&result.message);
}
