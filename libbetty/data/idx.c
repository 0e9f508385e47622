/* data/idx.c: reads images and labels in MNIST's IDX format: two zero bytes, the number type, the number of axes, the
 * size of each axis (32 bits, big-endian), then the numbers. */
#include "data/read.h"

#include <stdio.h>
#include <string.h>

enum { UNSIGNED_BYTE = 8, SHORT = 11, INT = 12, MAX_AXES = 4 };

/* Bytes per number; 0: an unsupported type. */
static int width_of(int type) { return type == UNSIGNED_BYTE ? 1 : type == SHORT ? 2 : type == INT ? 4 : 0; }

/* Reads the header. `what`: "images", of bytes with 3 or 4 axes, or "labels", with 1 axis. */
static bt_status read_header(bt_source *source, const char *what, int low, int high, int *rank, int64_t *dims,
                             int *width)
{
    const char *path = bt_source_path(source);
    unsigned char bytes[4] = {0};
    int64_t got;
    BT_TRY(bt_source_read(source, bytes, 4, &got));
    if (got < 4)
        return bt_fail(BT_ERROR_DATA, "%s: the file ends at byte %lld; expected an IDX header", path, (long long)got);
    *width = width_of(bytes[2]);
    if (bytes[0] || bytes[1] || !*width || (low > 1 && *width > 1) || bytes[3] < low || bytes[3] > high)
        return bt_fail(BT_ERROR_DATA,
                       "%s, byte 0: found the bytes %02x %02x %02x %02x; expected an IDX file of %s: 00 00 08 %02x%s",
                       path, bytes[0], bytes[1], bytes[2], bytes[3], what, (unsigned)low,
                       high > low ? " or 00 00 08 04" : ", or 0b or 0c for 08");
    *rank = bytes[3];
    for (int i = 0; i < *rank; i++) {
        BT_TRY(bt_source_read(source, bytes, 4, &got));
        if (got < 4)
            return bt_fail(BT_ERROR_DATA, "%s: the file ends at byte %lld, within its header; expected %d sizes", path,
                           (long long)(4 + 4 * i + got), *rank);
        dims[i] =
            (int64_t)(((uint32_t)bytes[0] << 24) | ((uint32_t)bytes[1] << 16) | ((uint32_t)bytes[2] << 8) | bytes[3]);
        if (dims[i] == 0 || (i == 0 && dims[i] > BT_MAX_EXAMPLES))
            return bt_fail(BT_ERROR_DATA, "%s, byte %d: found the size %lld; expected at least 1%s", path, 4 + 4 * i,
                           (long long)dims[i], i ? "" : " and at most 2147483647");
    }
    return BT_OK;
}

/* Allocates all memory at once, on large pages if possible; pages for which no bytes arrive are never touched. */
static bt_status read_bytes(bt_source *source, int64_t size, uint8_t **bytes)
{
    int64_t have = 0;
    uint8_t *read = bt_alloc((size_t)size);
    bt_status status = read ? bt_source_read(source, read, size, &have) : BT_ERROR_MEMORY;
    *bytes = read;
    if (status == BT_OK && have < size)
        status = bt_fail(BT_ERROR_DATA, "%s: the file ends after %lld bytes of content; its header promises %lld",
                         bt_source_path(source), (long long)have, (long long)size);
    if (status == BT_OK && bt_source_byte(source) >= 0)
        status = bt_fail(BT_ERROR_DATA, "%s: the file has more than the %lld bytes that its header promises",
                         bt_source_path(source), (long long)size);
    if (status == BT_OK)
        status = bt_source_status(source);
    return status;
}

