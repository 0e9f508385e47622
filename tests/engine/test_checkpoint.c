/* tests/engine/test_checkpoint.c: checkpoints that cannot be written, are damaged, or belong to a different run. */
#include "resumable.h"

#include "engine/session/session.h"
#include "io/file.h"
#include "support/suite.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *path, const char *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, size, file), size);
    fclose(file);
}

static int entries(const char *folder)
{
    int count = 0;
    DIR *list = opendir(folder);
    while (list && readdir(list))
        count++;
    if (list)
        closedir(list);
    return count - 2;
}

/* A run in `folder` that stopped after three steps, with checkpoints of the last two. */
static void make_run(const char *folder)
{
    for (int step = 0; step < 3; step++) {
        resumable world = {0};
        bt_engine *engine = resumable_engine(&world, "", "", folder);
        if (step)
            EXPECT_OK(bt_engine_resume(engine, folder));
        resumable_step(engine, &world);
        bt_engine_free(engine);
    }
    char path[64];
    snprintf(path, sizeof path, "%s/checkpoints", folder);
    ck_assert_int_eq(entries(path), 4);
}

/* The step from which a resumed run continues; -1: it is refused, with all of the words (up to NULL) in the message. */
static int64_t resumed_step(resumable world, const char *more, ...)
{
    bt_engine *engine = resumable_engine(&world, "", more, "run");
    bt_status status = bt_engine_resume(engine, "run");
    int64_t step = status == BT_OK ? engine->context.step : -1;
    va_list words;
    va_start(words, more);
    const char *told = status == BT_OK ? bt_text_get(&engine->context.warnings) : bt_error();
    for (const char *word; (word = va_arg(words, const char *)) != NULL;)
        ck_assert_msg(strstr(told, word) != NULL, "`%s` is not in: %s", word, told);
    va_end(words);
    if (status != BT_OK)
        ck_assert_int_eq(bt_engine_run(engine), status); /* it cannot be used any more */
    bt_engine_free(engine);
    bt_error_clear();
    return step;
}

#define NOTHING ((const char *)NULL)

/* ---- damage ---- */

static const char *const files[] = {"run/checkpoints/step-3.json", "run/checkpoints/step-3.safetensors"};

START_TEST(any_byte_altered)
{
    char *data;
    size_t size;
    make_run("run");
    ck_assert_int_eq(resumed_step((resumable){0}, "", NOTHING), 3);
    EXPECT_OK(bt_file_read(files[_i], &data, &size));
    for (size_t at = 0; at < size; at += 1 + size / 23) {
        char before = data[at];
        data[at] = (char)(before ^ 1);
        put(files[_i], data, size);
        int64_t step = resumed_step((resumable){0}, "", files[_i], "; continuing from step 2", NOTHING);
        ck_assert_msg(step == 2, "byte %zu of %s", at, files[_i]);
        data[at] = before;
    }
    put(files[_i], data, size);
    ck_assert_int_eq(resumed_step((resumable){0}, "", NOTHING), 3);
    bt_free(data);
}
END_TEST

START_TEST(truncated)
{
    char *data;
    size_t size;
    make_run("run");
    EXPECT_OK(bt_file_read(files[_i], &data, &size));
    for (size_t length = 0; length < size; length += 1 + size / 11) {
        put(files[_i], data, length);
        ck_assert_int_eq(resumed_step((resumable){0}, "", files[_i], "continuing from step 2", NOTHING), 2);
    }
    put(files[_i], data, size - 1);
    ck_assert_int_eq(resumed_step((resumable){0}, "", files[_i], "continuing from step 2", NOTHING), 2);
    bt_free(data);
    ck_assert_int_eq(unlink(files[1]), 0);
    ck_assert_int_eq(resumed_step((resumable){0}, "", "step-3", "continuing from step 2", NOTHING), 2);
}
END_TEST

/* There is no older checkpoint; or its metrics are missing. */
START_TEST(nothing_to_go_on_from)
{
    make_run("run");
    put("run/checkpoints/step-2.json", "{}", 2);
    put("run/checkpoints/step-3.json", "{\"format\":", 10);
    ck_assert_int_eq(resumed_step((resumable){0}, "", "run holds no checkpoint that can be used: ",
                                  "step-3.json is damaged: its content has changed since it was",
                                  "step-2.json is damaged: its content", NOTHING),
                     -1);
    ck_assert_int_eq(rename("run/checkpoints", "run/other"), 0);
    ck_assert_int_eq(
        resumed_step((resumable){0}, "", "run/checkpoints holds no checkpoint", "start a new run", NOTHING), -1);
    make_run("again");
    ck_assert_int_eq(rename("again/checkpoints", "run/checkpoints"), 0);
    put("run/metrics.jsonl", "", 0);
    resumed_step((resumable){0}, "", "run/metrics.jsonl has 0 bytes, but had ", NOTHING);
}
END_TEST

