/* graph/variable.c: where the bytes of variables are. */
#include "graph/variable.h"

#include <string.h>

bt_var *bt_var_root(bt_var *var) { return var->base ? var->base : var; }

bt_space bt_var_space(const bt_var *var) { return var->base ? var->base->space : var->space; }

size_t bt_var_start(const bt_var *var) { return var->base ? var->offset : 0; }

bt_array bt_var_array(const bt_var *var)
{
    bt_array array = {.dtype = var->dtype, .rank = var->rank};
    memcpy(array.dims, var->dims, sizeof array.dims);
    return array;
}

bool bt_var_overlap(const bt_var *a, const bt_var *b)
{
    const bt_var *root_a = a->base ? a->base : a, *root_b = b->base ? b->base : b;
    size_t from_a = bt_var_start(a), from_b = bt_var_start(b);
    return root_a == root_b && from_a < from_b + b->bytes && from_b < from_a + a->bytes;
}
