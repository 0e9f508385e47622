#include "tests/nn/running.h"

#include "nn/module.h"
#include "support/vars.h"
#include <check.h>
#include <math.h>
#include <string.h>

bt_status try_on(bt_function_fn *call, void *user, bt_mode mode, const field *fields, int count, bt_array result)
{
    bt_batch *batch = bt_batch_new();
    bt_function *function = bt_function_new(call, user, mode);
    bt_status status = BT_OK;
    for (int i = 0; i < count && status == BT_OK; i++)
        status = bt_batch_set(batch, fields[i].name, fields[i].values);
    if (status == BT_OK)
        status = bt_function_run(function, batch, result);
    bt_function_free(function);
    bt_batch_free(batch);
    return status;
}

void run_on(bt_function_fn *call, void *user, bt_mode mode, const field *fields, int count, bt_array result)
{
    ck_assert_msg(try_on(call, user, mode, fields, count, result) == BT_OK, "%s", bt_error());
}

void draw(double *x, int count, uint64_t stream)
{
    for (int i = 0; i < count; i++)
        x[i] = 2 * bt_host_uniform(3, stream, (uint64_t)i) - 1;
}

const double *values_of(bt_module *root, const char *path)
{
    bt_slate *slate = bt_module_find(root, path);
    ck_assert_msg(slate != NULL, "there is no \"%s\"", path);
    return (const double *)(void *)var_near(slate->var);
}

void expect_close(const char *file, int line, const double *found, const double *expected, int count, double within)
{
    for (int i = 0; i < count; i++)
        ck_assert_msg(fabs(found[i] - expected[i]) <= within * (1 + fabs(expected[i])),
                      "%s:%d: [%d]: found %.17g, expected %.17g", file, line, i, found[i], expected[i]);
}

void expect_message(const char *file, int line, const char *part)
{
    ck_assert_msg(strstr(bt_error(), part) != NULL, "%s:%d: message \"%s\" lacks \"%s\"", file, line, bt_error(), part);
    bt_error_clear();
}
