/* Networks of a run as model files: the names and variable sizes of their inputs, which parameters they contain, and
 * which part of a step. */
#include "levels.h"

#include "engine/session/front.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 6, WIDTH = 2 };

static char folder[64];

static void setup(void)
{
    strcpy(folder, "/tmp/betty-export-XXXXXX");
    ck_assert(mkdtemp(folder) && chdir(folder) == 0);
    bt_error_clear();
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert(chdir("/") == 0 && system(command) == 0);
}

static bt_dataset *rows(bt_problem *self)
{
    float x[ROWS][WIDTH], y[ROWS];
    (void)self;
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < WIDTH; k++)
            x[i][k] = (float)bt_host_uniform(3, (uint64_t)i, (uint64_t)k);
        y[i] = 2 * x[i][0] - x[i][1];
    }
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(&x[0][0], ROWS, WIDTH));
    bt_dataset_add(data, "y", BT_ARRAY(y, ROWS));
    return data;
}

/* Below: a network that gets a field, its square, and what the upper level has learned. Above: one that only the lower
 * level uses, on a loss. */

static bt_module *mixture(bt_problem *self) { return (void)self, bt_nn_mlp(bt_tanh, 1, 3, 1); }

static bt_module *network(bt_problem *self)
{
    (void)self;
    bt_module *net = bt_module_new(NULL);
    bt_module_add(net, bt_nn_linear(WIDTH, 1), "first");
    bt_module_add(net, bt_nn_batch_norm(1), "norm");
    return net;
}

static bt_tensor *through(bt_problem *self, bt_tensor *const *in)
{
    bt_tensor *y = bt_forward(bt_child(bt_net(self), "first"), bt_add(in[0], bt_mul(in[1], in[2])));
    return bt_squeeze(bt_forward(bt_child(bt_net(self), "norm"), y), 1);
}

static bt_tensor *loss_of(bt_problem *model, const bt_batch *batch)
{
    bt_tensor *x = bt_field(batch, "x"), *scale = bt_sigmoid(bt_param(bt_peer(model, "mixture"), "0.bias"));
    bt_tensor *y = bt_forward(model, x, bt_square(x), bt_slice(scale, 0, 0, WIDTH));
    return bt_square(bt_sub(y, bt_field(batch, "y")));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = loss_of(self, batch); /* [n] */
    bt_tensor *weight = bt_forward(bt_peer(self, "mixture"), bt_unsqueeze(bt_detach(loss), 1));
    return bt_mean(bt_mul(bt_sigmoid(bt_squeeze(weight, 1)), loss));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(loss_of(bt_peer(self, "model"), batch));
}

static const bt_problem_def upper = {
    .name = "mixture", .configure_train_data = rows, .configure_module = mixture, .training_step = upper_step};
