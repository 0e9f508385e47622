/* tests/engine/test_tasks.c: problems whose batches are few-shot tasks: the choice of tasks, validation, epochs,
 * resuming. */
#include "resumable.h"

#include "data/data.h"
#include "engine/session/session.h"
#include "support/suite.h"
#include <stdio.h>
#include <string.h>

enum { CLASSES = 6, EXAMPLES = 30, WAYS = 2, STEPS = 9 };

static int epochs;

/* Example i is of class i mod CLASSES; its x is i. */
static bt_dataset *tasks(uint64_t seed)
{
    double x[EXAMPLES];
    int32_t label[EXAMPLES];
    for (int i = 0; i < EXAMPLES; i++) {
        x[i] = i;
        label[i] = i % CLASSES;
    }
    bt_dataset *data = bt_dataset_new(EXAMPLES);
    bt_dataset_add(data, "x", BT_ARRAY(x, EXAMPLES));
    bt_dataset_add(data, "label", BT_ARRAY(label, EXAMPLES));
    return bt_dataset_tasks(data, WAYS, 1, 3, seed);
}

static bt_dataset *train_tasks(bt_problem *self) { return tasks(bt_seed(self)); }
static bt_dataset *valid_tasks(bt_problem *self) { return tasks(bt_seed(self) + 1); }

static bt_module *scalar(bt_problem *self)
{
    return bt_nn_parameter(bt_init_constant((double)bt_data_dim(self, "query.x", 0)));
}

/* w moves to the mean of its data, so it depends on every task. */
static bt_tensor *train_step(bt_problem *self, const bt_batch *task)
{
    bt_tensor *mean = bt_add(bt_mean(bt_field(task, "support.x")), bt_mul(0.01, bt_mean(bt_field(task, "query.x"))));
    return bt_square(bt_sub(bt_forward(self), mean));
}

static bt_tensor *valid_step(bt_problem *self, const bt_batch *task)
{
    (void)self;
    return bt_mean(bt_field(task, "query.x"));
}

static void epoch(bt_problem *self)
{
    (void)self;
    epochs++;
}

static void look(bt_problem *self) { bt_metric(self, "epoch", (double)bt_host_epoch(self)); }

static const bt_problem_def model = {.name = "model",
                                     .configure_train_data = train_tasks,
                                     .configure_valid_data = valid_tasks,
                                     .configure_module = scalar,
                                     .training_step = train_step,
                                     .validation_step = valid_step,
                                     .epoch_callback = epoch,
                                     .validation_end = look};
static const bt_export parts = {.abi = BT_ABI, .problems = {&model}};

static bt_engine *engine_of(const char *more)
{
    char settings[800];
    epochs = 0;
    snprintf(settings, sizeof settings, "model.lr = 0.1\nmodel.batch_size = 50\nengine.seed = 3\n%s", more);
    return levels_engine(&parts, NULL, settings);
}

/* Tasks number 0, 1, ..., drawn by a separate loader. */
static void means(uint64_t seed, int count, double *support, double *query)
{
    bt_loader_options options = bt_loader_defaults();
    options.dtype = BT_F64;
    bt_loader *loader = bt_loader_open(tasks(seed), &options);
    ck_assert_ptr_nonnull(loader);
    for (int i = 0; i < count; i++) {
        const bt_batch *task;
        EXPECT_OK(bt_loader_draw(loader, &task));
        support[i] = query[i] = 0;
        for (int f = 0; f < task->field_count; f++) {
            const double *x = task->fields[f].array.data;
            double *to = strcmp(task->fields[f].name, "support.x") == 0 ? support
                         : strcmp(task->fields[f].name, "query.x") == 0 ? query
                                                                        : NULL;
            for (int64_t k = 0; to && k < task->fields[f].array.dims[0]; k++)
                to[i] += x[k] / (double)task->fields[f].array.dims[0];
        }
    }
    bt_loader_free(loader);
}

START_TEST(one_task_after_the_other)
{
    double support[STEPS], query[STEPS], w, expected = 6; /* ways times queries */
    bt_engine *engine = engine_of("engine.train_iters = 9\n");
    means(3, STEPS, support, query);
    for (int i = 0; i < STEPS; i++)
        expected -= 0.1 * 2 * (expected - support[i] - 0.01 * query[i]);
    levels_run(engine);
    levels_params(engine, "model", &w, 1);
    ck_assert_double_eq_tol(w, expected, 1e-12);
    ck_assert_int_eq(epochs, 0); /* there are none */
    bt_engine_free(engine);
}
END_TEST

/* The first `valid_batches` tasks, the same in each validation; without the key, only the first one. */
START_TEST(validation_by_the_first_tasks)
{
    double support[40], query[40];
    static const struct {
        const char *setting;
        int count;
    } cases[] = {{"all", 1}, {"1", 1}, {"40", 40}};
    means(4, 40, support, query);
    for (int k = 0; k < 3; k++) {
        char more[200];
        double expected = 0;
        for (int i = 0; i < cases[k].count; i++)
            expected += query[i] / cases[k].count;
        for (int iters = 2; iters <= 4; iters += 2) { /* the last task of one validation, or of two */
            snprintf(more, sizeof more, "engine.train_iters = %d\nengine.valid_step = 2\nmodel.valid_batches = %s\n",
                     iters, cases[k].setting);
            bt_engine *engine = engine_of(more);
            levels_run(engine);
            ck_assert_double_eq_tol(bt_engine_metric(engine, "model.valid.loss"), expected, 1e-12);
            ck_assert_double_eq(bt_engine_metric(engine, "model.valid.epoch"), 0);
            bt_engine_free(engine);
        }
    }
}
END_TEST

START_TEST(resumed_at_any_task)
{
    char at[16];
    uint64_t end;
    bt_engine *engine = engine_of("engine.train_iters = 9\n");
    for (int step = 0; step < STEPS; step++) {
        snprintf(at, sizeof at, "at-%d", step);
        EXPECT_OK(bt_engine_save(engine, at));
        levels_step(engine, 1);
    }
    end = levels_hash(engine, NULL);
    bt_engine_free(engine);
    for (int step = 0; step < STEPS; step++) {
        engine = engine_of("engine.train_iters = 9\n");
        snprintf(at, sizeof at, "at-%d", step);
        EXPECT_OK(bt_engine_resume(engine, at));
        levels_step(engine, STEPS - step);
        ck_assert_uint_eq(levels_hash(engine, NULL), end);
        bt_engine_free(engine);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tasks");
    TCase *tests = tcase_create("tasks");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_test(tests, one_task_after_the_other);
    tcase_add_test(tests, validation_by_the_first_tasks);
    tcase_add_test(tests, resumed_at_any_task);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
