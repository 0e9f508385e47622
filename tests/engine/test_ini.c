/* INI files as iniparser reads them, and where that is ambiguous. The expected results come from iniparser itself,
 * called here without our code, and from lines whose meaning is obvious. */
#include "engine/config/config.h"
#include "engine/config/ini.h"

#include "support/suite.h"
#include <check.h>
#include <iniparser.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/betty-ini-test-XXXXXX";

static void setup(void)
{
    strcpy(path + strlen(path) - 6, "XXXXXX");
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file);
    bt_error_clear();
}

static void teardown(void) { unlink(path); }

static void write_text(const char *text)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    fclose(file);
}

typedef struct found {
    char text[4096]; /* "section.key=value@line " for each entry */
    int count;
} found;

static bt_status collect(void *user, const char *section, const char *key, const char *value, int64_t line)
{
    found *all = user;
    size_t length = strlen(all->text);
    snprintf(all->text + length, sizeof all->text - length, key ? "%s.%s=%s@%d\n" : "%s%s%s@%d\n", section,
             key ? key : "", value ? value : "", (int)line);
    all->count++;
    return BT_OK;
}

static bt_status read_text(const char *text, found *all)
{
    write_text(text);
    *all = (found){.count = 0};
    return bt_ini_read(path, collect, all);
}

/* The message begins with the file and `line` and contains `part`, and no entry was reported. */
static void expect_refused(const char *text, int line, const char *part)
{
    found all;
    char where[128];
    snprintf(where, sizeof where, "%s:%d: ", path, line);
    ck_assert_int_eq(read_text(text, &all), BT_ERROR_CONFIG);
    ck_assert_msg(strncmp(bt_error(), where, strlen(where)) == 0, "found: %s; expected: %s...", bt_error(), where);
    ck_assert_msg(strstr(bt_error(), part) != NULL, "found: %s; expected: ...%s...", bt_error(), part);
    ck_assert_int_eq(all.count, 0);
    bt_error_clear();
}

START_TEST(names_lines_and_values)
{
    found all;
    ck_assert_int_eq(
        read_text("; first\n[Engine]\nSeed = 3 # c\n\n[ a.B ]\nx=\"; \"\ny = ' \"q\" ' ; z\nz\t= \\a\\b c'd\"\n", &all),
        BT_OK);
    ck_assert_str_eq(all.text, "Engine@2\nEngine.Seed=3@3\na.B@5\na.B.x=; @6\na.B.y= \"q\" @7\na.B.z=\\a\\b c'd\"@8\n");
}
END_TEST

/* A file that could be read in two ways is refused, at the line. */
START_TEST(two_readings)
{
    expect_refused("[a]\n\nx = b;c\n", 3, "[a] x: is it `b` or `b;c`?");
    expect_refused("[a]\nx = b#c ; d\n", 2, "[a] x: is it `b` or `b#c`?");
    expect_refused("[a]\nx = \"b\\\"c\"\n", 2, "[a] x: is it `b\\` or `b\"c`?");
    expect_refused("[a]\nx = \"b\\\\c\"\n", 2, "[a] x: is it `b\\\\c` or `b\\c`?");
    expect_refused("[a]\nx = b\\\ny = c\n", 2, "a \\ at the end of a line");
    expect_refused("[a]\n; in C:\\ \nx = 1\n", 2, "a \\ at the end of a line");
    expect_refused("[a] ; why\nx = 1\n", 1, "found the comment `; why`");
    expect_refused("[a] ; [b]\nx = 1\n", 1, "found the comment `; [b]`");
    expect_refused("[a]\nx = 'b\n", 2, "x: the value's closing ' is missing");
    expect_refused("[a]\nx = 'b' c\n", 2, "x: after the value's closing ' only a comment may follow");
    expect_refused("[a]\nx = ''\n", 2, "[a] x has no value");
    expect_refused("[a]\nx\n", 2, "found `x`"); /* a line of one character, which iniparser ignores */
}
END_TEST

START_TEST(names_that_differ_in_case_only)
{
    char message[256];
    snprintf(message, sizeof message, "[a] LR is set twice, first at %s:2 as lr: upper and lower case do not matter",
             path);
    expect_refused("[a]\nlr = 1\nLR = 2\n", 3, message);
    snprintf(message, sizeof message, "section [A] occurs twice, first at %s:1 as a: upper", path);
    expect_refused("[a]\nlr = 1\n[A]\n", 3, message);
}
END_TEST

