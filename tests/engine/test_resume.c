/* tests/engine/test_resume.c: a run that was stopped after any step and resumed in a new engine equals one that never
 * stopped, to the last bit of all its state. */
#include "event_records.h"
#include "resumable.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const variants[] = {
    "lower.type = darts\n",
    "lower.type = cg\nlower.cg_iterations = 2\nlower.cg_warm_start = true\nlower.unroll_steps = 3\nupper.meta_batch = "
    "2\nside.unroll_steps = 2\n",
    ("lower.type = neumann\nlower.gradient_accumulation = 3\nlower.product_batches = all\n"
     "upper.gradient_accumulation = 2\nlower.warmup_steps = 4\n"),
    "lower.product = finite\nlower.unroll_steps = 4\nside.unroll_steps = 3\nengine.roll_back = true\nlower.scheduler = "
    "cosine\n",
    "engine.precision = fp32\nlower.nesterov = true\nlower.unroll_steps = 2\nlower.batch_size = all\n",
    "lower.type = sama\nlower.unroll_steps = 3\nupper.meta_batch = 2\n",
    "lower.type = penalty\nlower.penalty_iterations = 2\nupper.gradient_accumulation = 2\nlower.unroll_steps = 2\n",
    "lower.type = itd\nlower.unroll_steps = 4\nlower.itd_spacing = 2\nlower.gradient_accumulation = 2\n"
    "side.unroll_steps = 4\nside.type = itd\nside.itd_steps = 3\nside.optimizer = adam\nupper.meta_batch = 2\n",
    "engine.valid_step = 1\nlower.type = itd\nlower.unroll_steps = 3\nlower.scheduler = "
    "plateau\nlower.scheduler_patience = 1\n"
    "lower.scheduler_threshold = 0.9\nlower.scheduler_cooldown = 1\nlower.biases.params = *.bias\n"
    "side.scheduler = linear\nupper.scheduler = exponential\nupper.scheduler_gamma = 0.9\n",
    "lower.log_step = 2\nlower.drop_last = true\nupper.meta_batch = 3\nlower.biases.params = *.bias\n",
};
enum { VARIANTS = sizeof variants / sizeof *variants };

START_TEST(after_any_step)
{
    const char *settings = variants[_i];
    uint64_t state[RESUMABLE_STEPS + 1];
    char folder[64];
    resumable world = {0}, whole = {0};
    bt_engine *stepwise = resumable_engine(&world, settings, "", NULL), *unbroken;
    for (int step = 0; step <= RESUMABLE_STEPS; step++) {
        if (step)
            resumable_step(stepwise, &world);
        snprintf(folder, sizeof folder, "at-%d", step);
        EXPECT_OK(bt_engine_save(stepwise, folder));
        state[step] = resumable_hash(stepwise, &world);
        ck_assert(!step || state[step] != state[step - 1]);
    }
    resumable_finish(stepwise, &world); /* no further step: only the output after the last checkpoint */
    uint64_t end = resumable_hash(stepwise, &world);
    unbroken = resumable_engine(&whole, settings, "", NULL);
    resumable_finish(unbroken, &whole);
    ck_assert_uint_eq(resumable_hash(unbroken, &whole), end);
    for (int step = 0; step <= RESUMABLE_STEPS; step++) {
        resumable again = {0};
        bt_engine *engine = resumable_engine(&again, settings, "", NULL);
        snprintf(folder, sizeof folder, "at-%d", step);
        EXPECT_OK(bt_engine_resume(engine, folder));
        ck_assert_msg(resumable_hash(engine, &again) == state[step], "after step %d: not what was saved", step);
        resumable_finish(engine, &again);
        ck_assert_msg(resumable_hash(engine, &again) == end, "from step %d: another end", step);
        bt_engine_free(engine);
    }
    bt_engine_free(unbroken);
    bt_engine_free(stepwise);
}
END_TEST

/* ---- the output folder ---- */

