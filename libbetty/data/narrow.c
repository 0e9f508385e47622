/* data/narrow.c: stores f32 numbers that all are x/255 for bytes x, as image data often are, as these bytes: a quarter
 * of the memory and of the reading. The values are unchanged to the last bit: delivered as f64, they are the f32
 * numbers, not x/255 computed again. */
#include "data/dataset.h"
#include "runtime/backend.h"

#include <string.h>

enum { PIECE = 256 };

/* Whether bytes reproduce these numbers exactly, tested with the code that will deliver them. -0 and NaN do not
 * pass. */
static bool narrow(int64_t count, const float *from, uint8_t *to)
{
    float back[PIECE];
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i] >= 0 && from[i] <= 1 ? (uint8_t)(from[i] * 255 + 0.5F) : 0;
    bt_backend_cpu()->conversions()->pixels_to_f32(count, to, back);
    return memcmp(back, from, (size_t)count * sizeof *from) == 0;
}

bt_status bt_store_narrow(bt_array values, bt_store **store)
{
    const int64_t count = bt_array_count(values);
    const float *from = values.data;
    uint8_t head[PIECE];
    *store = NULL;
    if (values.dtype != BT_F32 || !narrow(count < PIECE ? count : PIECE, from, head)) /* most mismatches show here */
        return BT_OK;
    uint8_t *bytes = bt_alloc((size_t)count);
    if (!bytes)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < count; i += PIECE)
        if (!narrow(count - i < PIECE ? count - i : PIECE, from + i, bytes + i)) {
            bt_free(bytes);
            return BT_OK;
        }
    values.dtype = BT_U8;
    values.data = bytes;
    *store = bt_store_new(values, true);
    if (!*store)
        return BT_ERROR_MEMORY;
    (*store)->single = true;
    return BT_OK;
}

bt_store *bt_store_like(const bt_store *from, bt_array array)
{
    bt_store *store = bt_store_new(array, from->scaled);
    if (store)
        store->single = from->single;
    return store;
}

bt_dtype bt_store_given(const bt_store *store) { return store->single ? BT_F32 : store->array.dtype; }

double bt_store_number(const bt_store *store, int64_t k)
{
    const uint8_t *bytes = store->array.data;
    double value;
    if (!store->single)
        return bt_get(store->array.dtype, bytes, k);
    bt_backend_cpu()->conversions()->floats_to_f64(1, bytes + k, &value);
    return value;
}
