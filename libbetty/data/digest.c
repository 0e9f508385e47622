/* data/digest.c: hashes of a data set's content, to recognise the same set with the same changes. */
#include "base/hash.h"
#include "data/dataset.h"

enum { PIECE = 256 };
enum { LOOKED_AT = 256 }; /* rows read of a file that may exceed memory, spread evenly */

/* Hashes a row; the hash is the same if the values are stored narrowed to bytes. */
static uint64_t hash_row(uint64_t hash, const bt_store *store, const char *row)
{
    if (!store->single)
        return bt_hash(hash, row, store->row_bytes);
    float values[PIECE];
    int64_t left = store->row_items;
    hash = bt_hash_begin(hash, (size_t)left * sizeof *values);
    for (; left >= PIECE; left -= PIECE, row += PIECE) {
        bt_gather_convert(store, row, PIECE, BT_F32, values);
        hash = bt_hash_words(hash, values, sizeof values);
    }
    bt_gather_convert(store, row, left, BT_F32, values);
    const size_t bytes = (size_t)left * sizeof *values, words = bytes - bytes % 8;
    return bt_hash_end(bt_hash_words(hash, values, words), (const char *)values + words, bytes % 8);
}

/* Hashes row by row, so that a view and its copy have the same hash. */
static uint64_t hash_of(const bt_column *column, int64_t count)
{
    const bt_store *store = column->store;
    const char *rows = store->array.data;
    uint64_t hash = bt_hash((uint64_t)bt_store_given(store), store->array.dims + 1,
                            (size_t)(store->array.rank - 1) * sizeof *store->array.dims);
    const int64_t step = store->map && count > LOOKED_AT ? count / LOOKED_AT : 1;
    for (int64_t i = 0; i < count; i += step) {
        const int32_t ahead = (int32_t)(i + step < count ? i + step : i);
        bt_store_ahead(column, &ahead, 1); /* otherwise the file would be read page by page */
        size_t row = (size_t)(column->rows ? column->rows->at[i] : i);
        hash = hash_row(hash, store, rows + row * store->row_step);
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
