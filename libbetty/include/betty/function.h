/* betty/function.h: functions without a problem */
#ifndef BETTY_FUNCTION_H
#define BETTY_FUNCTION_H

#include <betty/base.h>
#include <betty/data.h>
#include <betty/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A traced function, compiled at the first run and whenever shapes change. The values that it sets and the losses that
 * it minimises take effect at the end of each run. Values that it takes from C are constants: runs 2, 3, 10, 100, ...
 * trace it again, and fail if the trace has changed. */
typedef bt_tensor *bt_function_fn(void *user, const bt_batch *batch); /* traced */
bt_function *bt_function_new(bt_function_fn *fn, void *user, bt_mode mode);
bt_status bt_function_run(bt_function *function, const bt_batch *batch, bt_array result); /* result is converted */
void bt_function_free(bt_function *function);

#ifdef __cplusplus
}
#endif
#endif
