/* Several runs in one command: their settings, their results, and which are run again. */
#include "resumable.h"
#include "ridge.h"

#include "engine/grid/grid_inside.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the requested runs ---- */

START_TEST(values)
{
    static const struct {
        const char *text, *expected[4];
    } cases[] = {
        {"0.1|0.01|1e-3", {"0.1", "0.01", "1e-3"}},
        {" a b |  c ", {"a b", "c"}},
        {"a\\|b", {"a|b"}},
        {"a\\|b|\\|", {"a|b", "|"}},
        {" one ", {" one "}},
        {"", {""}},
        {"a\\b|c\\", {"a\\b", "c\\"}},
    };
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        json_t *found;
        size_t count = 0;
        EXPECT_OK(bt_grid_values("--set a.b", cases[i].text, &found));
        for (; count < 4 && cases[i].expected[count]; count++)
            ck_assert_str_eq(json_string_value(json_array_get(found, count)), cases[i].expected[count]);
        ck_assert_uint_eq(json_array_size(found), count);
        json_decref(found);
    }
}
END_TEST

START_TEST(seeds)
{
    static const int64_t expected[] = {3, 4, 5, 9, 0};
    json_t *asked = bt_grid_asked();
    EXPECT_OK(bt_grid_ask_seeds(asked, "3..5, 9,0..0"));
    const json_t *found = json_object_get(asked, "seeds");
    ck_assert_uint_eq(json_array_size(found), BT_COUNT_OF(expected));
    for (int i = 0; i < BT_COUNT_OF(expected); i++)
        ck_assert_int_eq(json_integer_value(json_array_get(found, (size_t)i)), expected[i]);
    json_decref(asked);
}
END_TEST

START_TEST(mistakes)
{
    static const char *const wrong[][2] = {
        {"1|", "empty"},
        {"|1", "empty"},
        {"1||2", "empty"},
        {" | ", "empty"},
        {"1|2|1", "the value 1 is given twice"},
        {"\xff|1", "UTF-8"},
    };
    static const char *const wrong_seeds[][2] = {
        {"5..1", "5..1 ends before it begins"},
        {"1,2,1..3", "the seed 1 is given twice"},
        {"1..1001", "more than 1000 seeds"},
        {"0..999999999999999", "more than 1000 seeds"},
        {"1..", "expected whole numbers"},
        {"..", "expected whole numbers"},
        {"1...3", "expected whole numbers"},
        {"-1", "expected whole numbers"},
        {"1,,2", "expected whole numbers"},
        {"", "expected whole numbers"},
        {"99999999999999999999", "expected whole numbers"},
        {"1.5", "expected whole numbers"},
    };
    for (int i = 0; i < BT_COUNT_OF(wrong); i++) {
        json_t *found;
        ck_assert_int_eq(bt_grid_values("--set a.b", wrong[i][0], &found), BT_ERROR_CONFIG);
        ck_assert_msg(strstr(bt_error(), wrong[i][1]) != NULL, "%s: %s", wrong[i][0], bt_error());
        bt_error_clear();
    }
    for (int i = 0; i < BT_COUNT_OF(wrong_seeds); i++) {
        json_t *asked = bt_grid_asked();
        ck_assert_int_eq(bt_grid_ask_seeds(asked, wrong_seeds[i][0]), BT_ERROR_CONFIG);
        ck_assert_msg(strstr(bt_error(), wrong_seeds[i][1]) != NULL, "%s: %s", wrong_seeds[i][0], bt_error());
        bt_error_clear();
        json_decref(asked);
    }
}
END_TEST

/* ---- statistics ---- */

