/* Console output and output files of a run. */
#include "resumable.h"

#include "base/version.h"
#include "engine/output/log.h"

#include "support/suite.h"
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void pause_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static int lines_of(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

/* ---- progress ---- */

static void metrics_line(bt_progress *progress, int64_t step, int64_t total, const bt_metric_value *values, int count,
                         bool lasting)
{
    bt_text text = {0};
    bt_metrics_text(step, total, values, count, &text);
    bt_progress_line(progress, lasting ? BT_LINE_VALIDATION : BT_LINE_TRAINING, bt_text_get(&text));
    bt_text_free(&text);
}

START_TEST(plain_lines_in_a_pipe)
{
    char *data = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&data, &size);
    bt_progress *progress = bt_progress_new(file, 6000);
    const bt_metric_value train[] = {{"classifier.loss", 0.43218, NAN}};
    const bt_metric_value valid[] = {{"classifier.valid.loss", 0.5, NAN}, {"classifier.valid.acc", 0.85128, 0.004}};
    bt_progress_line(progress, BT_LINE_INFO, "training 2 levels");
    for (int batch = 1; batch <= 1000; batch++) /* in far less than 10 seconds: no output */
        bt_progress_validation(progress, "net", batch, 1000);
    for (int step = 1; step <= 1000; step++) { /* in far less than a second: one line of training metrics */
        bt_progress_step(progress, step);
        if (step % 10 == 0)
            metrics_line(progress, step, 6000, train, 1, false);
    }
    metrics_line(progress, 500, 6000, valid, 2, true);
    metrics_line(progress, 1000, 6000, valid, 2, true);
    bt_progress_free(progress);
    fclose(file);
    ck_assert_ptr_null(strchr(data, '\r'));
    ck_assert_int_eq(strncmp(data, "training 2 levels\nstep 10/6000  classifier.loss 0.4322", 52), 0);
    ck_assert_ptr_nonnull(
        strstr(data, "\nstep 500/6000  classifier.valid.loss 0.5  classifier.valid.acc 0.8513 +- 0.004"));
    ck_assert_ptr_nonnull(strstr(data, "\nstep 1000/6000  "));
    ck_assert_int_eq(lines_of(data), 4);
    free(data);
}
END_TEST

START_TEST(rate_and_time_left)
{
    char *data = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&data, &size);
    bt_progress *progress = bt_progress_new(file, 1000);
    const bt_metric_value metric[] = {{"loss", 1, NAN}};
    pause_ms(100);
    bt_progress_step(progress, 10); /* about 100 steps a second: the other 990 take a little under 10 seconds */
    metrics_line(progress, 10, 1000, metric, 1, true);
    bt_progress_free(progress);
    fclose(file);
    double rate;
    int minutes, seconds;
    ck_assert_int_eq(sscanf(data, "step 10/1000  loss 1 %lf steps/s  ETA %d:%d", &rate, &minutes, &seconds), 3);
    ck_assert_double_gt(rate, 20); /* a busy machine sleeps longer */
    ck_assert_double_lt(rate, 101);
    ck_assert_int_le(abs(minutes * 60 + seconds - (int)(990 / rate + 0.5)), 1);
    free(data);
}
END_TEST

START_TEST(one_line_on_a_terminal)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert_int_ge(master, 0);
    ck_assert_int_eq(grantpt(master), 0);
    ck_assert_int_eq(unlockpt(master), 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    struct winsize window = {.ws_row = 24, .ws_col = 40};
    ioctl(slave, TIOCSWINSZ, &window);
    FILE *file = fdopen(slave, "w");
    bt_progress *progress = bt_progress_new(file, 300);
    const bt_metric_value train[] = {{"a_metric_with_a_long_name.loss", 0.25, NAN}}, valid[] = {{"acc", 0.5, NAN}};
    for (int step = 1; step <= 300; step++) {
        pause_ms(2);
        metrics_line(progress, step, 300, train, 1, false);
        bt_progress_step(progress, step);
        for (int batch = 1; step == 200 && batch <= 60; batch++) { /* takes at least 0.3 seconds */
            pause_ms(5);
            bt_progress_validation(progress, "net", batch, 60);
        }
        if (step == 200)
            metrics_line(progress, step, 300, valid, 1, true);
    }
    bt_progress_free(progress);
    fflush(file);
    char text[8192];
    size_t got = 0;
    struct pollfd ready = {.fd = master, .events = POLLIN};
    while (got < sizeof text - 1 && poll(&ready, 1, 200) > 0) {
        ssize_t part = read(master, text + got, sizeof text - 1 - got);
        ck_assert_int_gt(part, 0);
        got += (size_t)part;
    }
    ck_assert_uint_gt(got, 0);
    text[got] = 0;
    fclose(file);
    close(master);
    int draws = 0;
    for (const char *c = text; (c = strstr(c, "\r\033[K")) != NULL; c += 4) {
        draws++;
        ck_assert_int_lt((int)strcspn(c + 4, "\r\n"), 40); /* never wraps */
    }
    ck_assert_int_ge(draws, 3);
    ck_assert_int_le(draws, 40); /* at least 0.6 s, five lines a second, and not one for each step */
    const char *validating = strstr(text, "\r\033[Kstep 200/300  validating net: "); /* cut at 39 columns */
    ck_assert_ptr_nonnull(validating);
    ck_assert_ptr_nonnull(strstr(validating, "\r\033[Kstep 200/300  acc 0.5\r\n"));
    ck_assert_ptr_nonnull(strstr(text, "step 300/300  100 %"));
    ck_assert_int_eq(text[got - 1], '\n');
}
END_TEST

