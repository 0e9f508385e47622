/* data/digest.c: hashes of what a data set holds: whether it is the same set again, changed in the same way. */
#include "data/dataset.h"

/* Row by row, so that a view and a copy of it are the same. */
static uint64_t hash_of(const bt_column *column, int64_t count)
{
    const bt_store *store = column->store;
    const char *rows = store->array.data;
    uint64_t hash = bt_hash((uint64_t)store->array.dtype, store->array.dims + 1,
                            (size_t)(store->array.rank - 1) * sizeof *store->array.dims);
    for (int64_t i = 0; i < count; i++) {
        size_t row = (size_t)(column->rows ? column->rows->at[i] : i);
        hash = bt_hash(hash, rows + row * store->row_bytes, store->row_bytes);
    }
    return hash;
}

void bt_dataset_hash(bt_dataset *data, bt_field_hash_fn *visit, void *user)
{
    for (bt_dataset *part = data; part; part = part->next)
        for (int64_t i = 0; i < part->column_count; i++) {
            bt_column *column = &part->columns[i];
            if (!column->hashed)
                column->hash = hash_of(column, part->count);
            column->hashed = true;
            bool changed = part->augment && i == part->augment->image;
            visit(user, part->prefix ? part->prefix : "", column->name,
                  changed ? bt_augment_hash(part->augment, column->hash) : column->hash);
        }
}
