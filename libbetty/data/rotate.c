/* data/rotate.c: rotates images by right angles to get further classes, as Santoro et al., "Meta-learning with
 * memory-augmented neural networks" (ICML 2016), do for Omniglot. */
#include "data/dataset.h"

#include <string.h>

enum { TURNS = 4 };

static bt_status check(const bt_dataset *data, const bt_column **image)
{
    char shape[256];
    *image = bt_dataset_column(data, "image");
    if (!*image)
        return bt_fail(BT_ERROR_DATA, "bt_dataset_rotations: the data set has no field \"image\"");
    bt_array a = (*image)->store->array;
    if (a.rank != 4 || a.dims[1] != a.dims[2])
        return bt_fail(BT_ERROR_SHAPE,
                       "bt_dataset_rotations: field \"image\" is of shape %s; expected [n, size, size, channels]",
                       bt_shape_text(shape, a.rank, a.dims));
    if (data->count > BT_MAX_EXAMPLES / TURNS)
        return bt_fail(BT_ERROR_DATA, "bt_dataset_rotations: found %lld examples; expected at most %d",
                       (long long)data->count, BT_MAX_EXAMPLES / TURNS);
    return BT_OK;
}

/* Rotates one image of size x size pixels counter-clockwise. */
static void turn(const char *from, char *to, int64_t size, size_t pixel, int turns)
{
    const int64_t last = size - 1;
    for (int64_t y = 0; y < size; y++)
        for (int64_t x = 0; x < size; x++) {
            int64_t fy = turns == 0 ? y : turns == 1 ? x : turns == 2 ? last - y : last - x;
            int64_t fx = turns == 0 ? x : turns == 1 ? last - y : turns == 2 ? last - x : y;
            memcpy(to + (size_t)(y * size + x) * pixel, from + (size_t)(fy * size + fx) * pixel, pixel);
        }
}

static bt_store *turned_images(const bt_column *image, int64_t count)
{
    const bt_store *store = image->store;
    bt_array a = store->array;
    size_t bytes, pixel = (size_t)a.dims[3] * bt_dtype_size(a.dtype);
    a.dims[0] = TURNS * count;
    a.data = bt_mul_size((size_t)a.dims[0], store->row_bytes, &bytes) ? bt_alloc(bytes) : NULL;
    char *to = a.data;
    for (int64_t i = 0; to && i < a.dims[0]; i++, to += store->row_bytes) {
        int64_t place = i % count, row = image->rows ? image->rows->at[place] : place;
        const char *from = (const char *)store->array.data + (size_t)row * store->row_bytes;
        turn(from, to, a.dims[1], pixel, (int)(i / count));
    }
    bt_store *made = bt_store_like(store, a);
    if (made && store->note)
        made->note = bt_strdup(store->note);
    return made;
}

/* Label k becomes k, k + s, k + 2s, k + 3s, where s is the range of the labels. */
static bt_status turned_labels(const bt_classes *c, int64_t count, bt_store **labels)
{
    const int64_t low = c->values[0], high = c->values[c->count - 1], most = INT32_MAX / TURNS, span = high - low + 1;
    if (low < 0 || high > most)
        return bt_fail(BT_ERROR_DATA, "bt_dataset_rotations: found labels from %lld to %lld; expected 0 to %lld",
                       (long long)low, (long long)high, (long long)most);
    int32_t *values = bt_alloc_array((size_t)(TURNS * count), sizeof *values);
    for (int64_t i = 0; values && i < TURNS * count; i++)
        values[i] = (int32_t)(c->values[c->of[i % count]] + i / count * span);
    *labels = bt_store_new((bt_array){.dtype = BT_I32, .rank = 1, .dims = {TURNS * count}, .data = values}, false);
    return *labels ? BT_OK : BT_ERROR_MEMORY;
}

/* Repeats each example four times in every field; then images and labels are replaced. */
static bt_status repeat(bt_dataset *data)
{
    const int64_t count = data->count;
    int32_t *places = bt_alloc_array((size_t)(TURNS * count), sizeof *places);
    if (!places)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < TURNS * count; i++)
        places[i] = (int32_t)(i % count);
    bt_status status = bt_dataset_select(data, places, TURNS * count);
    bt_free(places);
    return status;
}

static bt_status rotations(bt_dataset *data, const bt_column *image, const bt_classes *c)
{
    bt_store *labels = NULL, *images = NULL;
    bt_status status = turned_labels(c, data->count, &labels);
    if (status == BT_OK)
        status = (images = turned_images(image, data->count)) ? repeat(data) : BT_ERROR_MEMORY;
    if (status != BT_OK) {
        bt_store_release(labels);
        bt_store_release(images);
        return status;
    }
    bt_dataset_replace(data, image, images);
    bt_dataset_replace(data, c->column, labels);
    return BT_OK;
}

bt_dataset *bt_dataset_rotations(bt_dataset *data)
{
    const bt_column *image;
    if (!bt_dataset_usable("bt_dataset_rotations", data))
        return bt_dataset_done(data, BT_ERROR_ARGUMENT);
    bt_classes c;
    bt_status status = check(data, &image);
    if (status == BT_OK)
        status = bt_classes_find("bt_dataset_rotations", data, &c);
    if (status == BT_OK) {
        status = rotations(data, image, &c);
        bt_classes_free(&c);
    }
    return bt_dataset_done(data, status);
}
