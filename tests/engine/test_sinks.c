/* Where the metrics of a run are written: metrics.jsonl, metrics.csv, files of events. */
#include "event_records.h"
#include "resumable.h"

#include "engine/output/sinks_inside.h"
#include "engine/plugin/spawn.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CSV = 1 << BT_SINK_CSV, EVENTS = 1 << BT_SINK_EVENTS };

static const char *content(const char *path)
{
    static char data[65536];
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s is missing", path);
    data[fread(data, 1, sizeof data - 1, file)] = 0;
    fclose(file);
    return data;
}

static bt_status line(bt_sinks *sinks, int64_t step, double time, const bt_metric_value *metrics, int count)
{
    return bt_sinks_write(sinks, &(bt_log_line){.step = step, .time = time, .metrics = metrics, .count = count});
}

/* ---- metrics.jsonl, metrics.csv ---- */

START_TEST(one_object_a_line)
{
    bt_sinks *sinks = bt_sinks_open(".", 0, &bt_log_nothing, 0);
    ck_assert_ptr_nonnull(sinks);
    const bt_metric_value first[] = {{"a.loss", 0.1, NAN}, {"a.valid.acc", 0.75, 0.0625}},
                          second[] = {{"a.loss", INFINITY, NAN}};
    ck_assert_int_eq(line(sinks, 100, 1.25, first, 2), BT_OK);
    ck_assert_str_eq(
        content("metrics.jsonl"),
        "{\"step\":100,\"time\":1.25,\"a.loss\":0.1,\"a.valid.acc\":0.75,\"a.valid.acc.interval\":0.0625}\n");
    ck_assert_int_eq(line(sinks, 200, 2.5, second, 1), BT_OK);
    ck_assert_int_eq(line(sinks, 300, 2.75, NULL, 0), BT_OK);
    ck_assert_int_eq(bt_sinks_close(sinks), BT_OK);
    ck_assert_ptr_nonnull(strstr(content("metrics.jsonl"), "\n{\"step\":200,\"time\":2.5,\"a.loss\":null}\n"
                                                           "{\"step\":300,\"time\":2.75}\n"));
    ck_assert_int_ne(access("metrics.csv", F_OK), 0);
}
END_TEST

START_TEST(one_value_a_row)
{
    bt_sinks *sinks = bt_sinks_open(".", CSV, &bt_log_nothing, 0);
    const bt_metric_value values[] = {
        {"a.loss", 0.1, NAN}, {"a.valid.say \"x\", y", 0.75, 0.0625}, {"b.loss", NAN, NAN}, {"c.loss", -INFINITY, NAN}};
    ck_assert_int_eq(line(sinks, 100, 1.25, values, 4), BT_OK);
    ck_assert_int_eq(bt_sinks_close(sinks), BT_OK);
    ck_assert_str_eq(content("metrics.csv"), "step,time,metric,value,interval\n"
                                             "100,1.250000,a.loss,0.10000000000000001,\n"
                                             "100,1.250000,\"a.valid.say \"\"x\"\", y\",0.75,0.0625\n"
                                             "100,1.250000,b.loss,nan,\n"
                                             "100,1.250000,c.loss,-inf,\n");
}
END_TEST