/* A damaged checkpoint of a later step, which was skipped, is removed once a new one replaces it. */
START_TEST(what_is_kept)
{
    resumable world = {0};
    make_run("run");
    put(files[1], "", 0);
    put("run/checkpoints/step-9.safetensors.tmp", "", 0);
    put("run/checkpoints/notes", "", 0);
    bt_engine *engine = resumable_engine(&world, "", "engine.checkpoint_keep = 3\n", "run");
    EXPECT_OK(bt_engine_resume(engine, "run"));
    ck_assert_int_eq(engine->context.step, 2);
    resumable_step(engine, &world);
    bt_engine_free(engine);
    struct stat info;
    ck_assert(stat(files[1], &info) == 0 && info.st_size > 0);
    ck_assert_int_eq(entries("run/checkpoints"), 5); /* steps 2 and 3, and a foreign file */
    world = (resumable){0};
    engine = resumable_engine(&world, "", "engine.checkpoint_step = 1\n", "run");
    EXPECT_OK(bt_engine_resume(engine, "run"));
    resumable_finish(engine, &world);
    bt_engine_free(engine);
    ck_assert_int_eq(entries("run/checkpoints"), 5);
    ck_assert_int_eq(access("run/checkpoints/step-12.json", F_OK), 0);
    ck_assert_int_eq(access("run/checkpoints/step-13.json", F_OK), 0);
}
END_TEST

/* ---- a different run ---- */

START_TEST(another_run)
{
    make_run("run");
    ck_assert_int_eq(resumed_step((resumable){0}, "lower.lr = 0.2\nlower.unroll_steps = 3\n",
                                  "run/checkpoints/step-3: the checkpoint is of a run with other settings: ",
                                  "lower.lr was 0.1, is 0.2", "lower.unroll_steps was 1, is 3", NOTHING),
                     -1);
    ck_assert_int_eq(
        resumed_step((resumable){0}, "engine.precision = fp32\n", "engine.precision was fp64, is fp32", NOTHING), -1);
    ck_assert_int_eq(
        resumed_step((resumable){0},
                     "lower.optimizer = adam\nlower.momentum = \nlower.unroll_steps = 2\nlower.warmup_steps = 1\n",
                     "lower.optimizer was sgd, is adam", "lower.beta1 was not set, is 0.9",
                     "lower.momentum was 0.9, is not set", "; and 2 more", NOTHING),
        -1);
    ck_assert_int_eq(
        resumed_step((resumable){.rows = 30}, "", "upper: ", "an epoch was 5 batches long, and is now 8", NOTHING), -1);
    ck_assert_int_eq(resumed_step((resumable){.rows = 20}, "",
                                  "upper: ", "the field x holds other values, label holds other values", NOTHING),
                     -1);
    ck_assert_int_eq(
        resumed_step((resumable){.shift = 1e-9}, "", "other training data: the field x holds other values", NOTHING),
        -1);
    ck_assert_int_eq(
        resumed_step((resumable){.made_shift = 1e-9}, "", "side: ", "other training data: batch 2 differs", NOTHING),
        -1);
    ck_assert_int_eq(resumed_step((resumable){.factor = 1.5}, "",
                                  "lower: the checkpoint belongs to another problem: training_step records", NOTHING),
                     -1);
    ck_assert_int_eq(
        resumed_step((resumable){.forgets = true}, "", "has 48 tensors, but this run knows only 46 of them", NOTHING),
        -1);
    ck_assert_int_eq(
        resumed_step((resumable){0}, "engine.train_iters = 50\nengine.log_step = 1\nlower.log_step = 2\n", NOTHING), 3);
    ck_assert_int_eq(resumed_step((resumable){0}, "lower.valid_batches = 1\n", NOTHING), 3);
    ck_assert_int_eq(resumed_step((resumable){0}, "engine.threads = 2\n", "was written with ", "2 threads", NOTHING),
                     3);
}
END_TEST

static bt_module *one(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(1));
}

static bt_tensor *square(bt_problem *self, const bt_batch *batch)
{
    return bt_add(bt_square(bt_forward(self)), bt_mul(0.0, bt_sum(bt_field(batch, "x"))));
}

