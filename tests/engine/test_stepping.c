/* A run in several calls equals a run in one; settings that change between them. */
#include "resumable.h"

#include "engine/level/level.h"

#include "support/suite.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the results of a run, without times ---- */

static void read_file(const char *folder, const char *name, char *text, size_t room)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s is missing", path);
    size_t size = fread(text, 1, room - 1, file);
    ck_assert_uint_lt(size, room - 1);
    text[size] = 0;
    fclose(file);
}

static json_t *json_of(const char *text)
{
    json_error_t error;
    json_t *object = json_loads(text, 0, &error);
    ck_assert_msg(object != NULL, "%s: %s", error.text, text);
    return object;
}

static void expect_same_metrics(const char *a, const char *b)
{
    static char one[40000], two[40000];
    read_file(a, "metrics.jsonl", one, sizeof one);
    read_file(b, "metrics.jsonl", two, sizeof two);
    char *rest[2] = {one, two}, *line, *other;
    int lines = 0;
    while ((line = strtok_r(rest[0], "\n", &rest[0])) != NULL) {
        other = strtok_r(rest[1], "\n", &rest[1]);
        ck_assert_msg(other != NULL, "missing: %s", line);
        json_t *was = json_of(line), *now = json_of(other);
        json_object_del(was, "time");
        json_object_del(now, "time");
        ck_assert_msg(json_equal(was, now), "%s\n%s", line, other);
        json_decref(was);
        json_decref(now);
        lines++;
    }
    ck_assert_ptr_null(strtok_r(rest[1], "\n", &rest[1]));
    ck_assert_int_gt(lines, 4);
}

static void expect_same_summary(const char *a, const char *b)
{
    static char one[20000], two[20000];
    read_file(a, "summary.json", one, sizeof one);
    read_file(b, "summary.json", two, sizeof two);
    json_t *was = json_of(one), *now = json_of(two);
    static const char *const keys[] = {"stopped", "steps", "metrics", "planned_bytes"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        ck_assert_msg(json_equal(json_object_get(was, keys[i]), json_object_get(now, keys[i])), "%s", keys[i]);
    json_decref(was);
    json_decref(now);
}

static void expect_same_checkpoint(const char *a, const char *b, int step)
{
    static char one[100000], two[100000];
    char name[100];
    snprintf(name, sizeof name, "checkpoints/step-%d.safetensors", step);
    memset(one, 0, sizeof one);
    memset(two, 0, sizeof two);
    read_file(a, name, one, sizeof one);
    read_file(b, name, two, sizeof two);
    ck_assert_mem_eq(one, two, sizeof one);
}

static const char settings[] = "engine.checkpoint_step = 5\nengine.checkpoint_keep = 5\n";

static uint64_t in_one(const char *more, const char *folder)
{
    resumable world = {0};
    bt_engine *engine = resumable_engine(&world, settings, more, folder);
    EXPECT_OK(bt_engine_run(engine));
    uint64_t hash = resumable_hash(engine, &world);
    bt_engine_free(engine);
    return hash;
}

/* ---- the calls ---- */

START_TEST(ten_calls_are_one_run)
{
    static const int64_t stops[] = {1, 1, 3, 4, 5, 8, 9, 11, 12, 100};
    uint64_t due = in_one("", "one");
    resumable world = {0};
    bt_engine *engine = resumable_engine(&world, settings, "", "ten");
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        EXPECT_OK(bt_engine_run_to(engine, stops[i]));
        ck_assert_int_eq(bt_engine_steps(engine), stops[i] < RESUMABLE_STEPS ? stops[i] : RESUMABLE_STEPS);
    }
    ck_assert_uint_eq(resumable_hash(engine, &world), due);
    bt_engine_free(engine);
    expect_same_metrics("one", "ten");
    expect_same_summary("one", "ten");
    expect_same_checkpoint("one", "ten", 10);
    expect_same_checkpoint("one", "ten", RESUMABLE_STEPS);
}
END_TEST

/* The final validation is one more without an improvement, but the run had already ended, as its message says. */
START_TEST(a_call_after_the_end_says_the_same)
{
    char more[120];
    snprintf(more, sizeof more, "engine.early_stopping_tolerance = %d\nengine.early_stopping_mode = max\n", _i);
    in_one(more, "one");
    resumable world = {0};
    bt_engine *engine = resumable_engine(&world, settings, more, "two");
    EXPECT_OK(bt_engine_run(engine));
    EXPECT_OK(bt_engine_run(engine));
    bt_engine_free(engine);
    expect_same_summary("one", "two");
    expect_same_metrics("one", "two");
}
END_TEST

