/* Evaluates a checkpoint on validation data, without training: metrics and predictions for each example, against a
 * plain loop. */
#include "levels.h"

#include "base/base.h"
#include "engine/session/front.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 7, BATCH = 3, WIDTH = 2 };

static double x[ROWS][WIDTH], y[ROWS];
static double shift;   /* of the validation data */
static bool ambiguous; /* two predictions with the same name */

static void fill(double by)
{
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < WIDTH; k++)
            x[i][k] = by + bt_host_uniform(3, (uint64_t)i, (uint64_t)k) - 0.5;
        y[i] = 2 * x[i][0] - x[i][1];
    }
}

static bt_dataset *data_of(double by)
{
    fill(by);
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(&x[0][0], ROWS, WIDTH));
    bt_dataset_add(data, "y", BT_ARRAY(y, ROWS));
    return data;
}

static bt_dataset *train_rows(bt_problem *self) { return (void)self, data_of(0); }
static bt_dataset *valid_rows(bt_problem *self)
{
    shift = bt_option_double(self, "shift", 1, -10, 10);
    return data_of(shift);
}

static bt_module *net(bt_problem *self)
{
    return bt_nn_parameter(bt_init_constant(0.25), bt_option_int(self, "width", WIDTH, 1, 8));
}

static bt_tensor *outputs(bt_problem *self, const bt_batch *batch)
{
    return bt_matmul(bt_field(batch, "x"), bt_slice(bt_params(self), 0, 0, WIDTH));
}

static bt_tensor *step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_sub(outputs(self, batch), bt_field(batch, "y"))));
}

static bt_tensor *valid(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *output = outputs(self, batch), *off = bt_square(bt_sub(output, bt_field(batch, "y")));
    bt_metric(self, "error", off);
    bt_metric(self, "steps", bt_step(self)); /* not about any example */
    bt_prediction(self, "output", output);
    bt_prediction(self, ambiguous ? "output" : "x", bt_field(batch, "x"));
    return bt_mean(off);
}

static const bt_problem_def model = {.name = "model",
                                     .configure_train_data = train_rows,
                                     .configure_valid_data = valid_rows,
                                     .configure_module = net,
                                     .training_step = step,
                                     .validation_step = valid};
static const bt_export parts = {.abi = BT_ABI, .problems = {&model}};

static char folder[64];

static void setup(void)
{
    strcpy(folder, "/tmp/betty-evaluate-XXXXXX");
    ck_assert(mkdtemp(folder) && chdir(folder) == 0);
    ambiguous = false;
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert(chdir("/") == 0 && system(command) == 0);
}

/* A run of 20 steps in the folder "run"; its parameters. */
static void train(double w[WIDTH])
{
    bt_engine *engine = levels_engine(&parts, NULL,
                                      "engine.train_iters = 20\nengine.output = run\nmodel.lr = 0.1\n"
                                      "model.batch_size = 3\nmodel.valid_batch_size = 3\n");
    levels_run(engine);
    levels_params(engine, "model", w, WIDTH);
    bt_engine_free(engine);
}

static char *text; /* what was printed */
static size_t size;

static bt_status evaluate(const char *settings, const char *level, const char *predictions)
{
    bt_engine *engine = levels_engine(&parts, NULL, settings);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    free(text);
    FILE *file = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(file);
    bt_evaluation what = {.folder = "run", .level = level, .predictions = predictions, .file = file};
    bt_status status = bt_engine_evaluate(engine, &what);
    fclose(file);
    bt_engine_free(engine);
    return status;
}

static void refused(bt_status status, const char *word)
{
    ck_assert_msg(status != BT_OK && strstr(bt_error(), word) != NULL, "%d: %s", status, bt_error());
    bt_error_clear();
}

static double printed(const char *name)
{
    const char *at = strstr(text, name);
    ck_assert_msg(at != NULL, "%s", text);
    return strtod(at + strlen(name), NULL);
}