/* The longest line that iniparser accepts, and one character more, with and without an end of line; also comments. */
START_TEST(long_lines)
{
    static const char *const ends[] = {"", "\n", "\nz = 1\n"};
    for (int length = 1021; length <= 1024; length++)
        for (int e = 0; e < BT_COUNT_OF(ends); e++)
            for (int comment = 0; comment < 2; comment++) {
                char text[2048], line[64];
                snprintf(text, sizeof text, "[a]\n%s%0*d%s", comment ? "; " : "x=", length - 2, 7, ends[e]);
                found all;
                bt_status status = read_text(text, &all);
                if (length <= 1022) {
                    dictionary *values = iniparser_load(path);
                    ck_assert_ptr_nonnull(values);
                    ck_assert_int_eq(status, BT_OK);
                    ck_assert_int_eq(values->n, all.count);
                    iniparser_freedict(values);
                    continue;
                }
                snprintf(line, sizeof line, ":2: the line has %d characters", length);
                ck_assert_int_eq(status, BT_ERROR_CONFIG);
                ck_assert_msg(strstr(bt_error(), line) != NULL, "%s", bt_error());
                bt_error_clear();
            }
}
END_TEST

/* Every text of up to five of these characters: if it is written, iniparser alone reads it back unchanged; it is only
 * refused if none of the three ways to write it would work. */
START_TEST(written_values_read_back)
{
    static const char letters[] = "a ;\"'\\=]";
    enum { LETTERS = sizeof letters - 1, DIGITS = 4 };
    long refused = 0, written = 0, all = 1;
    for (int i = 0; i < DIGITS; i++)
        all *= LETTERS;
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "[v]\n");
    char value[DIGITS + 1];
    for (int pass = 0; pass < 2; pass++) {
        dictionary *values = pass ? iniparser_load(path) : NULL;
        ck_assert_int_eq(pass, values != NULL);
        for (long number = 0; number < all * DIGITS; number++) {
            int length = (int)(number / all) + 1;
            long rest = number % all;
            for (int i = 0; i < length; i++, rest /= LETTERS)
                value[i] = letters[rest % LETTERS];
            value[length] = 0;
            bt_text text = {0};
            bool can = bt_ini_print_value(value, &text);
            ck_assert_int_eq(can, bt_ini_check_value("x", "x", value) == BT_OK);
            bt_error_clear();
            char key[32];
            snprintf(key, sizeof key, pass ? "v:k%ld" : "k%ld", number);
            if (pass && can)
                ck_assert_str_eq(iniparser_getstring(values, key, "lost"), value);
            else if (can)
                fprintf(file, "%s = %s\n", key, bt_text_get(&text));
            refused += !can;
            written += can;
            bool needed = strpbrk(value, ";") || strchr(" \"'", value[0]) || strchr(" \\", value[length - 1]);
            ck_assert_int_eq(!can, needed && strchr(value, '\'') && strpbrk(value, "\"\\"));
            bt_text_free(&text);
        }
        if (pass)
            iniparser_freedict(values);
        else
            fclose(file);
    }
    ck_assert_int_gt(refused, 1000);
    ck_assert_int_gt(written, refused);
}
END_TEST

/* A value that no INI file can hold is refused when it is set, by any means. */
START_TEST(unwritable_values_are_refused)
{
    char text[2048];
    snprintf(text, sizeof text, "%01100d", 7);
    bt_config *config = bt_config_new();
    ck_assert_int_eq(bt_config_set(config, "engine.output", "a;b\"c'", "--set engine.output"), BT_ERROR_CONFIG);
    ck_assert_msg(strncmp(bt_error(), "--set engine.output = a;b\"c': an INI file cannot hold this value", 60) == 0,
                  "%s", bt_error());
    bt_error_clear();
    ck_assert_int_eq(bt_config_set(config, "engine.output", text, "bt_engine_set"), BT_ERROR_CONFIG);
    ck_assert_str_eq(bt_error(),
                     "bt_engine_set: [engine] output: the value has 1100 characters, and its line would have "
                     "1109; the lines of an INI file have at most 1022");
    bt_error_clear();
    ck_assert_int_eq(bt_config_set(config, "engine.output", "a;b\"c", "--set engine.output"), BT_OK);
    ck_assert_str_eq(bt_config_engine(config)->output, "a;b\"c");
    ck_assert_int_eq(bt_config_add_problem(config, "a"), BT_OK);
    ck_assert_int_eq(bt_config_resolve(config), BT_ERROR_CONFIG); /* no method: type has no default here */
    bt_error_clear();
    bt_config_free(config);
}
END_TEST

