/* CIFAR in its binary format: the first byte selects the expected format and the file size, since records are longer
 * than an input; the rest is the start of the file, padded with zeros. Or the input is the whole file, possibly
 * compressed. */
#include "fuzz.h"

#include "data/read.h"
#include <stdlib.h>
#include <string.h>

void fuzz_one(const uint8_t *data, size_t size)
{
    static const int classes[] = {0, 10, 100};
    static uint8_t content[2 * 3074 + 1];
    static const size_t sizes[] = {0, 3072, 3073, 3074, 2 * 3073, 2 * 3074, sizeof content};
    int first = size ? data[0] : 0;
    data += size > 0;
    size -= size > 0;
    memset(content, 0, sizeof content);
    memcpy(content, data, size < sizeof content ? size : sizeof content);
    size_t padded = sizes[first / 3 % BT_COUNT_OF(sizes)];
    const char *path = padded ? fuzz_file(0, content, padded) : fuzz_file(0, data, size);
    fuzz_dataset(bt_read_cifar(&path, 1, classes[first % 3]), (const char *const[]){"image", "label"}, 2);
}
