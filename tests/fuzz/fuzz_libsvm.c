/* Tables as libsvm writes them. */
#include "fuzz.h"

#include "data/read.h"

enum { MOST_CELLS = 1 << 20 }; /* a table of a few bytes may take gigabytes when dense: allowed, but slow */

static void read_as(const char *path, bt_libsvm_form form, int64_t lines)
{
    int64_t features = 0;
    bool good = bt_libsvm_width(path, form, &features) == BT_OK;
    if (good && features > MOST_CELLS / lines)
        return;
    fuzz_refused(!good);
    bt_dataset *set = bt_read_libsvm(path, form, 0);
    fuzz_check((set != NULL) == good, "the width of a table can be read and the table cannot, or the other way round");
    fuzz_dataset(set, (const char *const[]){"x", "y"}, 2);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(0, data, size);
    int64_t lines = 1;
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    bt_dataset *sparse = bt_read_libsvm(path, (bt_libsvm_form){.sparse = true}, 0);
    fuzz_dataset(sparse, bt_sparse_fields, BT_SPARSE_FIELDS);
    read_as(path, (bt_libsvm_form){.from_zero = true, .any_order = true}, lines);
    bt_error_clear();
    read_as(path, (bt_libsvm_form){0}, lines);
}
