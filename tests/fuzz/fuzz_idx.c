/* Images and labels as IDX: the first byte says which of the two files the input is; the other one is valid. */
#include "fuzz.h"

#include "data/read.h"

static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 1, 2, 253, 254, 255};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 9, 0};

void fuzz_one(const uint8_t *data, size_t size)
{
    bool first = size && data[0] % 2 == 0;
    data += size > 0;
    size -= size > 0;
    const char *image = fuzz_file(0, first ? data : images, first ? size : sizeof images);
    const char *label = fuzz_file(1, first ? labels : data, first ? sizeof labels : size);
    fuzz_dataset(bt_read_idx(image, label, 10), (const char *const[]){"image", "label"}, 2);
}
