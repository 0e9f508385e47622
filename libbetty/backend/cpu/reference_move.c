/* backend/cpu/reference_move.c: plain loops for the ops that only move values, print and check. */
#include "backend/cpu/reference.h"

#include <string.h>
#include <unistd.h>

static void copy_into(const bt_view *to, const bt_view *from)
{
    int64_t count = bt_cpu_count(from);
    size_t size = bt_dtype_size(from->dtype);
    for (int64_t e = 0; e < count; e++)
        if (to->dtype == from->dtype)
            memcpy(bt_cpu_at(to, e), bt_cpu_at(from, e), size);
        else /* one of them has 16 bits */
            bt_cpu_put(to, e, bt_cpu_get(from, e));
}

static bt_status copy(const bt_call *call)
{
    copy_into(&call->out[0], &call->in[0]);
    return BT_OK;
}

static bt_status permute(const bt_call *call)
{
    bt_view look;
    if (bt_cpu_look_permute(call, &look))
        copy_into(&call->out[0], &look);
    return BT_OK;
}

static bt_status broadcast(const bt_call *call)
{
    bt_view look;
    if (bt_cpu_look_broadcast(call, &look))
        copy_into(&call->out[0], &look);
    return BT_OK;
}

static bt_status slice(const bt_call *call)
{
    bt_view look;
    if (bt_cpu_look_slice(call, &look))
        copy_into(&call->out[0], &look);
    return BT_OK;
}

static bt_status pad(const bt_call *call)
{
    const bt_range_attr *attr = call->attr;
    const bt_view *out = &call->out[0];
    size_t bytes = (size_t)bt_cpu_count(out) * bt_dtype_size(out->dtype);
    if (bytes)
        memset(out->data, 0, bytes);
    bt_view part = bt_cpu_part(out, attr->axis, attr->from, call->in[0].dims[attr->axis]);
    copy_into(&part, &call->in[0]);
    return BT_OK;
}

static bt_status concat(const bt_call *call)
{
    const bt_range_attr *attr = call->attr;
    int64_t from = 0;
    for (int i = 0; i < call->inputs; i++) {
        int64_t size = call->in[i].dims[attr->axis];
        bt_view part = bt_cpu_part(&call->out[0], attr->axis, from, size);
        copy_into(&part, &call->in[i]);
        from += size;
    }
    return BT_OK;
}

/* ---- print and check ---- */

enum { PRINT_LIMIT = 1000, PRINT_EDGE = 3 }; /* longer arrays show only the ends of each axis */

static void print_axis(bt_text *text, const bt_view *x, int axis, int64_t first)
{
    if (axis == x->rank) {
        bt_text_add(text, "%.6g", bt_cpu_get(x, first));
        return;
    }
    int64_t size = x->dims[axis];
    bool shorten = bt_cpu_count(x) > PRINT_LIMIT && size > 2 * PRINT_EDGE;
    bt_text_add(text, "[");
    for (int64_t i = 0; i < size; i++) {
        if (i && axis + 1 == x->rank)
            bt_text_add(text, ", ");
        else if (i)
            bt_text_add(text, ",\n%*s", axis + 1, "");
        if (shorten && i == PRINT_EDGE) {
            bt_text_add(text, "...");
            i = size - PRINT_EDGE - 1;
        } else {
            print_axis(text, x, axis + 1, first * size + i);
        }
    }
    bt_text_add(text, "]");
}

void bt_cpu_print(const bt_call *call)
{
    const bt_text_attr *attr = call->attr;
    const bt_view *x = &call->in[0];
    bt_text text = {0};
    char shape[256];
    bt_text_add(&text, "%.*s: %s %s = ", (int)sizeof attr->text, attr->text, bt_dtype_name(x->dtype),
                bt_shape_text(shape, x->rank, x->dims));
    print_axis(&text, x, 0, 0);
    bt_text_add(&text, "\n");
    const char *rest = bt_text_get(&text);
    size_t left = strlen(rest);
    while (left) { /* in one piece, so that lines of several threads do not mix */
        ssize_t written = write(STDERR_FILENO, rest, left);
        if (written <= 0)
            break; /* nobody reads it: no reason to end the run */
        rest += written;
        left -= (size_t)written;
    }
    bt_text_free(&text);
}

static bt_status print(const bt_call *call)
{
    bt_cpu_print(call);
    return copy(call);
}

bt_status bt_cpu_untrue(const bt_text_attr *attr, const bt_view *x, int64_t element)
{
    char shape[256];
    return bt_fail(BT_ERROR_NUMERIC, "check failed: %.*s (element %lld of %s is false)", (int)sizeof attr->text,
                   attr->text, (long long)element, bt_shape_text(shape, x->rank, x->dims));
}

bt_status bt_cpu_check(const bt_call *call)
{
    const bt_view *x = &call->in[0];
    int64_t count = bt_cpu_count(x);
    for (int64_t e = 0; e < count; e++)
        if (!(bt_cpu_get(x, e) != 0))
            return bt_cpu_untrue(call->attr, x, e);
    bt_cpu_put_int(&call->out[0], 0, true);
    return BT_OK;
}

const bt_kernel_impl bt_cpu_reference_move[] = {
    BT_REFERENCE(reshape, copy),
    BT_REFERENCE(permute, permute),
    BT_REFERENCE(broadcast, broadcast),
    BT_REFERENCE(slice, slice),
    BT_REFERENCE(pad, pad),
    BT_REFERENCE(concat, concat),
    BT_REFERENCE(copy, copy),
    BT_REFERENCE(detach, copy),
    BT_REFERENCE(stop, copy),
    BT_REFERENCE(alias, copy),
    BT_REFERENCE(print, print),
    BT_REFERENCE(check, bt_cpu_check),
    {.op = NULL},
};
