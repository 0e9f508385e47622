/* tests/support/suite.h: what each test program does with its suite. */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <check.h>

int run_suite(Suite *suite); /* what main returns; frees it */

/* In place of Check's own function. BT_TEST_ONLY=NAME[,NAME ...]: tests with other names are left out. */
void add_test(TCase *tests, const TTest *test, int signal, int exit_value, int start, int end);
#define _tcase_add_test add_test

#endif
