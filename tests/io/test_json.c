/* tests/io/test_json.c: reading JSON from outside: any bytes. */
#include "io/json.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(any_bytes)
{
    static const struct {
        const char *text, *due;
    } cases[] = {
        {"", ""},
        {"caf\xc3\xa9 \x01", "caf\xc3\xa9 \x01"},   /* valid UTF-8 is kept */
        {"caf\xe9/runs", "caf\\xe9/runs"},          /* Latin-1 */
        {"\xff\xc3\xa9\xfe", "\\xff\xc3\xa9\\xfe"}, /* both */
        {"\xc3", "\\xc3"},
    };
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        json_t *found = bt_json_string(cases[i].text);
        ck_assert_ptr_nonnull(found);
        ck_assert_str_eq(json_string_value(found), cases[i].due);
        json_decref(found);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json");
    TCase *tests = tcase_create("json");
    tcase_add_test(tests, any_bytes);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
