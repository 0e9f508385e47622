/* runtime/store.c: the bytes of variables. */
#include "runtime/store.h"

#include "runtime/copies.h"
#include "runtime/phase.h"
#include "runtime/settle.h"
#include <string.h>

/* So far all instances share one copy of a variable. */
static bt_queue *queue_of(const bt_instance *instance, const bt_var *var)
{
    (void)instance;
    return var->base ? var->base->queue : var->queue;
}

/* Pinned memory is read and written by the host itself, once the work on the queue is done. */
static bool is_pinned(const bt_instance *instance, const bt_var *var)
{
    return queue_of(instance, var) && bt_var_space(var) == BT_SPACE_HOST;
}

static bt_status copy_pinned(bt_queue *queue, void *to, const void *from, size_t bytes)
{
    BT_TRY(bt_queue_wait(queue));
    return bt_queue_copy(NULL, to, from, bytes);
}

static bt_status check_range(const bt_var *var, size_t offset, size_t bytes)
{
    if (offset <= var->bytes && var->bytes - offset >= bytes)
        return BT_OK;
    return bt_fail(BT_ERROR_INTERNAL, "%s: %zu bytes from byte %zu on, of %zu", var->name, bytes, offset, var->bytes);
}

/* Where the bytes lie; NULL after an error. */
static char *find(const bt_var *var, size_t offset, size_t bytes)
{
    char *data = bt_var_data(var);
    if (!data)
        bt_fail(BT_ERROR_INTERNAL, "%s is not bound to data", var->name);
    return data && check_range(var, offset, bytes) == BT_OK ? data + offset : NULL;
}

/* Reads a variable of which each rank has a summand. */
static bt_status read_sum(const bt_instance *instance, const bt_var *var, size_t offset, void *to, size_t bytes)
{
    BT_TRY(bt_var_sum(var, offset, to, bytes));
    if (!instance || !instance->joint)
        return BT_OK;
    return bt_joint_sum(instance->joint, var->dtype, to, (int64_t)(bytes / bt_dtype_size(var->dtype)));
}

/* Reads a variable of which each rank has a stretch. */
static bt_status read_parts(const bt_instance *instance, const bt_var *var, size_t offset, void *to, size_t bytes)
{
    BT_TRY(bt_var_collect(var, offset, to, bytes));
    if (!instance || !instance->joint)
        return BT_OK;
    return bt_joint_unite(instance->joint, to, bytes);
}

bt_status bt_store_read(const bt_instance *instance, const bt_var *var, size_t offset, void *to, size_t bytes)
{
    if (bt_var_is_parted(var)) {
        BT_TRY(check_range(var, offset, bytes));
        return read_parts(instance, var, offset, to, bytes);
    }
    const char *from = find(var, offset, bytes);
    if (!from)
        return BT_ERROR_INTERNAL;
    bt_queue *queue = queue_of(instance, var);
    if (bt_var_is_partial(var))
        return read_sum(instance, var, offset, to, bytes);
    if (is_pinned(instance, var))
        return copy_pinned(queue, to, from, bytes);
    const char *mirror = bt_queue_mirror(queue, from);
    return mirror ? bt_queue_copy(NULL, to, mirror, bytes) : bt_queue_read(queue, to, from, bytes);
}

bt_status bt_store_write(const bt_instance *instance, bt_var *var, size_t offset, const void *from, size_t bytes)
{
    if (bt_var_is_parted(var)) {
        BT_TRY(check_range(var, offset, bytes));
        return bt_var_distribute(var, offset, from, bytes);
    }
    char *to = find(var, offset, bytes);
    if (!to)
        return BT_ERROR_INTERNAL;
    bt_queue *queue = queue_of(instance, var);
    for (int r = 0, home = bt_var_home(var), ranks = bt_var_ranks(var); r < ranks; r++) {
        char *own = r == home ? NULL : bt_var_data_of(var, r);
        if (own)
            memcpy(own + offset, from, bytes);
    }
    if (is_pinned(instance, var))
        return copy_pinned(queue, to, from, bytes);
    if (!bt_queue_mirror(queue, to))
        return bt_queue_write(queue, to, from, bytes);
    bt_queue_post(queue, to, from, bytes);
    return BT_OK;
}

/* Copies between two variables. Data from a device stays there, without waiting. */
static bt_status transfer(const bt_instance *instance, bt_var *to, size_t to_offset, const bt_var *from,
                          size_t from_offset, size_t bytes)
{
    const char *source = find(from, from_offset, bytes);
    bt_queue *queue = queue_of(instance, from);
    if (!source || !find(to, to_offset, bytes))
        return BT_ERROR_INTERNAL;
    BT_TRY(bt_var_settle(bt_var_root(to), queue));
    if (!queue)
        return bt_store_write(instance, to, to_offset, source, bytes);
    char *target = find(to, to_offset, bytes);
    if (queue_of(instance, to) != queue || bt_queue_mirror(queue, target)) {
        char *near = bt_alloc(bytes);
        bt_status status = near ? bt_store_read(instance, from, from_offset, near, bytes) : BT_ERROR_MEMORY;
        if (status == BT_OK)
            status = bt_store_write(instance, to, to_offset, near, bytes);
        bt_free(near);
        return status;
    }
    BT_TRY(bt_queue_send(queue)); /* the source may be a number that the host has set */
    const bool pinned = is_pinned(instance, from), to_pinned = is_pinned(instance, to);
    if (pinned && to_pinned)
        return copy_pinned(queue, target, source, bytes);
    return pinned || to_pinned ? bt_queue_shift(queue, target, source, bytes, to_pinned)
                               : bt_queue_copy(queue, target, source, bytes);
}