START_TEST(silence)
{
    bt_progress *progress = bt_progress_new(NULL, 10);
    const bt_metric_value metric[] = {{"loss", 1, NAN}};
    bt_progress_step(progress, 1);
    metrics_line(progress, 1, 10, metric, 1, true);
    bt_progress_line(progress, BT_LINE_INFO, "nobody is listening");
    bt_progress_validation(progress, "net", 1, 2);
    bt_progress_free(progress);
    bt_progress_free(NULL);
    bt_progress_step(NULL, 1);
    bt_progress_validation(NULL, "net", 1, 2);
    bt_progress_line(NULL, BT_LINE_INFO, "x");
}
END_TEST

/* ---- times ---- */

START_TEST(mean_of_steps)
{
    bt_timing timing;
    bt_timing_start(&timing, 20); /* the first two steps are not counted */
    ck_assert_double_nan(bt_timing_mean_ms(&timing));
    static const double seconds[] = {9,     9,     0.001,
                                     0.001, 0.001, 0.009}; /* the last one includes a step of an upper level */
    for (int i = 0; i < 6; i++)
        bt_timing_add(&timing, seconds[i]);
    ck_assert_double_eq_tol(bt_timing_mean_ms(&timing), 3, 1e-12);
    bt_timing_start(&timing, 1000000); /* at most 50 */
    for (int i = 0; i < 51; i++)
        bt_timing_add(&timing, i < 50 ? 9 : 0.002);
    ck_assert_double_eq_tol(bt_timing_mean_ms(&timing), 2, 1e-12);
}
END_TEST

/* ---- the folder ---- */

static char *content(const char *path)
{
    static char data[65536];
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s is missing", path);
    data[fread(data, 1, sizeof data - 1, file)] = 0;
    fclose(file);
    return data;
}

START_TEST(numbered_folders)
{
    bt_output *first, *second, *third;
    ck_assert_int_eq(bt_output_make(NULL, "reweight", &first), BT_OK);
    ck_assert_int_eq(bt_output_make(NULL, "reweight", &second), BT_OK);
    ck_assert_int_eq(bt_output_make(NULL, "other", &third), BT_OK);
    ck_assert_str_eq(first->path, "runs/reweight-1");
    ck_assert_str_eq(second->path, "runs/reweight-2");
    ck_assert_str_eq(third->path, "runs/other-1");
    ck_assert_int_eq(access(second->path, W_OK), 0);
    bt_output_free(first);
    bt_output_free(second);
    bt_output_free(third);
    bt_output_free(NULL);
}
END_TEST