START_TEST(step_by_step)
{
    uint64_t due = in_one("", "one");
    resumable world = {0};
    bt_engine *engine = resumable_engine(&world, settings, "", "steps");
    bt_status status;
    int steps = 0;
    while ((status = bt_engine_step(engine)) == BT_OK)
        ck_assert_int_eq(bt_engine_steps(engine), ++steps);
    ck_assert_int_eq(status, BT_DONE);
    ck_assert_str_eq(bt_error(), "");
    ck_assert_int_eq(steps, RESUMABLE_STEPS);
    ck_assert_uint_eq(resumable_hash(engine, &world), due);
    bt_engine_free(engine);
    expect_same_metrics("one", "steps");
    expect_same_summary("one", "steps");
}
END_TEST

/* An engine that is freed early leaves the files of a killed run, and another one can resume it. */
START_TEST(left_half_way)
{
    in_one("", "one");
    resumable world = {0}, again = {0};
    bt_engine *engine = resumable_engine(&world, settings, "", "half");
    EXPECT_OK(bt_engine_run_to(engine, 7));
    bt_engine_free(engine);
    engine = resumable_engine(&again, settings, "", NULL);
    EXPECT_OK(bt_engine_resume(engine, "half")); /* step 5 */
    ck_assert_int_eq(bt_engine_steps(engine), 5);
    EXPECT_OK(bt_engine_run_to(engine, 6));
    EXPECT_OK(bt_engine_resume(engine, "half")); /* abandons the run in progress */
    ck_assert_int_eq(bt_engine_steps(engine), 5);
    EXPECT_OK(bt_engine_run(engine));
    bt_engine_free(engine);
    expect_same_metrics("one", "half");
    expect_same_checkpoint("one", "half", RESUMABLE_STEPS);
}
END_TEST

START_TEST(more_steps_later)
{
    uint64_t due = in_one("engine.train_iters = 20\n", "long");
    resumable world = {0};
    bt_engine *engine = resumable_engine(&world, settings, "", "grown");
    EXPECT_OK(bt_engine_run_to(engine, 12));
    EXPECT_OK(bt_engine_set(engine, "engine.train_iters", "%d", 20));
    EXPECT_OK(bt_engine_run(engine));
    ck_assert_uint_eq(resumable_hash(engine, &world), due);
    expect_same_metrics("long", "grown");
    expect_same_checkpoint("long", "grown", 20);
    static char config[20000];
    read_file("grown", "config.ini", config, sizeof config);
    ck_assert_ptr_nonnull(strstr(config, "train_iters = 20\n"));
    bt_engine_free(engine);
}
END_TEST

/* The parameters are those of the longer run; and no message is repeated. */
START_TEST(after_the_end)
{
    in_one("engine.train_iters = 20\n", "long");
    resumable world = {0};
    bt_engine *engine = resumable_engine(&world, settings, "", "grown");
    EXPECT_OK(bt_engine_run(engine));
    static char once[40000], twice[40000];
    read_file("grown", "metrics.jsonl", once, sizeof once);
    EXPECT_OK(bt_engine_run(engine));
    ck_assert_int_eq(bt_engine_step(engine), BT_DONE);
    read_file("grown", "metrics.jsonl", twice, sizeof twice);
    ck_assert_str_eq(once, twice);
    EXPECT_OK(bt_engine_set(engine, "engine.train_iters", "20"));
    EXPECT_OK(bt_engine_run(engine));
    ck_assert_int_eq(bt_engine_steps(engine), 20);
    read_file("grown", "metrics.jsonl", twice, sizeof twice);
    ck_assert_int_eq(strncmp(once, twice, strlen(once)), 0);
    bt_engine_free(engine);
}
END_TEST

/* If the end is undone first, there is no trace of it. */
START_TEST(taken_back)
{
    uint64_t due = in_one("engine.train_iters = 20\n", "long");
    resumable world = {0};
    bt_engine *engine = resumable_engine(&world, settings, "", "grown");
    EXPECT_OK(bt_engine_run(engine));
    EXPECT_OK(bt_engine_resume(engine, "grown"));
    EXPECT_OK(bt_engine_run(engine)); /* to the same end once more */
    EXPECT_OK(bt_engine_resume(engine, "grown"));
    EXPECT_OK(bt_engine_set(engine, "engine.train_iters", "20"));
    EXPECT_OK(bt_engine_run(engine));
    ck_assert_uint_eq(resumable_hash(engine, &world), due);
    bt_engine_free(engine);
    expect_same_metrics("long", "grown");
}
END_TEST