/* A hundred levels: both lists of dependencies are too long for one line. The printed form reads back the same, also by
 * iniparser alone, and the same list in one setting gives the same configuration. */
START_TEST(long_lists)
{
    static const bt_method_def darts = {.name = "darts"};
    enum { LEVELS = 100 };
    bt_text text = {0}, whole = {0}, again = {0};
    for (int i = 0; i + 1 < LEVELS; i++)
        bt_text_add(&whole, "%slevel%d > level%d", i ? ", " : "", i, i + 1);
    bt_text_add(&text, "[dependencies]\n");
    for (int i = 0; i + 1 < LEVELS; i++)
        if (i % 40 == 0)
            bt_text_add(&text, i ? "\nu2l_%d = level%d > level%d" : "U2L%.0d = level%d > level%d", i / 40 + (i > 0), i,
                        i + 1);
        else
            bt_text_add(&text, ", level%d > level%d%s", i, i + 1, i % 40 == 39 ? "," : "");
    for (int pass = 0; pass < 3; pass++) { /* the file; its printed form; the file with an overriding setting */
        write_text(pass == 1 ? bt_text_get(&again)
                   : pass    ? "[dependencies]\nu2l = level7 > level1\nu2l_2 = a > b\n"
                             : bt_text_get(&text));
        bt_config *config = bt_config_new();
        ck_assert_int_eq(bt_config_add_method(config, &darts), BT_OK);
        if (pass == 2)
            ck_assert_int_eq(bt_config_set(config, "dependencies.u2l", bt_text_get(&whole), "--set x"), BT_OK);
        ck_assert_int_eq(bt_config_read(config, path), BT_OK);
        for (int i = 0; i < LEVELS; i++) {
            char name[32];
            snprintf(name, sizeof name, "level%d", i);
            ck_assert_int_eq(bt_config_add_problem(config, name), BT_OK);
        }
        ck_assert_ptr_nonnull(bt_config_engine(config));
        ck_assert_msg(bt_config_resolve(config) == BT_OK, "%s", bt_error());
        int count;
        const bt_dependency *edges = bt_config_dependencies(config, &count);
        ck_assert_int_eq(count, LEVELS - 1);
        for (int i = 0; i < count; i++)
            ck_assert_int_eq(atoi(edges[i].from + 5), i);
        FILE *file = fopen(path, "w+");
        ck_assert_int_eq(bt_config_print(config, file), BT_OK);
        rewind(file);
        bt_text_free(&again);
        for (char line[2048]; fgets(line, sizeof line, file);)
            bt_text_add(&again, "%s", line);
        fclose(file);
        dictionary *values = iniparser_load(path);
        bt_text joined = {0};
        bt_text_add(&joined, "%s", iniparser_getstring(values, "dependencies:u2l", ""));
        for (int part = 2; part < 4; part++) {
            char key[32];
            snprintf(key, sizeof key, "dependencies:u2l_%d", part);
            bt_text_add(&joined, ", %s", iniparser_getstring(values, key, ""));
        }
        ck_assert_str_eq(bt_text_get(&joined), bt_text_get(&whole));
        ck_assert_ptr_null(iniparser_getstring(values, "dependencies:u2l_4", NULL));
        bt_text_free(&joined);
        iniparser_freedict(values);
        bt_config_free(config);
    }
    bt_text_free(&text);
    bt_text_free(&whole);
    bt_text_free(&again);
}
END_TEST

/* A continuation line needs the one before it; a key that is not a list has no continuation lines; an item must fit on
 * a line. */
