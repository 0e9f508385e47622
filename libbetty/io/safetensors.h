/* io/safetensors.h: the safetensors format: named dense arrays in one file, which other programs read too.
 *
 *   8 bytes    length of the header, little-endian
 *   header     JSON: {"NAME": {"dtype": "F32", "shape": [100, 784], "data_offsets": [from, to]}, ...},
 *              padded with blanks; "__metadata__", if present, is an object of texts
 *   the rest   the arrays, row-major and little-endian, one after the other without gaps
 *
 * Published at https://github.com/huggingface/safetensors. Dtypes: F32, F64, F16, BF16, I32, I64, U8, BOOL. Arrays of
 * other dtypes are listed without values, so that a file with an unused one can still be read. */
#ifndef BT_SAFETENSORS_H
#define BT_SAFETENSORS_H

#include "io/file.h"

typedef struct bt_stored {
    const char *name;
    bt_array array; /* data: points to its bytes in the file's content */
    bool opaque;    /* another dtype, or too many axes: array has no shape */
    size_t bytes;   /* of a parsed file: the size, and the name of the dtype */
    const char *kind;
} bt_stored;

/* Writes the file as bt_writer does. The arrays with the largest elements come first, so that each is aligned. Two
 * equal names, or a name that is not UTF-8, give BT_ERROR_ARGUMENT. sum may be NULL. */
bt_status bt_safetensors_write(const char *path, const bt_stored *items, int64_t count, bt_file_sum *sum);

typedef struct bt_safetensors {
    bt_stored *items; /* sorted by name; each array's data points into the given bytes and may be unaligned */
    int64_t count;
    bt_region *region;
} bt_safetensors;

/* Parses the content of a file; `path` is used in messages. Gives BT_ERROR_FILE for anything that the rules above do
 * not allow, or that does not match the file's size. `data` belongs to the caller and must outlive the result. Call
 * bt_safetensors_free in any case. */
bt_status bt_safetensors_parse(const char *path, const char *data, size_t size, bt_safetensors *file);
const bt_stored *bt_safetensors_find(const bt_safetensors *file, const char *name); /* NULL if missing */
/* Copies the values of a parsed array and converts them to the dtype of `to`, which has the same shape and room for
 * them. BT_ERROR_FILE: the dtype is not supported. */
bt_status bt_stored_values(const bt_stored *stored, bt_array to);
void bt_safetensors_free(bt_safetensors *file); /* NULL ok */

#endif
