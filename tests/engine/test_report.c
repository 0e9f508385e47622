/* The report of runs: last values, means and bands by hand, thinning, escaping, folders that are not runs. */
#include "engine/report/report_inside.h"
#include "resumable.h"

#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A run with this rate and seed whose loss takes these values, one per step; NAN as null. */
static void put_run(const char *folder, const char *rate, int seed, const double *losses, int count)
{
    char config[128], lines[4096] = "";
    snprintf(config, sizeof config, "[engine]\nseed = %d\noutput = %s\n[model]\nlr = %s\n", seed, folder, rate);
    resumable_put(folder, "config.ini", config);
    for (int i = 0; i < count; i++) {
        char line[96];
        if (isnan(losses[i]))
            snprintf(line, sizeof line, "{\"step\":%d,\"time\":1,\"model.loss\":null}\n", i + 1);
        else
            snprintf(line, sizeof line, "{\"step\":%d,\"time\":1,\"model.loss\":%.17g}\n", i + 1, losses[i]);
        strcat(lines, line);
    }
    resumable_put(folder, "metrics.jsonl", lines);
}

static char *page_of(const char *const *folders, int64_t count)
{
    bt_text html = {0};
    bt_status status = bt_report_page(folders, count, &html);
    ck_assert_msg(status == BT_OK, "%s", bt_error());
    return html.data;
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        count++;
    return count;
}

static void expect(const char *html, const char *part)
{
    ck_assert_msg(strstr(html, part) != NULL, "there is no `%s`", part);
}

/* Elements close in the reverse order of opening. */
static void expect_well_formed(const char *html)
{
    static const char *const empty[] = {"meta", "link", "!DOCTYPE"};
    char open[64][16];
    int depth = 0;
    for (const char *at = html; (at = strchr(at, '<')) != NULL; at++) {
        const bool closes = at[1] == '/';
        const char *name = at + 1 + closes;
        const size_t length = strcspn(name, " >/");
        bool single = at[strcspn(at, ">") - 1] == '/';
        ck_assert_uint_lt(length, 16);
        for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
            single = single || (strlen(empty[i]) == length && strncmp(empty[i], name, length) == 0);
        if (closes) {
            ck_assert_int_gt(depth, 0);
            depth--;
            ck_assert_msg(strlen(open[depth]) == length && strncmp(open[depth], name, length) == 0,
                          "</%.*s> where <%s> is open", (int)length, name, open[depth]);
        } else if (!single) {
            ck_assert_int_lt(depth, 64);
            snprintf(open[depth++], 16, "%.*s", (int)length, name);
        }
    }
    ck_assert_int_eq(depth, 0);
}

START_TEST(one_run)
{
    put_run("a", "0.1", 1, (double[]){3, 2, 1.25}, 3);
    resumable_put("a", "equation.txt", "model: d/d(model)\n");
    resumable_put("a", "summary.json",
                  "{\"steps\": 3, \"seconds\": 2.5, \"stopped\": \"train_iters\", \"backend\": \"here\"}");
    char *html = page_of((const char *const[]){"a"}, 1);
    expect_well_formed(html);
    expect(html, "<h1>a</h1>");
    expect(html, ">1.25</text>"); /* next to its curve */
    expect(html, "aria-label=\"model.loss by step; last values: 1.25\"");
    expect(html, "<tr><td>last</td><td>1.25</td></tr>");
    expect(html, "<tr><td>2</td><td>2</td></tr>");
    expect(html, "model: d/d(model)");
    expect(html, "<dt>time</dt><dd>2.5 s</dd>");
    expect(html, "<td>lr</td><td class=\"text\">0.1</td>");
    ck_assert_int_eq(count_of(html, "class=\"band"), 0);
    ck_assert_int_eq(count_of(html, "id=\"differences\""), 0);
    ck_assert_int_eq(count_of(html, "<script"), 0);
    ck_assert_int_eq(count_of(html, "http:") + count_of(html, "https:"), 0);
    bt_free(html);
}
END_TEST