/* Squares first, in long double. Runs of another row, and unfinished ones, do not count. */
START_TEST(mean_and_deviation)
{
    static const double values[] = {0.731, 0.7402, 0.7355, 0.7291, 0.75};
    long double sum = 0, squares = 0;
    json_t *all = json_pack("{s:[]}", "runs"), *runs = json_object_get(all, "runs");
    for (int i = 0; i < 5; i++) {
        sum += values[i];
        squares += (long double)values[i] * values[i];
        json_array_append_new(runs,
                              json_pack("{s:s, s:{s:s}, s:{s:f, s:n, s:f}}", "state", "finished", "settings", "m.lr",
                                        "1", "metrics", "acc", values[i], "nothing", "near", 1.3481 + 1e-5 * i));
    }
    json_array_append_new(runs, json_pack("{s:s, s:s, s:{s:s}, s:{s:f}}", "state", "failed", "failed", "no", "settings",
                                          "m.lr", "1", "metrics", "acc", 3.0));
    json_array_append_new(runs, json_pack("{s:s, s:{s:s}, s:{s:f}}", "state", "finished", "settings", "m.lr", "2",
                                          "metrics", "acc", 4.0));
    EXPECT_OK(bt_grid_rows(all));
    const json_t *rows = json_object_get(all, "rows"), *row = json_array_get(rows, 0);
    const json_t *acc = json_object_get(json_object_get(row, "metrics"), "acc");
    ck_assert_uint_eq(json_array_size(rows), 2);
    ck_assert_str_eq(bt_json_read_text(row, "row"), "m.lr=1");
    ck_assert_double_eq(bt_json_read_number(row, "runs"), 6);
    ck_assert_double_eq(bt_json_read_number(row, "finished"), 5);
    ck_assert_double_eq(bt_json_read_number(acc, "n"), 5);
    ck_assert_double_eq_tol(bt_json_read_number(acc, "mean"), (double)(sum / 5), 1e-15);
    ck_assert_double_eq_tol(bt_json_read_number(acc, "deviation"), (double)sqrtl((squares - sum * sum / 5) / 4), 1e-14);
    ck_assert_double_eq(bt_json_read_number(acc, "least"), 0.7291);
    ck_assert_double_eq(bt_json_read_number(acc, "greatest"), 0.75);
    const json_t *nothing = json_object_get(json_object_get(row, "metrics"), "nothing");
    ck_assert_double_eq(bt_json_read_number(nothing, "n"), 0);
    ck_assert(json_is_null(json_object_get(nothing, "mean")));
    const json_t *one = json_object_get(json_object_get(json_array_get(rows, 1), "metrics"), "acc");
    ck_assert_double_eq(bt_json_read_number(one, "mean"), 4);
    ck_assert(json_is_null(json_object_get(one, "deviation")));
    bt_text text = {0};
    bt_grid_table(all, false, &text);
    ck_assert_ptr_nonnull(strstr(bt_text_get(&text), "m.lr=1            5 of 6  0.7372 ± 0.0084"));
    ck_assert_ptr_nonnull(strstr(bt_text_get(&text), "0.7291 … 0.7500"));
    ck_assert_ptr_nonnull(strstr(bt_text_get(&text), "1.348120 ± 1.6e-05"));
    bt_text_free(&text);
    json_decref(all);
}
END_TEST

/* The positions of a dot, a mean and a deviation in the picture, to scale. */
START_TEST(picture)
{
    json_t *all = json_pack("{s:s, s:[{s:s, s:{s:s}, s:{s:i}}, {s:s, s:{s:s}, s:{s:i}}, {s:s, s:s, s:{s:s}}]}", "name",
                            "a&b", "runs", "state", "finished", "settings", "m.lr", "1", "metrics", "acc", 10, "state",
                            "finished", "settings", "m.lr", "1", "metrics", "acc", 20, "state", "failed", "failed",
                            "<no>", "settings", "m.lr", "2");
    bt_text svg = {0};
    EXPECT_OK(bt_grid_rows(all));
    EXPECT_OK(bt_grid_picture(all, &svg));
    const char *text = bt_text_get(&svg), *dot = strstr(text, "<circle"), *mean = strstr(text, "v18\"");
    double a, b, bar, width, line;
    ck_assert_int_eq(sscanf(dot, "<circle cx=\"%lf\"", &a), 1);
    ck_assert_int_eq(sscanf(strstr(dot + 1, "<circle"), "<circle cx=\"%lf\"", &b), 1);
    while (*mean != 'M')
        mean--;
    ck_assert_int_eq(sscanf(mean, "M%lf", &line), 1);
    const char *rect = strstr(text, "fill-opacity=\"0.25\"");
    while (*rect != '<')
        rect--;
    ck_assert_int_eq(sscanf(rect, "<rect x=\"%lf\" y=\"%*[^\"]\" width=\"%lf\"", &bar, &width), 2);
    const double unit = (b - a) / 10;
    ck_assert_double_gt(unit, 1);
    ck_assert_double_eq_tol(line, (a + b) / 2, 0.02);
    ck_assert_double_eq_tol(width, 2 * sqrt(50) * unit, 0.05);
    ck_assert_double_eq_tol(bar + width / 2, line, 0.05);
    ck_assert_ptr_nonnull(strstr(text, ">failed: &#60;no&#62;</text>"));
    ck_assert_ptr_nonnull(strstr(text, ">a&#38;b</text>"));
    bt_text_free(&svg);
    json_decref(all);
}
END_TEST

/* ---- whole grids ---- */

