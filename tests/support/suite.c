/* tests/support/suite.c: selects the tests of a suite to run, and ends a test program. */
#include "support/suite.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

static bool is_in(const char *list, const char *name)
{
    const size_t size = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += size)
        if ((at == list || at[-1] == ',') && (!at[size] || at[size] == ','))
            return true;
    return false;
}

#undef _tcase_add_test
void add_test(TCase *tests, const TTest *test, int signal, int exit_value, int start, int end)
{
    const char *only = getenv("BT_TEST_ONLY");
    if (!only || is_in(only, test->name))
        _tcase_add_test(tests, test, signal, exit_value, start, end);
}
