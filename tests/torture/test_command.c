/* The command, from its arguments to the files that it writes: every allocation fails in turn, including those of the C
 * library and other libraries. An error with a message, no leak, no partial file. */
#include "failing.h"

#include "base/base.h"
#include "engine/command/cli.h"
#include "engine/config/config.h"
#include "engine/config/ini.h"
#include "engine/find_lr/find_lr.h"
#include "engine/plugin/cc.h"
#include "engine/report/report.h"
#include "engine/session/front.h"
#include "io/safetensors.h"
#include "support/suite.h"
#include <betty/data.h>
#include <betty/text.h>

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char folder[64];

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void write_packed(const char *name, const char *text)
{
    gzFile file = gzopen(name, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_gt(gzputs(file, text), 0);
    ck_assert_int_eq(gzclose(file), Z_OK);
}

#define INI                                                                                                            \
    "[engine]\nproblems = logistic_hpo\ntrain_iters = 3\nvalid_step = 2\nthreads = 1\n"                                \
    "logger_type = csv, tensorboard\nlog_histograms = true\n"                                                          \
    "[dependencies]\nu2l = penalty > model\nl2u = model > penalty\n"                                                   \
    "[penalty]\nlr = 0.05\ndata = t.csv\n[model]\ntype = cg\nlr = 0.1\ndata = t.svm\n"

static void write_idx(const char *name, const void *bytes, size_t size)
{
    gzFile file = gzopen(name, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(gzwrite(file, bytes, (unsigned)size), (int)size);
    ck_assert_int_eq(gzclose(file), Z_OK);
}

static void write_pictures(void)
{
    /* 2 x 1 pixels with a palette, interlaced. */
    static const unsigned char png[] = {
        0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
        0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x00, 0x00, 0x01, 0xfe, 0x4b, 0xa7,
        0x8f, 0x00, 0x00, 0x00, 0x0c, 0x50, 0x4c, 0x54, 0x45, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06,
        0x07, 0x08, 0x09, 0x0a, 0x0b, 0xdc, 0x4c, 0x38, 0x9c, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41,
        0x54, 0x78, 0x9c, 0x63, 0x60, 0x60, 0x70, 0x00, 0x00, 0x00, 0x44, 0x00, 0x41, 0x97, 0x8f, 0x68,
        0xcb, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
    static unsigned char records[2 * 3074];
    ck_assert_int_eq(system("mkdir -p p/train/a p/train/b"), 0);
    FILE *file = fopen("p/train/a/1.png", "w");
    ck_assert(file && fwrite(png, sizeof png, 1, file) == 1);
    ck_assert_int_eq(fclose(file), 0);
    write_file("p/train/b/2.pgm", "P5 2 1 255\nab");
    write_file("p/train/b/3.ppm", "P6 2 1 255\nabcdef");
    write_idx("c.bin.gz", records, sizeof records);
}

/* More keys than iniparser's dictionary initially holds, so that it grows. */
enum { INI_KEYS = 150 };

static void write_long_ini(void)
{
    FILE *file = fopen("long.ini", "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "[a]\n");
    for (int i = 0; i < INI_KEYS; i++)
        fprintf(file, "key%d = value %d\n", i, i);
    ck_assert_int_eq(fclose(file), 0);
}

/* No string is longer than jansson's initial buffer: if it cannot grow that buffer, it reads past its end. */
#define TOKENIZER                                                                                                      \
    "{\"added_tokens\": [{\"id\": 0, \"content\": \"<s>\", \"special\": true}, {\"id\": 6, \"content\": "              \
    "\"\xC3\x89x\"}], "                                                                                                \
    "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFD\"}, {\"type\": \"Lowercase\"}]}, "    \
    "\"pre_tokenizer\": {\"type\": \"Whitespace\"}, \"decoder\": {\"type\": \"WordPiece\"}, "                          \
    "\"model\": {\"type\": \"BPE\", \"unk_token\": \"<s>\", \"vocab\": {\"<s>\": 0, \"a\": 1, \"b\": 2, \"ab\": 3, "   \
    "\"e\": 4, \"abab\": 5}, \"merges\": [\"a b\", \"ab ab\"]}}"

/* A small example of the files that a report reads. */
static void write_run(void)
{
    ck_assert_int_eq(system("mkdir run"), 0);
    write_file("run/config.ini", "[engine]\nseed = 1\n[model]\nlr = 0.1\n");
    write_file("run/metrics.jsonl", "{\"step\":1,\"time\":1,\"model.loss\":2,\"model.valid.acc\":0.5}\n"
                                    "{\"step\":2,\"time\":2,\"model.loss\":1,\"model.lr\":0.1}\n");
    write_file("run/summary.json", "{\"steps\": 2, \"seconds\": 2.5, \"metrics\": {\"model.loss\": 1}}");
    write_file("run/equation.txt", "model: d/d(model)\n");
    write_file("run/plan.json", "{\"levels\": [{\"level\": \"model\", \"persistent\": 8, \"kept\": {\"batch\": 8}, "
                                "\"phases\": [{\"phase\": \"step\", \"arena\": 4, \"at_peak\": {\"batch\": 4}}]}]}");
    write_file("run/check.json",
               "{\"levels\": [{\"level\": \"model\", \"verdict\": \"agrees\", \"samples\": [{\"sample\": "
               "0}], \"parts\": [{\"part\": \"a\", \"error\": 0}]}]}");
    write_file("run/profile.json",
               "{\"steps\": 2, \"seconds\": 1, \"calls\": [{\"level\": \"model\", \"phase\": \"step\", "
               "\"part\": \"a\", \"kernel\": \"dot\", \"seconds\": 1}]}");
}

static void setup(void)
{
    static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4};
    static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 0};
    strcpy(folder, "/tmp/betty-torture-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    setenv("XDG_CACHE_HOME", folder, 1);
    write_file("run.ini", INI);
    write_long_ini();
    write_packed("t.csv", "a,b,y\n1,2,1\n3,4,0\n0.5,6,1\n7,\"8\",0\n");
    write_file("t.svm", "1 1:0.5\n0 2:1\n1 1:1 2:2\n0 2:3\n");
    write_idx("t-images-idx3-ubyte.gz", images, sizeof images);
    write_idx("t-labels-idx1-ubyte.gz", labels, sizeof labels);
    write_packed("w.train.tsv.gz", "0\t0\t0:0,2:1\ta few words\n1\t1\t1:1\tsome other words\n");
    write_pictures();
    ck_assert_int_eq(system("mkdir sources"), 0);
    write_file("sources/1.txt", "a first text");
    write_packed("sources/2.txt.gz", "a second one");
    write_file("tokenizer.json", TOKENIZER);
    write_run();
    write_file("own.c", "#include <betty/betty.h>\nBT_EXPORT(.problems = {NULL});\n");
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(system(command), 0);
}

/* ---- scenarios ---- */

static FILE *sink;
static bool profiled;

static bt_status train(const bt_cli *cli)
{
    bt_engine *engine = bt_engine_new();
    const bt_front front = {.progress = sink, .profile = profiled ? sink : NULL, .files = true};
    bt_status status = engine ? bt_engine_attach(engine, &front) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = bt_engine_load(engine, cli->file);
    for (int64_t i = 0; status == BT_OK && i < cli->setting_count; i++)
        status = bt_engine_set_from(engine, cli->settings[i].key, cli->settings[i].value, cli->settings[i].origin);
    if (status == BT_OK)
        status = bt_engine_setup(engine);
    for (int report = BT_CONFIG; status == BT_OK && report <= BT_INFO; report++)
        status = bt_engine_report(engine, (bt_report)report, report != BT_CONFIG, sink);
    if (status == BT_OK)
        status = bt_engine_run(engine);
    bt_engine_free(engine);
    return status;
}

static bt_status command(void)
{
    char *const words[] = {"betty-run", "run.ini", "--set",    "model.lr=0.2", "--threads", "1",
                           "--seed",    "3",       "--output", "out",          NULL};
    bt_cli cli;
    bt_status status = bt_cli_parse(&cli, BT_COUNT_OF(words) - 1, words);
    if (status == BT_OK)
        status = train(&cli);
    bt_cli_free(&cli);
    return status;
}

static bt_status profile(void)
{
    profiled = true;
    bt_status status = command();
    profiled = false;
    return status;
}

static bt_status find_lr(void)
{
    const bt_find_lr how = {.problem = "model", .range = "1e-3:1:10", .folder = "out", .file = sink};
    bt_engine *engine = bt_engine_new();
    bt_status status = engine ? bt_engine_load(engine, "run.ini") : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = bt_engine_set(engine, "engine.threads", "1");
    if (status == BT_OK)
        status = bt_engine_find_lr(engine, &how);
    bt_engine_free(engine);
    return status;
}

static bt_status open_set(const char *name)
{
    bt_dataset *data = bt_dataset_open(name, "train");
    bt_status status = data ? BT_OK : bt_error_status();
    bt_dataset_free(data);
    return status;
}

static bt_status images(void) { return open_set("./t"); }
static bt_status texts(void) { return open_set("./w"); }
static bt_status cifar(void) { return open_set("./c"); }
static bt_status pictures(void) { return open_set("./p"); }

static bt_status round_trip(bt_tokenizer *t)
{
    int32_t ids[32];
    char text[64];
    const int64_t count = bt_tokenizer_encode(t, "abab ab \xC3\xA9 <s> ex c", -1, true, ids, BT_COUNT_OF(ids));
    const int64_t size = bt_tokenizer_decode(t, ids, count, false, text, sizeof text);
    bt_tokenizer_free(t);
    return size < 0 ? bt_error_status() : BT_OK;
}

static bt_status tokenizers(void)
{
    BT_TRY(round_trip(bt_tokenizer_open("./tokenizer.json")));
    BT_TRY(round_trip(bt_tokenizer_words("a few words, and a few more", -1, 5)));
    return round_trip(bt_tokenizer_characters("abc \xC3\xA9", -1));
}

static bt_status freed(bt_dataset *data, bt_tokenizer *t)
{
    bt_status status = data ? BT_OK : bt_error_status();
    bt_dataset_free(data);
    bt_tokenizer_free(t);
    return status;
}

static bt_status windows(void)
{
    bt_tokenizer *t = bt_tokenizer_for("words:9", "./w");
    BT_TRY(freed(bt_dataset_texts("./w", "train", t, 3), t));
    t = bt_tokenizer_for("characters", "./sources");
    return freed(bt_dataset_windows("./sources", t, 2, 1, 0, 0.9), t);
}

typedef struct ini_lines {
    int count, wrong;
} ini_lines;

static bt_status ini_line(void *user, const char *section, const char *key, const char *value, int64_t line)
{
    ini_lines *lines = user;
    char expected[32];
    snprintf(expected, sizeof expected, "value %d", lines->count);
    lines->wrong += strcmp(section, "a") != 0 || (key && (strcmp(value, expected) != 0 || line != lines->count + 2));
    lines->count += key != NULL;
    return BT_OK;
}

/* iniparser's messages about memory are not printed, and every line that it loses is noticed. */
static bt_status ini(void)
{
    failing_pause(true);
    ini_lines lines = {0, 0};
    int standard = dup(STDERR_FILENO), file = open("printed", O_RDWR | O_CREAT | O_TRUNC, 0600);
    ck_assert(standard >= 0 && file >= 0);
    dup2(file, STDERR_FILENO);
    failing_pause(false);
    bt_status status = bt_ini_read("long.ini", ini_line, &lines);
    failing_pause(true);
    dup2(standard, STDERR_FILENO);
    close(standard);
    ck_assert_int_eq(lseek(file, 0, SEEK_END), 0);
    close(file);
    ck_assert_int_eq(lines.count, status == BT_OK ? INI_KEYS : 0);
    ck_assert_int_eq(lines.wrong, 0);
    failing_pause(false);
    return status;
}

static bt_status keys(void) { return bt_cli_keys("markdown", sink); }

/* The page is complete, or there is none. */
static bt_status report(void)
{
    bt_text html = {0};
    bt_status status = bt_report_page((const char *const[]){"run"}, 1, &html);
    failing_pause(true);
    if (status == BT_OK) {
        static const char *const parts[] = {">model.loss<",   ">0.5</text>", "id=\"memory\"", "id=\"check\"",
                                            "id=\"profile\"", "<td>lr</td>", "</html>"};
        for (int i = 0; i < BT_COUNT_OF(parts); i++)
            ck_assert_msg(strstr(bt_text_get(&html), parts[i]) != NULL, "there is no %s", parts[i]);
    }
    failing_pause(false);
    bt_text_free(&html);
    return status;
}

static bt_status plugin(void)
{
    char *object;
    bt_status status = bt_cc("own.c", &object);
    bt_free(object);
    return status;
}

/* ---- files after a failure ---- */

static void check_lines(const char *path)
{
    char line[4096];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        json_t *object = json_loads(line, 0, NULL);
        ck_assert_msg(object != NULL, "%s: %s", path, line);
        json_decref(object);
    }
    if (file)
        fclose(file);
}

static void check_rows(const char *path)
{
    char line[4096] = "\n";
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {}
    ck_assert_msg(file && strchr(line, '\n'), "%s: %s", path, line);
    fclose(file);
}

/* Checks the records up to the end, by their lengths; tests/engine/test_sinks.c reads their contents. */
static void check_events(const char *path)
{
    char *data;
    size_t size, at = 0;
    ck_assert_msg(bt_file_read(path, &data, &size) == BT_OK, "%s is not there", path);
    for (uint64_t length; at < size; at += 16 + (size_t)length) {
        ck_assert_uint_le(at + 16, size);
        memcpy(&length, data + at, sizeof length);
        ck_assert_uint_le(length, size - at - 16);
    }
    bt_free(data);
}

static void check_json(const char *path)
{
    json_error_t why;
    json_t *whole = json_load_file(path, 0, &why);
    ck_assert_msg(whole != NULL, "%s is not whole: line %d, %s", path, why.line, why.text);
    json_decref(whole);
}

static void check_text(const char *path)
{
    char *data;
    size_t size;
    ck_assert_msg(bt_file_read(path, &data, &size) == BT_OK && size && data[size - 1] == '\n', "%s is not whole", path);
    bt_free(data);
}

static void check_tensors(const char *path)
{
    char *data;
    size_t size;
    bt_safetensors file;
    bt_status status = bt_file_read(path, &data, &size);
    ck_assert_msg(status == BT_OK && bt_safetensors_parse(path, data, size, &file) == BT_OK, "%s is not whole", path);
    bt_safetensors_free(&file);
    bt_free(data);
}

static void check_config(const char *path)
{
    bt_config *config = bt_config_new();
    ck_assert_msg(config && bt_config_read(config, path) == BT_OK, "%s is not whole", path);
    bt_config_free(config);
}

static const struct {
    const char *end;
    void (*check)(const char *path);
} files[] = {{"metrics.jsonl", check_lines}, {"metrics.csv", check_rows},  {".betty", check_events},
             {"lr.csv", check_rows},         {"lr.svg", check_text},       {"config.ini", check_config},
             {".json", check_json},          {"equation.txt", check_text}, {".safetensors", check_tensors}};

/* Only complete files under their own names; then the folder is removed. */
static void check_folder(const char *folder)
{
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries)) != NULL) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "checkpoints") == 0)
            continue;
        size_t length = strlen(path);
        bool known = false;
        for (int i = 0; i < BT_COUNT_OF(files) && !known; i++) {
            size_t end = strlen(files[i].end);
            known = length > end && strcmp(path + length - end, files[i].end) == 0;
            if (known)
                files[i].check(path);
        }
        ck_assert_msg(known, "left behind: %s", path);
        unlink(path);
    }
    if (entries)
        closedir(entries);
    rmdir(folder);
}