/* Reads the whole file as bytes; *width: bytes per number. */
static bt_status read_file(const char *path, const char *what, int low, int high, bt_array *array, int *width)
{
    bt_source *source = bt_source_open(path);
    if (!source)
        return bt_error_status();
    *array = (bt_array){.dtype = BT_U8};
    bt_status status = read_header(source, what, low, high, &array->rank, array->dims, width);
    char shape[256];
    size_t bytes = bt_array_bytes(*array), whole;
    if (status == BT_OK && !bt_mul_size(bytes, (size_t)*width, &bytes))
        bytes = SIZE_MAX;
    int64_t size = bt_source_size(source), most = bt_source_most(source);
    if (status == BT_OK && (bytes > INT64_MAX / 2 || !bt_add_size(bytes, 4 + 4 * (size_t)array->rank, &whole)))
        status = bt_fail(BT_ERROR_DATA, "%s: its header promises %s bytes, more than any machine holds", path,
                         bt_shape_text(shape, array->rank, array->dims));
    else if (status == BT_OK && size >= 0 && (size_t)size != whole)
        status = bt_fail(BT_ERROR_DATA, "%s: the file has %lld bytes; its header, %s, promises %lld", path,
                         (long long)size, bt_shape_text(shape, array->rank, array->dims), (long long)whole);
    else if (status == BT_OK && size < 0 && (uint64_t)most < whole)
        status = bt_fail(BT_ERROR_DATA,
                         "%s: its header, %s, promises %lld bytes; a gzip file of its size holds at most %lld", path,
                         bt_shape_text(shape, array->rank, array->dims), (long long)whole, (long long)most);
    uint8_t *content = NULL;
    if (status == BT_OK)
        status = read_bytes(source, (int64_t)bytes, &content);
    bt_source_close(source);
    array->data = content;
    if (status == BT_OK)
        return BT_OK;
    bt_free(content);
    return status;
}

/* Label i: big-endian, signed if it has more than one byte. */
static int64_t label_at(const uint8_t *bytes, int width, int64_t i)
{
    const uint8_t *at = bytes + i * width;
    uint32_t value = 0;
    for (int k = 0; k < width; k++)
        value = (value << 8) | at[k];
    return width == 4 ? (int32_t)value : width == 2 ? (int16_t)value : (int64_t)value;
}

/* Converts [n] labels of `width` bytes to checked integers. Frees the bytes. */
static bt_store *take_labels(const char *path, bt_array bytes, int width, int64_t images, int classes)
{
    bt_array labels = {.dtype = BT_I32, .rank = 1, .dims = {bytes.dims[0]}};
    bt_status status = BT_OK;
    if (bytes.dims[0] != images)
        status = bt_fail(BT_ERROR_DATA, "%s: found %lld labels for %lld images", path, (long long)bytes.dims[0],
                         (long long)images);
    int32_t *to = status == BT_OK ? bt_alloc_array((size_t)images, sizeof *to) : NULL;
    for (int64_t i = 0; to && status == BT_OK && i < images; i++) {
        int64_t label = label_at(bytes.data, width, i), most = classes ? classes - 1 : INT32_MAX;
        to[i] = (int32_t)label;
        if (label < 0 || label > most)
            status = bt_fail(BT_ERROR_DATA, "%s, byte %lld: found label %lld; expected 0 to %lld", path,
                             (long long)(i * width + 8), (long long)label, (long long)most);
    }
    bt_free(bytes.data);
    if (status != BT_OK) {
        bt_free(to);
        return NULL;
    }
    labels.data = to;
    return bt_store_new(labels, false);
}

bt_dataset *bt_read_idx(const char *images, const char *labels, int classes)
{
    bt_array pixels, bytes;
    int width;
    if (read_file(images, "images", 3, 4, &pixels, &width) != BT_OK)
        return NULL;
    bool ok = read_file(labels, "labels", 1, 1, &bytes, &width) == BT_OK;
    bt_store *label = ok ? take_labels(labels, bytes, width, pixels.dims[0], classes) : NULL;
    if (!label) {
        bt_free(pixels.data);
        return NULL;
    }
    int64_t count = pixels.dims[0];
    if (pixels.rank == 3)
        pixels.dims[3] = 1; /* one channel */
    pixels.rank = 4;
    bt_dataset *data = bt_dataset_new(count);
    bt_store *image = bt_store_new(pixels, true);
    return bt_dataset_of(data, (const char *const[]){"image", "label"}, (bt_store *[]){image, label}, 2);
}
