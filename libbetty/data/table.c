/* data/table.c: stores columns of numbers as compactly as is exact. */
#include "data/read.h"

#include <math.h>
#include <unistd.h>

bt_status bt_check_dense(const char *path, int64_t rows, int64_t columns, size_t item)
{
    size_t cells, bytes;
    char need[32], have[32];
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t half = pages > 0 && page > 0 ? (size_t)pages / 2 * (size_t)page : SIZE_MAX / 4;
    bool fits = bt_mul_size((size_t)rows, (size_t)columns, &cells) && bt_mul_size(cells, item, &bytes);
    if (fits && bytes <= half)
        return BT_OK;
    return bt_fail(BT_ERROR_DATA,
                   "%s: %lld rows of %lld features need %s as a dense table; expected at most %s, half of this "
                   "machine's memory",
                   path, (long long)rows, (long long)columns, bt_bytes_text(need, fits ? bytes : SIZE_MAX),
                   bt_bytes_text(have, half));
}

bt_store *bt_store_numbers(double *values, int rank, const int64_t *dims)
{
    bt_array array = {.dtype = BT_F32, .rank = rank, .data = values};
    int64_t count = 1;
    for (int i = 0; i < rank; i++) {
        array.dims[i] = dims[i];
        count *= dims[i];
    }
    for (int64_t i = 0; i < count; i++)
        if (fabs(values[i]) > 0x1.fffffep127 || (double)(float)values[i] != values[i]) {
            array.dtype = BT_F64;
            return bt_store_new(array, false);
        }
    float *narrow = bt_alloc_array((size_t)count, sizeof *narrow);
    for (int64_t i = 0; narrow && i < count; i++)
        narrow[i] = (float)values[i];
    bt_free(values);
    array.data = narrow;
    bt_store *store = NULL;
    if (narrow && bt_store_narrow(array, &store) == BT_OK && !store)
        return bt_store_new(array, false);
    bt_free(narrow);
    return store;
}