/* Each rank copies its own part if both lie alike; otherwise everything is copied in pieces of this size. */
static bt_status transfer_parts(const bt_instance *instance, bt_var *to, size_t to_offset, const bt_var *from,
                                size_t from_offset, size_t bytes)
{
    enum { AT_ONCE = 1 << 16 };
    if (bt_var_alike(to, from) && to_offset == from_offset)
        return bt_var_copy_parts(to, from, to_offset, bytes);
    char *near = bt_alloc(AT_ONCE);
    bt_status status = near ? BT_OK : BT_ERROR_MEMORY;
    for (size_t at = 0, some; status == BT_OK && at < bytes; at += some) {
        some = bytes - at < AT_ONCE ? bytes - at : AT_ONCE;
        status = bt_store_read(instance, from, from_offset + at, near, some);
        if (status == BT_OK)
            status = bt_store_write(instance, to, to_offset + at, near, some);
    }
    bt_free(near);
    return status;
}

bt_status bt_store_copy(const bt_instance *instance, bt_var *to, const bt_var *from)
{
    if (bt_var_is_parted(to) || bt_var_is_parted(from))
        return bt_store_move(instance, to, 0, from, 0, to->bytes);
    if (!find(to, 0, from->bytes) || !find(from, 0, to->bytes))
        return BT_ERROR_INTERNAL;
    return transfer(instance, to, 0, from, 0, to->bytes);
}

bt_status bt_store_move(const bt_instance *instance, bt_var *to, size_t to_offset, const bt_var *from,
                        size_t from_offset, size_t bytes)
{
    if (bt_var_is_parted(to) || bt_var_is_parted(from)) {
        BT_TRY(check_range(to, to_offset, bytes));
        BT_TRY(check_range(from, from_offset, bytes));
        return transfer_parts(instance, to, to_offset, from, from_offset, bytes);
    }
    return transfer(instance, to, to_offset, from, from_offset, bytes);
}

bt_status bt_store_lay(const bt_instance *instance, bt_var *var, bt_var *within, size_t offset)
{
    BT_TRY(bt_var_settle(bt_var_root(within), instance->queue));
    var->data = bt_var_data(within) + offset;
    var->queue = bt_var_root(within)->queue;
    bt_var_follow(var);
    return BT_OK;
}

bt_status bt_store_clear(const bt_instance *instance, bt_var *var)
{
    if (bt_var_is_parted(var))
        return bt_var_distribute(var, 0, NULL, var->bytes);
    char *data = find(var, 0, var->bytes);
    if (!data)
        return BT_ERROR_INTERNAL;
    bt_queue *queue = queue_of(instance, var);
    if (bt_queue_mirror(queue, data))
        return bt_store_write(instance, var, 0, &(int64_t){0}, var->bytes);
    for (int r = 0, home = bt_var_home(var), ranks = bt_var_ranks(var); r < ranks; r++) {
        char *own = r == home ? NULL : bt_var_data_of(var, r);
        if (own)
            memset(own, 0, var->bytes);
    }
    return bt_queue_fill(queue, data, 0, var->bytes);
}

bt_status bt_store_get(const bt_instance *instance, const bt_var *var, int64_t i, double *value)
{
    double element = 0; /* room for one number of any dtype */
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
    return bt_fail(BT_ERROR_SHAPE, "%s has %lld elements, but the array has %lld", var->name, (long long)due,
                   (long long)(array.data ? found : 0));
}

enum { PART = 4096 }; /* numbers converted at once */

/* How many elements from `first` on to convert next, at most PART. */
static int64_t part_of(int64_t first, int64_t count) { return count - first < PART ? count - first : PART; }

bt_status bt_store_to_array(const bt_instance *instance, const bt_var *var, bt_array to)
{
    double part[PART]; /* room for as many of any dtype */
    size_t size = bt_dtype_size(var->dtype);
    BT_TRY(check_count(var, to));
    for (int64_t i = 0, n = bt_array_count(to), some; i < n; i += some) {
        some = part_of(i, n);
        BT_TRY(bt_store_read(instance, var, (size_t)i * size, part, (size_t)some * size));
        for (int64_t k = 0; k < some; k++)
            bt_put(to.dtype, to.data, i + k, bt_get(var->dtype, part, k));
    }
    return BT_OK;
}

bt_status bt_store_from_array(const bt_instance *instance, bt_var *var, bt_array from)
{
    double part[PART];
    size_t size = bt_dtype_size(var->dtype);
    BT_TRY(check_count(var, from));
    for (int64_t i = 0, n = bt_array_count(from), some; i < n; i += some) {
        some = part_of(i, n);
        for (int64_t k = 0; k < some; k++)
            bt_put(var->dtype, part, k, bt_get(from.dtype, from.data, i + k));
        BT_TRY(bt_store_write(instance, var, (size_t)i * size, part, (size_t)some * size));
    }
    return BT_OK;
}

void bt_store_point(bt_var *var, void *data)
{
    var->data = data;
    var->queue = NULL;
    bt_var_moved(var);
    bt_var_follow(var);
}

const void *bt_store_near(const bt_instance *instance, const bt_var *var)
{
    return queue_of(instance, var) || bt_var_is_parted(var) ? NULL : bt_var_data(var);
}