START_TEST(lines_go_on)
{
    bt_log_lengths lengths = bt_log_nothing, end = bt_log_nothing;
    const bt_metric_value value = {"a", 1, NAN};
    bt_sinks *sinks = bt_sinks_open(".", CSV, &lengths, 0);
    ck_assert_int_eq(line(sinks, 1, 0, &value, 1), BT_OK);
    ck_assert_int_eq(bt_sinks_sync(sinks, &lengths), BT_OK);
    ck_assert_int_eq(lengths.bytes[BT_SINK_EVENTS], -1);
    ck_assert_int_eq(line(sinks, 2, 0, &value, 1), BT_OK);
    ck_assert_int_eq(bt_sinks_close(sinks), BT_OK);
    sinks = bt_sinks_open(".", CSV, &lengths, 1);
    ck_assert_int_eq(line(sinks, 3, 0, &value, 1), BT_OK);
    ck_assert_int_eq(bt_sinks_sync(sinks, &end), BT_OK);
    ck_assert_int_eq(end.bytes[BT_SINK_JSONL], 2 * lengths.bytes[BT_SINK_JSONL]);
    ck_assert_int_eq(bt_sinks_close(sinks), BT_OK);
    ck_assert_str_eq(content("metrics.jsonl"),
                     "{\"step\":1,\"time\":0.0,\"a\":1.0}\n{\"step\":3,\"time\":0.0,\"a\":1.0}\n");
    ck_assert_str_eq(content("metrics.csv"), "step,time,metric,value,interval\n1,0.000000,a,1,\n3,0.000000,a,1,\n");
    const bt_log_lengths found = bt_log_lengths_of(".");
    ck_assert_mem_eq(&found, &end, sizeof found);
    ck_assert_int_eq(truncate("metrics.csv", 0), 0); /* truncated by somebody else: logging continues */
    sinks = bt_sinks_open(".", CSV, &end, 3);
    ck_assert_int_eq(bt_sinks_close(sinks), BT_OK);
    ck_assert_str_eq(content("metrics.csv"), "step,time,metric,value,interval\n");
}
END_TEST

START_TEST(mistakes)
{
    ck_assert_ptr_null(bt_sinks_open("missing", 0, &bt_log_nothing, 0));
    ck_assert_ptr_nonnull(strstr(bt_error(), "missing/metrics.jsonl cannot be written: No such file or directory"));
    ck_assert_ptr_null(bt_sinks_open(NULL, 0, &bt_log_nothing, 0));
    ck_assert_int_ne(bt_sinks_write(NULL, NULL), BT_OK);
    ck_assert_int_ne(bt_sinks_sync(NULL, NULL), BT_OK);
    ck_assert_int_eq(bt_sinks_close(NULL), BT_OK);
}
END_TEST

/* ---- events ---- */

/* RFC 3720, appendix B.4, and the check value of the catalogue of CRCs ("123456789"). */
START_TEST(sum_of_castagnoli)
{
    unsigned char bytes[32];
    memset(bytes, 0, sizeof bytes);
    ck_assert_uint_eq(bt_crc32c(bytes, 32), 0x8A9136AAu);
    memset(bytes, 0xFF, sizeof bytes);
    ck_assert_uint_eq(bt_crc32c(bytes, 32), 0x62A8AB43u);
    for (unsigned char i = 0; i < 32; i++)
        bytes[i] = i;
    ck_assert_uint_eq(bt_crc32c(bytes, 32), 0x46DD794Eu);
    for (unsigned char i = 0; i < 32; i++)
        bytes[i] = (unsigned char)(31 - i);
    ck_assert_uint_eq(bt_crc32c(bytes, 32), 0x113FDB5Cu);
    ck_assert_uint_eq(bt_crc32c("123456789", 9), 0xE3069283u);
    ck_assert_uint_eq(bt_crc32c(NULL, 0), 0);
}
END_TEST

/* The bytes of Event(...).SerializeToString() from protobuf 7.36 and tensorboard 2.21, without the time. */
static const unsigned char config_event[] = "\x2a\x47\x0a\x45\x0a\x13"
                                            "config/text_summary"
                                            "\x42\x24\x08\x07\x12\x04\x12\x02\x08\x01\x42\x1a```\n[engine]\nseed = "
                                            "1\n```\n\x4a\x08\x0a\x06\x0a\x04text",
                           line_event[] = "\x10\xac\x02\x2a\x4f\x0a\x0d\x0a\x06"
                                          "a/loss\x15\x00\x00\x00\x3f\x0a\x12"
                                          "\x0a\x0b"
                                          "a/valid/acc\x15\x00\x00\x40\x3f\x0a\x1b\x0a\x14"
                                          "a/valid/acc/interval\x15\x00\x00\x80\x3d\x0a\x0d\x0a\x06"
                                          "b/loss"
                                          "\x15\x00\x00\x80\x7f";
static const bt_metric_value line_values[] = {
    {"a.loss", 0.5, NAN}, {"a.valid.acc", 0.75, 0.0625}, {"b.loss", INFINITY, NAN}};

