/* data/gather.c: the rows of a batch, converted on the way. Blocks of a fixed length, for the compiler to vectorise. */
#include "base/team.h"
#include "data/dataset.h"

#include <string.h>

enum { BLOCK = 32, AHEAD = 2 };

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

/* x/255 in two products and a sum: the high part of 1/255 has so few bits that its product is exact. Equal to the
 * quotient for every byte, and sooner there. */
#define HIGH 0x1.01p-8F
#define LOW  ((float)(1 / 255.0 - 0x1.01p-8))

BT_CONVERT(bytes_to_f32, uint8_t, float, (float)x *HIGH + (float)x * LOW)
BT_CONVERT(bytes_to_f64, uint8_t, double, (double)x / 255.0)
BT_CONVERT(f32_to_f64, float, double, (double)x)
BT_CONVERT(f64_to_f32, double, float, (float)x)

void bt_gather_convert(const bt_store *store, const void *from, int64_t count, bt_dtype dtype, void *to)
{
    if (store->scaled && dtype == BT_F32)
        bytes_to_f32(to, from, count);
    else if (store->scaled)
        bytes_to_f64(to, from, count);
    else if (dtype == store->array.dtype)
        memcpy(to, from, (size_t)count * bt_dtype_size(dtype));
    else if (dtype == BT_F64)
        f32_to_f64(to, from, count);
    else
        f64_to_f32(to, from, count);
}

const char *bt_gather_row(const bt_column *column, int32_t place)
{
    size_t row = (size_t)(column->rows ? column->rows->at[place] : place);
    return (const char *)column->store->array.data + row * column->store->row_bytes;
}

/* Rows lie far apart: asking for one while others are converted hides most of the way to memory. */
void bt_gather_ask(const bt_column *column, int32_t place)
{
    const char *row = bt_gather_row(column, place);
    const size_t bytes = column->store->row_bytes;
    for (size_t at = 0; at < bytes && at < 4096; at += BT_ALIGN)
        __builtin_prefetch(row + at);
}

static void gather(const bt_column *column, const int32_t *places, int64_t from, int64_t count, bt_dtype dtype,
                   char *to)
{
    const bt_store *store = column->store;
    size_t step = (size_t)store->row_items * bt_dtype_size(dtype);
    to += (size_t)from * step;
    for (int64_t i = from; i < count; i++, to += step) {
        if (i + AHEAD < count)
            bt_gather_ask(column, places[i + AHEAD]);
        bt_gather_convert(store, bt_gather_row(column, places[i]), store->row_items, dtype, to);
    }
}

typedef struct shared { /* between threads */
    const bt_column *column;
    const int32_t *places;
    int64_t count;
    bt_dtype dtype;
    char *out;
} shared;

static void share(const void *work, int t, int threads)
{
    const shared *s = work;
    gather(s->column, s->places, s->count * t / threads, s->count * (t + 1) / threads, s->dtype, s->out);
}

void bt_gather_rows(const bt_column *column, const int32_t *places, int64_t count, bt_dtype dtype, void *out,
                    int threads)
{
    if ((size_t)count * column->store->row_bytes < BT_WORTH_A_THREAD)
        threads = 1;
    bt_team_do(share, &(shared){column, places, count, dtype, out}, threads);
}
