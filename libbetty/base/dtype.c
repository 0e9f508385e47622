/* base/dtype.c: dtypes and arrays on the host. */
#include "base/base.h"
#include "base/bounded.h"
#include "base/half.h"

#include <string.h>

static const struct {
    const char *name;
    size_t size;
    bool floats;
} dtypes[] = {
    [BT_F32] = {"f32", 4, true},   [BT_F64] = {"f64", 8, true}, [BT_I32] = {"i32", 4, false},
    [BT_I64] = {"i64", 8, false},  [BT_U8] = {"u8", 1, false},  [BT_BOOL] = {"bool", 1, false},
    [BT_BF16] = {"bf16", 2, true}, [BT_F16] = {"f16", 2, true},
};

static bool known(bt_dtype dtype) { return (int)dtype >= 0 && (int)dtype < BT_COUNT_OF(dtypes); }

size_t bt_dtype_size(bt_dtype dtype) { return known(dtype) ? dtypes[dtype].size : 0; }

const char *bt_dtype_name(bt_dtype dtype) { return known(dtype) ? dtypes[dtype].name : "unknown dtype"; }

bool bt_dtype_floats(bt_dtype dtype) { return known(dtype) && dtypes[dtype].floats; }

bool bt_dtype_half(bt_dtype dtype) { return dtype == BT_BF16 || dtype == BT_F16; }

double bt_dtype_round(bt_dtype dtype, double value)
{
    uint64_t room = 0;
    bt_put(dtype, &room, 0, value);
    return bt_get(dtype, &room, 0);
}

bt_array bt_array_of(bt_dtype dtype, void *data, const int64_t *dims)
{
    bt_array array = {.dtype = dtype, .data = data};
    for (; dims && dims[array.rank] != BT_END; array.rank++) {
        if (array.rank == BT_MAX_RANK) {
            bt_fail(BT_ERROR_SHAPE, "BT_ARRAY: more than %d sizes were given", BT_MAX_RANK);
            array.rank = -1; /* which no call accepts as a shape */
            return array;
        }
        array.dims[array.rank] = dims[array.rank];
    }
    return array;
}

int64_t bt_array_count(bt_array array)
{
    int64_t count = 1;
    if (array.rank < 0 || array.rank > BT_MAX_RANK)
        return -1;
    for (int i = 0; i < array.rank; i++)
        if (array.dims[i] < 0 || __builtin_mul_overflow(count, array.dims[i], &count))
            return -1;
    return count;
}

size_t bt_array_bytes(bt_array array)
{
    int64_t count = bt_array_count(array);
    size_t bytes;
    return count < 0 || !bt_mul_size((size_t)count, bt_dtype_size(array.dtype), &bytes) ? SIZE_MAX : bytes;
}

bool bt_shape_same(bt_array a, bt_array b)
{
    bool same = a.rank == b.rank;
    for (int i = 0; same && i < a.rank; i++)
        same = a.dims[i] == b.dims[i];
    return same;
}

bool bt_array_same(bt_array a, bt_array b) { return a.dtype == b.dtype && bt_shape_same(a, b); }

static char *put_number(char *at, int64_t number)
{
    char digits[20];
    int count = 0;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    for (; rest || !count; rest /= 10)
        digits[count++] = (char)('0' + rest % 10);
    if (number < 0)
        *at++ = '-';
    while (count)
        *at++ = digits[--count];
    return at;
}

/* Written by hand for speed: checks build such texts before they know whether there is an error. */
const char *bt_shape_text(char *buffer, int rank, const int64_t *dims)
{
    char *at = buffer;
    *at++ = '[';
    for (int i = 0; i < rank && i < BT_MAX_RANK; i++) {
        if (i)
            *at++ = ',', *at++ = ' ';
        at = put_number(at, dims[i]);
    }
    *at++ = ']';
    *at = 0;
    return buffer;
}

double bt_get(bt_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case BT_F32:
        return (double)((const float *)data)[i];
    case BT_F64:
        return ((const double *)data)[i];
    case BT_I32:
        return (double)((const int32_t *)data)[i];
    case BT_I64:
        return (double)((const int64_t *)data)[i];
    case BT_U8:
        return (double)((const uint8_t *)data)[i];
    case BT_BOOL:
        return ((const uint8_t *)data)[i] ? 1 : 0;
    case BT_BF16:
        return (double)bt_f32_of_bf16(((const uint16_t *)data)[i]);
    case BT_F16:
        return (double)bt_f32_of_f16(((const uint16_t *)data)[i]);
    }
    return 0;
}

void bt_put(bt_dtype dtype, void *data, int64_t i, double value)
{
    switch (dtype) {
    case BT_F32:
        ((float *)data)[i] = (float)value;
        break;
    case BT_F64:
        ((double *)data)[i] = value;
        break;
    case BT_I32:
        ((int32_t *)data)[i] = bt_i32_of(value);
        break;
    case BT_I64:
        ((int64_t *)data)[i] = bt_i64_of(value);
        break;
    case BT_U8:
        ((uint8_t *)data)[i] = bt_u8_of(value);
        break;
    case BT_BOOL:
        ((uint8_t *)data)[i] = value != 0;
        break;
    case BT_BF16:
        ((uint16_t *)data)[i] = bt_bf16_of(bt_f32_cut(value));
        break;
    case BT_F16:
        ((uint16_t *)data)[i] = bt_f16_of(bt_f32_cut(value));
        break;
    }
}

bt_status bt_array_convert(bt_array to, bt_array from)
{
    int64_t count = bt_array_count(from);
    if (count < 0 || count != bt_array_count(to) || (count && (!to.data || !from.data))) {
        char a[256], b[256];
        return bt_fail(BT_ERROR_SHAPE, "an array of shape %s cannot be written into one of shape %s",
                       bt_shape_text(a, from.rank, from.dims), bt_shape_text(b, to.rank, to.dims));
    }
    if (to.dtype == from.dtype) {
        if (count)
            memcpy(to.data, from.data, bt_array_bytes(from));
        return BT_OK;
    }
    for (int64_t i = 0; i < count; i++)
        bt_put(to.dtype, to.data, i, bt_get(from.dtype, from.data, i));
    return BT_OK;
}
