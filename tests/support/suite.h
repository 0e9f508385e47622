/* tests/support/suite.h: how each test program runs its suite. */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <check.h>

int run_suite(Suite *suite); /* returns the exit code for main; frees the suite */

/* Replaces Check's own function. BT_TEST_ONLY=NAME[,NAME ...] runs only the tests with these names. */
void add_test(TCase *tests, const TTest *test, int signal, int exit_value, int start, int end);
#define _tcase_add_test add_test

#endif