START_TEST(wanted_folders)
{
    bt_output *output;
    ck_assert_int_eq(bt_output_check("a/b/c"), BT_OK);
    ck_assert_int_ne(access("a", F_OK), 0);
    ck_assert_int_eq(bt_output_make("a/b/c", NULL, &output), BT_OK);
    ck_assert_str_eq(output->path, "a/b/c");
    bt_output_free(output);
    ck_assert_int_eq(bt_output_make("a/b/c", NULL, &output), BT_OK); /* empty: still free to use */
    bt_output_free(output);
    ck_assert_int_eq(bt_output_write("a/b/c", "summary.json", "{}", 2), BT_OK);
    ck_assert_int_eq(bt_output_make("a/b/c", NULL, &output), BT_ERROR_CONFIG);
    ck_assert_str_eq(bt_error(), "the output folder a/b/c holds a run that ended before its first checkpoint and "
                                 "cannot be continued; remove it, or choose another folder");
    ck_assert_ptr_null(output);
    bt_error_clear();
    ck_assert_int_eq(mkdir("a/b/c/checkpoints", 0777), 0);
    ck_assert_int_eq(bt_output_write("a/b/c/checkpoints", "step-1.json", "{}", 2), BT_OK);
    ck_assert_int_eq(bt_output_make("a/b/c", NULL, &output), BT_ERROR_CONFIG);
    ck_assert_str_eq(
        bt_error(),
        "the output folder a/b/c already holds a run; continue it (--resume), remove it, or choose another folder");
    bt_error_clear();
    ck_assert_int_eq(bt_output_check("a/b/c"), BT_ERROR_CONFIG);
    bt_error_clear();
    ck_assert_int_eq(bt_output_make("a/b/c/summary.json/d", NULL, &output), BT_ERROR_FILE);
    ck_assert_str_eq(bt_error(), "the output folder a/b/c/summary.json/d cannot be created: Not a directory");
    bt_error_clear();
    ck_assert_int_eq(bt_output_make("", NULL, &output), BT_ERROR_CONFIG);
    ck_assert_int_ne(bt_output_make(NULL, NULL, NULL), BT_OK);
}
END_TEST

START_TEST(one_run_at_a_time)
{
    bt_output *first, *second;
    ck_assert_int_eq(bt_output_make("a", NULL, &first), BT_OK);
    ck_assert_int_eq(bt_output_check("a"), BT_ERROR_CONFIG);
    ck_assert_str_eq(bt_error(),
                     "the output folder a is in use by another run; wait for its end, or choose another folder");
    bt_error_clear();
    ck_assert_int_eq(bt_output_make("a", NULL, &second), BT_ERROR_CONFIG);
    bt_error_clear();
    ck_assert_int_eq(bt_output_open("a", false, &second), BT_ERROR_CONFIG);
    ck_assert_ptr_null(second);
    bt_error_clear();
    bt_output_free(first);
    ck_assert_int_eq(bt_output_write("a", "summary.json", "{}", 2), BT_OK);
    ck_assert_int_eq(bt_output_open("a", false, &second), BT_OK); /* a resumed run may find its own results */
    bt_output_free(second);
    ck_assert_int_eq(bt_output_open("missing", false, &second), BT_ERROR_FILE);
    ck_assert_str_eq(bt_error(), "the output folder missing cannot be opened: No such file or directory");
}
END_TEST

START_TEST(files_are_written_whole)
{
    ck_assert_int_eq(bt_output_write(".", "x.txt", "one", 3), BT_OK);
    ck_assert_int_eq(bt_output_write(".", "x.txt", "two", 3), BT_OK);
    ck_assert_str_eq(content("x.txt"), "two");
    struct stat info;
    mode_t mask = umask(0);
    umask(mask);
    ck_assert_int_eq(stat("x.txt", &info), 0);
    ck_assert_uint_eq(info.st_mode & 0777, 0666 & ~mask);
    ck_assert_int_eq(bt_output_write("missing", "x.txt", "two", 3), BT_ERROR_FILE);
    ck_assert_ptr_nonnull(strstr(bt_error(), "missing/x.txt cannot be written: No such file or directory"));
    int count = 0;
    DIR *entries = opendir(".");
    while (readdir(entries))
        count++;
    closedir(entries);
    ck_assert_int_eq(count, 3); /* . and .. and x.txt: no temporary file is left */
}
END_TEST

/* ---- summary.json ---- */

static const bt_method_def cg = {.name = "darts", .hypers = {{"iterations", 5, 0, 100, "steps", BT_HYPER_WHOLE}}};

static bt_config *configuration(void)
{
    bt_config *config = bt_config_new();
    bt_config_add_method(config, &cg);
    bt_config_set(config, "engine.seed", "7", "test");
    bt_config_set(config, "model.lr", "0.125", "test");
    bt_config_set(config, "model.batch_size", "all", "test");
    bt_config_set(config, "model.hidden", "32", "test");
    bt_config_set(config, "model.nesterov", "false", "test");
    bt_config_engine(config);
    bt_config_add_problem(config, "model");
    bt_config_resolve(config);
    int64_t hidden;
    bt_config_option_int(config, "model", "hidden", 100, 1, 1000, &hidden);
    bt_config_finish(config);
    ck_assert_str_eq(bt_error(), "");
    return config;
}