static bt_status no_data(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double x = (double)(index + mode);
    (void)self;
    return bt_batch_set(batch, "x", BT_ARRAY(&x, 1));
}

START_TEST(another_problem)
{
    static const bt_problem_def alone = {
        .name = "alone", .configure_module = one, .get_batch = no_data, .training_step = square};
    static const bt_export parts = {.abi = BT_ABI, .problems = {&alone}};
    make_run("run");
    bt_engine *engine = levels_engine(&parts, NULL, "engine.train_iters = 2\n");
    ck_assert_int_eq(bt_engine_resume(engine, "run"), BT_ERROR_CONFIG);
    ck_assert_ptr_nonnull(
        strstr(bt_error(), "step-3: the checkpoint is of the problems upper, lower, side, but this run has alone"));
    bt_engine_free(engine);
}
END_TEST

/* ---- a user-defined op ---- */

typedef struct times_attr {
    double factor;
} times_attr;

static void times_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    out[0] = bt_mul(((const times_attr *)attr)->factor, in[0]);
}

static const bt_op times = {.name = "times", .inputs = 1, .attr_size = sizeof(times_attr), .body = times_body};
static times_attr by;

static bt_tensor *times_step(bt_problem *self, const bt_batch *batch)
{
    return bt_apply(&times, &by, square(self, batch));
}

static bt_engine *times_engine(double factor)
{
    static const bt_problem_def model = {
        .name = "model", .configure_module = one, .get_batch = no_data, .training_step = times_step};
    static const bt_export parts = {.abi = BT_ABI, .problems = {&model}};
    by.factor = factor;
    return levels_engine(&parts, NULL, "engine.train_iters = 2\n");
}

START_TEST(another_attribute)
{
    bt_engine *engine = times_engine(1);
    EXPECT_OK(bt_engine_run(engine));
    EXPECT_OK(bt_engine_save(engine, "saved"));
    bt_engine_free(engine);
    engine = times_engine(1);
    EXPECT_OK(bt_engine_resume(engine, "saved"));
    bt_engine_free(engine);
    engine = times_engine(2);
    ck_assert_int_eq(bt_engine_resume(engine, "saved"), BT_ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(bt_error(), "training_step records other operations than before"));
    bt_engine_free(engine);
}
END_TEST

/* ---- formats, and tampered records ---- */

static void rewrite_record(const char *path, const char *old, const char *new)
{
    static const char tail[] = ",\n  \"hash\": \"0123456789abcdef\"\n}\n";
    char *text;
    size_t size;
    bt_text whole = {0};
    EXPECT_OK(bt_file_read(path, &text, &size));
    text[size - (sizeof tail - 1)] = 0;
    const char *at = strstr(text, old);
    ck_assert_msg(at != NULL, "%s is not in: %s", old, text);
    bt_text_add(&whole, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    uint64_t hash = bt_hash(0, whole.data, (size_t)whole.size);
    bt_text_add(&whole, ",\n  \"hash\": \"%016llx\"\n}\n", (unsigned long long)hash);
    put(path, whole.data, (size_t)whole.size);
    bt_text_free(&whole);
    bt_free(text);
}

static bt_module *linear(bt_problem *self)
{
    (void)self;
    return bt_nn_linear(3, 2);
}

static bt_status counted(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double x[3] = {1, 2, (double)(index + mode)};
    (void)self;
    return bt_batch_set(batch, "x", BT_ARRAY(x, 1, 3));
}

static bt_tensor *length(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_forward(self, bt_field(batch, "x"))));
}

static bt_engine *linear_engine(const char *settings)
{
    static const bt_problem_def model = {
        .name = "model", .configure_module = linear, .get_batch = counted, .training_step = length};
    static const bt_export parts = {.abi = BT_ABI, .problems = {&model}};
    return levels_engine(&parts, NULL, settings);
}

static void copy(const char *from, const char *to)
{
    char *data, path[4096];
    size_t size;
    snprintf(path, sizeof path, "%s/tests/engine/data/%s", getenv("BT_SOURCE_DIR"), from);
    EXPECT_OK(bt_file_read(path, &data, &size));
    put(to, data, size);
    bt_free(data);
}

