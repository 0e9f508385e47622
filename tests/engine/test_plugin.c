/* Problems by name: built in, or compiled on the fly. */
#include "engine/plugin/plugin.h"
#include "engine/plugin/spawn.h"

#include "support/suite.h"
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char folder[64], cache[96], log_file[96], wrapper[96], *old_cache, *old_compiler;

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void write_source(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_text(path, text);
}

/* A compiler that records its calls. */
static void setup(void)
{
    strcpy(folder, "/tmp/betty-plugin-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(cache, sizeof cache, "%s/cache", folder);
    snprintf(log_file, sizeof log_file, "%s/calls", folder);
    snprintf(wrapper, sizeof wrapper, "%s/wrapper", folder);
    const char *compiler = getenv("CC");
    old_compiler = compiler ? strdup(compiler) : NULL;
    old_cache = getenv("XDG_CACHE_HOME") ? strdup(getenv("XDG_CACHE_HOME")) : NULL;
    char script[512];
    snprintf(script, sizeof script, "#!/bin/sh\necho \"$@\" >>%s\nexec %s \"$@\"\n", log_file,
             compiler && *compiler ? compiler : "cc");
    write_text(wrapper, script);
    chmod(wrapper, 0700);
    setenv("XDG_CACHE_HOME", cache, 1);
    setenv("CC", wrapper, 1);
    bt_error_clear();
}

static void put_back(const char *name, char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    free(value);
}

static void teardown(void)
{
    put_back("CC", old_compiler);
    put_back("XDG_CACHE_HOME", old_cache);
    unsetenv("BETTY_INCLUDE");
    const char *const argv[] = {"rm", "-rf", folder, NULL};
    bt_spawn_result result;
    ck_assert_int_eq(bt_spawn(argv, &result), BT_OK);
    bt_text_free(&result.message);
}

/* The number of times the compiler was asked for a shared object. */
static int builds(void)
{
    char line[4096];
    int count = 0;
    FILE *file = fopen(log_file, "r");
    while (file && fgets(line, sizeof line, file))
        count += strstr(line, "-shared") != NULL;
    if (file)
        fclose(file);
    return count;
}

#define PROBLEM(name)                                                                                                  \
    "#include <betty/betty.h>\n"                                                                                       \
    "static bt_module *module(bt_problem *self) { (void)self; return NULL; }\n"                                        \
    "static bt_tensor *step(bt_problem *self, const bt_batch *batch) { (void)self; (void)batch; return NULL; }\n"      \
    "static const bt_problem_def p = {.name = \"" name "\", .configure_module = module, .training_step = step};\n"     \
    "BT_EXPORT(.problems = {&p});\n"

static bt_status try(const char *name, char *problem)
{
    bt_plugin *plugin;
    const bt_export *parts;
    bt_status s = bt_plugin_open(name, folder, NULL, &plugin, &parts);
    if (s == BT_OK)
        strcpy(problem, parts->problems[0]->name);
    else
        ck_assert_ptr_null(plugin);
    bt_plugin_close(plugin);
    return s;
}

START_TEST(a_file_is_compiled_once)
{
    char name[64];
    write_source("one.c", PROBLEM("first"));
    ck_assert_msg(try("one.c", name) == BT_OK, "%s", bt_error());
    ck_assert_str_eq(name, "first");
    ck_assert_int_eq(builds(), 1);
    ck_assert_int_eq(try("one.c", name), BT_OK);
    ck_assert_int_eq(builds(), 1);

    struct stat info;
    char private[128];
    snprintf(private, sizeof private, "%s/betty", cache);
    ck_assert_int_eq(stat(private, &info), 0);
    ck_assert_uint_eq(info.st_mode & 0777, 0700);

    write_source("one.c", PROBLEM("second"));
    ck_assert_int_eq(try("one.c", name), BT_OK);
    ck_assert_str_eq(name, "second");
    ck_assert_int_eq(builds(), 2);
}
END_TEST

START_TEST(a_changed_header_is_noticed)
{
    char name[64];
    write_source("name.h", "#define NAME \"before\"\n");
    write_source("two.c", "#include \"name.h\"\n#include <betty/betty.h>\n"
                          "static const bt_problem_def p = {.name = NAME};\nBT_EXPORT(.problems = {&p});\n");
    ck_assert_msg(try("two.c", name) == BT_OK, "%s", bt_error());
    ck_assert_str_eq(name, "before");
    write_source("name.h", "#define NAME \"after\"\n");
    ck_assert_int_eq(try("two.c", name), BT_OK);
    ck_assert_str_eq(name, "after");
    setenv("CC", "cc", 1);
    ck_assert_int_eq(try("two.c", name), BT_OK); /* another compiler: another object */
    ck_assert_int_eq(builds(), 2);
}
END_TEST

/* Makes the only object in the cache look unused for this many days. */
static void age_cache(int days, char *path, size_t size)
{
    char private[128];
    snprintf(private, sizeof private, "%s/betty", cache);
    DIR *entries = opendir(private);
    const struct dirent *entry;
    ck_assert_ptr_nonnull(entries);
    while ((entry = readdir(entries)) != NULL && entry->d_name[0] == '.')
        ;
    ck_assert_ptr_nonnull(entry);
    snprintf(path, size, "%s/%s", private, entry->d_name);
    struct timespec times[2] = {{.tv_sec = time(NULL) - (time_t)days * 24 * 3600}};
    times[1] = times[0];
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    closedir(entries);
}

START_TEST(old_objects_are_forgotten)
{
    char name[64], path[512];
    write_source("old.c", PROBLEM("old"));
    ck_assert_int_eq(try("old.c", name), BT_OK);
    age_cache(59, path, sizeof path);
    write_source("new.c", PROBLEM("new"));
    ck_assert_int_eq(try("new.c", name), BT_OK);
    ck_assert_int_eq(access(path, F_OK), 0);
    ck_assert_int_eq(unlink(path), 0); /* so that only the newer one remains */
    age_cache(61, path, sizeof path);
    ck_assert_int_eq(try("new.c", name), BT_OK); /* used: it stays */
    write_source("old.c", PROBLEM("old"));
    ck_assert_int_eq(try("old.c", name), BT_OK);
    ck_assert_int_eq(access(path, F_OK), 0);
    ck_assert_int_eq(builds(), 3);
    write_source("new.c", PROBLEM("newest"));
    struct timespec times[2] = {{.tv_sec = time(NULL) - (time_t)61 * 24 * 3600}};
    times[1] = times[0];
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    ck_assert_int_eq(try("new.c", name), BT_OK);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(a_path_may_be_absolute)
{
    char name[64], path[128];
    write_source("three.c", PROBLEM("third"));
    snprintf(path, sizeof path, "%s/three.c", folder);
    ck_assert_msg(try(path, name) == BT_OK, "%s", bt_error());
    ck_assert_str_eq(name, "third");
}
END_TEST

static void expect_failure(const char *file, bt_status status, const char *part)
{
    char name[64];
    ck_assert_int_eq(try(file, name), status);
    ck_assert_msg(strstr(bt_error(), part) != NULL, "found:    %s\nexpected: %s", bt_error(), part);
    bt_error_clear();
}

static void expect_clean_cache(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/betty", cache);
    DIR *entries = opendir(path);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries)) != NULL)
        ck_assert_msg(entry->d_name[0] == '.', "left in the cache: %s", entry->d_name);
    if (entries)
        closedir(entries);
}