static json_t *at(json_t *object, const char *a, const char *b)
{
    json_t *value = json_object_get(json_object_get(object, a), b);
    ck_assert_msg(value != NULL, "%s.%s is missing", a, b);
    return value;
}

START_TEST(summary_has_its_fields)
{
    bt_config *config = configuration();
    const bt_metric_value metrics[] = {{"model.loss", 0.25, NAN}, {"model.valid.acc", NAN, NAN}};
    const bt_summary summary = {.steps = 6000,
                                .ms_per_step = 1.5,
                                .data_seconds = 0.25,
                                .seconds = 9.25,
                                .metrics = metrics,
                                .metric_count = 2,
                                .planned = {.arena = 1024, .persistent = (size_t)5 << 32},
                                .measured = {.arena = 1000, .persistent = 2048},
                                .outside = 4096,
                                .seed = 7,
                                .device = "cpu",
                                .stopped = "train_iters",
                                .config = config};
    ck_assert_int_eq(bt_summary_write(".", &summary), BT_OK);
    bt_config_free(config);
    const char *text = content("summary.json");
    ck_assert_int_eq(text[strlen(text) - 1], '\n');
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(root);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "steps")), 6000);
    ck_assert_double_eq(json_real_value(json_object_get(root, "ms_per_step")), 1.5);
    ck_assert_double_eq(json_real_value(json_object_get(root, "data_seconds")), 0.25);
    ck_assert_double_eq(json_real_value(at(root, "metrics", "model.loss")), 0.25);
    ck_assert(json_is_null(at(root, "metrics", "model.valid.acc")));
    ck_assert_int_eq(json_integer_value(at(root, "planned_bytes", "arena")), 1024);
    ck_assert_int_eq(json_integer_value(at(root, "planned_bytes", "persistent")), (json_int_t)5 << 32);
    ck_assert_int_eq(json_integer_value(at(root, "measured_bytes", "arena")), 1000);
    ck_assert_int_eq(json_integer_value(at(root, "measured_bytes", "persistent")), 2048);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "outside_bytes")), 4096);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "seed")), 7);
    ck_assert_str_eq(json_string_value(json_object_get(root, "version")), BT_VERSION);
    ck_assert_str_eq(json_string_value(json_object_get(root, "device")), "cpu");
    ck_assert_str_eq(json_string_value(json_object_get(root, "stopped")), "train_iters");
    json_t *settings = json_object_get(root, "config");
    ck_assert_int_eq(json_integer_value(at(settings, "engine", "seed")), 7);
    ck_assert_int_eq(json_integer_value(at(settings, "engine", "train_iters")), 50000);
    ck_assert_double_eq(json_real_value(at(settings, "model", "lr")), 0.125);
    ck_assert_str_eq(json_string_value(at(settings, "model", "batch_size")), "all");
    ck_assert_int_eq(json_integer_value(at(settings, "model", "hidden")), 32);
    ck_assert(json_is_false(at(settings, "model", "nesterov")));
    ck_assert_int_eq(json_integer_value(at(settings, "model", "darts_iterations")), 5);
    ck_assert_str_eq(json_string_value(at(settings, "model", "optimizer")), "sgd");
    json_decref(root);
}
END_TEST

START_TEST(summary_mistakes)
{
    ck_assert_int_ne(bt_summary_write(NULL, NULL), BT_OK);
    bt_error_clear();
    const bt_summary summary = {.ms_per_step = NAN};
    ck_assert_int_eq(bt_summary_write("missing", &summary), BT_ERROR_FILE);
    bt_error_clear();
    ck_assert_int_eq(bt_summary_write(".", &summary), BT_OK);
    json_t *root = json_loads(content("summary.json"), 0, NULL);
    ck_assert(json_is_null(json_object_get(root, "ms_per_step")));
    ck_assert_ptr_null(json_object_get(root, "config"));
    json_decref(root);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("logging");
    TCase *tests = tcase_create("logging");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_test(tests, plain_lines_in_a_pipe);
    tcase_add_test(tests, rate_and_time_left);
    tcase_add_test(tests, one_line_on_a_terminal);
    tcase_add_test(tests, silence);
    tcase_add_test(tests, mean_of_steps);
    tcase_add_test(tests, numbered_folders);
    tcase_add_test(tests, wanted_folders);
    tcase_add_test(tests, one_run_at_a_time);
    tcase_add_test(tests, files_are_written_whole);
    tcase_add_test(tests, summary_has_its_fields);
    tcase_add_test(tests, summary_mistakes);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
