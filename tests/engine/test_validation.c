/* tests/engine/test_validation.c: validation, metrics, early stopping. */
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TRAIN = 5, VALID = 7 };

static double y_of(int i) { return 0.5 * i * i - i; }

static struct {
    int validations, batches, examples, epochs;
    int64_t indices[32];
    int drawn;
    const double *values; /* the values that validation_end logs as "score", in sequence */
} seen;

static bt_dataset *table(double (*value)(int), int count)
{
    double y[VALID];
    for (int i = 0; i < count; i++)
        y[i] = value(i);
    bt_dataset *data = bt_dataset_new(count);
    bt_dataset_add(data, "y", BT_ARRAY(y, count));
    return data;
}

static double index_of(int i) { return i + 1; }

static bt_dataset *train_data(bt_problem *self)
{
    (void)self;
    return table(index_of, TRAIN);
}

static bt_dataset *valid_data(bt_problem *self)
{
    (void)self;
    return table(y_of, VALID);
}

static bt_module *scalar(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(2));
}

/* w decreases by a tenth in each step; the logged loss is that of the data. */
static bt_tensor *train_step(bt_problem *self, const bt_batch *batch)
{
    bt_metric(self, "y", bt_field(batch, "y"));
    bt_metric(self, "y", bt_field(batch, "y"), BT_METRIC_MEAN); /* logged twice in a step: the same mean */
    bt_metric(self, "number", 3);
    return bt_mul(0.5, bt_square(bt_forward(self)));
}

static bt_tensor *valid_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *error = bt_sub(bt_forward(self), bt_field(batch, "y"));
    bt_metric(self, "low", bt_less(error, 0));
    bt_metric(self, "step", bt_step(self));
    return bt_mean(bt_square(error));
}

static void valid_end(bt_problem *self)
{
    const bt_batch *batch;
    seen.batches = seen.examples = 0;
    for (int64_t i = 0; (batch = bt_valid_batch(self, i)) != NULL; i++) {
        seen.batches++;
        seen.examples += (int)bt_batch_count(batch);
    }
    if (seen.values)
        bt_metric(self, "score", seen.values[seen.validations]);
    bt_metric(self, "spread", 1);
    bt_metric(self, "spread", 2);
    bt_metric(self, "spread", 6);
    seen.validations++;
}

static void epoch_ends(bt_problem *self) { bt_metric(self, "epoch", ++seen.epochs); }

static const bt_problem_def model = {.name = "model",
                                     .configure_train_data = train_data,
                                     .configure_valid_data = valid_data,
                                     .configure_module = scalar,
                                     .training_step = train_step,
                                     .validation_step = valid_step,
                                     .validation_end = valid_end,
                                     .epoch_callback = epoch_ends};
static const bt_export parts = {.abi = BT_ABI, .problems = {&model}};

#define SETTINGS                                                                                                       \
    "model.lr = 0.1\nmodel.batch_size = 2\nmodel.shuffle = false\nmodel.valid_batch_size = 3\nengine.log_step = 1\n"

static bt_engine *engine_of(const char *more)
{
    char settings[800];
    memset(&seen, 0, sizeof seen);
    snprintf(settings, sizeof settings, SETTINGS "%s", more);
    return levels_engine(&parts, NULL, settings);
}

#define METRIC(name, expected) ck_assert_double_eq_tol(bt_engine_metric(engine, name), expected, 1e-12)

/* Each batch in turn, up to their number. */
static int told;
static void tell(void *user, const char *level, int64_t done, int64_t batches)
{
    ck_assert_str_eq(level, "model");
    ck_assert_int_eq(batches, *(const int *)user);
    ck_assert_int_eq(done, told % batches + 1);
    told++;
}