START_TEST(refused_and_unharmed)
{
    uint64_t due = in_one("", "one");
    resumable world = {0};
    bt_engine *engine = resumable_engine(&world, settings, "", "other");
    EXPECT_OK(bt_engine_run_to(engine, 6));
    static const struct {
        const char *key, *value;
        bt_status status;
        const char *words;
    } cases[] = {{"lower.lr", "0.5", BT_ERROR_ARGUMENT, "lower.lr cannot change"},
                 {"engine.seed", "3", BT_ERROR_ARGUMENT, "engine.seed cannot change"},
                 {"nobody.log_step", "3", BT_ERROR_ARGUMENT, "nobody.log_step cannot change"},
                 {"train_iters", "3", BT_ERROR_ARGUMENT, "train_iters cannot change"},
                 {"engine.train_iters", "many", BT_ERROR_CONFIG, "bt_engine_set: [engine] train_iters = many"},
                 {"engine.valid_step", "-1", BT_ERROR_CONFIG, "valid_step = -1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(bt_engine_set(engine, cases[i].key, "%s", cases[i].value), cases[i].status);
        ck_assert_msg(strstr(bt_error(), cases[i].words) != NULL, "%s", bt_error());
        bt_error_clear();
    }
    ck_assert_int_eq(bt_engine_run_to(engine, 5), BT_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(bt_error(), "found step 5, but the run is already at step 6"));
    bt_error_clear();
    EXPECT_OK(bt_engine_run(engine));
    ck_assert_uint_eq(resumable_hash(engine, &world), due);
    bt_engine_free(engine);
    ck_assert_int_eq(bt_engine_run_to(NULL, 1), BT_ERROR_ARGUMENT);
    bt_error_clear();
    ck_assert_int_eq(bt_engine_step(NULL), BT_ERROR_ARGUMENT);
    bt_error_clear();
    ck_assert_int_eq(bt_engine_steps(NULL), 0);
}
END_TEST

/* ---- messages ---- */

typedef struct heard {
    char text[20000];
    int lines[BT_LINE_VALIDATION + 1];
} heard;

static void hear(void *user, bt_line kind, const char *text)
{
    heard *h = user;
    ck_assert_ptr_null(strchr(text, '\n'));
    size_t length = strlen(h->text);
    snprintf(h->text + length, sizeof h->text - length, "%d %s\n", (int)kind, text);
    h->lines[kind]++;
}

START_TEST(lines_are_heard_when_said)
{
    static heard all;
    memset(&all, 0, sizeof all);
    resumable world = {0};
    bt_engine *engine = resumable_engine(&world, "engine.early_stopping = false\n", "", NULL);
    EXPECT_OK(bt_engine_log(engine, hear, &all));
    EXPECT_OK(bt_engine_run_to(engine, 1));
    ck_assert_msg(strstr(all.text, "early_stopping_tolerance = 100 has no effect") != NULL, "%s", all.text);
    ck_assert_ptr_nonnull(strstr(all.text, "0 ")); /* the equation */
    ck_assert_int_eq(all.lines[BT_LINE_TRAINING] + all.lines[BT_LINE_VALIDATION], 0);
    int warnings = all.lines[BT_LINE_WARNING];
    bt_warn(bt_engine_problem(engine, "lower")->context, "a late one");
    ck_assert_int_eq(all.lines[BT_LINE_WARNING], warnings + 1); /* and not only with the next call */
    EXPECT_OK(bt_engine_run(engine));
    ck_assert_ptr_nonnull(strstr(all.text, "3 step 3/13  upper.loss "));
    ck_assert_ptr_nonnull(strstr(all.text, "4 step 4/13  lower.valid."));
    ck_assert_int_eq(all.lines[BT_LINE_TRAINING], 4);   /* steps 3, 6, 9 and 12 */
    ck_assert_int_eq(all.lines[BT_LINE_VALIDATION], 5); /* steps 4, 8 and 12; the last training metrics; step 13 */
    bt_engine_free(engine);
}
END_TEST

/* A callback that is set late gets all warnings that were not delivered yet, once; the library prints nothing
 * meanwhile. */
START_TEST(warnings_wait)
{
    static heard late, later;
    memset(&late, 0, sizeof late);
    memset(&later, 0, sizeof later);
    resumable world = {0};
    bt_engine *engine = resumable_engine(&world, "engine.early_stopping = false\n", "", NULL);
    EXPECT_OK(bt_engine_run_to(engine, 4));
    EXPECT_OK(bt_engine_log(engine, hear, &late));
    ck_assert_ptr_nonnull(strstr(late.text, "has no effect"));
    ck_assert_int_eq(late.lines[BT_LINE_VALIDATION], 0);
    EXPECT_OK(bt_engine_log(engine, hear, &later));
    ck_assert_str_eq(later.text, "");
    EXPECT_OK(bt_engine_log(engine, NULL, NULL));
    EXPECT_OK(bt_engine_run(engine));
    ck_assert_str_eq(later.text, "");
    ck_assert_int_eq(bt_engine_log(NULL, hear, &later), BT_ERROR_ARGUMENT);
    bt_error_clear();
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("stepping");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, ten_calls_are_one_run);
    tcase_add_loop_test(tests, a_call_after_the_end_says_the_same, 1, 6);
    tcase_add_test(tests, step_by_step);
    tcase_add_test(tests, left_half_way);
    tcase_add_test(tests, more_steps_later);
    tcase_add_test(tests, after_the_end);
    tcase_add_test(tests, taken_back);
    tcase_add_test(tests, refused_and_unharmed);
    tcase_add_test(tests, lines_are_heard_when_said);
    tcase_add_test(tests, warnings_wait);
    Suite *suite = suite_create("stepping");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
