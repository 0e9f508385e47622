/* ops/infer.c: checks of dtypes and shapes that many ops share. */
#include "ops/define.h"


bool bt_dtype_is(bt_dtype dtype, unsigned kinds)
{
    switch (dtype) {
    case BT_F32:
    case BT_F64:
        return kinds & BT_FLOATS;
    case BT_BF16:
    case BT_F16:
        return kinds & BT_HALVES;
    case BT_I32:
    case BT_I64:
        return kinds & BT_INTEGERS;
    case BT_U8:
    case BT_BOOL:
        return kinds & BT_SMALL;
    }
    return false;
}

bt_status bt_check_dtype(const char *op, const char *what, bt_dtype found, unsigned kinds)
{
    if (bt_dtype_is(found, kinds))
        return BT_OK;
    return bt_fail(BT_ERROR_SHAPE, "%s: %s is %s, must be %s", op, what, bt_dtype_name(found),
                   kinds == BT_FLOATS     ? "f32 or f64"
                   : kinds == BT_INTEGERS ? "i32 or i64"
                   : kinds == BT_NUMBERS  ? "f32, f64, i32 or i64"
                                          : "a known dtype");
}

bt_status bt_check_equal(const char *op, const char *what, bt_array found, const char *like, bt_array expected)
{
    if (bt_array_same(found, expected))
        return BT_OK;
    char a[256], b[256];
    return bt_fail(BT_ERROR_SHAPE, "%s: %s is %s %s, must be %s %s, as %s", op, what, bt_dtype_name(found.dtype),
                   bt_shape_text(a, found.rank, found.dims), bt_dtype_name(expected.dtype),
                   bt_shape_text(b, expected.rank, expected.dims), like);
}

bt_status bt_check_scalar(const char *op, const char *what, bt_array found, bt_dtype dtype)
{
    if (found.rank == 0 && found.dtype == dtype)
        return BT_OK;
    char shape[256];
    return bt_fail(BT_ERROR_SHAPE, "%s: %s is %s %s, must be a scalar, %s []", op, what, bt_dtype_name(found.dtype),
                   bt_shape_text(shape, found.rank, found.dims), bt_dtype_name(dtype));
}

bt_status bt_check_axis(const char *op, int64_t axis, int rank)
{
    if (axis >= 0 && axis < rank)
        return BT_OK;
    return bt_fail(BT_ERROR_SHAPE, "%s: axis %lld of a tensor of %d axes", op, (long long)axis, rank);
}

bt_status bt_infer_equal(const char *op, unsigned kinds, int count, const bt_array *in, bt_array *out)
{
    static const char *const names[] = {"the first operand", "the second operand", "the third operand"};
    BT_TRY(bt_check_dtype(op, count == 1 ? "the operand" : names[0], in[0].dtype, kinds));
    for (int i = 1; i < count; i++)
        BT_TRY(bt_check_equal(op, i < BT_COUNT_OF(names) ? names[i] : "an operand", in[i], names[0], in[0]));
    out[0] = in[0];
    out[0].data = NULL;
    return BT_OK;
}

bt_status bt_infer_same(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    if (!in || !out)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_infer_same: a list is NULL");
    out[0] = in[0];
    out[0].data = NULL;
    return BT_OK;
}

double bt_flops_none(const void *attr, const bt_array *in, const bt_array *out)
{
    (void)attr, (void)in, (void)out;
    return 0;
}

double bt_flops_input(const void *attr, const bt_array *in, const bt_array *out)
{
    (void)attr, (void)out;
    return (double)bt_array_count(in[0]);
}

bool bt_shares_outer(bt_array x, int axis)
{
    for (int i = 0; i < axis; i++)
        if (x.dims[i] != 1)
            return false;
    return axis >= 0;
}

bool bt_shares_none(bt_shares *shares)
{
    (void)shares;
    return false;
}

bool bt_view_same(const void *attr, const bt_view *in, bt_view *out, int64_t *offset)
{
    (void)attr;
    char *data = out->data;
    *out = *in;
    out->data = data;
    *offset = 0;
    return true;
}