/* 3, 3 and 1 rows count as seven rows, not as three means; with valid_batches = 2, the first six rows each time. */
START_TEST(means_by_count)
{
    static const struct {
        const char *settings;
        int rows, batches;
    } cases[] = {{"", 7, 3},
                 {"model.valid_batches = 2\n", 6, 2},
                 {"model.valid_batches = 9\n", 7, 3},
                 {"model.valid_batch_size = all\n", 7, 1}};
    char settings[300];
    snprintf(settings, sizeof settings, "engine.train_iters = 6\nengine.valid_step = 2\n%s", cases[_i].settings);
    bt_engine *engine = engine_of(settings);
    ck_assert(isnan(bt_engine_metric(engine, "model.valid.loss")));
    int batches = cases[_i].batches;
    engine->context.validating = tell;
    engine->context.validating_user = &batches;
    told = 0;
    levels_run(engine);
    ck_assert_int_eq(told, 3 * batches);
    double loss = 0, low = 0, w = 2 * pow(0.9, 6);
    for (int i = 0; i < cases[_i].rows; i++) {
        loss += (w - y_of(i)) * (w - y_of(i)) / cases[_i].rows;
        low += (w < y_of(i)) / (double)cases[_i].rows;
    }
    METRIC("model.valid.loss", loss);
    METRIC("model.valid.low", low);
    METRIC("model.valid.step", 6);
    METRIC("model.valid.spread", 3);
    ck_assert(isnan(bt_engine_metric(engine, "model.valid.score")));
    ck_assert(isnan(bt_engine_metric(engine, "model.low")));
    ck_assert(isnan(bt_engine_metric(engine, "nobody.loss")));
    ck_assert_int_eq(seen.validations, 3);
    ck_assert_int_eq(seen.batches, cases[_i].batches);
    ck_assert_int_eq(seen.examples, cases[_i].rows);
    bt_metric_row *row = bt_metric_find(&engine->context, bt_engine_problem(engine, "model"), "spread", true);
    ck_assert_double_eq_tol(row->interval, 1.96 * sqrt(7.0 / 3), 1e-12); /* 1, 2, 6: variance 7 */
    bt_engine_free(engine);
}
END_TEST

static size_t bytes_of(bt_engine *engine, const char *phase, const char *category)
{
    size_t bytes = 0;
    bt_memory_table *table = bt_engine_memory(engine);
    ck_assert_ptr_nonnull(table);
    for (int64_t i = 0; i < table->count; i++) {
        const bt_memory_row *row = &table->rows[i];
        bool same = phase ? row->phase && strcmp(row->phase, phase) == 0 : !row->phase;
        bytes += same && strcmp(row->category, category) == 0 ? row->bytes : 0;
    }
    bt_memory_table_free(table);
    return bytes;
}

/* A validation batch is in the arena: only the training batch is kept, of 2 rows: y and index, 64 bytes each, and its
 * number. If all rows are in one batch, it is gathered once, and kept, too. A batch requested between validations has
 * its own memory from then on. */
START_TEST(batches_lie_in_the_arena)
{
    bt_engine *engine = engine_of("engine.train_iters = 2\nengine.valid_step = 1\n");
    size_t kept = bytes_of(engine, NULL, "batch");
    if (engine->context.instance->queue) { /* a loader fills host memory */
        ck_assert_uint_eq(bytes_of(engine, "validation", "batch"), 0);
        bt_engine_free(engine);
        return;
    }
    ck_assert_uint_eq(bytes_of(engine, "validation", "batch"), 128);
    levels_run(engine);
    ck_assert_uint_eq(bytes_of(engine, NULL, "batch"), kept + 128); /* validation_end has requested each batch */
    bt_engine_free(engine);
    engine = engine_of("engine.train_iters = 2\nengine.valid_step = 1\nmodel.valid_batch_size = all\n");
    ck_assert_uint_eq(bytes_of(engine, "validation", "batch"), 0);
    ck_assert_uint_eq(bytes_of(engine, NULL, "batch"), kept + 128 - 8); /* no short batch needs a number */
    bt_engine_free(engine);
}
END_TEST

/* There is also one validation at the end; none with valid_step = 0. */
START_TEST(when)
{
    static const int cases[][3] = {{6, 2, 3}, {7, 2, 4}, {6, 10, 1}, {6, 6, 1}, {6, 0, 0}, {3, 1, 3}};
    char settings[300];
    snprintf(settings, sizeof settings, "engine.train_iters = %d\nengine.valid_step = %d\n", cases[_i][0],
             cases[_i][1]);
    bt_engine *engine = engine_of(settings);
    levels_run(engine);
    ck_assert_int_eq(seen.validations, cases[_i][2]);
    bt_engine_free(engine);
}
END_TEST

/* Batches of 2, 2 and 1 rows: means over all examples since the last line. */
START_TEST(training_metrics)
{
    static const struct {
        const char *settings;
        double y;
    } cases[] = {
        {"engine.log_step = 1\n", 5},                           /* the sixth batch: row 4 */
        {"engine.log_step = 3\n", 3},                           /* an epoch */
        {"engine.log_step = 2\n", (3 + 4 + 5) / 3.0},           /* steps 5 and 6 */
        {"engine.log_step = 4\n", (3 + 4 + 5) / 3.0},           /* since step 4 */
        {"engine.log_step = 0\n", 3},                           /* the whole run, at its end */
        {"engine.log_step = 3\nmodel.log_step = 1\n", 5},       /* the problem's own */
        {"engine.log_step = 1\nmodel.log_step = 4\n", 12 / 3.}, /* since step 4 */
    };
    char settings[300];
    snprintf(settings, sizeof settings, "engine.train_iters = 6\n%s", cases[_i].settings);
    bt_engine *engine = engine_of(settings);
    levels_run(engine);
    METRIC("model.y", cases[_i].y);
    METRIC("model.number", 3);
    ck_assert(isnan(bt_engine_metric(engine, "model.valid.epoch")));
    ck_assert_int_eq(seen.epochs, 2);
    bt_engine_free(engine);
}
END_TEST

