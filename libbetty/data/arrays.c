/* data/arrays.c: reads a folder of .npy files as a data set: one FIELD.npy per field; the first axis is that of
 * examples. */
#include "data/listing.h"
#include "data/read.h"

#include <string.h>

static const char *const ends[] = {".npy"};

static bt_status is_array(const char *path, bool *take)
{
    *take = bt_ends_with_one_of(path, ends, 1) && bt_entry_of(path) == BT_ENTRY_FILE;
    return BT_OK;
}

bool bt_has_arrays(const char *folder)
{
    bt_names list = {0};
    bool some = bt_entry_of(folder) == BT_ENTRY_FOLDER && bt_names_in(folder, is_array, &list) == BT_OK && list.count;
    bt_names_free(&list);
    return some;
}

static bt_status check_first(const char *path, const bt_npy *npy, const bt_dataset *data, const char *other)
{
    if (!data || data->count == npy->array.dims[0])
        return BT_OK;
    return bt_fail(BT_ERROR_DATA, "%s has %lld examples along its first axis, but %s in the same folder has %lld", path,
                   (long long)npy->array.dims[0], other, (long long)data->count);
}

/* An `image` of bytes [n, height, width, channels] is treated as an image, as in other formats. */
static bool is_image(const char *field, const bt_array *array)
{
    return strcmp(field, "image") == 0 && array->dtype == BT_U8 && array->rank == 4;
}

static bt_status add_field(bt_dataset **data, const char *path, const char *field, const char *other)
{
    bt_npy npy;
    BT_TRY(bt_read_npy(path, &npy));
    BT_TRY(check_first(path, &npy, *data, other));
    if (!*field || !bt_is_utf8(field) || strcmp(field, "index") == 0)
        return bt_fail(BT_ERROR_DATA,
                       "%s: a field's name must be UTF-8 and must not be \"index\", which every batch already has",
                       path);
    if (!*data && !(*data = bt_dataset_new(npy.array.dims[0])))
        return bt_error_status();
    bt_store *store = bt_store_map(path, npy.array, (size_t)npy.offset);
    if (store)
        store->scaled = is_image(field, &npy.array);
    return bt_dataset_take(*data, field, store);
}

bt_dataset *bt_read_arrays(const char *folder)
{
    bt_names list = {0};
    bt_dataset *data = NULL;
    bt_status status = bt_names_in(folder, is_array, &list);
    if (status == BT_OK && !list.count)
        status = bt_fail(BT_ERROR_DATA, "%s: there is no .npy file; expected one for each field", folder);
    for (int64_t i = 0; status == BT_OK && i < list.count; i++) {
        char *path = bt_string("%s/%s", folder, list.items[i]);
        char *field = bt_string("%.*s", (int)(strlen(list.items[i]) - strlen(ends[0])), list.items[i]);
        status = path && field ? add_field(&data, path, field, list.items[0]) : BT_ERROR_MEMORY;
        bt_free(path);
        bt_free(field);
    }
    bt_names_free(&list);
    if (status == BT_OK)
        return data;
    bt_dataset_free(data);
    return NULL;
}
