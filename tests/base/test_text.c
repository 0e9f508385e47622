/* Text: strings that grow, the closest word of a list, human-readable sizes. */
#include "base/base.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static void setup(void) { bt_error_clear(); }

START_TEST(text_grows)
{
    bt_text text = {0};
    ck_assert_str_eq(bt_text_get(&text), "");
    bt_text_add(&text, "%s", "");
    ck_assert_str_eq(bt_text_get(&text), "");
    for (int i = 0; i < 1000; i++)
        bt_text_add(&text, "%d,", i % 10);
    ck_assert_int_eq(text.size, 2000);
    ck_assert_uint_eq(strlen(bt_text_get(&text)), 2000);
    for (int i = 0; i < 1000; i++)
        ck_assert(text.data[2 * i] == '0' + i % 10 && text.data[2 * i + 1] == ',');
    ck_assert(!text.failed);
    bt_text_free(&text);
    ck_assert(!text.data && !text.size && !text.capacity);
    ck_assert_str_eq(bt_text_get(&text), "");
    bt_text_add(&text, "%.3f %s", 2.0, "again"); /* usable after it has been freed */
    ck_assert_str_eq(bt_text_get(&text), "2.000 again");
    bt_text_free(&text);
}
END_TEST

static char *format(const char *text, ...)
{
    va_list args;
    va_start(args, text);
    char *result = bt_format(text, args);
    va_end(args);
    return result;
}

START_TEST(formats)
{
    char *text = format("cell%d.%s", 3, "weight");
    ck_assert_str_eq(text, "cell3.weight");
    bt_free(text);
    text = format(NULL);
    ck_assert_str_eq(text, "");
    bt_free(text);
    ck_assert_ptr_null(bt_strdup(NULL));
    text = bt_strdup("copied");
    ck_assert_str_eq(text, "copied");
    bt_free(text);
}
END_TEST

START_TEST(utf8)
{
    static const struct {
        const char *text;
        size_t bytes; /* of the first character */
        bool whole;
    } cases[] = {
        {"", 0, true},
        {"a", 1, true},
        {"\xc3\xa9", 2, true},
        {"\xe2\x82\xac!", 3, true},
        {"\xf0\x9f\x98\x80", 4, true},
        {"a\xe9", 1, false}, /* Latin-1 */
        {"\xe9t\xe9", 0, false},
        {"\x80", 0, false},
        {"\xc0\xaf", 0, false},     /* overlong encoding */
        {"\xe0\x9f\xbf", 0, false}, /* overlong encoding */
        {"\xed\xa0\x80", 0, false}, /* half of a UTF-16 surrogate pair */
        {"\xf4\x90\x80\x80", 0, false},
        {"\xe2\x82", 0, false}, /* ends within a character */
        {"\xf0\x9f\x98", 0, false},
        {"\xff", 0, false},
    };
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        ck_assert_uint_eq(bt_utf8_bytes(cases[i].text), cases[i].bytes);
        ck_assert_int_eq(bt_is_utf8(cases[i].text), cases[i].whole);
    }
}
END_TEST

START_TEST(the_nearest_word)
{
    static const char *const words[] = {"optimizer",    "unroll_steps", "momentum", "lr",
                                        "weight_decay", "lr_decay",     NULL};
    static const struct {
        const char *word, *nearest;
    } cases[] = {{"optimizer", "optimizer"},
                 {"optimiser", "optimizer"},  /* replaced */
                 {"otpimizer", "optimizer"},  /* swapped: one edit */
                 {"optimize", "optimizer"},   /* left out */
                 {"optimizers", "optimizer"}, /* too many */
                 {"OPTIMIZER", "optimizer"},  /* case */
                 {"unrol_step", "unroll_steps"},
                 {"momentm", "momentum"},
                 {"weightdecay", "weight_decay"},
                 {"lr-decay", "lr_decay"},
                 {"rl", "lr"},
                 {"completely_else", NULL},
                 {"dropout", NULL}};
    static const char *const none[] = {NULL};
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        const char *found = bt_nearest(cases[i].word, words);
        if (cases[i].nearest)
            ck_assert_pstr_eq(found, cases[i].nearest);
        else
            ck_assert_ptr_null(found);
    }
    ck_assert_ptr_null(bt_nearest(NULL, words));
    ck_assert_ptr_null(bt_nearest("lr", NULL));
    ck_assert_ptr_null(bt_nearest("lr", none));
}
END_TEST