#define LOGS "engine.logger_type = csv, tensorboard\nengine.log_histograms = true\n"

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *json = json_load_file(path, 0, &error);
    ck_assert_msg(json != NULL, "%s: %s", path, error.text);
    return json;
}

/* The lines without their times, and their number. */
static int lines(const char *path, char *text, size_t room)
{
    char line[4096];
    int count = 0;
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    for (text[0] = 0; fgets(line, sizeof line, file); count++) {
        char *time = strstr(line, "\"time\":"), *end = time ? strchr(time, ',') : NULL;
        ck_assert_ptr_nonnull(end);
        memmove(time, end + 1, strlen(end));
        ck_assert_uint_lt(strlen(text) + strlen(line), room);
        strcat(text, line);
    }
    fclose(file);
    return count;
}

/* A device, if there is one, holds the planned bytes; the last part of a run need not use all of them. */
static void expect_planned(const json_t *summary, bool whole)
{
    const json_int_t planned = json_integer_value(json_object_get(summary, "device_planned_bytes"));
    const json_int_t held = json_integer_value(json_object_get(summary, "device_bytes"));
    ck_assert_int_le(held, planned);
    ck_assert(!whole || held == planned);
}

static void expect_same_summary(const char *a, const char *b)
{
    /* times, and the memory of this process and of others */
    static const char *const times[] = {
        "seconds",       "data_seconds",         "ms_per_step",         "program_bytes", "program_peak_bytes",
        "outside_bytes", "device_outside_bytes", "device_bytes_before", "device_bytes"};
    json_t *first = load(a), *second = load(b);
    expect_planned(first, true);
    expect_planned(second, false);
    for (int i = 0; i < BT_COUNT_OF(times); i++) {
        json_object_del(first, times[i]);
        json_object_del(second, times[i]);
    }
    json_object_del(json_object_get(json_object_get(first, "config"), "engine"), "output");
    json_object_del(json_object_get(json_object_get(second, "config"), "engine"), "output");
    const char *key;
    json_t *value;
    json_object_foreach(first, key, value)
        ck_assert_msg(json_equal(value, json_object_get(second, key)), "%s of %s is not that of %s", key, a, b);
    ck_assert_uint_eq(json_object_size(first), json_object_size(second));
    json_decref(first);
    json_decref(second);
}

static int rows(const char *path, char *text, size_t room)
{
    char line[4096];
    int count = 0;
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    for (text[0] = 0; fgets(line, sizeof line, file); count++) {
        char *time = strchr(line, ','), *end = time ? strchr(time + 1, ',') : NULL;
        ck_assert_ptr_nonnull(end);
        memmove(time, end, strlen(end) + 1);
        ck_assert_uint_lt(strlen(text) + strlen(line), room);
        strcat(text, line);
    }
    fclose(file);
    return count;
}

/* metrics.csv without its times, and event files: there is one for each part. */
static void expect_same_logs(const char *whole, const char *parts)
{
    static unsigned char one[65536], other[65536];
    event_counts first, second;
    char csv[2][32];
    snprintf(csv[0], sizeof csv[0], "%s/metrics.csv", whole);
    snprintf(csv[1], sizeof csv[1], "%s/metrics.csv", parts);
    ck_assert_int_eq(rows(csv[0], (char *)one, sizeof one), rows(csv[1], (char *)other, sizeof other));
    ck_assert_str_eq((char *)one, (char *)other);
    const size_t size = event_records(whole, one, sizeof one, &first) - first.config;
    ck_assert_uint_eq(event_records(parts, other, sizeof other, &second) - second.config, size);
    ck_assert_mem_eq(one + first.config, other + second.config, size);
    ck_assert_int_gt(first.events, 3);
    ck_assert_int_gt(second.files, 1);
    ck_assert_int_eq(second.starts, second.files - 1);
}

