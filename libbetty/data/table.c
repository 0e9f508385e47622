/* data/table.c: columns of numbers, kept as small as is exact. */
#include "data/read.h"

#include <math.h>

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
    return bt_store_new(array, false);
}