START_TEST(mistakes_in_a_file)
{
    write_source("bad.c", "#include <betty/betty.h>\nint x = ;\n");
    expect_failure("bad.c", BT_ERROR_CONFIG, "/bad.c does not compile:\n");
    write_source("bad.c", "#include <betty/betty.h>\nint x = ;\n");
    expect_failure("bad.c", BT_ERROR_CONFIG, "bad.c:2:");
    write_source("typo.c", "#include <betty/betty.h>\nstatic bt_tensor *f(bt_tensor *x) { return bt_sqare(x); }\n"
                           "void *use = f;\n");
    expect_failure("typo.c", BT_ERROR_CONFIG, "bt_sqare");
    write_source("include.c", "#include <betty/nothing.h>\n");
    expect_failure("include.c", BT_ERROR_CONFIG, "betty/nothing.h");
    expect_clean_cache();
    expect_failure("missing.c", BT_ERROR_FILE, "/missing.c cannot be read: No such file or directory");
    write_source("empty.c", "#include <betty/betty.h>\n");
    expect_failure("empty.c", BT_ERROR_CONFIG,
                   "/empty.c exports nothing: end the file with BT_EXPORT(.problems = {&...});");
    write_source("undefined.c",
                 "#include <betty/betty.h>\nvoid bt_no_such(void);\nvoid *use = (void *)bt_no_such;\n" PROBLEM("p"));
    expect_failure("undefined.c", BT_ERROR_CONFIG, "bt_no_such");
    write_source("abi.c", "#include <betty/betty.h>\nconst bt_export bt_exported = {.abi = BT_ABI + 7};\n");
    expect_failure("abi.c", BT_ERROR_CONFIG, "/abi.c was compiled with headers of version ");
}
END_TEST