static void expect_events(const unsigned char *bytes, size_t size, const unsigned char *const *due, const size_t *sizes,
                          int count)
{
    for (int i = 0; i < count; i++) {
        ck_assert_uint_le(sizes[i], size);
        ck_assert_mem_eq(bytes, due[i], sizes[i]);
        bytes += sizes[i];
        size -= sizes[i];
    }
    ck_assert_uint_eq(size, 0);
}

START_TEST(events_of_a_run)
{
    static const unsigned char *const due[] = {config_event, line_event};
    static const size_t sizes[] = {sizeof config_event - 1, sizeof line_event - 1};
    unsigned char bytes[4096];
    event_counts counts;
    FILE *file = fopen("config.ini", "w");
    fputs("[engine]\nseed = 1\n", file);
    fclose(file);
    bt_sinks *sinks = bt_sinks_open(".", EVENTS, &bt_log_nothing, 0);
    ck_assert_int_eq(line(sinks, 300, 1, line_values, 3), BT_OK);
    size_t size = event_records(".", bytes, sizeof bytes, &counts); /* before the file is closed */
    ck_assert_int_eq(bt_sinks_close(sinks), BT_OK);
    expect_events(bytes, size, due, sizes, 2);
    ck_assert_int_eq(counts.files, 1);
    ck_assert_int_eq(counts.versions, 1);
    ck_assert_int_eq(counts.starts, 0);
    bt_log_remove(".");
    event_records(".", bytes, sizeof bytes, &counts);
    ck_assert_int_eq(counts.files, 0);
}
END_TEST

/* The same for a histogram with a number. */
START_TEST(events_of_a_histogram)
{
    static const unsigned char due[] =
        "\x10\xac\x02\x2a\xa0\x01\x0a\x0d\x0a\x06"
        "a/loss\x15\x00\x00\x00\x3f\x0a\x8e\x01\x0a\x08"
        "a/weight\x2a\x81\x01\x09\0\0\0\0\0\0\xf0\xbf\x11\0\0\0\0\0\0\x0e\x40\x19\0\0\0\0\0\0\x10\x40"
        "\x21\0\0\0\0\0\0\x06\x40\x29\0\0\0\0\0\x20\x2e\x40\x32\x28\0\0\0\0\0\0\xf0\xbf\0\0\0\0\0\0\x70\xbe"
        "\0\0\0\0\0\0\x70\x3e\x87\xa4\xfb\xdc\x18\x58\x0d\x40\0\0\0\0\0\0\x10\x40\x3a\x28\0\0\0\0\0\0\xf0\x3f"
        "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xf0\x3f";
    double counts[BT_HISTOGRAM_BUCKETS] = {0};
    counts[BT_HISTOGRAM_SIDE - 1 - 24 * 8] = 1; /* -1 */
    counts[BT_HISTOGRAM_SIDE] = 2;              /* 0 */
    counts[BT_HISTOGRAM_SIDE + 26 * 8] = 1;     /* up to 4 */
    const bt_histogram_value weight = {
        .name = "a.weight", .number = 4, .least = -1, .most = 3.75, .sum = 2.75, .square = 15.0625, .counts = counts};
    unsigned char bytes[4096];
    event_counts found;
    bt_sinks *sinks = bt_sinks_open(".", EVENTS, &bt_log_nothing, 0);
    const bt_log_line line = {
        .step = 300, .metrics = line_values, .count = 1, .histograms = &weight, .histogram_count = 1};
    ck_assert_int_eq(bt_sinks_write(sinks, &line), BT_OK);
    ck_assert_int_eq(bt_sinks_close(sinks), BT_OK);
    const unsigned char *const all[] = {due};
    const size_t sizes[] = {sizeof due - 1};
    expect_events(bytes, event_records(".", bytes, sizeof bytes, &found), all, sizes, 1);
}
END_TEST

/* The first two records of a file of a run resumed after step 300, without the two times and the check sums that cover
 * them: made as above. */