/* ---- early stopping ---- */

START_TEST(stops_early)
{
    static const double falls[] = {5, 4, 4.5, 4.2, 4.1, 3, 2, 1, 0, 0}, rises[] = {1, 2, 3, 2.5, 3, 3, 9, 9, 9, 9};
    static const double broken[] = {NAN, 4, NAN, 5, 3, NAN, NAN, NAN, 0, 0};
    static const struct {
        const double *values;
        const char *settings;
        int validations;
    } cases[] = {
        {falls, "engine.early_stopping_tolerance = 3\nengine.early_stopping_metric = score\n", 5},
        {falls, "engine.early_stopping_tolerance = 4\nengine.early_stopping_metric = model.score\n", 10},
        {falls, "engine.early_stopping_tolerance = 1\nengine.early_stopping_metric = model.valid.score\n", 3},
        {rises,
         "engine.early_stopping_mode = max\nengine.early_stopping_tolerance = 3\n"
         "engine.early_stopping_metric = score\n",
         6},
        {rises,
         "engine.early_stopping_mode = min\nengine.early_stopping_tolerance = 5\n"
         "engine.early_stopping_metric = score\n",
         6},
        {broken, "engine.early_stopping_tolerance = 3\nengine.early_stopping_metric = score\n", 8},
        {falls, "engine.early_stopping_tolerance = 1\n", 2}, /* for the loss, which keeps rising */
    };
    char settings[500];
    snprintf(settings, sizeof settings,
             "engine.train_iters = 20\nengine.valid_step = 2\nengine.early_stopping = true\n%s", cases[_i].settings);
    bt_engine *engine = engine_of(settings);
    seen.values = cases[_i].values;
    levels_run(engine);
    ck_assert_int_eq(seen.validations, cases[_i].validations);
    ck_assert_int_eq(engine->context.step, 2 * cases[_i].validations);
    bt_engine_free(engine);
}
END_TEST

START_TEST(nothing_to_watch)
{
    levels_expect_error(engine_of("engine.train_iters = 4\nengine.valid_step = 2\nengine.early_stopping = true\n"
                                  "engine.early_stopping_metric = acuracy\n"),
                        "early_stopping_metric = acuracy", "it has", "model.loss", "model.spread", NULL);
    levels_expect_error(engine_of("engine.early_stopping = true\n"), "valid_step", NULL);
}
END_TEST

/* ---- batches made by the problem ---- */

static bt_status make_batch(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double y[2] = {(double)index, (double)index + 1};
    (void)self;
    if (mode == BT_VALID)
        seen.indices[seen.drawn++ % 32] = index;
    return bt_batch_set(batch, "y", BT_ARRAY(y, 2));
}

static const bt_problem_def made = {.name = "model",
                                    .get_batch = make_batch,
                                    .configure_module = scalar,
                                    .training_step = train_step,
                                    .validation_step = valid_step};
static const bt_export made_parts = {.abi = BT_ABI, .problems = {&made}};

START_TEST(made_batches)
{
    static const int64_t expected[] = {0, 0, 1, 1, 2, 2, 0, 1, 1, 2, 2}; /* the first for its shape; 1 and 2 twice */
    memset(&seen, 0, sizeof seen);
    bt_engine *engine = levels_engine(&made_parts, NULL,
                                      "model.lr = 0\nmodel.valid_batches = 3\nengine.train_iters = 4\n"
                                      "engine.valid_step = 2\n");
    levels_run(engine);
    ck_assert_int_eq(seen.drawn, 11);
    ck_assert_mem_eq(seen.indices, expected, sizeof expected);
    double loss = 0;
    for (int i = 0; i < 3; i++)
        loss += ((2.0 - i) * (2.0 - i) + (1.0 - i) * (1.0 - i)) / 6;
    METRIC("model.valid.loss", loss);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("validation");
    TCase *tests = tcase_create("metrics");
    tcase_add_loop_test(tests, means_by_count, 0, 4);
    tcase_add_loop_test(tests, when, 0, 6);
    tcase_add_loop_test(tests, training_metrics, 0, 7);
    tcase_add_loop_test(tests, stops_early, 0, 7);
    tcase_add_test(tests, nothing_to_watch);
    tcase_add_test(tests, made_batches);
    tcase_add_test(tests, batches_lie_in_the_arena);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
