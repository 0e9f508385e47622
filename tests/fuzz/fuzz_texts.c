/* Texts with votes, plain or compressed. */
#include "fuzz.h"

#include "data/read.h"

void fuzz_one(const uint8_t *data, size_t size)
{
    const char *const paths[BT_TEXT_SPLITS] = {fuzz_file(0, data, size), "", ""};
    fuzz_dataset(bt_read_texts(paths, 0, NULL), bt_text_fields, BT_TEXT_FIELDS);
}