/* Interrupted after every two steps; the metrics and the summary are those of an uninterrupted run. */
START_TEST(its_folder)
{
    static char one[65536], other[65536];
    char settings[1024];
    snprintf(settings, sizeof settings, "%s%s", variants[_i], LOGS);
    resumable whole = {0};
    bt_engine *unbroken = resumable_engine(&whole, settings, "", "whole");
    resumable_finish(unbroken, &whole);
    bt_engine_free(unbroken);
    for (int part = 0; part * 2 < RESUMABLE_STEPS; part++) {
        resumable world = {0};
        bt_engine *engine = resumable_engine(&world, settings, "engine.checkpoint_step = 1\n", "parts");
        if (part)
            EXPECT_OK(bt_engine_resume(engine, "parts"));
        resumable_step(engine, &world);
        bt_engine_free(engine);
        world = (resumable){0}; /* a part of two steps: the second part in a new engine */
        engine = resumable_engine(&world, settings, "", "parts");
        EXPECT_OK(bt_engine_resume(engine, "parts"));
        if (part * 2 + 2 < RESUMABLE_STEPS)
            resumable_step(engine, &world);
        else
            resumable_finish(engine, &world);
        bt_engine_free(engine);
    }
    ck_assert_int_eq(lines("whole/metrics.jsonl", one, sizeof one), lines("parts/metrics.jsonl", other, sizeof other));
    ck_assert_str_eq(one, other);
    expect_same_logs("whole", "parts");
    expect_same_summary("whole/summary.json", "parts/summary.json");
}
END_TEST

/* The names of tensors, and extending a finished run: its final output is not part of the longer run. */
START_TEST(names_and_more_steps)
{
    resumable world = {0}, longer = {0}, whole = {0};
    bt_engine *engine = resumable_engine(&world, LOGS, "", "run"), *unbroken;
    resumable_finish(engine, &world);
    bt_engine_free(engine);
    json_t *record = load("run/checkpoints/step-13.json");
    ck_assert_int_eq(json_integer_value(json_object_get(record, "step")), 13);
    json_decref(record);
    char header[8192];
    FILE *file = fopen("run/checkpoints/step-13.safetensors", "rb");
    header[fread(header, 1, sizeof header - 1, file)] = 0;
    fclose(file);
    static const char *const names[] = {"\"lower.0.weight\":{\"dtype\":\"F64\",\"shape\":[5,3],",
                                        "\"lower.4.bias\":{\"dtype\":\"F64\",\"shape\":[2],",
                                        "\"lower.0.weight:momentum\":",
                                        "\"lower.mean\":",
                                        "\"upper.value\":",
                                        "\"lower:applied\":{\"dtype\":\"I64\"",
                                        "\"lower:state.epochs\":{\"dtype\":\"U8\",\"shape\":[8],"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(strstr(header + 8, names[i]) != NULL, "%s is not in %s", names[i], header + 8);
    engine = resumable_engine(&longer, LOGS, "engine.train_iters = 20\nengine.threads = 2\n", "run");
    EXPECT_OK(bt_engine_resume(engine, "run"));
    resumable_finish(engine, &longer);
    unbroken = resumable_engine(&whole, LOGS, "engine.train_iters = 20\n", "whole");
    resumable_finish(unbroken, &whole);
    ck_assert_uint_eq(resumable_hash(engine, &longer), resumable_hash(unbroken, &whole));
    char parts[8192], all[8192];
    ck_assert_int_eq(lines("run/metrics.jsonl", parts, sizeof parts), lines("whole/metrics.jsonl", all, sizeof all));
    ck_assert_str_eq(parts, all);
    expect_same_logs("whole", "run");
    bt_engine_free(engine);
    bt_engine_free(unbroken);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resume");
    TCase *tests = tcase_create("resume");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_loop_test(tests, after_any_step, 0, VARIANTS);
    tcase_add_loop_test(tests, its_folder, 0, VARIANTS);
    tcase_add_test(tests, names_and_more_steps);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
