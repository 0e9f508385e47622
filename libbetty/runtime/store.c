/* runtime/store.c: the bytes of variables. */
#include "runtime/store.h"

#include "runtime/phase.h"

static const bt_device_memory *memory_of(const bt_instance *instance)
{
    return instance ? instance->backend->memory : &bt_near_memory;
}

/* Where the bytes lie; NULL after an error. */
static char *find(const bt_var *var, size_t offset, size_t bytes)
{
    char *data = bt_var_data(var);
    if (!data)
        bt_fail(BT_ERROR_INTERNAL, "%s is not bound to data", var->name);
    else if (offset > var->bytes || var->bytes - offset < bytes)
        bt_fail(BT_ERROR_INTERNAL, "%s: %zu bytes from byte %zu on, of %zu", var->name, bytes, offset, var->bytes);
    else
        return data + offset;
    return NULL;
}

bt_status bt_store_read(const bt_instance *instance, const bt_var *var, size_t offset, void *to, size_t bytes)
{
    const char *from = find(var, offset, bytes);
    if (!from)
        return BT_ERROR_INTERNAL;
    memory_of(instance)->read(to, from, bytes);
    return BT_OK;
}

bt_status bt_store_write(const bt_instance *instance, bt_var *var, size_t offset, const void *from, size_t bytes)
{
    char *to = find(var, offset, bytes);
    if (!to)
        return BT_ERROR_INTERNAL;
    memory_of(instance)->write(to, from, bytes);
    return BT_OK;
}

bt_status bt_store_copy(const bt_instance *instance, bt_var *to, const bt_var *from)
{
    char *target = find(to, 0, from->bytes);
    const char *source = find(from, 0, to->bytes);
    if (!target || !source)
        return BT_ERROR_INTERNAL;
    memory_of(instance)->copy(target, source, to->bytes);
    return BT_OK;
}

bt_status bt_store_move(const bt_instance *instance, bt_var *to, size_t to_offset, const bt_var *from,
                        size_t from_offset, size_t bytes)
{
    char *target = find(to, to_offset, bytes);
    const char *source = find(from, from_offset, bytes);
    if (!target || !source)
        return BT_ERROR_INTERNAL;
    memory_of(instance)->copy(target, source, bytes);
    return BT_OK;
}

void bt_store_lay(bt_var *var, const bt_var *within, size_t offset) { var->data = bt_var_data(within) + offset; }

bt_status bt_store_clear(const bt_instance *instance, bt_var *var)
{
    char *data = find(var, 0, var->bytes);
    if (!data)
        return BT_ERROR_INTERNAL;
    memory_of(instance)->fill(data, 0, var->bytes);
    return BT_OK;
}

bt_status bt_store_get(const bt_instance *instance, const bt_var *var, int64_t i, double *value)
{
    double element = 0; /* room for one of any dtype */
    size_t bytes = bt_dtype_size(var->dtype);
    BT_TRY(bt_store_read(instance, var, (size_t)i * bytes, &element, bytes));
    *value = bt_get(var->dtype, &element, 0);
    return BT_OK;
}

bt_status bt_store_put(const bt_instance *instance, bt_var *var, int64_t i, double value)
{
    double element = 0;
    size_t bytes = bt_dtype_size(var->dtype);
    bt_put(var->dtype, &element, 0, value);
    return bt_store_write(instance, var, (size_t)i * bytes, &element, bytes);
}

static bt_status check_count(const bt_var *var, bt_array array)
{
    int64_t due = bt_array_count(bt_var_array(var)), found = bt_array_count(array);
    if (due == found && (array.data || !due))
        return BT_OK;
    return bt_fail(BT_ERROR_SHAPE, "%s has %lld elements, the array %lld", var->name, (long long)due,
                   (long long)(array.data ? found : 0));
}

bt_status bt_store_to_array(const bt_instance *instance, const bt_var *var, bt_array to)
{
    double value = 0;
    BT_TRY(check_count(var, to));
    for (int64_t i = 0, n = bt_array_count(to); i < n; i++) {
        BT_TRY(bt_store_get(instance, var, i, &value));
        bt_put(to.dtype, to.data, i, value);
    }
    return BT_OK;
}

bt_status bt_store_from_array(const bt_instance *instance, bt_var *var, bt_array from)
{
    BT_TRY(check_count(var, from));
    for (int64_t i = 0, n = bt_array_count(from); i < n; i++)
        BT_TRY(bt_store_put(instance, var, i, bt_get(from.dtype, from.data, i)));
    return BT_OK;
}

void bt_store_point(bt_var *var, void *data) { var->data = data; }