static void expect_beginning(const unsigned char *file)
{
    static const unsigned char version[] = "\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\x09",
                               name[] = "\x1a\x0d"
                                        "brain.Event:2",
                               start[] = "\x10\0\0\0\0\0\0\0\x95\xfb\xfe\x18\x09",
                               step[] = "\x10\xad\x02\x3a\x02\x08\x01";
    ck_assert_mem_eq(file, version, sizeof version - 1);
    ck_assert_mem_eq(file + 21, name, sizeof name - 1);
    ck_assert_mem_eq(file + 40, start, sizeof start - 1);
    ck_assert_mem_eq(file + 61, step, sizeof step - 1);
}

/* Twice: records that the first run wrote after its checkpoint are written again by the resumed run. */
START_TEST(events_go_on)
{
    static const unsigned char *const due[] = {line_event, line_event};
    static const size_t sizes[] = {sizeof line_event - 1, sizeof line_event - 1};
    unsigned char bytes[4096];
    event_counts counts;
    bt_log_lengths lengths = bt_log_nothing;
    bt_sinks *sinks = bt_sinks_open(".", EVENTS, &lengths, 0);
    ck_assert_int_eq(line(sinks, 300, 1, line_values, 3), BT_OK);
    ck_assert_int_eq(bt_sinks_sync(sinks, &lengths), BT_OK);
    for (int part = 0; part < 2; part++) { /* each stops before its next checkpoint */
        ck_assert_int_eq(line(sinks, 300, 1, line_values, 3), BT_OK);
        ck_assert_int_eq(bt_sinks_close(sinks), BT_OK);
        sinks = bt_sinks_open(".", EVENTS, &lengths, 300);
    }
    ck_assert_int_eq(line(sinks, 300, 1, line_values, 3), BT_OK);
    ck_assert_int_eq(bt_sinks_sync(sinks, &lengths), BT_OK);
    ck_assert_int_eq(lengths.bytes[BT_SINK_EVENTS], bt_log_lengths_of(".").bytes[BT_SINK_EVENTS]);
    ck_assert_int_eq(bt_sinks_close(sinks), BT_OK);
    expect_events(bytes, event_records(".", bytes, sizeof bytes, &counts), due, sizes, 2);
    ck_assert_int_eq(counts.files, 2);
    ck_assert_int_eq(counts.versions, 2);
    ck_assert_int_eq(counts.starts, 1);
    const char *const argv[] = {"sh", "-c", "cat $(ls *tfevents* | tail -n 1) >last", NULL};
    bt_spawn_result result;
    ck_assert_int_eq(bt_spawn(argv, &result), BT_OK);
    bt_text_free(&result.message);
    FILE *file = fopen("last", "rb");
    ck_assert_uint_gt(fread(bytes, 1, sizeof bytes, file), 72);
    fclose(file);
    expect_beginning(bytes);
}
END_TEST

/* A log that an earlier part of the run did not have starts with the part that does. */
START_TEST(events_later)
{
    unsigned char bytes[4096];
    event_counts counts;
    bt_log_lengths lengths = bt_log_nothing;
    bt_sinks *sinks = bt_sinks_open(".", 0, &lengths, 0);
    ck_assert_int_eq(line(sinks, 300, 1, line_values, 3), BT_OK);
    ck_assert_int_eq(bt_sinks_sync(sinks, &lengths), BT_OK);
    ck_assert_int_eq(bt_sinks_close(sinks), BT_OK);
    sinks = bt_sinks_open(".", EVENTS, &lengths, 300);
    ck_assert_int_eq(line(sinks, 400, 1, line_values, 3), BT_OK);
    ck_assert_int_eq(bt_sinks_close(sinks), BT_OK);
    event_records(".", bytes, sizeof bytes, &counts);
    ck_assert_int_eq(counts.starts, 0);
    ck_assert_int_eq(counts.events, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sinks");
    TCase *tests = tcase_create("sinks");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_test(tests, one_object_a_line);
    tcase_add_test(tests, one_value_a_row);
    tcase_add_test(tests, lines_go_on);
    tcase_add_test(tests, mistakes);
    tcase_add_test(tests, sum_of_castagnoli);
    tcase_add_test(tests, events_of_a_run);
    tcase_add_test(tests, events_of_a_histogram);
    tcase_add_test(tests, events_go_on);
    tcase_add_test(tests, events_later);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