/* A checkpoint of format 1, as written at the time; the values come from its safetensors file. */
START_TEST(an_older_format)
{
    static const double due[] = {0.0144606102, 0.291853011, -0.107363708, 0.350177735,
                                 0.441506863,  0.3192375,   -0.369672686, 0.00989291165};
    double found[8];
    char settings[256], path[128] = "";
    ck_assert_int_eq(mkdir("run", 0777) | mkdir("run/checkpoints", 0777), 0);
    copy("step-3.json", "run/checkpoints/step-3.json");
    copy("step-3.safetensors", "run/checkpoints/step-3.safetensors");
    bt_engine *engine = linear_engine("");
    ck_assert_int_eq(bt_engine_resume(engine, "run"), BT_ERROR_FILE);
    ck_assert_ptr_nonnull(strstr(bt_error(), "was written by version 0.1.0 in another format (`betty checkpoint 1`)"));
    const char *advice = strstr(bt_error(), "`weights = ");
    ck_assert(advice && sscanf(advice, "`weights = %127[^`]", path) == 1);
    ck_assert_ptr_nonnull(strstr(bt_error(), "`weights_layout = plain`, `weights_names = PROBLEM.* > *`"));
    snprintf(settings, sizeof settings,
             "model.weights = %s\nmodel.weights_layout = plain\nmodel.weights_names = model.* > *\n", path);
    bt_engine_free(engine);
    bt_error_clear();
    engine = linear_engine(settings);
    levels_params(engine, "model", found, 8);
    for (int i = 0; i < 8; i++)
        ck_assert_double_eq_tol(found[i], due[i], 1e-9);
    bt_engine_free(engine);
}
END_TEST

START_TEST(a_later_format)
{
    make_run("run");
    rewrite_record(files[0], "betty checkpoint 3", "betty checkpoint 30");
    ck_assert_int_eq(
        resumed_step((resumable){0}, "", "format (`betty checkpoint 30`)", "continuing from step 2", NOTHING), 2);
}
END_TEST

static const struct {
    const char *old, *new, *word;
} forged[] = {
    {"\"steps\": ", "\"steps\": -", "a number"},
    {"\"steps\": ", "\"steps\": 0.", "upper, steps: "},
    {"\"steps\": ", "\"stepz\": ", "has no number steps, which this run needs"},
    {"\"steps\": ", "\"more\": 1, \"steps\": ", "numbers, but this run knows only"},
    {"\"calls\": ", "\"calls\": 9", "calls: there are more than a meta-batch has"},
    {"\"ready.lower\": ", "\"ready.lower\": 1, \"x\": ", "upper, ready.lower: "},
    {"\"best\": \"", "\"best\": \"x", "the run, best: "},
    {"\"best\": \"", "\"best\": 1, \"x\": \"", "the run, best: "},
    {"\"best\": \"", "\"best\": \"\", \"x\": \"", "the run, best: "},
    {"\"step\": 3", "\"step\": 4", "of step 4"},
    {"\"patience\": ", "\"patience\": -1, \"x\": ", "the run, patience: "},
    {"\"kept\": ", "\"kept\": 999", "streams"},
    {"\"kept\": ", "\"kept\": -", "streams"},
    {"\"streams\": {", "\"streams\": {}, \"x\": {", "streams"},
    {"\"metrics\": [", "\"metrics\": {}, \"x\": [", "metrics"},
    {"\"metrics\": [", "\"metrics\": [{\"problem\": \"upper\", \"name\": \"loss\", \"valid\": false}, ", "twice"},
    {"\"metrics\": [", "\"metrics\": [{\"problem\": \"x\", \"name\": \"loss\", \"valid\": false}, ",
     "an unknown problem"},
    {"\"u2l\": ", "\"u2l\": 1, \"x\": ", "dependencies"},
    {"\"numbers\": {", "\"numbers\": [], \"x\": {", "numbers"},
};

/* The file's hash is right, but its contents are not. */
START_TEST(a_forged_record)
{
    make_run("run");
    rewrite_record(files[0], forged[_i].old, forged[_i].new);
    ck_assert_int_eq(resumed_step((resumable){0}, "", "step-3", forged[_i].word, NOTHING), -1);
}
END_TEST

/* ---- when bt_engine_save is allowed ---- */

