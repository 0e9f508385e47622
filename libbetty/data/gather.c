/* data/gather.c: copies the rows of a batch, converting and prefetching them. */
#include "base/team.h"
#include "data/dataset.h"
#include "runtime/backend.h"

#include <string.h>

void bt_gather_convert(const bt_store *store, const void *from, int64_t count, bt_dtype dtype, void *to)
{
    const bt_conversions *convert = bt_backend_cpu()->conversions();
    if (store->scaled && dtype == BT_F32)
        convert->pixels_to_f32(count, from, to);
    else if (store->scaled && store->single)
        convert->floats_to_f64(count, from, to);
    else if (store->scaled)
        convert->pixels_to_f64(count, from, to);
    else if (dtype == store->array.dtype)
        memcpy(to, from, (size_t)count * bt_dtype_size(dtype));
    else if (dtype == BT_F64)
        convert->f32_to_f64(count, from, to);
    else
        convert->f64_to_f32(count, from, to);
}

const char *bt_gather_row(const bt_column *column, int32_t place)
{
    size_t row = (size_t)(column->rows ? column->rows->at[place] : place);
    return (const char *)column->store->array.data + row * column->store->row_step;
}

/* Rows are far apart in memory. Short rows are loaded in groups, one byte per cache line: the processor then waits for
 * all of them at once, and unlike prefetches it never drops loads. They are prefetched while the previous group is
 * converted. For long rows bandwidth matters more than latency: prefetching the next ones is enough. */
enum { SIDE_BY_SIDE = 16, SHORT = 1024, AHEAD = 2, MOST_ASKED = 4096 };

static void ask(const char *row, size_t bytes)
{
    for (size_t at = 0; at < bytes && at < MOST_ASKED; at += BT_ALIGN)
        __builtin_prefetch(row + at);
}

static void load(const bt_column *column, const int32_t *places, int64_t count)
{
    const size_t bytes = column->store->row_bytes;
    int sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const char *row = bt_gather_row(column, places[i]);
        sum += row[bytes - 1];
        for (size_t at = 0; at < bytes; at += BT_ALIGN)
            sum += row[at];
    }
    __asm__ volatile("" ::"r"(sum)); /* makes the compiler believe that the sum is used */
}

void bt_gather_near(const bt_column *column, const int32_t *places, int64_t i, int64_t count)
{
    const size_t bytes = column->store->row_bytes;
    const int64_t ahead = bytes > SHORT ? AHEAD : SIDE_BY_SIDE, left = count - i;
    if (bytes <= SHORT && i % SIDE_BY_SIDE == 0)
        load(column, places + i, left < SIDE_BY_SIDE ? left : SIDE_BY_SIDE);
    if (left > ahead)
        ask(bt_gather_row(column, places[i + ahead]), bytes);
}

/* Whether the rows are contiguous in the set, as they are without shuffling. */
static bool are_one_piece(const bt_column *column, const int32_t *places, int64_t count)
{
    const size_t step = column->store->row_step;
    const char *first = bt_gather_row(column, places[0]);
    int64_t i = step == column->store->row_bytes ? 1 : count + 1;
    while (i < count && bt_gather_row(column, places[i]) - first == i * (int64_t)step)
        i++;
    return i == count;
}

/* Rows of a single number, such as labels, that need no conversion. */
static void copy_numbers(const bt_column *column, const int32_t *places, int64_t count, char *to)
{
    for (int64_t i = 0; i < count; i++)
        if (column->store->row_bytes == sizeof(int64_t))
            memcpy(to + i * (int64_t)sizeof(int64_t), bt_gather_row(column, places[i]), sizeof(int64_t));
        else
            memcpy(to + i * (int64_t)sizeof(int32_t), bt_gather_row(column, places[i]), sizeof(int32_t));
}

static void gather(const bt_column *column, const int32_t *places, int64_t count, bt_dtype dtype, char *to)
{
    const bt_store *store = column->store;
    const size_t step = (size_t)store->row_items * bt_dtype_size(dtype);
    if (count > 0 && are_one_piece(column, places, count)) {
        bt_gather_convert(store, bt_gather_row(column, places[0]), count * store->row_items, dtype, to);
        return;
    }
    if (store->row_items == 1 && dtype == store->array.dtype && !store->scaled && (step == 4 || step == 8)) {
        copy_numbers(column, places, count, to);
        return;
    }
    for (int64_t i = 0; i < count; i++, to += step) {
        bt_gather_near(column, places, i, count);
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
    const int64_t from = s->count * t / threads, end = s->count * (t + 1) / threads;
    const size_t step = (size_t)s->column->store->row_items * bt_dtype_size(s->dtype);
    gather(s->column, s->places + from, end - from, s->dtype, s->out + (size_t)from * step);
}

void bt_gather_rows(const bt_column *column, const int32_t *places, int64_t count, bt_dtype dtype, void *out,
                    int threads)
{
    if ((size_t)count * column->store->row_bytes < BT_WORTH_A_THREAD)
        threads = 1;
    bt_team_do(share, &(shared){column, places, count, dtype, out}, threads);
}