START_TEST(lists_that_do_not_go_on)
{
    static const char *const wrong[][2] = {
        {"[engine]\nlevels_2 = a\n", "[engine] levels_2: a list must continue without gaps"},
        {"[engine]\nlevels = a\nlevels_3 = b\n", "number 2 is missing before this line"},
        {"[engine]\nlevels = a\nlevels_2 = b\nlevels_3 = b\nLEVELS_5 = c\n", "number 4 is missing before this line"},
        {"[engine]\nlevels = a\nlevels_02 = b\n", "has no key `levels_02`; did you mean `levels`?"},
        {"[engine]\noutput = a\noutput_2 = b\n", "has no key `output_2`; did you mean `output`?"},
    };
    for (int i = 0; i < BT_COUNT_OF(wrong); i++) {
        bt_config *config = bt_config_new();
        write_text(wrong[i][0]);
        ck_assert(bt_config_read(config, path) == BT_ERROR_CONFIG || !bt_config_engine(config));
        ck_assert_msg(strstr(bt_error(), wrong[i][1]) != NULL, "%s", bt_error());
        bt_error_clear();
        bt_config_free(config);
    }
    char text[2048];
    snprintf(text, sizeof text, "a, %01100d, b", 7);
    bt_config *config = bt_config_new();
    ck_assert_int_eq(bt_config_set(config, "engine.levels", text, "bt_engine_set"), BT_ERROR_CONFIG);
    ck_assert_msg(strstr(bt_error(), "the value has 1100 characters") != NULL, "%s", bt_error());
    bt_error_clear();
    bt_config_free(config);
}
END_TEST

START_TEST(case_of_names_does_not_matter)
{
    static const bt_method_def darts = {.name = "darts"};
    write_text("[ENGINE]\nSEED = 7\n[Dependencies]\nU2L = UP > low\nl2u = Low > up\n[LOW]\nLR = 0.5\nHidden = 9\n"
               "[low.Biases]\nParams = *.bias\nlR = 0.25\n");
    bt_config *config = bt_config_new();
    bt_config_add_method(config, &darts);
    bt_config_read(config, path);
    bt_config_set(config, "Engine.Seed", "8", "--set Engine.Seed");
    ck_assert_str_eq(bt_error(), "");
    ck_assert_int_eq(bt_config_engine(config)->seed, 8);
    bt_config_add_problem(config, "Up");
    bt_config_add_problem(config, "low");
    ck_assert_int_eq(bt_config_resolve(config), BT_OK);
    int64_t hidden = 0;
    ck_assert_int_eq(bt_config_option_int(config, "low", "hidden", 1, 1, 10, &hidden), BT_OK);
    ck_assert_int_eq(hidden, 9);
    ck_assert_int_eq(bt_config_finish(config), BT_OK);
    const bt_problem_settings *low = bt_config_problem(config, "low");
    ck_assert_double_eq(low->hypers[0], 0.5);
    ck_assert_int_eq(low->group_count, 1);
    ck_assert_double_eq(low->groups[0].hypers[0], 0.25);
    int count;
    ck_assert_str_eq(bt_config_dependencies(config, &count)[0].from, "Up");
    ck_assert_int_eq(count, 2);
    bt_config_free(config);
}
END_TEST

/* A pipe can only be read once; iniparser reads a temporary copy, which is removed. */
START_TEST(pipes)
{
    static const char text[] = "[a]\nx = 1\n";
    char name[64], folder[] = "/tmp/betty-ini-test-XXXXXX";
    int ends[2];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("TMPDIR", folder, 1);
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], text, sizeof text - 1), (int)sizeof text - 1);
    close(ends[1]);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    found all = {.count = 0};
    ck_assert_int_eq(bt_ini_read(name, collect, &all), BT_OK);
    ck_assert_str_eq(all.text, "a@1\na.x=1@2\n");
    close(ends[0]);
    ck_assert_int_eq(rmdir(folder), 0); /* it is empty */
    ck_assert_int_eq(read_text("\xef\xbb\xbf[a]\n", &all), BT_ERROR_FILE);
    ck_assert_msg(strstr(bt_error(), folder) && strstr(bt_error(), path), "%s", bt_error());
    unsetenv("TMPDIR");
    bt_error_clear();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ini");
    TCase *tests = tcase_create("ini");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, names_lines_and_values);
    tcase_add_test(tests, two_readings);
    tcase_add_test(tests, names_that_differ_in_case_only);
    tcase_add_test(tests, long_lines);
    tcase_add_test(tests, written_values_read_back);
    tcase_add_test(tests, unwritable_values_are_refused);
    tcase_add_test(tests, long_lists);
    tcase_add_test(tests, lists_that_do_not_go_on);
    tcase_add_test(tests, case_of_names_does_not_matter);
    tcase_add_test(tests, pipes);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