/* Words longer than any key, from the user or in the list, are not near anything. */
START_TEST(long_words_are_near_to_nothing)
{
    static char endless[5000], as_long[65], too_long[66];
    memset(endless, 'a', sizeof endless - 1);
    memset(as_long, 'a', sizeof as_long - 1);
    memset(too_long, 'a', sizeof too_long - 1);
    const char *const words[] = {too_long, as_long, NULL}, *const long_words[] = {endless, NULL};
    ck_assert_ptr_null(bt_nearest(endless, words));
    ck_assert_ptr_null(bt_nearest("a", long_words));
    as_long[10] = 'b';
    ck_assert_ptr_eq(bt_nearest(as_long, words), as_long);
}
END_TEST

START_TEST(of_two_the_nearer)
{
    static const char *const short_words[] = {"the", "ten", NULL};
    ck_assert_pstr_eq(bt_nearest("teh", short_words), "the"); /* one swap; the other needs one replacement */
    static const char *const words[] = {"beta1", "beta2", "bet", NULL};
    ck_assert_pstr_eq(bt_nearest("beta2", words), "beta2");
    ck_assert_pstr_eq(bt_nearest("beta", words), "beta1"); /* the first of several equals */
    ck_assert_pstr_eq(bt_nearest("be", words), "bet");
}
END_TEST

START_TEST(patterns)
{
    static const struct {
        const char *pattern, *name, *parts[3]; /* NULL: there is no such star */
        bool fits;
    } cases[] = {
        {"", "", {NULL}, true},
        {"", "a", {NULL}, false},
        {"a.b", "a.b", {NULL}, true},
        {"a.b", "a.bc", {NULL}, false},
        {"a.bc", "a.b", {NULL}, false},
        {"*", "", {""}, true},
        {"*", "abc", {"abc"}, true},
        {"a?c", "abc", {NULL}, true},
        {"a?", "a", {NULL}, false},
        {"*.b", "a.b.b", {"a.b"}, true},
        {"*.*.b", "a.c.d.b", {"a", "c.d"}, true},
        {"*a*b*", "xaybzb", {"x", "y", "zb"}, true},
        {"**", "ab", {"", "ab"}, true},
        {"x*y", "xy", {""}, true},
        {"x*y", "xyz", {NULL}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bt_star parts[3];
        int count = -1;
        bool fits = bt_match(cases[i].pattern, strlen(cases[i].pattern), cases[i].name, parts, 3, &count);
        ck_assert_msg(fits == cases[i].fits, "%s, %s", cases[i].pattern, cases[i].name);
        for (int k = 0; fits && k < 3; k++) {
            ck_assert_msg((k < count) == (cases[i].parts[k] != NULL), "%s: %d stars", cases[i].pattern, count);
            if (k < count)
                ck_assert_msg(parts[k].length == strlen(cases[i].parts[k]) &&
                                  strncmp(parts[k].text, cases[i].parts[k], parts[k].length) == 0,
                              "%s, %s: star %d is %.*s", cases[i].pattern, cases[i].name, k, (int)parts[k].length,
                              parts[k].text);
        }
    }
}
END_TEST

/* With backtracking to every star, this would practically never end. */
START_TEST(a_pattern_of_many_stars)
{
    static char name[2001];
    static const char pattern[] = "*a*a*a*a*a*a*a*a*a*a*b";
    memset(name, 'a', sizeof name - 1);
    ck_assert(!bt_match(pattern, strlen(pattern), name, NULL, 0, NULL));
    name[sizeof name - 2] = 'b';
    ck_assert(bt_match(pattern, strlen(pattern), name, NULL, 0, NULL));
}
END_TEST

START_TEST(bytes_for_people)
{
    static const struct {
        size_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"},
                 {48, "48 B"},
                 {1023, "1023 B"},
                 {1024, "1.0 KiB"},
                 {1946, "1.9 KiB"},
                 {20971520, "20.0 MiB"},
                 {(size_t)3 << 30, "3.0 GiB"},
                 {(size_t)5 << 40, "5.0 TiB"},
                 {SIZE_MAX, "16777216.0 TiB"}};
    char buffer[32];
    for (int i = 0; i < BT_COUNT_OF(cases); i++)
        ck_assert_str_eq(bt_bytes_text(buffer, cases[i].bytes), cases[i].text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text");
    TCase *tests = tcase_create("text");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, text_grows);
    tcase_add_test(tests, formats);
    tcase_add_test(tests, utf8);
    tcase_add_test(tests, the_nearest_word);
    tcase_add_test(tests, long_words_are_near_to_nothing);
    tcase_add_test(tests, of_two_the_nearer);
    tcase_add_test(tests, patterns);
    tcase_add_test(tests, a_pattern_of_many_stars);
    tcase_add_test(tests, bytes_for_people);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
