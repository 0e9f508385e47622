/* Comparing two runs: folders written here, and some that are not runs. */
#include "engine/compare/compare.h"
#include "resumable.h"

#include "support/suite.h"
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ONE's value, OTHER's as JSON, or NULL if there is no such row. */
static const char *row(json_t *compared, const char *part, const char *name)
{
    static char text[256];
    size_t i;
    json_t *each;
    json_array_foreach(json_object_get(compared, part), i, each)
    {
        if (strcmp(json_string_value(json_object_get(each, "name")), name) != 0)
            continue;
        char *values = json_dumps(json_object_get(each, "values"), JSON_COMPACT);
        snprintf(text, sizeof text, "%s", values);
        free(values);
        return text;
    }
    return NULL;
}

static const char *printed(json_t *compared)
{
    static char shown[4096];
    bt_text text = {0};
    bt_compare_text(compared, &text);
    snprintf(shown, sizeof shown, "%s", bt_text_get(&text));
    bt_text_free(&text);
    return shown;
}

static void two_runs(void)
{
    resumable_put("a", "config.ini",
                  "[engine]\nseed = 1\noutput = a\nfolder_here = ..\n[model]\nlr = 0.1\nhidden = 5\n");
    resumable_put("b", "config.ini",
                  "[engine]\nseed = 1\noutput = b\nfolder_here = ../..\n[model]\nlr = 0.2\nnesterov = true\n");
    resumable_put(
        "a", "summary.json",
        "{\"stopped\": \"train_iters\", \"steps\": 100, \"seconds\": 2.0, \"metrics\": {\"model.loss\": 0.5, "
        "\"model.x\": 1}, "
        "\"best\": {\"metric\": \"model.valid.acc\", \"value\": 0.75, \"step\": 50}, \"planned_bytes\": {\"arena\": "
        "1000, "
        "\"persistent\": 64}}");
    resumable_put(
        "b", "summary.json",
        "{\"stopped\": \"train_iters\", \"steps\": 100, \"seconds\": 3.0, \"metrics\": {\"model.loss\": 0.25, "
        "\"model.y\": null}, "
        "\"planned_bytes\": {\"arena\": 1000, \"persistent\": 128}}");
}

START_TEST(what_differs)
{
    two_runs();
    json_t *compared = bt_compare("a", "b");
    ck_assert_msg(compared != NULL, "%s", bt_error());
    ck_assert_uint_eq(json_array_size(json_object_get(compared, "configuration")), 3);
    ck_assert_str_eq(row(compared, "configuration", "model.lr"), "[\"0.1\",\"0.2\"]");
    ck_assert_str_eq(row(compared, "configuration", "model.hidden"), "[\"5\",null]");
    ck_assert_str_eq(row(compared, "configuration", "model.nesterov"), "[null,\"true\"]");
    ck_assert(json_is_null(json_object_get(compared, "code")));
    ck_assert_str_eq(row(compared, "results", "model.loss"), "[0.5,0.25]");
    ck_assert_str_eq(row(compared, "results", "model.x"), "[1,null]");
    ck_assert_str_eq(row(compared, "results", "model.y"), "[null,null]");
    ck_assert_str_eq(row(compared, "results", "steps"), "[100,100]");
    ck_assert_str_eq(row(compared, "results", "best.model.valid.acc"), "[0.75,null]");
    ck_assert_str_eq(row(compared, "results", "planned_bytes.persistent"), "[64,128]");
    ck_assert_str_eq(printed(compared), "1: a\n2: b\n"
                                        "\nconfiguration\n"
                                        "  model.lr        0.1  0.2\n"
                                        "  model.hidden    5    -\n"
                                        "  model.nesterov  -    true\n"
                                        "\ncode\n"
                                        "  unknown: a run without a checkpoint has no record of it\n"
                                        "\nresults\n"
                                        "  model.loss                0.5          0.25         -0.25 (-50.0 %)\n"
                                        "  model.x                   1            -\n"
                                        "  best.model.valid.acc      0.75         -\n"
                                        "  best.step                 50           -\n"
                                        "  stopped                   train_iters  train_iters\n"
                                        "  steps                     100          100          =\n"
                                        "  seconds                   2            3            +1 (+50.0 %)\n"
                                        "  planned_bytes.arena       1000         1000         =\n"
                                        "  planned_bytes.persistent  64           128          +64 (+100.0 %)\n"
                                        "  model.y                   -            -\n");
    json_decref(compared);
    compared = bt_compare("a", "a");
    ck_assert_ptr_nonnull(strstr(printed(compared), "\nconfiguration\n  the same\n"));
    json_decref(compared);
}
END_TEST

