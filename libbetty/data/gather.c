/* data/gather.c: the rows of a batch, converted on the way. Blocks of a fixed length, for the compiler to vectorise. */
#include "data/dataset.h"

#include <string.h>

enum { BLOCK = 32 };

#define BT_CONVERT(name, from_type, to_type, value)                                                                    \
    static void name(to_type *restrict to, const from_type *restrict from, int64_t count)                              \
    {                                                                                                                  \
        int64_t i = 0;                                                                                                 \
        for (; i + BLOCK <= count; i += BLOCK)                                                                         \
            for (int k = 0; k < BLOCK; k++) {                                                                          \
                from_type x = from[i + k];                                                                             \
                to[i + k] = value;                                                                                     \
            }                                                                                                          \
        for (; i < count; i++) {                                                                                       \
            from_type x = from[i];                                                                                     \
            to[i] = value;                                                                                             \
        }                                                                                                              \
    }

BT_CONVERT(bytes_to_f32, uint8_t, float, (float)x / 255.0F)
BT_CONVERT(bytes_to_f64, uint8_t, double, (double)x / 255.0)
BT_CONVERT(f32_to_f64, float, double, (double)x)
BT_CONVERT(f64_to_f32, double, float, (float)x)

static void convert(const bt_store *store, const void *from, bt_dtype dtype, void *to)
{
    int64_t count = store->row_items;
    if (store->scaled && dtype == BT_F32)
        bytes_to_f32(to, from, count);
    else if (store->scaled)
        bytes_to_f64(to, from, count);
    else if (dtype == store->array.dtype)
        memcpy(to, from, store->row_bytes);
    else if (dtype == BT_F64)
        f32_to_f64(to, from, count);
    else
        f64_to_f32(to, from, count);
}

void bt_gather_rows(const bt_column *column, const int32_t *places, int64_t count, bt_dtype dtype, void *out)
{
    const bt_store *store = column->store;
    const char *values = store->array.data;
    size_t step = (size_t)store->row_items * bt_dtype_size(dtype);
    char *to = out;
    for (int64_t i = 0; i < count; i++, to += step) {
        size_t row = (size_t)(column->rows ? column->rows->at[places[i]] : places[i]);
        convert(store, values + row * store->row_bytes, dtype, to);
    }
}
