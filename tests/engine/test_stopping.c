/* The best validation: its message, and the checkpoint that is kept of it; checkpoints by time; folders of runs without
 * checkpoints. The parameter decreases by a tenth in each step, so it shows the step. */
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double *scores; /* of the validations, in sequence */
static int validations;
static char lines[8192];

static bt_module *scalar(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(2));
}

static bt_status draw(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    (void)self, (void)mode;
    double y = (double)index;
    return bt_batch_set(batch, "y", BT_ARRAY(&y, 1));
}

static bt_tensor *fall(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_square(bt_forward(self)));
}

static void judge(bt_problem *self) { bt_metric(self, "score", scores[validations++]); }

static const bt_problem_def model = {
    .name = "model", .get_batch = draw, .configure_module = scalar, .training_step = fall, .validation_end = judge};
static const bt_export parts = {.abi = BT_ABI, .problems = {&model}};

static void hear(void *user, bt_line kind, const char *text)
{
    (void)user, (void)kind;
    size_t used = strlen(lines);
    snprintf(lines + used, sizeof lines - used, "%s\n", text);
}

static bt_engine *engine_of(const char *more)
{
    char settings[1024];
    snprintf(settings, sizeof settings,
             "model.lr = 0.1\nengine.log_step = 0\nengine.train_iters = 20\nengine.valid_step = 2\n"
             "engine.early_stopping_metric = score\n%s",
             more);
    bt_engine *engine = levels_engine(&parts, NULL, settings);
    lines[0] = 0;
    validations = 0;
    EXPECT_OK(bt_engine_log(engine, hear, NULL));
    return engine;
}

static void expect_step(bt_engine *engine, int step)
{
    double value;
    ck_assert_int_eq(bt_engine_steps(engine), step);
    levels_params(engine, "model", &value, 1);
    ck_assert_double_eq_tol(value, 2 * pow(0.9, step), 1e-12);
}

