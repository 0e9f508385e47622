/* Files of earlier runs, missing or broken, are treated consistently. For several runs see tests/e2e/grid.sh. */
#include "resumable.h"

#include "engine/compare/compare.h"
#include "engine/output/left.h"
#include "engine/report/report.h"
#include "support/suite.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define EXPECT_REFUSED(call, words)                                                                                    \
    do {                                                                                                               \
        ck_assert_int_eq(call, BT_ERROR_CONFIG);                                                                       \
        ck_assert_msg(strstr(bt_error(), words) != NULL, "%s", bt_error());                                            \
        bt_error_clear();                                                                                              \
    } while (0)

/* ---- files ---- */

static const struct {
    const char *content, *why;
} broken[] = {{"", "run/summary.json: line 1: it cannot be read as JSON"},
              {"{\"steps\": 3,\n", "run/summary.json: line 2: it cannot be read as JSON"},
              {"{} {}", "run/summary.json: line 1: it cannot be read as JSON"},
              {"[1, 2]", "run/summary.json: it is JSON, but no object"},
              {"\"x\"", "run/summary.json: line 1: it cannot be read as JSON"}};

START_TEST(files)
{
    json_t *value;
    resumable_put("run", "summary.json", "{\"steps\": 3}\n");
    EXPECT_OK(bt_left_json("run", "summary.json", &value));
    ck_assert_int_eq(json_integer_value(json_object_get(value, "steps")), 3);
    json_decref(value);
    ck_assert(bt_left_has("run", "summary.json") && !bt_left_has("run", "plan.json"));

    EXPECT_OK(bt_left_json("run", "plan.json", &value)); /* missing: no error */
    ck_assert_ptr_null(value);
    EXPECT_OK(bt_left_json("nowhere", "plan.json", &value));
    ck_assert_ptr_null(value);
    EXPECT_REFUSED(bt_left_json("run/summary.json", "plan.json", &value),
                   "run/summary.json/plan.json: Not a directory");
    mkdir("run/check.json", 0777);
    EXPECT_REFUSED(bt_left_json("run", "check.json", &value), "run/check.json: ");

    EXPECT_OK(bt_left_folder("run"));
    EXPECT_REFUSED(bt_left_folder("nowhere"), "cannot open the folder nowhere: No such file");
    EXPECT_REFUSED(bt_left_folder("run/summary.json"), "run/summary.json is not a folder");
}
END_TEST

static bt_status add_step(void *user, json_t *line)
{
    char *steps = user;
    snprintf(steps + strlen(steps), 32, " %d", (int)json_integer_value(json_object_get(line, "step")));
    return json_object_get(line, "stop") ? bt_fail(BT_ERROR_NUMERIC, "enough") : BT_OK;
}

/* A killed run may leave half a line; another program, anything. */
START_TEST(lines)
{
    char steps[100] = "";
    EXPECT_OK(bt_left_lines("nowhere", add_step, steps));
    ck_assert_str_eq(steps, "");
    resumable_put("run", "metrics.jsonl", "{\"step\": 1}\n\n[2]\nno JSON\n{\"step\": 3}\n{\"step\": 4");
    EXPECT_OK(bt_left_lines("run", add_step, steps));
    ck_assert_str_eq(steps, " 1 3");
    resumable_put("run", "metrics.jsonl", "{\"step\": 1}\n{\"step\": 2, \"stop\": 1}\n{\"step\": 3}\n");
    *steps = 0;
    ck_assert_int_eq(bt_left_lines("run", add_step, steps), BT_ERROR_NUMERIC);
    ck_assert_str_eq(steps, " 1 2");
    bt_error_clear();
}
END_TEST

/* ---- the readers ---- */

static bt_status compare(void)
{
    json_t *compared = bt_compare("run", "run");
    json_decref(compared);
    return compared ? BT_OK : bt_error_status();
}

static bt_status report(void)
{
    bt_text html = {0};
    bt_status status = bt_report_page((const char *const[]){"run"}, 1, &html);
    bt_text_free(&html);
    return status;
}

START_TEST(one_answer)
{
    resumable_put("run", "config.ini", "[engine]\nseed = 1\n");
    resumable_put("run", "summary.json", broken[_i].content);
    EXPECT_REFUSED(compare(), broken[_i].why);
    EXPECT_REFUSED(report(), broken[_i].why);
    EXPECT_OK(remove("run/summary.json"));
    EXPECT_OK(compare());
    EXPECT_OK(report());
}
END_TEST

/* A report reads the metrics of a finished run, a comparison does not. */
START_TEST(each_once)
{
    resumable_put("run", "config.ini", "[engine]\nseed = 1\n");
    resumable_put("run", "summary.json", "{\"stopped\": \"train_iters\", \"metrics\": {\"m.loss\": 7}}");
    resumable_put("run", "metrics.jsonl", "{\"step\": 1, \"m.loss\": 9}\n{\"step\": 2, \"m.loss\": 8}\n");
    char steps[100] = "";
    bt_compared run;
    EXPECT_OK(bt_compared_read("run", add_step, steps, &run));
    ck_assert_str_eq(steps, " 1 2");
    ck_assert_int_eq(json_integer_value(json_object_get(run.results, "m.loss")), 7);
    ck_assert_ptr_nonnull(run.summary);
    bt_compared_free(&run);
    EXPECT_OK(remove("run/summary.json"));
    EXPECT_OK(bt_compared_read("run", NULL, NULL, &run));
    ck_assert_int_eq(json_integer_value(json_object_get(run.results, "m.loss")), 8);
    ck_assert_ptr_null(run.summary);
    bt_compared_free(&run);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("left");
    TCase *tests = tcase_create("left");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_test(tests, files);
    tcase_add_test(tests, lines);
    tcase_add_loop_test(tests, one_answer, 0, sizeof broken / sizeof *broken);
    tcase_add_test(tests, each_once);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
