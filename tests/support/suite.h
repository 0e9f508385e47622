/* tests/support/suite.h: a test program's end. */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <check.h>

int run_suite(Suite *suite); /* what main returns; frees it */

#endif
