/* tests/support/vars.h: what a variable holds, wherever it lies. Whatever fails, fails the test. */
#ifndef VARS_H
#define VARS_H

#include "runtime/store.h"

/* Its bytes, near; of those on a device a copy, which 64 more calls replace. */
const void *var_near(const bt_var *var);
double var_get(const bt_var *var, int64_t i);
void var_put(bt_var *var, int64_t i, double value);
void var_write(bt_var *var, const void *values); /* all of its bytes */

#endif