/* Two configurations; the seeds of the first form a band from the minimum to the maximum around their mean. */
START_TEST(several_runs)
{
    put_run("a", "0.1", 1, (double[]){3, 2, 1}, 3);
    put_run("b", "0.1", 2, (double[]){5, 4, 2.5}, 3);
    put_run("c", "0.2", 1, (double[]){7, 6, 8}, 3);
    char *html = page_of((const char *const[]){"a", "b", "c"}, 3);
    expect_well_formed(html);
    expect(html, "<h1>a and 2 more</h1>");
    expect(html, "3 runs, 2 configurations");
    expect(html, "A: model.lr = 0.1");
    expect(html, "B: model.lr = 0.2");
    expect(html, ">A 1.75</text>");
    expect(html, ">B 8</text>");
    expect(html, "<tr><td>last</td><td>1.75 (1 to 2.5)</td><td>8</td></tr>");
    expect(html, "<tr><td>1</td><td>4 (3 to 5)</td><td>7</td></tr>");
    expect(html, "<tr><th></th><th>A1</th><th>A2</th><th>B</th></tr>\n<tr><td>engine.seed</td><td>1</td><td>2</td>");
    ck_assert_int_eq(count_of(html, "class=\"band"), 1);
    bt_free(html);
}
END_TEST

/* A seed with a missing number is not hidden in the mean of the others. */
START_TEST(not_finite)
{
    put_run("a", "0.1", 1, (double[]){3, 2, 1}, 3);
    put_run("b", "0.1", 2, (double[]){5, 4, NAN}, 3);
    put_run("c", "0.2", 1, (double[]){7, NAN, NAN}, 3);
    char *html = page_of((const char *const[]){"a", "b", "c"}, 3);
    expect_well_formed(html);
    expect(html, ">A 1 (1 of 2)</text>");
    expect(html, "<td>1, 1 of 2 runs</td><td>not finite</td>");
    ck_assert_int_eq(count_of(html, ">nan") + count_of(html, "\"nan") + count_of(html, " nan"), 0);
    bt_free(html);
}
END_TEST

/* Numbers at the limits of their range can be drawn, too. */
START_TEST(far_values)
{
    resumable_put("a", "config.ini", "[model]\nlr = 0.1\n");
    resumable_put("a", "metrics.jsonl",
                  "{\"step\":4503599627370495,\"m.a\":-1e308,\"m.b\":10000000000000000,\"m.c\":1e-300,\"m.d\":5e-324}\n"
                  "{\"step\":4503599627370496,\"m.a\":1e308,\"m.b\":10000000000000002,\"m.c\":1e300,\"m.d\":null}\n"
                  "{\"step\":9223372036854775807,\"m.a\":7}\n{\"step\":3,\"m.a\":8}\n");
    char *html = page_of((const char *const[]){"a"}, 1);
    expect_well_formed(html);
    expect(html, ">1e+308</text>");
    expect(html, "logarithmic");
    ck_assert_int_eq(count_of(html, "nan") + count_of(html, "inf "), 0);
    bt_free(html);
}
END_TEST

START_TEST(intervals)
{
    resumable_put("a", "config.ini", "[model]\nlr = 0.1\n");
    resumable_put("a", "metrics.jsonl",
                  "{\"step\":1,\"time\":1,\"m.acc\":0.5,\"m.acc.interval\":0.25}\n"
                  "{\"step\":2,\"time\":1,\"m.acc\":0.75,\"m.acc.interval\":0.125}\n");
    char *html = page_of((const char *const[]){"a"}, 1);
    expect(html, "0.75 (0.625 to 0.875)");
    expect(html, "95 % interval");
    ck_assert_int_eq(count_of(html, "<h4>m.acc"), 1);
    ck_assert_int_eq(count_of(html, "class=\"band"), 1);
    bt_free(html);
}
END_TEST

