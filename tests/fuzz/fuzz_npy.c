/* A .npy file: its header is accepted or refused, and all data that it announces can be read from the mapped file. */
#include "fuzz.h"

#include "data/read.h"

static volatile unsigned sum; /* so that each byte is read */

void fuzz_one(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(0, data, size);
    bt_npy npy;
    bt_status status = bt_read_npy(path, &npy);
    if (status == BT_OK) {
        fuzz_check(npy.array.rank >= 1 && bt_array_bytes(npy.array) + (size_t)npy.offset == size, "not its bytes");
        bt_store *store = bt_store_map(path, npy.array, (size_t)npy.offset);
        fuzz_check(store != NULL, "the file cannot be mapped");
        for (size_t i = 0; i < bt_array_bytes(npy.array); i++)
            sum += ((const unsigned char *)store->array.data)[i];
        bt_store_release(store);
    }
    fuzz_refused(status != BT_OK);
}