START_TEST(surroundings)
{
    write_source("four.c", PROBLEM("fourth"));
    setenv("CC", "/nonexistent/cc", 1);
    expect_failure("four.c", BT_ERROR_FILE, "/nonexistent/cc cannot be run: No such file or directory");
    setenv("CC", "false", 1);
    expect_failure("four.c", BT_ERROR_CONFIG, "/four.c does not compile:\nthe compiler did not say why");
    setenv("CC", wrapper, 1);
    setenv("BETTY_INCLUDE", "/nonexistent", 1);
    expect_failure("four.c", BT_ERROR_FILE, "BETTY_INCLUDE is /nonexistent, but that folder has no betty/betty.h");
    unsetenv("BETTY_INCLUDE");
    char path[128], name[64];
    ck_assert_int_eq(try("four.c", name), BT_OK);
    snprintf(path, sizeof path, "%s/betty", cache);
    chmod(path, 0777);
    expect_failure("four.c", BT_ERROR_FILE, "is not private");
    chmod(path, 0700);

    char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    expect_failure("four.c", BT_ERROR_FILE, "no folder for compiled problems: set HOME or XDG_CACHE_HOME");
    put_back("HOME", home);
    setenv("XDG_CACHE_HOME", wrapper, 1); /* a file */
    expect_failure("four.c", BT_ERROR_FILE, "/wrapper/betty cannot be created: Not a directory");
    setenv("XDG_CACHE_HOME", cache, 1);
    setenv("CC", "cc a b c d e f g h i j k l m n o p q r s t u v w x y z 1 2 3 4 5 6 7 8 9", 1);
    expect_failure("four.c", BT_ERROR_CONFIG, "CC has too many words: cc a b c");
}
END_TEST

START_TEST(the_words_of_cc)
{
    char command[512], name[64];
    snprintf(command, sizeof command, " %s  -DEXTRA=\"5\" ", wrapper);
    setenv("CC", command, 1);
    write_source("five.c", "#ifndef EXTRA\n#error no EXTRA\n#endif\n" PROBLEM("fifth"));
    ck_assert_msg(try("five.c", name) == BT_OK, "%s", bt_error());
}
END_TEST

START_TEST(built_in_problems)
{
    static const bt_problem_def def = {.name = "p"};
    static const bt_export first = {.abi = BT_ABI, .problems = {&def}}, second = {.abi = BT_ABI};
    static const bt_builtin builtins[] = {{"reweight", &first}, {"logistic_hpo", &second}, {NULL, NULL}};
    bt_plugin *plugin;
    const bt_export *parts;
    ck_assert_int_eq(bt_plugin_open("reweight", folder, builtins, &plugin, &parts), BT_OK);
    ck_assert_ptr_eq(parts, &first);
    bt_plugin_close(plugin);
    ck_assert_int_eq(bt_plugin_open("reweigth", folder, builtins, &plugin, &parts), BT_ERROR_CONFIG);
    ck_assert_str_eq(bt_error(), "there is no built-in problem file `reweigth`; did you mean `reweight`? There are: "
                                 "reweight, logistic_hpo, or the path of a .c file");
    bt_error_clear();
    ck_assert_int_eq(bt_plugin_open("own.cpp", folder, builtins, &plugin, &parts), BT_ERROR_CONFIG);
    ck_assert_ptr_nonnull(
        strstr(bt_error(), "own.cpp: problems that are compiled at the start of a run must be .c files"));
    bt_error_clear();
    ck_assert_int_ne(bt_plugin_open(NULL, NULL, NULL, NULL, NULL), BT_OK);
    bt_plugin_close(NULL);
    bt_error_clear();
}
END_TEST

START_TEST(spawn_hashes_and_listens)
{
    static const char *const small[] = {"printf", "abc", NULL}, *const same[] = {"sh", "-c",
                                                                                 "printf a; sleep 0.05; printf bc",
                                                                                 NULL};
    static const char *const other[] = {"printf", "abd", NULL};
    static const char *const loud[] = {
        "sh", "-c",
        "echo oops >&2; i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789; echo "
        "0123456789012345678901234567890123456789 >&2; i=$((i+1)); done; exit 3",
        NULL};
    bt_spawn_result a, b, c, d;
    ck_assert_int_eq(bt_spawn(small, &a), BT_OK);
    ck_assert_int_eq(bt_spawn(same, &b), BT_OK);
    ck_assert_int_eq(bt_spawn(other, &c), BT_OK);
    ck_assert_int_eq(bt_spawn(loud, &d), BT_OK);
    ck_assert(a.good && b.good && c.good && !d.good);
    ck_assert_uint_eq(a.hash, b.hash);
    ck_assert_uint_ne(a.hash, c.hash);
    ck_assert_int_eq(strncmp(bt_text_get(&d.message), "oops\n0123", 9), 0);
    bt_text_free(&a.message);
    bt_text_free(&b.message);
    bt_text_free(&c.message);
    bt_text_free(&d.message);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugin");
    TCase *tests = tcase_create("plugin");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_file_is_compiled_once);
    tcase_add_test(tests, a_changed_header_is_noticed);
    tcase_add_test(tests, old_objects_are_forgotten);
    tcase_add_test(tests, a_path_may_be_absolute);
    tcase_add_test(tests, mistakes_in_a_file);
    tcase_add_test(tests, surroundings);
    tcase_add_test(tests, the_words_of_cc);
    tcase_add_test(tests, built_in_problems);
    tcase_add_test(tests, spawn_hashes_and_listens);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