static const bt_problem_def lower = {.name = "model",
                                     .configure_train_data = rows,
                                     .configure_module = network,
                                     .forward = through,
                                     .training_step = lower_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

static const char settings[] = "dependencies.u2l = mixture > model\ndependencies.l2u = model > mixture\n"
                               "model.batch_size = 3\nmixture.batch_size = 3\n"
                               "mixture.lr = 0.1\nmodel.lr = 0.1\n";
static const char *precision = "fp32";

static void train(void)
{
    char all[1024];
    snprintf(all, sizeof all, "%sengine.train_iters = 8\nengine.output = run\nengine.precision = %s\n", settings,
             precision);
    bt_engine *engine = levels_engine(&parts, NULL, all);
    levels_run(engine);
    bt_engine_free(engine);
}

static char *said;
static size_t said_size;

static bt_status export_from(const bt_export *of, const char *problem, const char *path)
{
    char all[1024];
    snprintf(all, sizeof all, "%sengine.precision = %s\n", settings, precision);
    bt_engine *engine = levels_engine(of, NULL, all);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    free(said);
    FILE *file = open_memstream(&said, &said_size);
    ck_assert_ptr_nonnull(file);
    bt_status status =
        bt_engine_export(engine, &(bt_exporting){.folder = "run", .problem = problem, .path = path, .file = file});
    fclose(file);
    bt_engine_free(engine);
    return status;
}

static bool holds(const char *path, const char *text)
{
    char *data;
    size_t size;
    ck_assert_int_eq(bt_file_read(path, &data, &size), BT_OK);
    const bool found = memmem(data, size, text, strlen(text)) != NULL;
    bt_free(data);
    return found;
}

START_TEST(of_what_steps_give_it)
{
    train();
    ck_assert_msg(export_from(&parts, "model", "m.onnx") == BT_OK, "%s", bt_error());
    ck_assert_str_eq(said, "m.onnx: the network of model at step 8: x [batch, 2], x1 [batch, 2] -> output [batch]\n");
    ck_assert_str_eq(bt_error(), ""); /* the rest of the step, whose labels have another count, is not an error */
    ck_assert(holds("m.onnx", "first.weight") && holds("m.onnx", "norm.running_mean"));
    ck_assert(holds("m.onnx", "mixture.0.bias")); /* its inputs that are not from the batch are stored in the model */
    ck_assert(!holds("m.onnx", "mixture.0.weight") && !holds("m.onnx", "model.first"));
    ck_assert_msg(export_from(&parts, "mixture", "u.onnx") == BT_OK, "%s", bt_error());
    ck_assert_str_eq(said, "u.onnx: the network of mixture at step 8: input [batch, 1] -> output [batch, 1]\n");
    ck_assert(holds("u.onnx", "0.weight") && !holds("u.onnx", "first.weight"));
    free(said);
    said = NULL;
}
END_TEST

/* The reduced precision of training products is not part of the model. */
START_TEST(whatever_the_precision)
{
    precision = "bf16";
    train();
    ck_assert_msg(export_from(&parts, "model", "m.onnx") == BT_OK, "%s", bt_error());
    precision = "fp32";
    ck_assert(holds("m.onnx", "Gemm") && !holds("m.onnx", "Cast"));
    free(said);
    said = NULL;
}
END_TEST

/* The values are those of the run; the counter of a batch norm is included. */
START_TEST(parameters)
{
    char *data;
    size_t size;
    bt_safetensors file;
    double trained[5];
    train();
    bt_engine *engine = levels_engine(&parts, NULL, settings);
    ck_assert_int_eq(bt_engine_set(engine, "engine.train_iters", "8"), BT_OK);
    ck_assert_int_eq(bt_engine_set(engine, "engine.precision", "fp32"), BT_OK);
    ck_assert_msg(bt_engine_resume(engine, "run") == BT_OK, "%s", bt_error());
    levels_params(engine, "model", trained, 5); /* first.weight, first.bias, norm.weight, norm.bias */
    bt_engine_free(engine);
    ck_assert_msg(export_from(&parts, "model", "m.safetensors") == BT_OK, "%s", bt_error());
    ck_assert_str_eq(said, "m.safetensors: the network of model at step 8: 4 parameters and 2 buffers\n");
    free(said);
    said = NULL;
    ck_assert_int_eq(bt_file_read("m.safetensors", &data, &size), BT_OK);
    ck_assert_msg(bt_safetensors_parse("m.safetensors", data, size, &file) == BT_OK, "%s", bt_error());
    ck_assert_int_eq(file.count, 7);
    const bt_stored *weight = bt_safetensors_find(&file, "first.weight"),
                    *count = bt_safetensors_find(&file, "norm.num_batches_tracked");
    ck_assert(weight && count && bt_safetensors_find(&file, "norm.running_var"));
    ck_assert(count->array.dtype == BT_I64 && count->array.rank == 0);
    for (int i = 0; i < WIDTH; i++)
        ck_assert(bt_get(BT_F32, weight->array.data, i) == trained[i]);
    bt_safetensors_free(&file);
    bt_free(data);
}
END_TEST

/* ---- a task, whose number of queries differs from the batch count ---- */

static bt_status make_task(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    const float x[2 * ROWS] = {1, 2, 3, (float)index};
    (void)self, (void)mode;
    BT_TRY(bt_batch_set(batch, "support.x", BT_ARRAY(x, 4, WIDTH)));
    return bt_batch_set(batch, "query.x", BT_ARRAY(x, 6, WIDTH));
}

static bt_module *linear(bt_problem *self) { return (void)self, bt_nn_linear(WIDTH, 1); }

static bt_tensor *task_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *support = bt_mean(bt_field(batch, "support.x"));
    return bt_mean(bt_square(bt_sub(bt_forward(self, bt_field(batch, "query.x")), support)));
}

static const bt_problem_def learner = {
    .name = "model", .get_batch = make_task, .configure_module = linear, .training_step = task_step};
static const bt_export tasks = {.abi = BT_ABI, .problems = {&learner}};

START_TEST(of_a_task)
{
    bt_engine *engine = levels_engine(&tasks, NULL, "engine.train_iters = 2\nengine.output = run\n");
    levels_run(engine);
    bt_engine_free(engine);
    engine = levels_engine(&tasks, NULL, "");
    FILE *file = open_memstream(&said, &said_size);
    ck_assert_ptr_nonnull(file);
    ck_assert_msg(bt_engine_export(engine, &(bt_exporting){.folder = "run", .path = "m.onnx", .file = file}) == BT_OK,
                  "%s", bt_error());
    fclose(file);
    bt_engine_free(engine);
    ck_assert_str_eq(said, "m.onnx: the network of model at step 2: query.x [batch, 2] -> output [batch, 1]\n");
    free(said);
    said = NULL;
}
END_TEST

/* ---- networks that no step calls directly ---- */

static bt_tensor *plain_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_forward(bt_child(bt_net(self), "first"), bt_field(batch, "x"))));
}

static const bt_problem_def plain = {
    .name = "model", .configure_train_data = rows, .configure_module = network, .training_step = plain_step};
static const bt_export alone = {.abi = BT_ABI, .problems = {&plain}};

START_TEST(of_nobody)
{
    bt_engine *engine =
        levels_engine(&alone, NULL, "model.batch_size = 3\nengine.train_iters = 2\nengine.output = run\n");
    levels_run(engine);
    bt_engine_free(engine);
    engine = levels_engine(&alone, NULL, "model.batch_size = 3\n");
    bt_exporting what = {.folder = "run", .path = "m.onnx", .file = stderr};
    ck_assert_int_eq(bt_engine_export(engine, &what), BT_ERROR_CONFIG);
    ck_assert_str_eq(bt_error(), "no step of the run calls bt_forward(model, ...), which would show the network's "
                                 "inputs; NAME.safetensors needs only its parameters");
    bt_error_clear();
    ck_assert_int_eq(bt_engine_export(NULL, &what), BT_ERROR_ARGUMENT);
    bt_error_clear();
    bt_engine_free(engine);
    ck_assert_int_ne(access("m.onnx", F_OK), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("export");
    TCase *cases = tcase_create("networks of a run");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, of_what_steps_give_it);
    tcase_add_test(cases, whatever_the_precision);
    tcase_add_test(cases, parameters);
    tcase_add_test(cases, of_a_task);
    tcase_add_test(cases, of_nobody);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