START_TEST(not_at_any_time)
{
    resumable world = {.save_to = "within"};
    bt_engine *engine = resumable_engine(&world, "", "", "run"), *second;
    ck_assert_int_eq(bt_engine_run(engine), BT_ERROR_ARGUMENT);
    ck_assert_int_eq(world.saved, BT_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(bt_error(), "bt_engine_save: the engine is running"));
    ck_assert_int_ne(access("within", F_OK), 0);
    bt_engine_free(engine);
    bt_error_clear();

    make_run("twice");
    world = (resumable){0};
    resumable other = {0};
    engine = resumable_engine(&world, "", "", NULL);
    second = resumable_engine(&other, "", "", NULL);
    EXPECT_OK(bt_engine_resume(engine, "twice"));
    EXPECT_OK(bt_engine_save(engine, "twice")); /* its own folder */
    ck_assert_int_eq(bt_engine_resume(second, "twice"), BT_ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(bt_error(), "the output folder twice is in use by another run"));
    bt_engine_free(engine);
    bt_engine_free(second);
    bt_error_clear();

    engine = resumable_engine(&world, "", "", NULL);
    bt_problem *lower = bt_engine_problem(engine, "lower");
    int64_t number;
    ck_assert_int_eq(bt_state(lower, "late", &number, sizeof number), BT_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(bt_error(), "lower, `late`: bt_state: too late"));
    bt_engine_free(engine);
}
END_TEST

/* ---- disk errors ---- */

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* However much space there is: the run fails with the file's name, and the previous checkpoint stays intact. */
START_TEST(a_full_disk)
{
    signal(SIGXFSZ, SIG_IGN);
    make_run("run");
    char *before, *after;
    size_t size, length;
    EXPECT_OK(bt_file_read(files[1], &before, &size));
    for (rlim_t room = 0; room < 5000; room += 1 + room) {
        resumable world = {.stop = 1};
        bt_engine *engine = resumable_engine(&world, "", "", "run");
        EXPECT_OK(bt_engine_resume(engine, "run"));
        limit_files(room);
        bt_status status = bt_engine_run(engine);
        limit_files(RLIM_INFINITY);
        ck_assert_msg(status == BT_ERROR_FILE, "%d with room for %d bytes: %s", (int)status, (int)room, bt_error());
        ck_assert_ptr_nonnull(strstr(bt_error(), "run/"));
        ck_assert_ptr_nonnull(strstr(bt_error(), " cannot be written: File too large"));
        bt_engine_free(engine);
        bt_error_clear();
        ck_assert_int_eq(access("run/checkpoints/step-4.json", F_OK), -1);
        EXPECT_OK(bt_file_read(files[1], &after, &length));
        ck_assert(length == size && memcmp(before, after, size) == 0);
        bt_free(after);
        ck_assert_int_eq(resumed_step((resumable){0}, "", NOTHING), 3);
    }
    bt_free(before);
}
END_TEST

START_TEST(no_such_place)
{
    resumable world = {0};
    put("file", "", 0);
    bt_engine *engine = resumable_engine(&world, "", "", NULL);
    ck_assert_int_eq(bt_engine_save(engine, "file/folder"), BT_ERROR_FILE);
    ck_assert_str_eq(bt_error(), "the output folder file/folder cannot be created: Not a directory");
    bt_engine_free(engine);
    bt_error_clear();
    ck_assert_int_eq(mkdir("folder", 0777), 0);
    put("folder/checkpoints", "", 0);
    engine = resumable_engine(&world, "", "", NULL);
    ck_assert_int_eq(bt_engine_save(engine, "folder"), BT_ERROR_FILE);
    ck_assert_ptr_nonnull(strstr(bt_error(), "folder/checkpoints/step-0.safetensors cannot be written: Not a dir"));
    bt_engine_free(engine);
    bt_error_clear();
    engine = resumable_engine(&world, "", "", NULL);
    ck_assert_int_eq(bt_engine_resume(engine, "missing"), BT_ERROR_FILE);
    ck_assert_str_eq(bt_error(), "the output folder missing cannot be opened: No such file or directory");
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint");
    TCase *tests = tcase_create("checkpoint");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_loop_test(tests, any_byte_altered, 0, 2);
    tcase_add_loop_test(tests, truncated, 0, 2);
    tcase_add_test(tests, nothing_to_go_on_from);
    tcase_add_test(tests, what_is_kept);
    tcase_add_test(tests, another_run);
    tcase_add_test(tests, another_problem);
    tcase_add_test(tests, another_attribute);
    tcase_add_test(tests, an_older_format);
    tcase_add_test(tests, a_later_format);
    tcase_add_loop_test(tests, a_forged_record, 0, (int)(sizeof forged / sizeof *forged));
    tcase_add_test(tests, not_at_any_time);
    tcase_add_test(tests, a_full_disk);
    tcase_add_test(tests, no_such_place);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