static void check_output(void)
{
    check_folder("out/checkpoints");
    check_folder("out");
}

static const struct {
    bt_status (*fn)(void);
    const char *name;
    long step;                               /* between failures: a profile makes thousands of similar allocations */
    long sanitized;                          /* the factor for that under a sanitizer */
} scenarios[] = {{command, "command", 7, 4}, /* each writes to the disk, and waits for it */
                 {find_lr, "find_lr", 7, 4},       {profile, "profile", 97, 3},  {images, "images", 1, 2},
                 {texts, "texts", 1, 2},           {cifar, "cifar", 1, 2},       {windows, "windows", 1, 2},
                 {tokenizers, "tokenizers", 1, 2}, {pictures, "pictures", 1, 2}, {keys, "keys", 1, 5},
                 {report, "report", 1, 3},         {plugin, "plugin", 1, 1},     {ini, "ini", 1, 2}};

START_TEST(every_allocation_in_turn)
{
    bt_error_clear();
    ck_assert_msg(scenarios[_i].fn() == BT_OK, "%s: %s", scenarios[_i].name, bt_error());
    check_output();
    size_t bytes = bt_live_bytes();
    long unnoticed = 0, failures = 0, n = 0;
    for (bool reached = true; reached; n += scenarios[_i].step * failing_step(scenarios[_i].sanitized)) {
        bt_error_clear();
        rewind(sink);
        failing_start(n, false);
        bt_status status = scenarios[_i].fn();
        reached = failing_stop();
        failures += reached;
        ck_assert_msg(failing_live() <= 0, "%s: allocation %ld: %ld blocks are lost", scenarios[_i].name, n,
                      failing_live());
        ck_assert_uint_eq(bt_live_bytes(), bytes);
        check_output();
        if (status == BT_OK) {
            unnoticed += reached;
            continue;
        }
        ck_assert_msg(reached, "%s", bt_error());
        ck_assert_msg(*bt_error(), "%s: allocation %ld: status %d and no message", scenarios[_i].name, n, status);
    }
    ck_assert_msg(failures > 5, "%s: only %ld allocations", scenarios[_i].name, failures);
    ck_assert_msg(unnoticed <= failures / 5 + 2, "%s: %ld of %ld failures went unnoticed", scenarios[_i].name,
                  unnoticed, failures);
    bt_error_clear();
}
END_TEST

int main(void)
{
    sink = fopen("/dev/null", "w");
    Suite *suite = suite_create("command");
    TCase *tests = tcase_create("command");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, every_allocation_in_turn, 0, BT_COUNT_OF(scenarios));
    suite_add_tcase(suite, tests);
    int failed = run_suite(suite);
    if (sink)
        fclose(sink);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
