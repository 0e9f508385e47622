/* tests/support/vars.h: reads and writes variables, wherever they lie. Any failure fails the test. */
#ifndef VARS_H
#define VARS_H

#include "runtime/store.h"

/* Its bytes in host memory; for a variable on a device, a copy that is valid for the next 63 calls. */
const void *var_near(const bt_var *var);
double var_get(const bt_var *var, int64_t i);
void var_put(bt_var *var, int64_t i, double value);
void var_write(bt_var *var, const void *values); /* all of its bytes */

#endif
