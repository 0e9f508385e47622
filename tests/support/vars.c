/* tests/support/vars.c: access to the values of variables. */
#include "support/vars.h"

#include "runtime/variable.h"
#include <check.h>
#include <stdlib.h>

/* Check writes a line to a file for each passed assertion: too slow to do for each element. */
static void expect(bt_status status)
{
    if (status != BT_OK)
        ck_abort_msg("%s", bt_error());
}

const void *var_near(const bt_var *var)
{
    static void *copies[64];
    static int next;
    const void *near = bt_store_near(NULL, var);
    if (near)
        return near;
    void **copy = &copies[next++ % 64];
    *copy = realloc(*copy, var->bytes + 1);
    expect(bt_store_read(NULL, var, 0, *copy, var->bytes));
    return *copy;
}

double var_get(const bt_var *var, int64_t i) { return bt_get(var->dtype, var_near(var), i); }

void var_put(bt_var *var, int64_t i, double value) { expect(bt_store_put(NULL, var, i, value)); }

void var_write(bt_var *var, const void *values) { expect(bt_store_write(NULL, var, 0, values, var->bytes)); }
