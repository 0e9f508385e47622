/* Errors: the first error of a thread is kept; context is prepended to it. */
#include "base/base.h"

#include "support/suite.h"
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void setup(void) { bt_error_clear(); }

START_TEST(there_is_none_at_first)
{
    ck_assert_str_eq(bt_error(), "");
    ck_assert_int_eq(bt_error_status(), BT_OK);
    bt_error_context("nothing to be put before");
    ck_assert_str_eq(bt_error(), "");
}
END_TEST

START_TEST(the_first_stays)
{
    ck_assert_int_eq(bt_fail(BT_ERROR_DATA, "row %d: no label", 7), BT_ERROR_DATA);
    ck_assert_int_eq(bt_fail(BT_ERROR_FILE, "another"), BT_ERROR_FILE); /* each returns its own status */
    ck_assert_str_eq(bt_error(), "row 7: no label");
    ck_assert_int_eq(bt_error_status(), BT_ERROR_DATA);
    ck_assert_int_eq(bt_fail(BT_OK, "no failure"), BT_OK);
    ck_assert_str_eq(bt_error(), "row 7: no label");
    bt_error_clear();
    ck_assert_str_eq(bt_error(), "");
    ck_assert_int_eq(bt_error_status(), BT_OK);
    ck_assert_int_eq(bt_fail(BT_ERROR_FILE, "another"), BT_ERROR_FILE);
    ck_assert_str_eq(bt_error(), "another");
}
END_TEST

START_TEST(ok_is_no_failure)
{
    ck_assert_int_eq(bt_fail(BT_OK, "nothing happened"), BT_OK);
    ck_assert_str_eq(bt_error(), "");
    ck_assert_int_eq(bt_error_status(), BT_OK);
}
END_TEST

/* A status without a message has a default text: for all of them, and for an unknown one. */
START_TEST(each_status_has_a_text)
{
#define CASE(name, code, text)                                                                                         \
    bt_error_clear();                                                                                                  \
    ck_assert_int_eq((int)name, code);                                                                                 \
    ck_assert_int_eq(bt_fail(name, NULL), name);                                                                       \
    ck_assert_str_eq(bt_error(), name == BT_OK ? "" : text);                                                           \
    bt_error_clear();                                                                                                  \
    bt_fail(name, "%s", "");                                                                                           \
    ck_assert_str_eq(bt_error(), name == BT_OK ? "" : text);
    BT_STATUS_LIST(CASE)
#undef CASE
    bt_error_clear();
    bt_fail((bt_status)99, NULL);
    ck_assert_str_eq(bt_error(), "unknown status");
}
END_TEST

START_TEST(context_stands_before)
{
    bt_fail(BT_ERROR_SHAPE, "shapes [2] and [3]");
    bt_error_context("%s.%d", "layer", 1);
    bt_error_context("net");
    bt_error_context("net"); /* repeating it adds nothing */
    ck_assert_str_eq(bt_error(), "net: layer.1: shapes [2] and [3]");
    ck_assert_int_eq(bt_error_status(), BT_ERROR_SHAPE);
}
END_TEST

/* The length of messages is limited: neither they nor their context ever overflow. */
START_TEST(long_messages_are_cut)
{
    static char text[20000];
    memset(text, 'x', sizeof text - 1);
    bt_fail(BT_ERROR_DATA, "begin %s", text);
    size_t length = strlen(bt_error());
    ck_assert_uint_gt(length, 1000);
    ck_assert_uint_lt(length, 10000);
    ck_assert_int_eq(strncmp(bt_error(), "begin xxx", 9), 0);
    bt_error_context("where");
    ck_assert_int_eq(strncmp(bt_error(), "where: begin xxx", 16), 0);
    ck_assert_uint_eq(strlen(bt_error()), length);
    for (int i = 0; i < 1000; i++)
        bt_error_context("again and again %d", i);
    ck_assert_uint_le(strlen(bt_error()), length);
    bt_error_context("%s", text); /* the context itself is too long: the message stays unchanged */
    ck_assert_int_eq(strncmp(bt_error(), "again and again 999: again", 26), 0);
}
END_TEST

static void *fail_elsewhere(void *user)
{
    const char **found = user;
    found[0] = *bt_error() ? "the other thread sees the failure" : NULL;
    bt_fail(BT_ERROR_FILE, "there");
    return NULL;
}

START_TEST(each_thread_has_its_own)
{
    pthread_t thread;
    const char *fault = NULL;
    bt_fail(BT_ERROR_DATA, "here");
    ck_assert_int_eq(pthread_create(&thread, NULL, fail_elsewhere, &fault), 0);
    pthread_join(thread, NULL);
    ck_assert_ptr_null(fault);
    ck_assert_str_eq(bt_error(), "here");
}
END_TEST

/* Control bytes from any name are shown escaped; UTF-8 text is unchanged. */
START_TEST(control_bytes)
{
    static const struct {
        const char *name, *shown;
    } cases[] = {
        {"\033[31mred\a", "\\x1b[31mred\\x07"},
        {"a\r\b\177b", "a\\x0d\\x08\\x7fb"},
        {"\302\2331m", "\\xc2\\x9b1m"},
        {"gr\303\274\303\237e \302\240\n\tx", "gr\303\274\303\237e \302\240\n\tx"},
    };
    char due[64], many[5000];
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        bt_error_clear();
        bt_fail(BT_ERROR_FILE, "%s: gone", cases[i].name);
        snprintf(due, sizeof due, "%s: gone", cases[i].shown);
        ck_assert_str_eq(bt_error(), due);
        bt_error_clear();
        bt_fail(BT_ERROR_FILE, "gone");
        bt_error_context("%s", cases[i].name);
        ck_assert_str_eq(bt_error(), due);
    }
    memset(many, '\033', sizeof many - 1);
    many[sizeof many - 1] = 0;
    bt_error_clear();
    bt_fail(BT_ERROR_FILE, "%s", many);
    ck_assert_ptr_null(strchr(bt_error(), '\033'));
    ck_assert_str_eq(bt_error() + strlen(bt_error()) - 3, "...");
    bt_error_clear();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("status");
    TCase *tests = tcase_create("status");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, there_is_none_at_first);
    tcase_add_test(tests, control_bytes);
    tcase_add_test(tests, the_first_stays);
    tcase_add_test(tests, ok_is_no_failure);
    tcase_add_test(tests, each_status_has_a_text);
    tcase_add_test(tests, context_stands_before);
    tcase_add_test(tests, long_messages_are_cut);
    tcase_add_test(tests, each_thread_has_its_own);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