/* Everything in a file is treated as text. */
START_TEST(escaped)
{
    resumable_put("a", "config.ini", "[engine]\nseed = 1\n[model]\nlr = \"<b>&\"\n");
    resumable_put("a", "metrics.jsonl", "{\"step\":1,\"time\":1,\"<script>alert(1)</script>\":1,\"a\\\"b.x\":2}\n");
    resumable_put("a", "equation.txt", "<img src=x>\n");
    resumable_put("a", "summary.json", "{\"stopped\": \"<i>\", \"backend\": \"'\\\"><x\"}");
    resumable_put("a", "plan.json",
                  "{\"levels\": [{\"level\": \"<u>\", \"persistent\": 8, \"kept\": {\"<q>\": 4}, \"phases\": "
                  "[{\"phase\": \"<s>\", \"arena\": -5, \"at_peak\": [1]}, 7]}]}");
    resumable_put("a", "check.json",
                  "{\"levels\": [{\"level\": \"<k>\", \"verdict\": \"<w>\", \"cosine\": null, \"parts\": "
                  "[{\"part\": \"<m>\"}], \"samples\": [3]}]}");
    resumable_put("a", "profile.json",
                  "{\"steps\": 1, \"calls\": [{\"level\": \"<d>\", \"kernel\": \"<e>\", \"seconds\": 1}]}");
    char *html = page_of((const char *const[]){"a"}, 1);
    expect_well_formed(html);
    static const char *const words[] = {"<script", "<b>", "<img", "<i>", "<x",  "<u>", "<q>",
                                        "<s>",     "<k>", "<w>",  "<m>", "<d>", "<e>"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        ck_assert_msg(strstr(html, words[i]) == NULL, "%s is an element", words[i]);
    expect(html, "&#60;script&#62;alert(1)");
    expect(html, "aria-label=\"a&#34;b.x by step");
    bt_free(html);
}
END_TEST

/* Numbers of the plan appear unchanged; missing files have no section. */
START_TEST(memory_and_findings)
{
    put_run("a", "0.1", 1, (double[]){1}, 1);
    resumable_put(
        "a", "plan.json",
        "{\"planned_bytes\": {\"arena\": 1024, \"persistent\": 3072}, \"peak\": {\"level\": \"model\", \"phase\": "
        "\"train\"}, \"levels\": [{\"level\": \"model\", \"persistent\": 3072, \"kept\": {\"parameters\": 1024, "
        "\"batch\": 2048}, \"phases\": [{\"phase\": \"train\", \"arena\": 1024, \"at_peak\": {\"activations\": 512}, "
        "\"largest\": [{\"bytes\": 512, \"value\": \"relu\", \"category\": \"activations\"}]}]}]}");
    resumable_put("a", "summary.json", "{\"measured_bytes\": {\"arena\": 1024, \"persistent\": 3072}}");
    resumable_put("a", "check.json",
                  "{\"levels\": [{\"level\": \"outer\", \"verdict\": \"DISAGREES: so\", \"cosine\": 0.5, "
                  "\"ratio\": 2, \"samples\": [], \"parts\": []}]}");
    resumable_put(
        "d", "ablation.json",
        "{\"name\": \"x\", \"rows\": [{\"row\": \"as configured\", \"planned_bytes\": {\"arena\": 1024, "
        "\"persistent\": "
        "1024}, \"categories\": {\"batch\": 2048}, \"ms_per_step\": [2, 1, 4]}, {\"row\": \"less\", \"planned_bytes\": "
        "{\"arena\": 0, \"persistent\": 1024}, \"categories\": {\"batch\": 1024}, \"ms_per_step\": [3, 2, 2.5]}, "
        "{\"row\": \"none\", \"failed\": \"why\"}]}");
    char *html = page_of((const char *const[]){"a", "d"}, 2);
    expect_well_formed(html);
    expect(html, "<strong>4.0 KiB</strong> planned, and as many measured (4096 bytes)");
    expect(html, "x=\"333.33\" width=\"665.17\""); /* the batch, after a third of the longest bar */
    expect(html, "✗ DISAGREES: so");
    expect(html, "cosine 0.500000, length 2");
    expect(html, "1.0 KiB, -50.0 %");
    expect(html, "2.5 ms, 2.00x");
    expect(html, "failed: why");
    ck_assert_int_eq(count_of(html, "id=\"profile\""), 0);
    bt_free(html);
}
END_TEST

/* A spike in one of a hundred thousand steps is kept, and so are the ends. */
START_TEST(thinned)
{
    enum { COUNT = 100000 };
    bt_svg_at *points = bt_alloc_array(COUNT, sizeof *points);
    for (int i = 0; i < COUNT; i++) {
        const double value = i == 54321 ? 9 : i == 777 ? -9 : sin(i / 1e4);
        points[i] = (bt_svg_at){i, value, value - 0.5, value + 0.5};
    }
    const int64_t left = bt_series_thin(points, COUNT, BT_SERIES_POINTS);
    ck_assert_int_le(left, BT_SERIES_POINTS);
    ck_assert_int_gt(left, BT_SERIES_POINTS / 2);
    int found = 0;
    for (int64_t i = 0; i < left; i++) {
        ck_assert(!i || points[i].step > points[i - 1].step);
        found += points[i].step == 54321 && points[i].value == 9 && points[i].high == 9.5;
        found += points[i].step == 777 && points[i].value == -9 && points[i].low == -9.5;
    }
    ck_assert_int_eq(found, 2);
    ck_assert_double_eq(points[0].step, 0);
    ck_assert_double_eq(points[left - 1].step, COUNT - 1);
    bt_free(points);
}
END_TEST

START_TEST(several_of_a_grid)
{
    mkdir("g", 0777);
    put_run("g/x", "0.1", 1, (double[]){3, 2}, 2);
    put_run("g/y", "0.1", 2, (double[]){3, 4}, 2);
    resumable_put("g", "grid.json",
                  "{\"runs\": [{\"run\": \"x\"}, {\"run\": \"y\"}, {\"run\": \"z\"}, {\"run\": \"../a\"}, 3]}");
    put_run("a", "0.3", 1, (double[]){1}, 1);
    char *path = NULL, *html = page_of((const char *const[]){"g"}, 1);
    expect(html, "2 runs, 1 configuration<");
    expect(html, ">3</text>");
    bt_free(html);
    ck_assert_int_eq(bt_report_write((const char *const[]){"g"}, 1, "made/here", &path), BT_OK);
    ck_assert_str_eq(path, "made/here/report.html");
    struct stat info;
    ck_assert_int_eq(stat(path, &info), 0);
    bt_free(path);
}
END_TEST

START_TEST(no_runs)
{
    static const struct {
        const char *folder, *why;
    } cases[] = {{"none", "cannot open the folder none"},
                 {"a/config.ini", "a/config.ini is not a folder"},
                 {"empty", "empty holds nothing to report"},
                 {"unbegun", "no run in unbegun has started"},
                 {"broken", "broken/config.ini:2"},
                 {"plan", "plan/plan.json: line 1: it cannot be read as JSON"},
                 {"ablation", "ablation/ablation.json: line 2"}};
    bt_text html = {0};
    put_run("a", "0.1", 1, (double[]){1}, 1);
    mkdir("empty", 0777);
    resumable_put("unbegun", "grid.json", "{\"runs\": [{\"run\": \"x\"}]}");
    resumable_put("broken", "config.ini", "[engine]\nseed\n");
    put_run("plan", "0.1", 1, (double[]){1}, 1);
    resumable_put("plan", "plan.json", "{");
    resumable_put("ablation", "ablation.json", "[\n1,]");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(bt_report_page((const char *const[]){"a", cases[i].folder}, 2, &html), BT_ERROR_CONFIG);
        ck_assert_msg(strstr(bt_error(), cases[i].why) != NULL, "%s", bt_error());
        bt_error_clear();
        ck_assert_int_eq(html.size, 0);
    }
    ck_assert_int_eq(bt_report_page(NULL, 0, &html), BT_ERROR_ARGUMENT);
    bt_error_clear();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("report");
    TCase *tests = tcase_create("report");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_test(tests, one_run);
    tcase_add_test(tests, several_runs);
    tcase_add_test(tests, not_finite);
    tcase_add_test(tests, far_values);
    tcase_add_test(tests, intervals);
    tcase_add_test(tests, escaped);
    tcase_add_test(tests, memory_and_findings);
    tcase_add_test(tests, thinned);
    tcase_add_test(tests, several_of_a_grid);
    tcase_add_test(tests, no_runs);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