/* Other data and another learning rate than in training; the last batch is short. */
START_TEST(as_a_plain_loop)
{
    double w[WIDTH], sum = 0;
    train(w);
    ck_assert_msg(evaluate("model.valid_batch_size = 3\nmodel.lr = 7\nmodel.shift = 2\n", NULL, "p.csv") == BT_OK, "%s",
                  bt_error());
    fill(2);
    FILE *file = fopen("p.csv", "r");
    char line[256];
    ck_assert(file && fgets(line, sizeof line, file));
    ck_assert_str_eq(line, "index,error,output,x.0,x.1\n");
    for (int i = 0; i < ROWS; i++) {
        double output = w[0] * x[i][0] + w[1] * x[i][1], off = (output - y[i]) * (output - y[i]), value[5];
        ck_assert_int_eq(fscanf(file, "%lf,%lf,%lf,%lf,%lf\n", &value[0], &value[1], &value[2], &value[3], &value[4]),
                         5);
        ck_assert_double_eq(value[0], i);
        ck_assert_double_eq_tol(value[1], off, 1e-14);
        ck_assert_double_eq_tol(value[2], output, 1e-14);
        ck_assert_double_eq(value[3], x[i][0]);
        ck_assert_double_eq(value[4], x[i][1]);
        sum += off;
    }
    ck_assert_ptr_null(fgets(line, sizeof line, file));
    fclose(file);
    ck_assert_double_eq_tol(printed("model.valid.error "), sum / ROWS, 1e-5 * sum);
    ck_assert_double_eq_tol(printed("model.valid.loss "), sum / ROWS, 1e-5 * sum);
    ck_assert_double_eq(printed("model.valid.steps "), 20);
    ck_assert_double_eq(printed("run, step "), 20);
}
END_TEST

/* Batches from a callback have no data set whose classes could have names: numbers stay numbers. */
static bt_status made(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    (void)self, (void)mode, (void)index;
    fill(0);
    bt_batch_set(batch, "x", BT_ARRAY(&x[0][0], ROWS, WIDTH));
    return bt_batch_set(batch, "y", BT_ARRAY(y, ROWS));
}

static bt_tensor *valid_class(bt_problem *self, const bt_batch *batch)
{
    bt_prediction(self, "class", bt_argmax(bt_field(batch, "x"), 1));
    return step(self, batch);
}

static const bt_problem_def model_of_made = {
    .name = "model", .get_batch = made, .configure_module = net, .training_step = step, .validation_step = valid_class};
static const bt_export parts_of_made = {.abi = BT_ABI, .problems = {&model_of_made}};

START_TEST(classes_without_a_data_set)
{
    static const char settings[] = "engine.train_iters = 1\nengine.output = run\nmodel.valid_batches = 1\n";
    bt_engine *engine = levels_engine(&parts_of_made, NULL, settings);
    levels_run(engine);
    bt_engine_free(engine);
    engine = levels_engine(&parts_of_made, NULL, "model.valid_batches = 1\n");
    FILE *file = fopen("out", "w");
    bt_evaluation what = {.folder = "run", .predictions = "p.csv", .file = file};
    ck_assert_msg(bt_engine_evaluate(engine, &what) == BT_OK, "%s", bt_error());
    fclose(file);
    bt_engine_free(engine);
    char line[256];
    ck_assert((file = fopen("p.csv", "r")) && fgets(line, sizeof line, file));
    ck_assert_str_eq(line, "index,class\n");
    for (int i = 0; i < ROWS; i++) {
        int index, class;
        ck_assert_int_eq(fscanf(file, "%d,%d\n", &index, &class), 2);
        ck_assert_int_eq(index, i);
        ck_assert_int_eq(class, x[i][1] > x[i][0]);
    }
    fclose(file);
}
END_TEST

/* The run is not affected: it continues to the same end. */
START_TEST(leaves_the_run_alone)
{
    double w[WIDTH];
    train(w);
    ck_assert_int_eq(system("find run -type f -exec cksum {} + | sort >before"), 0);
    ck_assert_msg(evaluate("engine.output = run\n", "model", NULL) == BT_OK, "%s", bt_error());
    ck_assert_int_eq(system("find run -type f -exec cksum {} + | sort | cmp - before"), 0);
}
END_TEST

START_TEST(refusals)
{
    double w[WIDTH];
    train(w);
    refused(evaluate("", "nobody", NULL), "this run has no such level");
    refused(evaluate("model.width = 3\n", NULL, NULL), "model.value: was f64[2], is f64[3]");
    refused(evaluate("model.valid_batch_size = 3\n", NULL, "no/p.csv"), "no/p.csv cannot be written");
    ambiguous = true;
    refused(evaluate("", NULL, "p.csv"), "two predictions are called `output`");
    ck_assert_int_ne(access("p.csv", F_OK), 0);
    ambiguous = false;
    ck_assert_int_eq(system("rm -r run/checkpoints"), 0);
    refused(evaluate("", NULL, NULL), "run");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine.evaluate");
    TCase *tests = tcase_create("evaluate");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, as_a_plain_loop);
    tcase_add_test(tests, classes_without_a_data_set);
    tcase_add_test(tests, leaves_the_run_alone);
    tcase_add_test(tests, refusals);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
