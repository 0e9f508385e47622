/* betty/function.h: functions without a problem */
#ifndef BETTY_FUNCTION_H
#define BETTY_FUNCTION_H

#include <betty/base.h>
#include <betty/data.h>
#include <betty/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Compiled at the first run and when shapes change; what it sets and minimises is applied at the end of each run. What
 * it takes from the C side is a constant: runs 2, 3, 10, 100, ... trace it again, and one that records something else
 * fails. */
typedef bt_tensor *bt_function_fn(void *user, const bt_batch *batch); /* traced */
bt_function *bt_function_new(bt_function_fn *fn, void *user, bt_mode mode);
bt_status bt_function_run(bt_function *function, const bt_batch *batch, bt_array result); /* result is converted */
void bt_function_free(bt_function *function);

#ifdef __cplusplus
}
#endif
#endif
