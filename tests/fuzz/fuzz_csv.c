/* Tables as CSV, plain or compressed. */
#include "fuzz.h"

#include "data/read.h"

void fuzz_one(const uint8_t *data, size_t size)
{
    fuzz_dataset(bt_read_csv(fuzz_file(0, data, size), NULL), (const char *const[]){"x", "y"}, 2);
}