typedef struct world { /* in memory shared with children */
    ridge data;
    int loads;           /* number of runs started */
    int fail_at, die_at; /* the run that does */
    int stop_at;         /* stop everything before this run */
    volatile sig_atomic_t stop;
} world;

static world *shared;

static void enter(void)
{
    resumable_enter();
    shared = resumable_shared(sizeof *shared);
    shared->data = ridge_data();
}

static const char settings[] =
    "engine.threads = 1\nlower.shuffle = true\nupper.shuffle = true\nlower.batch_size = 3\nupper.batch_size = 2\n"
    "engine.log_step = 4\nengine.train_iters = 20\nengine.checkpoint_step = 5\nlower.type = cg\n";

static bt_status load(void *user, bt_engine *engine)
{
    world *w = user;
    ridge_fill(engine, &w->data, settings);
    w->loads++;
    if (w->loads == w->die_at)
        raise(SIGKILL);
    w->stop = w->loads == w->stop_at;
    while (w->stop)
        pause();
    return w->loads == w->fail_at ? bt_fail(BT_ERROR_DATA, "it does not like this one") : bt_error_status();
}

/* Runs the grid in the folder, or in a new one; *all: its grid.json. */
static bt_status run(const char *seed_list, const char *rates, bool resume, json_t **all)
{
    json_t *asked = bt_grid_asked(), *list;
    FILE *out = fopen("out", "w");
    if (seed_list)
        EXPECT_OK(bt_grid_ask_seeds(asked, seed_list));
    EXPECT_OK(bt_grid_values("--set", rates ? rates : "0.1", &list));
    if (rates)
        EXPECT_OK(bt_grid_ask_each(asked, "lower.lr", list));
    else
        json_decref(list);
    if (!resume)
        EXPECT_OK(bt_grid_ask(asked, "engine.output", "folder"));
    shared->loads = 0;
    const bt_grid grid = {.asked = asked,
                          .load = load,
                          .user = shared,
                          .resume = resume ? "folder" : NULL,
                          .jobs = 1,
                          .out = out,
                          .stop = &shared->stop};
    bt_status status = bt_grid_run(&grid);
    fclose(out);
    json_decref(asked);
    *all = json_load_file("folder/grid.json", 0, NULL);
    return status;
}

static void expect_states(const json_t *all, const char *const *states)
{
    const json_t *runs = json_object_get(all, "runs");
    size_t count = 0;
    for (; states[count]; count++)
        ck_assert_str_eq(bt_json_read_text(json_array_get(runs, count), "state"), states[count]);
    ck_assert_uint_eq(json_array_size(runs), count);
}
#define EXPECT_STATES(all, ...) expect_states(all, (const char *const[]){__VA_ARGS__, NULL})

static json_t *alone(const char *rate, const char *seed, uint64_t *hash)
{
    bt_engine *engine = ridge_engine(&shared->data, settings);
    EXPECT_OK(bt_engine_set(engine, "lower.lr", "%s", rate));
    EXPECT_OK(bt_engine_set(engine, "engine.seed", "%s", seed));
    EXPECT_OK(bt_engine_set(engine, "engine.output", "alone"));
    levels_run(engine);
    *hash = levels_state(engine);
    bt_engine_free(engine);
    json_t *summary = json_load_file("alone/summary.json", 0, NULL);
    bt_output_clear("alone");
    return summary;
}

/* The metrics and the state of each run have the bits of the same run in a separate engine. */
START_TEST(each_as_alone)
{
    static const char *const rates[] = {"0.1", "0.3"}, *const seed_list[] = {"2", "7"};
    json_t *all;
    EXPECT_OK(run("2,7", "0.1|0.3", false, &all));
    EXPECT_STATES(all, "finished", "finished", "finished", "finished");
    ck_assert_int_eq(shared->loads, 4);
    for (int i = 0; i < 4; i++) {
        uint64_t hash;
        char folder[100];
        const json_t *one = json_array_get(json_object_get(all, "runs"), (size_t)i);
        snprintf(folder, sizeof folder, "lower.lr=%s,seed=%s", rates[i / 2], seed_list[i % 2]);
        ck_assert_str_eq(bt_json_read_text(one, "run"), folder);
        json_t *summary = alone(rates[i / 2], seed_list[i % 2], &hash);
        ck_assert_double_eq(bt_json_read_number(one, "steps"), 20);
        ck_assert(json_equal(json_object_get(one, "metrics"), json_object_get(summary, "metrics")));
        json_decref(summary);
        bt_engine *engine = ridge_engine(&shared->data, settings);
        snprintf(folder, sizeof folder, "folder/lower.lr=%s,seed=%s", rates[i / 2], seed_list[i % 2]);
        EXPECT_OK(bt_engine_set(engine, "lower.lr", "%s", rates[i / 2]));
        EXPECT_OK(bt_engine_set(engine, "engine.seed", "%s", seed_list[i % 2]));
        EXPECT_OK(bt_engine_resume(engine, folder));
        ck_assert_uint_eq(levels_state(engine), hash);
        bt_engine_free(engine);
    }
    json_decref(all);
}
END_TEST