/* A run that is still going, or was killed: the last value of each metric. */
START_TEST(not_ended)
{
    two_runs();
    remove("b/summary.json");
    resumable_put("b", "metrics.jsonl",
                  "{\"step\":1,\"time\":0.5,\"model.loss\":9,\"model.lr\":3}\nno "
                  "JSON\n[1]\n{\"step\":2,\"time\":0.75,\"model.loss\":8}\n");
    json_t *compared = bt_compare("a", "b");
    ck_assert_msg(compared != NULL, "%s", bt_error());
    ck_assert_str_eq(row(compared, "results", "stopped"), "[\"train_iters\",\"not yet: it has no summary.json\"]");
    ck_assert_str_eq(row(compared, "results", "model.loss"), "[0.5,8]");
    ck_assert_str_eq(row(compared, "results", "model.lr"), "[null,3]");
    ck_assert_str_eq(row(compared, "results", "steps"), "[100,2]");
    ck_assert_str_eq(row(compared, "results", "seconds"), "[2.0,0.75]");
    json_decref(compared);
}
END_TEST

static const char *const odd[] = {"{\"metrics\": [1], \"best\": 3, \"planned_bytes\": \"x\"}",
                                  "{\"metrics\": {\"a\": {\"b\": 1}}, \"best\": {\"metric\": 7}, \"stopped\": 7}"};

START_TEST(odd_summaries)
{
    two_runs();
    resumable_put("b", "summary.json", odd[_i]);
    json_t *compared = bt_compare("a", "b");
    ck_assert_msg(compared != NULL, "%s", bt_error());
    ck_assert_ptr_nonnull(strstr(printed(compared), "results"));
    json_decref(compared);
}
END_TEST

START_TEST(no_runs)
{
    static const struct {
        const char *folder, *why;
    } cases[] = {{"none", "cannot open the folder none: "},
                 {"a/config.ini", "a/config.ini is not a folder"},
                 {"empty", "empty is not the folder of a run: it has no config.ini, which every run writes"},
                 {"several", "several holds several runs; name the subfolder of one"},
                 {"broken", "broken/config.ini:2"},
                 {"damaged", "damaged/checkpoints/step-3.json is damaged"}};
    two_runs();
    mkdir("empty", 0777);
    resumable_put("several", "grid.json", "{}");
    resumable_put("broken", "config.ini", "[engine]\nseed\n");
    resumable_put("damaged", "config.ini", "[engine]\nseed = 1\n");
    resumable_put("damaged/checkpoints", "step-3.json", "{}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_ptr_null(bt_compare("a", cases[i].folder));
        ck_assert_msg(strstr(bt_error(), cases[i].why) != NULL, "%s", bt_error());
        bt_error_clear();
    }
    ck_assert_ptr_null(bt_compare(NULL, "a"));
    bt_error_clear();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compare");
    TCase *tests = tcase_create("compare");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_test(tests, what_differs);
    tcase_add_test(tests, not_ended);
    tcase_add_loop_test(tests, odd_summaries, 0, sizeof odd / sizeof *odd);
    tcase_add_test(tests, no_runs);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