static char *text_of(const char *path)
{
    static char text[65536];
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

#define EXPECT_IN(text, word) ck_assert_msg(strstr(text, word) != NULL, "`%s` is not in: %s", word, text)

static void in_a_folder(void)
{
    static char folder[] = "/tmp/betty-stopping-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
}

static void out_of_it(void)
{
    char remove[256], folder[128];
    ck_assert_ptr_nonnull(getcwd(folder, sizeof folder));
    ck_assert_int_eq(chdir("/"), 0);
    snprintf(remove, sizeof remove, "rm -r %s", folder);
    ck_assert_int_eq(system(remove), 0);
}

static const double falls[] = {5, 4, 4.5, 4.2, 4.1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9};

START_TEST(what_is_said)
{
    scores = falls;
    bt_engine *engine =
        engine_of("engine.early_stopping = true\nengine.early_stopping_tolerance = 3\nengine.output = run\n");
    levels_run(engine);
    EXPECT_IN(lines, "stopped early, after step 10 of 20: model.valid.score has not improved in 3 validations\n");
    EXPECT_IN(lines, "the best model.valid.score was 4, at step 4\n");
    ck_assert_int_ne(access("run/checkpoints/best.json", F_OK), 0);
    const char *summary = text_of("run/summary.json");
    EXPECT_IN(summary,
              "\"best\": {\n    \"metric\": \"model.valid.score\",\n    \"value\": 4.0,\n    \"step\": 4\n  }");
    bt_engine_free(engine);
    static const double none[] = {NAN, NAN};
    scores = none;
    engine = engine_of("engine.early_stopping = true\nengine.early_stopping_tolerance = 2\n");
    levels_run(engine);
    EXPECT_IN(lines, "stopped early, after step 4 of 20: score has not improved in 2 validations\n");
    EXPECT_IN(lines, "score was never a number");
    bt_engine_free(engine);
}
END_TEST

/* Kept in addition to the newest ones, whether the run stops early or not; and loaded in three ways. */
START_TEST(best_is_kept)
{
    scores = falls;
    bt_engine *engine = engine_of("engine.checkpoint_best = true\nengine.checkpoint_keep = 1\n"
                                  "engine.checkpoint_step = 3\nengine.output = run\n");
    levels_run(engine);
    EXPECT_IN(lines, "the best model.valid.score was 4, at step 4: run/checkpoints/best.safetensors\n");
    ck_assert_ptr_null(strstr(lines, "stopped early"));
    bt_engine_free(engine);
    static const char *const names[] = {"run/checkpoints/best", "run/checkpoints/best.json",
                                        "run/checkpoints/best.safetensors"};
    for (int i = 0; i < 3; i++) {
        engine = engine_of("");
        EXPECT_OK(bt_engine_resume(engine, names[i]));
        expect_step(engine, 4);
        bt_engine_free(engine);
    }
    engine = engine_of("");
    EXPECT_OK(bt_engine_resume(engine, "run/checkpoints/step-20"));
    expect_step(engine, 20);
    bt_engine_free(engine);
    engine = engine_of("model.weights = run/checkpoints/best.safetensors\nmodel.weights_layout = plain\n"
                       "model.weights_names = model.* > *\n");
    EXPECT_OK(bt_engine_setup(engine));
    double value;
    levels_params(engine, "model", &value, 1);
    ck_assert_double_eq_tol(value, 2 * pow(0.9, 4), 1e-12);
    bt_engine_free(engine);
    engine = engine_of("");
    ck_assert_int_ne(bt_engine_resume(engine, "run/checkpoints/worst"), BT_OK);
    EXPECT_IN(bt_error(), "run/checkpoints/worst");
    bt_error_clear();
    bt_engine_free(engine);
}
END_TEST

/* The last validation, at the end of a run, may be the best. A resumed run knows the best so far. */
START_TEST(best_at_the_end_and_before)
{
    static const double rises[] = {1, 2, 3, 4};
    scores = rises;
    bt_engine *engine = engine_of("engine.checkpoint_best = true\nengine.early_stopping_mode = max\n"
                                  "engine.train_iters = 7\nengine.output = run\n");
    levels_run(engine);
    EXPECT_IN(lines, "the best model.valid.score was 4, at step 7: run/checkpoints/best.safetensors\n");
    bt_engine_free(engine);
    static const double worse[] = {0, 0, 0};
    scores = worse;
    engine = engine_of("engine.checkpoint_best = true\nengine.early_stopping_mode = max\nengine.train_iters = 10\n"
                       "engine.output = run\n");
    EXPECT_OK(bt_engine_resume(engine, "run/checkpoints/best"));
    expect_step(engine, 7);
    levels_run(engine);
    EXPECT_IN(lines, "the best model.valid.score was 4, at step 7: run/checkpoints/best.safetensors\n");
    bt_engine_free(engine);
}
END_TEST

START_TEST(best_needs_a_validation)
{
    levels_expect_error(engine_of("engine.checkpoint_best = true\nengine.valid_step = 0\n"), "checkpoint_best = true",
                        "set valid_step", NULL);
}
END_TEST

/* By default, a killed run loses a few minutes at most. */
START_TEST(checkpoints_by_time)
{
    scores = falls;
    bt_engine *engine = engine_of("engine.output = often\nengine.checkpoint_minutes = 1e-9\n");
    ck_assert_double_eq(bt_config_engine(engine->context.config)->checkpoint_minutes, 1e-9);
    EXPECT_OK(bt_engine_run_to(engine, 5));
    ck_assert_int_eq(access("often/checkpoints/step-5.json", F_OK), 0);
    ck_assert_int_eq(access("often/checkpoints/step-4.json", F_OK), 0);
    bt_engine_free(engine); /* as if it had been killed */
    engine = engine_of("");
    EXPECT_OK(bt_engine_resume(engine, "often"));
    expect_step(engine, 5);
    bt_engine_free(engine);
    engine = engine_of("engine.output = never\n");
    ck_assert_double_eq(bt_config_engine(engine->context.config)->checkpoint_minutes, 5);
    EXPECT_OK(bt_engine_run_to(engine, 5));
    ck_assert_int_ne(access("never/checkpoints", F_OK), 0);
    bt_engine_free(engine);
    bt_engine *other = engine_of("engine.output = never\n");
    ck_assert_int_eq(bt_engine_run(other), BT_ERROR_CONFIG);
    EXPECT_IN(bt_error(), "never holds a run that ended before its first checkpoint");
    ck_assert_ptr_null(strstr(bt_error(), "--resume"));
    bt_engine_free(other);
    bt_error_clear();
    other = engine_of("engine.output = often\n");
    ck_assert_int_eq(bt_engine_run(other), BT_ERROR_CONFIG);
    EXPECT_IN(bt_error(), "continue it (--resume)");
    bt_engine_free(other);
    bt_error_clear();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stopping");
    TCase *tests = tcase_create("stopping");
    tcase_add_checked_fixture(tests, in_a_folder, out_of_it);
    tcase_add_test(tests, what_is_said);
    tcase_add_test(tests, best_is_kept);
    tcase_add_test(tests, best_at_the_end_and_before);
    tcase_add_test(tests, best_needs_a_validation);
    tcase_add_test(tests, checkpoints_by_time);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