/* Finished runs are not repeated; added ones are run. */
START_TEST(not_again)
{
    json_t *all;
    EXPECT_OK(run("1..2", "0.1|0.3", false, &all));
    json_decref(all);
    EXPECT_OK(run(NULL, NULL, true, &all));
    ck_assert_int_eq(shared->loads, 0);
    json_decref(all);
    EXPECT_OK(run("2..3", "0.2", true, &all));
    ck_assert_int_eq(shared->loads, 5);
    ck_assert_uint_eq(json_array_size(json_object_get(all, "runs")), 9);
    ck_assert_uint_eq(json_array_size(json_object_get(all, "rows")), 3);
    json_decref(all);
    ck_assert_int_eq(run("1..2", "0.1|0.3", false, &all), BT_ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(bt_error(), "already holds several runs"));
    json_decref(all);
    bt_error_clear();
}
END_TEST

/* A run that fails or dies is reported; the others are kept, and the next command repeats only that one. */
START_TEST(failures)
{
    json_t *all;
    shared->fail_at = _i ? 0 : 2;
    shared->die_at = _i ? 2 : 0;
    ck_assert_int_eq(run("1..3", NULL, false, &all), BT_ERROR_NUMERIC);
    ck_assert_ptr_nonnull(strstr(bt_error(), "1 of 3 runs failed; betty-run --resume folder tries them again"));
    bt_error_clear();
    EXPECT_STATES(all, "finished", "failed", "finished");
    const json_t *row = json_array_get(json_object_get(all, "rows"), 0);
    ck_assert_double_eq(bt_json_read_number(row, "finished"), 2);
    ck_assert_str_eq(bt_json_read_text(json_array_get(json_object_get(all, "runs"), 1), "failed"),
                     _i ? "its process was ended by signal 9 (Killed)" : "it does not like this one");
    json_decref(all);
    shared->fail_at = shared->die_at = 0;
    EXPECT_OK(run(NULL, NULL, true, &all));
    ck_assert_int_eq(shared->loads, 1);
    EXPECT_STATES(all, "finished", "finished", "finished");
    json_decref(all);
}
END_TEST

/* A failure that already stops the first run fails the command, and leaves nothing. */
START_TEST(first_failure)
{
    json_t *all;
    shared->fail_at = 1;
    ck_assert_int_eq(run("1..3", NULL, false, &all), BT_ERROR_DATA);
    ck_assert_ptr_nonnull(strstr(bt_error(), "it does not like this one"));
    ck_assert_int_eq(access("folder", F_OK), -1);
    bt_error_clear();
}
END_TEST

START_TEST(stopped)
{
    json_t *all;
    shared->stop_at = 2;
    ck_assert_int_eq(run("1..3", NULL, false, &all), BT_ERROR_INTERRUPTED);
    bt_error_clear();
    const json_t *second = json_array_get(json_object_get(all, "runs"), 1);
    ck_assert_str_eq(bt_json_read_text(second, "state"), "interrupted");
    ck_assert_double_eq(bt_json_read_number(json_array_get(json_object_get(all, "rows"), 0), "finished"), 1);
    json_decref(all);
    shared->stop = shared->stop_at = 0;
    EXPECT_OK(run(NULL, NULL, true, &all));
    ck_assert_int_eq(shared->loads, 2);
    EXPECT_STATES(all, "finished", "finished", "finished");
    json_decref(all);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("several_runs");
    TCase *tests = tcase_create("several_runs");
    tcase_add_checked_fixture(tests, enter, resumable_leave);
    tcase_add_test(tests, values);
    tcase_add_test(tests, seeds);
    tcase_add_test(tests, mistakes);
    tcase_add_test(tests, mean_and_deviation);
    tcase_add_test(tests, picture);
    tcase_add_test(tests, each_as_alone);
    tcase_add_test(tests, not_again);
    tcase_add_loop_test(tests, failures, 0, 2);
    tcase_add_test(tests, first_failure);
    tcase_add_test(tests, stopped);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
